"""The house of a router that shares its stores: an answer is over when all of it has left."""

import asyncio
from collections import Counter

import pytest

from router.contract.facts import FirstByte
from router.loop.tasks import spawn
from router.responses.acknowledged import HOLD_SECONDS
from router.wiring.shared_house import SharedHouse
from tests.tools.houses import Walk, make_plan, make_state
from tests.tools.loop_clock import seconds_passed
from tests.tools.scripted import answers, reach
from tests.tools.values import make_target
from tests.tools.waiting import until

pytestmark = pytest.mark.jumping_clock


class Writing:
    """Writes something when an answer begins, which takes a while."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds

    def handlers(self):
        return {FirstByte: self._write}

    def _write(self, exchange, begun) -> None:
        exchange.confirming.wait_for("sessions", spawn(asyncio.sleep(self._seconds), name="write"))


def walk_through(seconds: float) -> tuple[Walk, Counter[str]]:
    unconfirmed = Counter[str]()
    house = SharedHouse(make_plan(reach(make_target(), answers())), make_state(Writing(seconds)), unconfirmed)
    return Walk(house), unconfirmed


async def test_a_request_is_served_when_its_answer_has_left_and_that_is_when_its_writes_are_confirmed():
    walk, unconfirmed = walk_through(seconds=0.01)
    await walk.task

    assert seconds_passed() == pytest.approx(0.01)
    assert walk.sink.words == ["feed_from", "start", "write", "end"]
    assert not unconfirmed


async def test_a_store_that_does_not_answer_delays_an_answer_by_the_limit():
    walk, unconfirmed = walk_through(seconds=10.0)
    await walk.task

    assert seconds_passed() == pytest.approx(HOLD_SECONDS)
    assert walk.sink.words == ["feed_from", "start", "write", "end"]
    assert unconfirmed == {"sessions": 1}


async def test_what_is_held_back_leaves_at_once_when_the_request_is_cancelled():
    walk, _ = walk_through(seconds=10.0)
    await until(lambda: walk.facts[-1:] == ["Recorded"])

    walk.task.cancel()
    await asyncio.wait([walk.task])

    assert walk.task.cancelled()
    assert walk.sink.words == ["feed_from", "start", "write", "end"]
    assert seconds_passed() < HOLD_SECONDS
