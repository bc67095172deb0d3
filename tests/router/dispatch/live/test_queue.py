"""How long a call would wait at a target, as the calls under way show it."""

from router.dispatch.live.pace import Pace
from router.dispatch.live.queue import Queue
from tests.tools.values import make_target

SPEED = make_target().typical


def called(*opened_at: float) -> Queue:
    """A target with streams under way."""
    queue = Queue(Pace(SPEED))
    for number, at in enumerate(opened_at):
        queue.open[str(number)] = at
        queue.stream(str(number), 100, at)
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


def test_a_target_that_refused_a_call_for_their_number_is_full_with_as_many_for_a_minute():
    queue = called(0.0, 0.0)
    queue.refuse(1.0)

    assert (queue.most, queue.is_full(2.0)) == (2, True)
    del queue.open["0"]
    assert not queue.is_full(2.0)
    queue.open["2"] = 2.0
    assert not queue.is_full(61.5)
