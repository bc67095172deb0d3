"""How long a call would wait at a target, as the calls under way show it."""

import pytest

from router.dispatch.live.pace import Pace
from router.dispatch.live.queue import Queue
from tests.tools.values import ask, make_target

SPEED = make_target().typical


def called(*opened_at: float) -> Queue:
    """A target with streams under way."""
    queue = Queue(Pace(SPEED))
    for number, at in enumerate(opened_at):
        queue.open[str(number)] = at
        queue.stream(str(number), ask(), 100, at)
    return queue


def test_a_first_token_is_prompt_or_shows_a_queue():
    queue = called(0.0, 10.0)

    assert not queue.begin("0", 0.0, 8.2)
    assert round(queue.wait(8.2), 3) == 8.0
    assert queue.begin("1", 10.0, 10.2)
    assert queue.wait(10.2) == 0.0


def test_a_call_that_ended_early_shows_a_queue_only_if_it_was_left_for_that():
    left, refused = called(0.0), called(0.0)
    left.leave("0", 0.0, 2.0)
    refused.leave("0", None, 2.0)

    assert (round(left.wait(2.0), 3), refused.wait(2.0)) == (3.6, 0.0)


def served(*begun_at: float, waiting: int = 0, most: int = 0) -> Queue:
    """A target whose answers take 5 s from the first token on, with streams under way and others that wait."""
    queue = Queue(Pace(SPEED))
    queue.slots.seconds, queue.slots.count, queue.slots._claimed_at = 4.8, most, 0.0
    for number, at in enumerate(begun_at):
        queue.open[str(number)] = queue.slots.begun[str(number)] = at
    for number in range(len(begun_at), len(begun_at) + waiting):
        queue.open[str(number)], queue.unanswered[str(number)] = 10.0, 10.2
    return queue


@pytest.mark.parametrize(
    ("queue", "wait"),
    [
        (served(10.0, most=1), 4.0),
        (served(10.0, waiting=3, most=1), 19.0),
        (served(10.0, most=2), 0.0),
        (served(10.0, 8.0, most=2), 2.0),
        (served(10.0, waiting=3), 0.8),  # nobody is late yet
    ],
)
def test_the_wait_is_what_the_calls_under_way_still_take(queue, wait):
    assert queue.wait(11.0) == pytest.approx(wait)


def test_calls_that_are_late_while_others_stream_wait_for_slots_as_it_seems():
    queue = served(8.0, waiting=3)

    assert queue.wait(12.0) == pytest.approx(2.0 + 3 * 5.0)
    assert [queue.wait_left(str(number), 12.0) for number in (0, 1, 3)] == pytest.approx([0.0, 2.0, 12.0])


def test_calls_that_are_late_where_more_were_seen_at_once_wait_for_something_else():
    queue = served(8.0, waiting=3)
    queue.slots._seen, queue.slots._seen_at = 4, 0.0

    assert queue.wait(12.0) == pytest.approx(1.8)
    assert queue.wait_left("1", 12.0) == 0.0


def test_a_call_that_may_write_only_a_little_is_soon_over():
    queue = served(10.0, most=1)
    queue.asked["0"] = ask(max_tokens=1_500)

    assert queue.wait(10.0) == pytest.approx(1.5)


def test_what_is_long_known_is_doubted_until_a_call_waits_again():
    queue, waited_for = served(398.0, most=1), served(398.0, waiting=1, most=1)

    assert queue.wait(400.0) == 0.0
    assert waited_for.wait(400.0) > 5.0


def test_a_call_that_waited_for_a_slot_leaves_no_queue():
    queue = served(0.0, waiting=1, most=1)
    queue.open["1"], queue.unanswered["1"] = 1.0, 1.2
    queue.open.pop("0")
    queue.slots.end("0", 9.0)

    assert not queue.begin("1", 1.0, 9.1)
    assert queue.lateness.seconds == 0.0


def test_another_model_has_slots_of_its_own_and_an_old_call_says_nothing_of_them():
    queue = served(0.0, most=1)
    assert queue.wait(1.0) > 0

    queue.forget()

    assert (queue.slots.count, queue.wait(1.0)) == (0, 0.0)
    queue.asked["0"] = ask()
    queue.end("0", 2.0)
    assert queue.slots.seconds == 0.0


def test_a_target_that_refused_a_call_for_their_number_is_full_with_as_many_for_a_minute():
    queue = called(0.0, 0.0)
    queue.refuse(1.0)

    assert (queue.most, queue.is_full(2.0)) == (2, True)
    del queue.open["0"]
    assert not queue.is_full(2.0)
    queue.open["2"] = 2.0
    assert not queue.is_full(61.5)
