"""What is built for a router that shares something, and that nothing of it is built for one that does not."""

import asyncio
from collections import Counter
from types import SimpleNamespace

import pytest
from msgspec.structs import replace

from router.contract.facts import FirstByte
from router.contract.secret import Secret
from router.contract.shared import SharedTerms
from router.dispatch.live.statistics import LiveStatistics
from router.house import House
from router.limits.whole import ALONE
from router.loop.tasks import spawn
from router.responses.acknowledged import HOLD_SECONDS
from router.stores.shared import Shared
from router.wiring.sharing import make_tokens, observe_targets, recognise_repeats
from tests.tools.houses import Walk, make_plan, make_state
from tests.tools.loop_clock import seconds_passed
from tests.tools.scripted import answers, reach
from tests.tools.values import make_target
from tests.tools.waiting import until


def test_a_router_alone_observes_its_targets_by_itself():
    assert type(observe_targets(None, ALONE)) is LiveStatistics


@pytest.mark.parametrize(
    ("one", "other", "is_alike"),
    [("a" * 32, "a" * 32, True), ("a" * 32, "b" * 32, False), (None, None, False)],
)
def test_routers_with_one_secret_read_each_others_tokens(one, other, is_alike):
    keys = [make_tokens(None, SharedTerms("x", secret=Secret(text) if text else None))._key for text in (one, other)]

    assert (keys[0] == keys[1]) is is_alike


def test_repeats_are_known_at_all_routers_only_where_a_server_is_shared(valkey):
    alone, together = Shared(SharedTerms("x")), Shared(SharedTerms("x", valkey=valkey.terms()))

    assert [recognise_repeats(shared)._shared is not None for shared in (None, alone, together)] == [False, False, True]


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
    state = replace(make_state(Writing(seconds)), shared=SimpleNamespace(unconfirmed=unconfirmed))
    return Walk(House(make_plan(reach(make_target(), answers())), state)), unconfirmed


@pytest.mark.jumping_clock
async def test_a_request_is_served_when_its_answer_has_left_and_that_is_when_its_writes_are_confirmed():
    walk, unconfirmed = walk_through(seconds=0.01)
    await walk.task

    assert seconds_passed() == pytest.approx(0.01)
    assert walk.sink.words == ["feed_from", "start", "write", "end"]
    assert not unconfirmed


@pytest.mark.jumping_clock
async def test_a_store_that_does_not_answer_delays_an_answer_by_the_limit():
    walk, unconfirmed = walk_through(seconds=10.0)
    await walk.task

    assert seconds_passed() == pytest.approx(HOLD_SECONDS)
    assert walk.sink.words == ["feed_from", "start", "write", "end"]
    assert unconfirmed == {"sessions": 1}


@pytest.mark.jumping_clock
async def test_what_is_held_back_leaves_at_once_when_the_request_is_cancelled():
    walk, _ = walk_through(seconds=10.0)
    await until(lambda: walk.facts[-1:] == ["Recorded"])

    walk.task.cancel()
    await asyncio.wait([walk.task])

    assert walk.task.cancelled()
    assert walk.sink.words == ["feed_from", "start", "write", "end"]
    assert seconds_passed() < HOLD_SECONDS
