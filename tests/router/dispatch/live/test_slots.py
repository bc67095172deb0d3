"""How many calls a target serves at once, as its calls show it."""

import pytest

from router.dispatch.live.slots import Slots


def hand_over(slots: Slots, at: float, *, running: int = 1, opened_before: float = 5.0) -> bool:
    """One call ends, and another that has long waited begins."""
    for number in range(running):
        slots.begun.setdefault(f"{number}", at - 10.0)
    slots.end("0", at)
    slots.begun["0"] = at + 0.1
    return slots.begin_late(at - opened_before, 0.1, at + 0.1)


@pytest.fixture
def slots():
    return Slots()


def test_one_call_that_begins_when_another_ends_may_be_chance_and_two_are_not(slots):
    assert not hand_over(slots, 10.0)
    assert slots.count == 0
    assert hand_over(slots, 20.0)
    assert slots.count == 1


def test_as_many_fit_as_were_running_each_time(slots):
    hand_over(slots, 10.0, running=3)
    hand_over(slots, 20.0, running=3)

    assert slots.count == 3


def test_cases_that_disagree_prove_nothing(slots):
    hand_over(slots, 10.0, running=1)
    hand_over(slots, 20.0, running=2)

    assert slots.count == 0


def test_cases_that_are_far_apart_prove_nothing(slots):
    hand_over(slots, 10.0)
    hand_over(slots, 1_000.0)

    assert slots.count == 0


def test_a_late_call_that_was_opened_after_the_end_or_begins_long_after_it_waited_for_something_else(slots):
    for at in (10.0, 20.0):
        hand_over(slots, at, opened_before=-1.0)
    for at in (30.0, 40.0):
        slots.end("0", at)
        slots.begun["0"] = at + 3.0
        slots.begin_late(at - 5.0, 0.1, at + 3.0)

    assert slots.count == 0


def test_calls_that_gave_up_while_others_streamed_count_as_well(slots):
    slots.begin("0", 0.0, 0.1, 0.1)

    assert not slots.leave_late(0.0, 0.1, 2.0)
    assert slots.leave_late(2.0, 0.1, 4.0)
    assert slots.count == 1


def test_a_call_that_waits_for_one_which_itself_began_late_waits_for_it_once_it_has_streamed_for_a_while(slots):
    slots.begin("0", 3.0, 0.1, 3.0)

    assert not slots.keeps_waiting(0.0, 0.1, 3.5)
    assert slots.keeps_waiting(0.0, 0.1, 4.0)


def test_calls_that_waited_while_hardly_anything_streamed_waited_for_another_reason(slots):
    for at in (10.0, 20.0, 30.0):  # each begins after 8 s, streams for half a second, and another begins right after it
        slots.begin("0", at, 0.1, at)
        slots.end("0", at + 0.5)
        slots.begin("1", at + 0.6, 0.1, at + 0.6)
        assert not slots.begin_late(at - 7.4, 0.1, at + 0.6)
        slots.end("1", at + 1.1)

    assert slots.count == 0


def test_a_target_on_which_nothing_streams_is_late_for_another_reason(slots):
    slots.leave_late(0.0, 0.1, 2.0)
    slots.leave_late(2.0, 0.1, 4.0)

    assert slots.count == 0


def test_what_was_learned_is_forgotten_once_more_calls_stream_at_once(slots):
    hand_over(slots, 10.0)
    hand_over(slots, 20.0)
    assert slots.is_sure(20.2)
    slots.begun["other"] = 20.5

    assert slots.is_sure(20.55)  # the first may have ended, which is noted a moment later
    assert not slots.is_sure(21.0)
    assert slots.count == 0


def test_fewer_are_not_believed_to_fit_than_lately_streamed_at_once(slots):
    slots.begun.update(a=0.0, b=0.0, c=0.0)
    for name in "abc":
        slots.end(name, 5.0)
    for at in (10.0, 20.0, 30.0):
        hand_over(slots, at)
    assert (slots.count, slots.at_least(30.0)) == (0, 3)

    slots.begun.clear()
    for at in (4_000.0, 4_010.0):  # the engine may have been started again with fewer
        hand_over(slots, at)
    assert slots.count == 1


def test_what_was_not_confirmed_for_long_is_doubted(slots):
    hand_over(slots, 10.0)
    hand_over(slots, 20.0)
    slots.begun.clear()

    assert slots.is_sure(300.0)
    assert not slots.is_sure(400.0)


def test_how_long_answers_take_is_the_mean_of_the_last_ones(slots):
    for seconds in (2.0, 4.0):
        slots.begun["0"] = 10.0
        slots.end("0", 10.0 + seconds)
    assert slots.seconds == 3.0

    for _ in range(50):
        slots.begun["0"] = 100.0
        slots.end("0", 101.0)
    assert slots.seconds == pytest.approx(1.0, abs=0.05)
