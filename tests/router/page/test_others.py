"""The page of one router shows the calls of all, each once, while somebody looks; and nothing is reported while nobody does."""

import asyncio

import pytest

from router.contract.facts import Recorded
from router.contract.messages import FORGOTTEN_SECONDS, CallsEnded, FeedWanted
from router.page.feed import Feed
from router.page.others import OtherRouters
from tests.router.page.test_feed import ANNS, BOSS, Rig, event
from tests.tools.allowances import Channel
from tests.tools.kept import ANN, BOB, make_entry

pytestmark = pytest.mark.jumping_clock


class Router(Rig):
    """A router with a page, among others."""

    def __init__(self, channel: Channel, name: str) -> None:
        super().__init__()
        clock = asyncio.get_running_loop().time
        self.messages, self.name = channel.join(name), name
        self.others = OtherRouters(self.messages, self.ring, self.running, clock)
        self.feed = Feed(self.ring, self.running, lambda: tuple(self.notices), clock, self.others)

    def end(self, name: str, caller=ANN) -> None:
        self.ring.handlers()[Recorded](None, Recorded(make_entry(name, caller)))

    def told(self, kind: type) -> list:
        return [fact for fact in self.messages.told if isinstance(fact, kind)]


@pytest.fixture
async def routers():
    channel = Channel()
    return Router(channel, "a"), Router(channel, "b")


@pytest.fixture
async def looking(routers):
    """Both routers, and what a reader at the first one is sent after its greeting."""
    pieces = routers[0].read()
    await event(pieces)
    return *routers, pieces


async def test_a_call_that_ends_at_another_router_is_a_row_with_the_name_of_that_router(routers):
    here, there = routers
    pieces = here.read()
    _, _, hello = await event(pieces)

    here.end("req_here")
    there.end("req_there")
    there.messages.beat()
    _, _, batch = await event(pieces)

    assert hello["shared"] == {"replica": "a", "routers": 2, "is_up": True}
    assert [(row["id"], row["replica"], row["decided_by"]) for row in batch["rows"]] == [
        ("req_here", None, "estimate"),
        ("req_there", "b", "estimate"),
    ]


async def test_each_row_comes_once_and_in_its_order_however_often_routers_report(looking):
    here, there, pieces = looking

    for number in range(0, 30, 3):
        for more in range(3):
            there.end(f"req_{number + more:02}")
        there.messages.beat()
        here.messages.beat()
    there.messages.beat()
    _, _, batch = await event(pieces)

    assert [row["id"] for row in batch["rows"]] == [f"req_{number:02}" for number in range(30)]
    assert here.told(CallsEnded) == []


async def test_a_caller_sees_its_own_calls_at_other_routers_and_no_others(routers):
    here, there = routers
    pieces = here.read(ANNS)
    await event(pieces)

    there.end("req_bob", BOB)
    there.end("req_ann", ANN)
    there.messages.beat()
    _, _, batch = await event(pieces)

    assert [row["id"] for row in batch["rows"]] == ["req_ann"]


async def test_a_call_under_way_elsewhere_is_shown_until_it_ends(looking):
    _, there, pieces = looking

    exchange = there.begin("req_7")
    there.messages.beat()
    _, _, begun = await event(pieces)
    there.running.discard(exchange)
    there.end("req_7")
    there.messages.beat()
    _, _, ended = await event(pieces)

    assert [(call["id"], call["replica"], call["because"]) for call in begun["begun"]] == [("req_7", "b", "relayed")]
    assert [row["id"] for row in ended["rows"]] == ["req_7"]
    assert ended["running"] == []


async def test_a_call_of_a_router_that_fell_silent_is_not_shown_for_ever(looking):
    _, there, pieces = looking
    there.begin("req_7")
    there.messages.beat()
    await event(pieces)

    _, _, batch = await event(pieces)  # its clock jumps

    assert batch["running"] == []
    assert asyncio.get_running_loop().time() > FORGOTTEN_SECONDS


async def test_nothing_is_reported_while_nobody_looks(routers):
    here, there = routers

    there.end("req_1")
    there.begin("req_2")
    for router in routers:
        router.messages.beat()

    assert here.messages.told == there.messages.told == []


async def test_the_first_reader_asks_at_once_and_goes_on_asking(routers):
    here, there = routers
    pieces = here.read()

    await event(pieces)
    assert here.told(FeedWanted) == [FeedWanted()]
    here.messages.beat()
    assert len(here.told(FeedWanted)) == 2

    await asyncio.sleep(FORGOTTEN_SECONDS + 1)  # nobody waits for the next event
    here.messages.beat()
    there.end("req_1")
    there.messages.beat()
    assert len(here.told(FeedWanted)) == 2
    assert there.told(CallsEnded) == []


async def test_what_ended_before_somebody_looked_is_left_to_the_ledger_of_its_router(routers):
    here, there = routers
    there.end("req_before")
    there.messages.beat()
    pieces = here.read()
    await event(pieces)

    there.end("req_after")
    there.messages.beat()
    _, _, batch = await event(pieces)

    assert [row["id"] for row in batch["rows"]] == ["req_after"]


async def test_more_calls_than_can_be_reported_are_counted_as_missed(looking):
    _, there, pieces = looking

    for number in range(230):
        there.end(f"req_{number}")
    there.messages.beat()
    _, _, batch = await event(pieces)

    assert [row["id"] for row in batch["rows"]] == [f"req_{number}" for number in range(30, 230)]
    assert (batch["more"], batch["missed"]) == (0, 30)


async def test_a_page_learns_when_the_others_cannot_be_heard_and_when_they_can(routers):
    here, _ = routers
    pieces = here.read(BOSS)
    await event(pieces)

    here.messages.is_up = False
    _, _, blind = await event(pieces)
    here.messages.is_up = True
    _, _, back = await event(pieces)

    assert blind["shared"] == {"replica": "a", "routers": 2, "is_up": False}
    assert back["shared"]["is_up"]


async def test_calls_of_another_worker_of_this_router_are_shown_as_its_own():
    channel = Channel()
    here, worker = Router(channel, "a"), Router(channel, "a")
    pieces = here.read()
    await event(pieces)

    worker.begin("req_1")
    worker.end("req_2")
    worker.messages.beat()
    _, _, batch = await event(pieces)

    assert [(call["id"], call["replica"]) for call in batch["begun"]] == [("req_1", None)]
    assert [(row["id"], row["replica"]) for row in batch["rows"]] == [("req_2", None)]
