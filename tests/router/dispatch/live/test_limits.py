"""What is left of a target's rate limits, and how long a request would wait for more."""

from dataclasses import replace

import pytest
from msgspec import structs

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


@pytest.mark.parametrize(
    ("host", "headers", "waits"),
    [
        (
            "openai: a limit fills up steadily, and is whole again after the reset",
            {
                "x-ratelimit-limit-requests": "60",
                "x-ratelimit-remaining-requests": "59",
                "x-ratelimit-reset-requests": "1s",
                "x-ratelimit-limit-tokens": "150000",
                "x-ratelimit-remaining-tokens": "30000",
                "x-ratelimit-reset-tokens": "48s",
            },
            {30_000: 0, 60_000: 12, 150_000: 48, MANY: 48},
        ),
        (
            "openai without a request left: one of sixty comes back with each second",
            {
                "x-ratelimit-limit-requests": "60",
                "x-ratelimit-remaining-requests": "0",
                "x-ratelimit-reset-requests": "1m0s",
            },
            {10: 1},
        ),
        (
            "groq: requests by day, tokens by minute",
            {
                "x-ratelimit-limit-requests": "14400",
                "x-ratelimit-limit-tokens": "18000",
                "x-ratelimit-remaining-requests": "14370",
                "x-ratelimit-remaining-tokens": "17997",
                "x-ratelimit-reset-requests": "2m59.56s",
                "x-ratelimit-reset-tokens": "7.66s",
            },
            {17_997: 0, 18_000: 7.66},
        ),
        (
            "azure",
            {
                "x-ratelimit-limit-tokens": "10000",
                "x-ratelimit-remaining-tokens": "0",
                "x-ratelimit-reset-tokens": "60s",
                "x-ratelimit-remaining-requests": "9",
            },
            {5_000: 30},
        ),
        ("azure without a reset", {"x-ratelimit-remaining-requests": "0", "x-ratelimit-remaining-tokens": "0"}, {10: 0}),
        (
            "xai",
            {
                "x-ratelimit-limit-requests": "480",
                "x-ratelimit-remaining-requests": "479",
                "x-ratelimit-limit-tokens": "2000000",
                "x-ratelimit-remaining-tokens": "1999000",
            },
            {MANY: 0},
        ),
        (
            "cerebras: windows that end",
            {
                "x-ratelimit-limit-requests-day": "14400",
                "x-ratelimit-remaining-requests-day": "14399",
                "x-ratelimit-reset-requests-day": "33011.5",
                "x-ratelimit-limit-tokens-minute": "60000",
                "x-ratelimit-remaining-tokens-minute": "500",
                "x-ratelimit-reset-tokens-minute": "11.5",
            },
            {500: 0, 501: 11.5},
        ),
        (
            "cerebras without a request left today",
            {"x-ratelimit-remaining-requests-day": "0", "x-ratelimit-reset-requests-day": "33011.5"},
            {10: 33_011.5},
        ),
        (
            "sambanova: the moment in seconds",
            {
                "x-ratelimit-limit-requests": "20",
                "x-ratelimit-remaining-requests": "0",
                "x-ratelimit-reset-requests": "1792567680",
            },
            {10: 12},
        ),
        (
            "sambanova by day",
            {
                "x-ratelimit-limit-requests-day": "400",
                "x-ratelimit-remaining-requests-day": "0",
                "x-ratelimit-reset-requests-day": "1792567728",
            },
            {10: 60},
        ),
        (
            "fireworks: prompts and answers apart",
            {
                "x-ratelimit-remaining-tokens-prompt": "5000",
                "x-ratelimit-reset-tokens-prompt": "20",
                "x-ratelimit-remaining-tokens-generated": "900",
                "x-ratelimit-reset-tokens-generated": "30",
            },
            {5_000: 0, 5_001: 20},
        ),
        (
            "fireworks without a token left for answers",
            {"x-ratelimit-remaining-tokens-generated": "0", "x-ratelimit-reset-tokens-generated": "30"},
            {1: 30},
        ),
        (
            "together",
            {
                "x-ratelimit-limit": "10",
                "x-ratelimit-remaining": "0",
                "x-ratelimit-reset": "0.5",
                "x-tokenlimit-remaining": "100",
                "x-tokenlimit-reset": "3",
            },
            {100: 0.5, 101: 3},
        ),
        (
            "openrouter: the moment in milliseconds",
            {"x-ratelimit-limit": "20", "x-ratelimit-remaining": "0", "x-ratelimit-reset": "1792567680000"},
            {10: 12},
        ),
        (
            "mistral: by minute, without a reset",
            {
                "x-ratelimit-limit-tokens-minute": "5000000",
                "x-ratelimit-remaining-tokens-minute": "4999",
                "x-ratelimit-limit-req-minute": "720",
                "x-ratelimit-remaining-req-minute": "717",
            },
            {4_999: 0, 5_000: 60},
        ),
        ("mistral without a request left", {"x-ratelimit-remaining-req-minute": "0"}, {10: 60}),
        (
            "anthropic: the moment at which a limit is whole again",
            {
                "anthropic-ratelimit-requests-limit": "50",
                "anthropic-ratelimit-requests-remaining": "49",
                "anthropic-ratelimit-requests-reset": "2026-10-21T07:27:49Z",
                "anthropic-ratelimit-input-tokens-limit": "40000",
                "anthropic-ratelimit-input-tokens-remaining": "8000",
                "anthropic-ratelimit-input-tokens-reset": "2026-10-21T07:28:28Z",
                "anthropic-ratelimit-output-tokens-limit": "8000",
                "anthropic-ratelimit-output-tokens-remaining": "900",
                "anthropic-ratelimit-output-tokens-reset": "2026-10-21T07:27:58Z",
            },
            {8_000: 0, 16_000: 10, 40_000: 40},
        ),
        (
            "anthropic without an output token left",
            {
                "anthropic-ratelimit-output-tokens-limit": "8000",
                "anthropic-ratelimit-output-tokens-remaining": "0",
                "anthropic-ratelimit-output-tokens-reset": "2026-10-21T07:28:28Z",
            },
            {10: 0.005},
        ),
        ("vllm, ollama, lm studio, llama.cpp, deepseek, bedrock, gemini", {"content-type": "application/json"}, {MANY: 0}),
        ("no number", {"x-ratelimit-remaining-requests": "many", "x-ratelimit-reset-requests": "1s"}, {10: 0}),
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
