"""What is left of a target's rate limits, and how long a request would wait for more."""

import pytest
from msgspec import structs
from msgspec.structs import replace

from router.contract.facts import LimitsTold, Read
from router.contract.target import LimitWindow
from router.contract.words import Tier
from router.dispatch.live.limits import RateLimits, longest_wait, read_windows, refused_wait
from tests.tools.exchanges import make_exchange
from tests.tools.values import ask, make_signals, make_target, stand

SPARK, SAGE = make_target(), make_target("sage", Tier.DEEP)
WALL = 1_792_567_668.0
"""2026-10-21T07:27:48Z."""


MANY = 1_000_000


def openai(kind: str, limit: object = None, remaining: object = None, reset: object = None) -> dict[str, str]:
    """The headers of one limit as OpenAI names them, and most others do too."""
    told = {"limit": limit, "remaining": remaining, "reset": reset}
    return {f"x-ratelimit-{name}-{kind}": str(value) for name, value in told.items() if value is not None}


def anthropic(kind: str, limit: int, remaining: int, reset: str) -> dict[str, str]:
    told = {"limit": limit, "remaining": remaining, "reset": f"2026-10-21T{reset}Z"}
    return {f"anthropic-ratelimit-{kind}-{name}": str(value) for name, value in told.items()}


@pytest.mark.parametrize(
    ("host", "headers", "waits"),
    [
        (
            "openai: a limit fills up steadily, and is whole again after the reset",
            openai("requests", 60, 59, "1s") | openai("tokens", 150_000, 30_000, "48s"),
            {30_000: 0, 60_000: 12, 150_000: 48, MANY: 48},
        ),
        ("openai: one request of sixty comes back with each second", openai("requests", 60, 0, "1m0s"), {10: 1}),
        (
            "groq: requests by day, tokens by minute",
            openai("requests", 14_400, 14_370, "2m59.56s") | openai("tokens", 18_000, 17_997, "7.66s"),
            {17_997: 0, 18_000: 7.66},
        ),
        ("azure", openai("tokens", 10_000, 0, "60s") | openai("requests", remaining=9), {5_000: 30}),
        ("azure without a reset", openai("requests", remaining=0) | openai("tokens", remaining=0), {10: 0}),
        ("xai", openai("requests", 480, 479) | openai("tokens", 2_000_000, 1_999_000), {MANY: 0}),
        (
            "cerebras: windows that end",
            openai("requests-day", 14_400, 14_399, "33011.5") | openai("tokens-minute", 60_000, 500, "11.5"),
            {500: 0, 501: 11.5},
        ),
        ("cerebras without a request left today", openai("requests-day", None, 0, "33011.5"), {10: 33_011.5}),
        ("sambanova: the moment in seconds", openai("requests", 20, 0, 1_792_567_680), {10: 12}),
        ("sambanova by day", openai("requests-day", 400, 0, 1_792_567_728), {10: 60}),
        (
            "fireworks: prompts and answers apart",
            openai("tokens-prompt", None, 5_000, 20) | openai("tokens-generated", None, 900, 30),
            {5_000: 0, 5_001: 20},
        ),
        ("fireworks without a token left for answers", openai("tokens-generated", None, 0, 30), {1: 30}),
        (
            "together",
            {"x-ratelimit-limit": "10", "x-ratelimit-remaining": "0", "x-ratelimit-reset": "0.5"}
            | {"x-tokenlimit-remaining": "100", "x-tokenlimit-reset": "3"},
            {100: 0.5, 101: 3},
        ),
        (
            "openrouter: the moment in milliseconds",
            {"x-ratelimit-limit": "20", "x-ratelimit-remaining": "0", "x-ratelimit-reset": "1792567680000"},
            {10: 12},
        ),
        (
            "mistral: by minute, without a reset",
            openai("tokens-minute", 5_000_000, 4_999) | openai("req-minute", 720, 717),
            {4_999: 0, 5_000: 60},
        ),
        ("mistral without a request left", openai("req-minute", remaining=0), {10: 60}),
        (
            "anthropic: the moment at which a limit is whole again",
            anthropic("requests", 50, 49, "07:27:49")
            | anthropic("input-tokens", 40_000, 8_000, "07:28:28")
            | anthropic("output-tokens", 8_000, 900, "07:27:58"),
            {8_000: 0, 16_000: 10, 40_000: 40},
        ),
        ("anthropic without an output token left", anthropic("output-tokens", 8_000, 0, "07:28:28"), {10: 0.005}),
        ("vllm, ollama, lm studio, llama.cpp, deepseek, bedrock, gemini", {"content-type": "application/json"}, {MANY: 0}),
        ("no number", openai("requests", None, "many", "1s"), {10: 0}),
    ],
)
def test_the_wait_is_what_each_hosts_headers_mean(host, headers, waits):
    windows = read_windows(headers, 100.0, WALL)

    assert {tokens: longest_wait(windows, tokens, 100.0) for tokens in waits} == pytest.approx(waits), host


