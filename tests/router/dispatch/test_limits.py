"""What is left of a target's rate limits, and how long a request would wait for more."""

from dataclasses import replace

import pytest

from router.contract.facts import LimitsTold, Read
from router.contract.target import LimitWindow
from router.contract.words import Tier
from router.dispatch.limits import RateLimits, longest_wait, read_windows
from tests.tools.exchanges import make_exchange
from tests.tools.values import ask, make_signals, make_target, stand

SPARK, SAGE = make_target(), make_target("sage", Tier.DEEP)
WALL = 1_792_567_668.0
"""2026-10-21T07:27:48Z."""


@pytest.mark.parametrize(
    ("host", "headers", "windows"),
    [
        (
            "openai, azure, groq, xai",
            {
                "x-ratelimit-limit-requests": "60",
                "x-ratelimit-remaining-requests": "59",
                "x-ratelimit-reset-requests": "1s",
                "x-ratelimit-remaining-tokens": "149984",
                "x-ratelimit-reset-tokens": "6m0s",
            },
            {(59, 101.0, False), (149984, 460.0, True)},
        ),
        (
            "cerebras",
            {
                "x-ratelimit-remaining-requests-day": "14399",
                "x-ratelimit-reset-requests-day": "33011.5",
                "x-ratelimit-remaining-tokens-minute": "0",
                "x-ratelimit-reset-tokens-minute": "11.5",
            },
            {(14399, 33111.5, False), (0, 111.5, True)},
        ),
        (
            "sambanova",
            {"x-ratelimit-remaining-requests": "0", "x-ratelimit-reset-requests": "1792567680"},
            {(0, 112.0, False)},
        ),
        (
            "fireworks",
            {
                "x-ratelimit-remaining-tokens-prompt": "5000",
                "x-ratelimit-reset-tokens-prompt": "20",
                "x-ratelimit-remaining-tokens-generated": "0",
                "x-ratelimit-reset-tokens-generated": "30",
            },
            {(5000, 120.0, True), (0, 130.0, False)},
        ),
        (
            "together",
            {
                "x-ratelimit-remaining": "0",
                "x-ratelimit-reset": "0.5",
                "x-tokenlimit-remaining": "100",
                "x-tokenlimit-reset": "3",
            },
            {(0, 100.5, False), (100, 103.0, True)},
        ),
        ("openrouter", {"x-ratelimit-remaining": "0", "x-ratelimit-reset": "1792567680000"}, {(0, 112.0, False)}),
        (
            "anthropic",
            {
                "anthropic-ratelimit-requests-remaining": "0",
                "anthropic-ratelimit-requests-reset": "2026-10-21T07:28:00Z",
                "anthropic-ratelimit-input-tokens-remaining": "8000",
                "anthropic-ratelimit-input-tokens-reset": "2026-10-21T07:27:58Z",
                "anthropic-ratelimit-output-tokens-remaining": "900",
                "anthropic-ratelimit-output-tokens-reset": "2026-10-21T07:27:58Z",
            },
            {(0, 112.0, False), (8000, 110.0, True), (900, 110.0, False)},
        ),
        ("azure without a reset", {"x-ratelimit-remaining-requests": "0"}, set()),
        ("no number", {"x-ratelimit-remaining-requests": "many", "x-ratelimit-reset-requests": "1s"}, set()),
        ("none at all", {"content-type": "application/json"}, set()),
    ],
)
def test_what_is_left_is_read_as_each_host_writes_it(host, headers, windows):
    assert set(read_windows(headers, 100.0, WALL)) == {LimitWindow(*window) for window in windows}, host


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

    assert waits(limits, statuses=(stand(SPARK)._replace(wait_seconds=40.0),))["spark"] == (40.0, "")


def test_the_newest_answer_counts_and_what_has_opened_again_is_forgotten():
    limits = RateLimits()
    tell(limits, LimitWindow(0, 112.0, False))
    tell(limits, LimitWindow(7, 160.0, False))
    assert waits(limits)["spark"] == (0.0, "")
    assert limits.told

    assert waits(limits, now=160.0)["spark"] == (0.0, "")
    assert not limits.told


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
