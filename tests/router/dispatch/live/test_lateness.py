"""The queue at a target, as late calls show it."""

import pytest

from router.dispatch.live.lateness import Lateness, is_late


@pytest.mark.parametrize(
    ("seconds", "usual", "late"), [(1.0, 0.2, False), (1.2, 0.2, True), (14.0, 5.0, False), (16.0, 5.0, True)]
)
def test_a_call_is_late_when_it_takes_several_times_as_long_as_usual(seconds, usual, late):
    assert is_late(seconds, usual) is late


def seen(seconds=8.0, opened_at=0.0, now=8.2):
    lateness = Lateness()
    lateness.begin_late(seconds, opened_at, now)
    return lateness


def test_before_anything_was_late_nothing_is_expected():
    assert Lateness().expect(5.0) == 0.0


def test_a_wait_fades_so_that_somebody_finds_out():
    assert seen().expect(8.2) == 8.0
    assert seen().expect(10.2) == 4.0


def test_a_long_queue_fades_more_slowly():
    assert seen(40.0, now=40.0).expect(50.0) == 20.0


def test_a_prompt_call_ends_it_at_once():
    lateness = seen()
    lateness.begin_promptly(9.0)

    assert lateness.expect(9.2) == 0.0


def test_what_an_older_call_shows_does_not_count_against_a_newer_one():
    ended = Lateness()
    ended.begin_promptly(5.0)
    ended.begin_late(8.0, 4.0, 12.2)
    going_on = seen(opened_at=5.0)
    going_on.begin_promptly(4.0)

    assert (ended.seconds, going_on.seconds) == (0.0, 8.0)


def test_a_call_that_was_left_would_have_waited_as_long_again():
    lateness = Lateness()
    lateness.leave(2.0, 0.0, 2.2)

    assert lateness.expect(2.2) == 4.0


def test_a_call_that_was_left_tells_no_less_than_one_that_was_waited_for():
    lateness = seen()
    lateness.leave(2.0, 10.0, 12.2)

    assert lateness.expect(12.2) == 8.0


def test_while_somebody_finds_out_others_do_not_follow():
    assert seen().expect_behind(-0.1, 0.2, 60.0) == 8.0


def test_the_wait_of_a_call_under_way_is_the_least_that_is_expected():
    assert [Lateness().expect_behind(seconds, 0.2, 60.0) for seconds in (-0.1, 0.7, 5.0)] == [0.0, 0.7, 5.0]


def test_once_a_call_is_plainly_late_the_queue_is_expected_to_be_as_it_lately_was():
    lateness = seen()
    lateness.begin_promptly(20.0)

    assert lateness.expect_behind(0.7, 0.2, 60.0) == 0.7
    assert lateness.expect_behind(1.2, 0.2, 60.0) == 8.0
    assert lateness.expect_behind(1.2, 0.2, 400.0) == 1.2


def test_what_has_been_late_for_two_minutes_is_no_queue_that_comes_and_goes():
    lateness = seen()
    assert not lateness.is_standing(100.0)
    lateness.begin_late(8.0, 120.0, 128.2)

    assert lateness.is_standing(128.2)
    assert lateness.expect(138.2) == 4.0
    lateness.begin_promptly(130.0)
    assert not lateness.is_standing(140.0)
