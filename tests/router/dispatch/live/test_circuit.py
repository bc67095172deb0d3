"""A target that fails rests, for a time that grows; no clock and no loop."""

import pytest
from hypothesis import given
from hypothesis import strategies as some

from router.contract.errors import (
    BadRequest,
    CallerKey,
    UpstreamAuth,
    UpstreamCut,
    UpstreamQueued,
    UpstreamRefused,
    UpstreamTimeout,
    UpstreamUnreachable,
)
from router.contract.words import AccountFault
from router.dispatch.live.circuit import Circuit, is_targets_failure
from router.limits.retries import KEPT_SECONDS, Track


def failing(times, at=0.0, **more):
    circuit = Circuit()
    for _ in range(times):
        circuit.fail(at, **more)
    return circuit


def test_four_failures_are_borne_and_the_fifth_in_a_row_opens_it_for_a_second():
    circuit = failing(4)
    assert not circuit.is_open
    circuit.fail(0.0)
    assert (circuit.is_open, circuit.rested_until) == (True, 1.0)


def test_an_answer_between_begins_the_count_anew():
    circuit = failing(4)
    circuit.serve(1.0)
    circuit.fail(2.0)
    assert not circuit.is_open


def test_each_rest_is_twice_as_long_as_the_one_before_and_a_minute_at_most():
    circuit, now, rests = failing(4), 0.0, []
    for _ in range(9):
        circuit.fail(now)
        rests.append(circuit.rest_seconds)
        now = circuit.rested_until
    assert rests == [1, 2, 4, 8, 16, 32, 60, 60, 60]


def test_what_fails_during_a_rest_does_not_make_it_longer():
    circuit = failing(100)
    assert circuit.rested_until == 1.0


def test_one_that_served_again_begins_with_a_short_rest_when_it_fails_later():
    circuit = failing(5)
    circuit.fail(1.0)
    assert circuit.rest_seconds == 2
    circuit.serve(3.0)
    assert not circuit.is_open
    for _ in range(5):
        circuit.fail(4.0)
    assert circuit.rest_seconds == 1


def test_what_only_the_operator_can_mend_opens_it_at_once_and_for_longer_each_time():
    circuit = failing(1, fault=AccountFault.KEY)
    assert (circuit.is_open, circuit.rest_seconds) == (True, 1)
    circuit.fail(1.5, fault=AccountFault.KEY)
    assert circuit.rest_seconds == 2


def test_what_it_says_last_of_how_long_to_leave_it_alone_counts():
    circuit = Circuit()
    circuit.close(0.0, 40.0)
    circuit.close(1.0, 5.0)

    assert circuit.closed_seconds(2.0) == 4.0


def test_however_long_it_asks_to_be_left_alone_one_request_finds_out_after_a_quarter_of_an_hour():
    circuit = Circuit()
    circuit.close(0.0, 5_000.0)
    assert [circuit.closed_seconds(now) for now in (1.0, 900.0)] == [899.0, 0.0]

    circuit.probe = "req_1"

    assert circuit.closed_seconds(900.0) == 4_100.0
    assert not circuit.may_probe(900.0)


def test_a_rest_lasts_until_the_request_that_finds_out_is_over():
    circuit = failing(5)
    circuit.probe = "req_1"

    assert circuit.is_resting(1.5)
    circuit.probe = ""
    assert not circuit.is_resting(1.5)


def test_a_target_that_loads_its_model_is_alive():
    circuit = failing(5)
    circuit.load("loading", 0.5)

    assert (circuit.is_open, circuit.loading, circuit.loading_until) == (False, "loading", 5.5)


def test_refusals_that_name_a_time_need_no_rest_of_our_making():
    assert not failing(20, has_named_time=True).is_open


@pytest.mark.parametrize(
    ("error", "is_failure"),
    [
        (UpstreamRefused("spark", 500, b"", ""), True),
        (UpstreamRefused("spark", 429, b"", ""), True),
        (UpstreamRefused("spark", 400, b"", ""), False),
        (UpstreamRefused("spark", 422, b"", ""), False),
        (UpstreamUnreachable("spark", "x"), True),
        (UpstreamTimeout("spark", "x"), True),
        (UpstreamQueued("spark", "x"), False),
        (UpstreamCut("spark", "x"), True),
        (UpstreamAuth("spark", "x"), True),
        (CallerKey("x"), False),
        (BadRequest("x"), False),
    ],
)
def test_what_blames_the_request_does_not_speak_against_the_target(error, is_failure):
    assert is_targets_failure(error) is is_failure


def served(at):
    circuit = Circuit()
    circuit.serve(at)
    return circuit


@pytest.mark.parametrize(
    ("circuit", "in_flight", "standing"),
    [
        (Circuit(), 0, Track.UNKNOWN),
        (Circuit(), 2, Track.AWAITED),
        (served(99.0), 0, Track.UNKNOWN),
        (served(101.0), 0, Track.PROVEN),
        (served(101.0), 5, Track.PROVEN),
        (failing(1, 101.0), 0, Track.FAILED),
        (failing(1, 101.0), 4, Track.AWAITED),
        (failing(3, 101.0), 4, Track.FAILED),
        (failing(3, 102.0 - KEPT_SECONDS), 0, Track.UNKNOWN),
    ],
)
def test_what_is_known_of_a_target_for_one_that_failed_since_a_moment(circuit, in_flight, standing):
    assert circuit.standing(102.0, 100.0, in_flight) is standing


def test_an_answer_of_long_ago_proves_nothing():
    assert served(101.0).standing(101.0 + KEPT_SECONDS, 100.0, 0) is Track.UNKNOWN


@given(some.lists(some.tuples(some.floats(0, 90), some.booleans()), max_size=60))
def test_a_rest_is_never_longer_than_a_minute_and_never_without_five_failures(history):
    circuit, now, run = Circuit(), 0.0, 0
    for seconds, serves in history:
        now += seconds
        if serves:
            circuit.serve(now)
        else:
            circuit.fail(now)
        run = 0 if serves else run + 1
        assert circuit.is_open is (run >= 5)
        assert circuit.rested_until <= now + 60
