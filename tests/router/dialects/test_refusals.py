import json
import time

import pytest

from router.contract.allowance import Left
from router.contract.errors import (
    BadRequest,
    BudgetSpent,
    RateLimited,
    TiersBusy,
    TooLong,
    Unavailable,
    UpgradeRequired,
    UpstreamAuth,
    UpstreamMalformed,
    UpstreamRefused,
)
from router.contract.words import Dialect
from router.dialects.refusals import failure_event, refusal_body, refusal_headers, usage_limit, write_refusal

LONG = TooLong("prompt is too long: 212400 tokens > 200000 maximum. No deep target is larger")


def test_a_refusal_for_length_carries_the_marker_on_which_clients_compact():
    messages = json.loads(refusal_body(LONG, Dialect.MESSAGES, "req_1"))
    chat = json.loads(refusal_body(LONG, Dialect.CHAT, "req_1"))

    assert messages["type"] == "error"
    assert messages["error"]["type"] == "invalid_request_error"
    assert messages["error"]["message"].startswith("prompt is too long: 212400 tokens > 200000 maximum")
    assert messages["request_id"] == "req_1"
    assert chat["error"]["code"] == "context_length_exceeded"
    assert chat["error"]["request_id"] == "req_1"


def test_every_429_says_when_to_come_again_and_never_later_than_a_minute():
    plain = dict(refusal_headers(TiersBusy("x")))
    long = dict(refusal_headers(TiersBusy("x", retry_after_seconds=7200)))

    assert plain["retry-after"] == "1"
    assert long["retry-after"] == "60"
    assert long["retry-after-ms"] == "60000"


@pytest.mark.parametrize("dialect", [Dialect.CHAT, Dialect.RESPONSES, Dialect.COMPLETIONS])
def test_a_caller_over_its_limits_is_told_them_by_openais_names(dialect):
    error = RateLimited("x", left=(Left("requests", 3, 0, 42.128), Left("tokens", 9_000, 100, 0.0)))

    assert limits_in(write_refusal(error, dialect, "req_1").headers) == {
        "x-ratelimit-limit-requests": "3",
        "x-ratelimit-remaining-requests": "0",
        "x-ratelimit-reset-requests": "42.13s",
        "x-ratelimit-limit-tokens": "9000",
        "x-ratelimit-remaining-tokens": "100",
        "x-ratelimit-reset-tokens": "0s",
    }


def test_a_caller_over_its_limits_is_told_them_by_anthropics_names(monkeypatch):
    monkeypatch.setattr("time.time", lambda: 1_700_000_000.5)
    error = RateLimited("x", left=(Left("requests", 3, 0, 42.1),))

    assert limits_in(write_refusal(error, Dialect.MESSAGES, "req_1").headers) == {
        "anthropic-ratelimit-requests-limit": "3",
        "anthropic-ratelimit-requests-remaining": "0",
        "anthropic-ratelimit-requests-reset": "2023-11-14T22:14:03Z",
    }


def limits_in(headers) -> dict[str, str]:
    return {name: value for name, value in headers if "ratelimit" in name}


@pytest.mark.parametrize(("seconds", "told"), [(7_200.5, "7201"), (None, None)])
def test_a_spent_budget_names_the_true_time_and_is_not_to_be_retried(seconds, told):
    headers = dict(refusal_headers(BudgetSpent("x", retry_after_seconds=seconds)))

    assert headers.get("retry-after") == told
    assert headers["x-should-retry"] == "false"


def test_a_budget_that_others_hold_may_be_asked_again_soon():
    headers = dict(refusal_headers(BudgetSpent("x", retry_after_seconds=5.0)))

    assert headers["retry-after"] == "5"
    assert "x-should-retry" not in headers


def test_sdks_are_told_not_to_retry_what_was_tried_again_here_or_cannot_get_better():
    once, twice = UpstreamMalformed("t", "x"), UpstreamMalformed("t", "x")
    twice.was_tried_again = True

    assert "x-should-retry" not in dict(refusal_headers(once))
    for error in (twice, UpstreamAuth("t", "x"), UpstreamRefused("t", 400, b"{}", ""), BadRequest("x")):
        assert dict(refusal_headers(error))["x-should-retry"] == "false"
    assert "x-should-retry" not in dict(refusal_headers(Unavailable("x")))


def test_an_upgrade_that_is_refused_names_the_protocol_that_is_spoken_as_an_option_of_this_connection():
    headers = dict(refusal_headers(UpgradeRequired("no")))

    assert (headers["upgrade"], headers["connection"]) == ("HTTP/1.1", "upgrade")
    assert "upgrade" not in dict(refusal_headers(BadRequest("x")))


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (b'{"error":{"message":"no such tool","code":"bad_tool"}}', b"no such tool"),
        (b'{"message":"no such tool"}', b"no such tool"),
        (b"no such tool", b"no such tool"),
        (b'["no such tool"]', b"no such tool"),
    ],
)
def test_in_a_stream_a_target_that_blames_the_request_is_told_in_its_own_words(body, words):
    error = UpstreamRefused("spark", 400, body, "application/json")

    assert words in failure_event(error, Dialect.CHAT, "r")


def test_in_a_stream_a_refusal_for_length_has_the_words_on_which_clients_compact():
    body = b'{"error":{"message":"maximum context length is 100 tokens, you sent 200","code":"context_length_exceeded"}}'
    error = UpstreamRefused("spark", 400, body, "application/json")

    assert b"prompt is too long" in failure_event(error, Dialect.MESSAGES, "r")
    assert b"context_length_exceeded" in failure_event(error, Dialect.RESPONSES, "r")


@pytest.mark.parametrize("seconds", [7200, None])
def test_a_spent_budget_is_a_usage_limit_to_clients_of_responses_which_else_wait_for_hours(seconds):
    error = BudgetSpent("the budget of the day is spent", retry_after_seconds=seconds)

    told = json.loads(refusal_body(error, Dialect.RESPONSES, "req_1"))["error"]

    assert (told["type"], told["code"]) == ("usage_limit_reached", "budget_spent")
    assert ("resets_at" in told) == (seconds is not None)
    assert told.get("resets_at", time.time() + 7200) >= time.time() + 7100
    assert json.loads(refusal_body(error, Dialect.CHAT, "req_1"))["error"]["type"] != "usage_limit_reached"


def test_a_budget_that_is_free_again_in_a_moment_is_no_usage_limit():
    assert usage_limit(BudgetSpent("held by requests under way", retry_after_seconds=2)) == {}