def test_what_has_come_back_since_an_answer_counts():
    headers = {
        "x-ratelimit-limit-tokens": "60000",
        "x-ratelimit-remaining-tokens": "0",
        "x-ratelimit-reset-tokens": "60s",
    }
    windows = read_windows(headers, 100.0)

    assert [longest_wait(windows, 20_000, now) for now in (100.0, 110.0, 120.0)] == [20, 10, 0]


def test_a_refusal_counts_only_what_is_spent_and_does_not_know_the_requests_size():
    tokens = LimitWindow(0, 160.0, True, 60_000, 100.0)

    assert refused_wait((tokens, LimitWindow(5, 900.0, False)), 100.0) == 60
    assert refused_wait((LimitWindow(0, 160.0, False, 60, 100.0),), 100.0) == 1
    assert refused_wait((), 100.0) == 0


@pytest.mark.parametrize(
    ("window", "tokens", "wait"),
    [
        (LimitWindow(0, 130.0, False), 10, 30.0),
        (LimitWindow(1, 130.0, False), 10, 0.0),
        (LimitWindow(9, 130.0, True), 10, 30.0),
        (LimitWindow(10, 130.0, True), 10, 0.0),
        (LimitWindow(0, 90.0, False), 10, 0.0),
    ],
)
def test_a_request_waits_for_a_window_that_cannot_take_it_until_that_opens_again(window, tokens, wait):
    assert longest_wait((window,), tokens, 100.0) == wait


def test_of_several_windows_the_one_that_opens_last_counts():
    assert longest_wait((LimitWindow(0, 130.0, False), LimitWindow(0, 110.0, True)), 10, 100.0) == 30.0


def tell(limits, *windows, target=SPARK, view=None):
    exchange = make_exchange()
    exchange.note(Read(view or ask()))
    limits.note(exchange, LimitsTold(target, windows))


def waits(limits, tokens=100, now=100.0, view=None, statuses=()):
    heeded = limits.apply(make_signals(*statuses, tokens=tokens), view or ask(), now)
    return {name: (round(status.wait_seconds, 1), status.wait_because) for name, status in heeded.statuses.items()}


def test_a_target_that_has_too_little_left_has_a_wait_and_says_what_for():
    limits = RateLimits()
    tell(limits, LimitWindow(50, 112.2, True))

    assert waits(limits) == {"spark": (12.2, "spark is at its rate limit for another 13 s"), "sage": (0.0, "")}
    assert waits(limits, tokens=50)["spark"] == (0.0, "")


def test_a_longer_queue_keeps_its_own_reason():
    limits = RateLimits()
    tell(limits, LimitWindow(0, 112.0, False))

    assert waits(limits, statuses=(structs.replace(stand(SPARK), wait_seconds=40.0),))["spark"] == (40.0, "")


def test_the_newest_answer_counts_and_what_has_opened_again_is_forgotten():
    limits = RateLimits()
    tell(limits, LimitWindow(0, 112.0, False))
    tell(limits, LimitWindow(7, 160.0, False))
    assert waits(limits)["spark"] == (0.0, "")
    assert limits.told

    assert waits(limits, now=160.0)["spark"] == (0.0, "")
    assert not limits.told


def test_what_is_under_way_is_no_longer_left():
    limits, exchange = RateLimits(), make_exchange()
    exchange.note(Read(ask()))
    tell(limits, LimitWindow(2, 112.0, False), LimitWindow(150, 130.0, True))
    limits.spend(exchange, SPARK, 100)

    assert waits(limits, tokens=50)["spark"][0] == 0.0
    assert waits(limits, tokens=51)["spark"][0] == 30.0
    limits.spend(exchange, SPARK, 10)
    assert waits(limits, tokens=1)["spark"][0] == 12.0
    limits.spend(exchange, SAGE, 10)


def test_where_callers_bring_their_own_keys_each_has_limits_of_its_own():
    limits, own = RateLimits(), replace(SPARK, takes_callers_key=True)
    one, other = (ask(headers={"authorization": f"Bearer {key}"}) for key in ("sk-one", "sk-other"))
    tell(limits, LimitWindow(0, 112.0, False), target=own, view=one)

    assert waits(limits, view=one, statuses=(stand(own),))["spark"][0] == 12.0
    assert waits(limits, view=other, statuses=(stand(own),))["spark"][0] == 0.0
    assert "sk-one" not in repr(limits.told)


def test_no_more_than_a_thousand_keys_are_remembered():
    limits, own = RateLimits(), replace(SPARK, takes_callers_key=True)
    for number in range(1_010):
        view = ask(headers={"authorization": f"Bearer k{number}"})
        tell(limits, LimitWindow(0, 112.0, False), target=own, view=view)

    assert len(limits.told) == 1_000
