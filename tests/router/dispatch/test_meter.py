"""What an answer took: as its target says, or as it was relayed."""

import pytest

from router.contract.errors import (
    CallerKey,
    UpstreamLost,
    UpstreamMalformed,
    UpstreamRefused,
    UpstreamTimeout,
    UpstreamUnreachable,
)
from router.contract.usage import Usage
from router.contract.words import Operation
from router.dispatch.meter import is_billed, measure_speed, measure_usage, shows_pace

TOLD = Usage(100, 20, cached_tokens=40)


def usage(told, *, is_billed=True, operation=Operation.CREATE):
    return measure_usage(operation, told, 70, 9, is_billed=is_billed)


def test_what_the_target_says_counts_with_its_cached_tokens():
    assert usage(TOLD) is TOLD


def test_a_target_that_says_nothing_is_measured_by_what_was_relayed_and_marked_as_a_guess():
    assert usage(None) == Usage(70, 9, is_estimated=True)


def test_a_target_that_counted_only_the_prompt_is_believed_on_that():
    assert usage(Usage(100, 0, cached_tokens=40)) == Usage(100, 9, cached_tokens=40, is_estimated=True)


def test_what_it_said_of_its_cache_is_believed_too():
    assert usage(Usage(100, 0, cached_tokens=80)) == Usage(100, 9, cached_tokens=80, is_estimated=True)


def test_a_target_that_counted_nothing_at_all_is_measured_whole():
    assert usage(Usage(0, 0)) == Usage(70, 9, is_estimated=True)


@pytest.mark.parametrize("told", [None, TOLD])
def test_a_call_that_is_not_billed_used_nothing(told):
    assert usage(told, is_billed=False) is None


@pytest.mark.parametrize(
    ("status", "error", "billed"),
    [
        (200, None, True),
        (200, UpstreamMalformed("spark", "x"), True),
        (429, UpstreamRefused("spark", 429, b"", ""), False),
        (500, UpstreamRefused("spark", 500, b"", ""), False),
        (302, UpstreamMalformed("spark", "a redirect"), False),
        (None, UpstreamUnreachable("spark", "refused"), False),
        (None, CallerKey("none"), False),
        (None, UpstreamLost("spark", "closed"), True),
        (None, UpstreamTimeout("spark", "silent"), True),
        (None, None, True),
    ],
    ids=["served", "unusable", "429", "500", "redirect", "unreachable", "no key", "lost", "silent", "left"],
)
def test_what_a_target_refused_or_never_had_is_not_billed_and_all_else_is(status, error, billed):
    assert is_billed(status, error) is billed


@pytest.mark.parametrize("told", [None, TOLD])
def test_a_count_of_tokens_costs_nothing(told):
    assert usage(told, operation=Operation.COUNT_TOKENS) is None


def test_speed_is_counted_from_the_first_token_on():
    assert measure_speed(Usage(100, 30), 10.0, 12.0) == 15.0


@pytest.mark.parametrize(
    ("used", "first", "now"),
    [
        (None, 1.0, 2.0),
        (Usage(1, 30), None, 2.0),
        (Usage(1, 4), 1.0, 2.0),
        (Usage(1, 30), 2.0, 2.001),
        (Usage(1, 30), 2.0, 2.0),
    ],
    ids=["no usage", "no stream", "four tokens", "a millisecond", "no time"],
)
def test_too_little_tells_no_speed(used, first, now):
    assert measure_speed(used, first, now) is None


def test_five_tokens_are_enough_to_tell():
    assert measure_speed(Usage(1, 5), 1.0, 2.0) == 5.0


@pytest.mark.parametrize(
    ("pieces", "seconds", "is_estimated", "is_shown"),
    [
        (40, 0.5, False, True),
        (3, 0.5, False, False),  # a call of a tool that came whole
        (40, 0.002, False, False),  # an answer that was held back and came at once
        (40, 0.5, True, True),
        (12, 0.5, True, False),
    ],
)
def test_a_stream_shows_its_targets_pace_only_where_it_was_written_piece_by_piece(pieces, seconds, is_estimated, is_shown):
    usage = Usage(100, pieces if is_estimated else 60, is_estimated=is_estimated)

    assert shows_pace(usage, pieces, seconds) is is_shown
