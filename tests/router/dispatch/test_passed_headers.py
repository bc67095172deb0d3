"""Which of a target's headers a caller may see."""

import pytest

from router.contract.words import Dialect
from router.dispatch.keys import NO_KEY, KeyGuard
from router.dispatch.passed_headers import (
    STREAM_HEADERS,
    is_passed,
    is_passed_by_stream,
    is_passed_to_keys,
    is_passed_to_keys_by_stream,
    passed_headers,
    without_other_limits,
    without_type,
)


def passed(headers, guard=NO_KEY, may_pass=is_passed):
    return passed_headers(headers, "req_1", guard, may_pass)


def test_no_more_of_a_targets_headers_pass_than_a_client_can_take():
    limits = tuple((f"x-ratelimit-{number}", "9") for number in range(190))
    long = (("x-ratelimit-long", "x" * 60_000), ("x-ratelimit-requests", "5"))

    many = passed((*limits, ("x-request-id", "r1")))
    ids = ("x-request-id", "r1"), ("request-id", "r1")
    assert set(ids) < set(many)
    assert len(many) == 41
    assert passed((*long, ids[0])) == (*ids, ("x-ratelimit-requests", "5"))
    assert passed(limits[:20]) == (*limits[:20], ("x-request-id", "req_1"), ("request-id", "req_1"))


def test_what_names_the_target_or_frames_its_body_stays_here():
    told = (("openai-model", "secret"), ("set-cookie", "a=b"), ("x-request-id", "r1"), ("retry-after", "3"), ("server", "x"))

    assert passed(told) == (("x-request-id", "r1"), ("request-id", "r1"), ("retry-after", "3"))
    assert without_type((("content-type", "a"), ("content-length", "3"), ("x-request-id", "r1"))) == (("x-request-id", "r1"),)


def test_the_targets_key_never_leaves_in_a_header():
    guard = KeyGuard("sk-canary-123456")

    assert passed((("x-request-id", "of sk-canary-123456"),), guard) == (("x-request-id", "of ***"), ("request-id", "of ***"))


@pytest.mark.parametrize("may_pass", [is_passed_by_stream, is_passed_to_keys_by_stream])
def test_a_stream_has_a_type_of_our_own_and_is_not_to_be_kept_on_its_way(may_pass):
    headers = passed((("content-type", "text/x"), ("x-request-id", "r1")), may_pass=may_pass)

    assert headers == (("x-request-id", "r1"), ("request-id", "r1"))
    assert dict(STREAM_HEADERS) == {
        "content-type": "text/event-stream; charset=utf-8",
        "cache-control": "no-cache",
        "x-accel-buffering": "no",
    }


@pytest.mark.parametrize("may_pass", [is_passed_to_keys, is_passed_to_keys_by_stream])
def test_callers_with_keys_see_no_limits_of_a_target(may_pass):
    told = (("x-ratelimit-limit-requests", "9"), ("anthropic-ratelimit-tokens-limit", "9"), ("retry-after", "3"))

    assert passed(told, may_pass=may_pass)[0] == ("retry-after", "3")
    assert len(passed(told)) == len(passed(told, may_pass=may_pass)) + 2


@pytest.mark.parametrize(
    ("dialect", "kept"), [(Dialect.CHAT, 0), (Dialect.RESPONSES, 0), (Dialect.COMPLETIONS, 0), (Dialect.MESSAGES, 1)]
)
def test_over_a_bridge_limits_keep_the_names_of_the_callers_dialect(dialect, kept):
    told = (("x-ratelimit-remaining-tokens", "9"), ("anthropic-ratelimit-tokens-remaining", "9"), ("retry-after", "3"))

    assert without_other_limits(told, dialect) == (told[kept], told[2])
