"""What each reader of the live feed is sent, and when."""

import asyncio
import json
import time

import pytest

from router.contract.exchange import Arrival, Deadline, Exchange, Observers
from router.contract.facts import PassedOn, Recorded
from router.contract.notices import Notice, Trouble
from router.contract.words import Dialect, Operation
from router.page.feed import BATCH_SECONDS, Feed, Reader
from router.telemetry.ring import Ring
from tests.tools.kept import ANN, BOB, make_entry
from tests.tools.waiting import later

pytestmark = pytest.mark.jumping_clock
BOSS, ANNS = Reader("boss", is_admin=True), Reader("ann", is_admin=False)


class Rig:
    """A feed on the loop's clock, and what a test does to it."""

    def __init__(self) -> None:
        self.ring, self.running, self.notices = Ring(), set(), []
        self.feed = Feed(self.ring, self.running, lambda: tuple(self.notices), asyncio.get_running_loop().time)
        self.goes_on = True

    def finish(self, count: int = 1, caller=ANN, **more) -> None:
        take = self.ring.handlers()[Recorded]
        for number in range(count):
            take(None, Recorded(make_entry(f"req_{number}", caller, **more)))

    def begin(self, name: str, caller=ANN) -> Exchange:
        arrival = Arrival(name, Dialect.CHAT, Operation.CREATE, {}, b"", caller)
        exchange = Exchange(arrival, asyncio.get_running_loop().time(), Deadline(1e9), Observers((), print))
        exchange.note(PassedOn("relayed"))
        self.running.add(exchange)
        return exchange

    def read(self, reader: Reader = BOSS, after: int | None = None):
        return self.feed.read(reader, after, {}, lambda: self.goes_on)


@pytest.fixture
async def rig():
    return Rig()


async def event(pieces) -> tuple[str, int, dict]:
    """The next event: its name, its id, its data."""
    while True:
        lines = dict(line.split(": ", 1) for line in (await anext(pieces)).decode().strip().split("\n"))
        if "event" in lines:
            return lines["event"], int(lines["id"].rpartition("-")[2]), json.loads(lines["data"])


async def test_a_reader_is_greeted_and_then_sent_what_begins_and_ends(rig):
    rig.begin("req_before")
    pieces = rig.read()

    name, _, hello = await event(pieces)
    exchange = rig.begin("req_7")
    _, _, begun = await event(pieces)
    rig.running.discard(exchange)
    rig.finish()
    _, place, ended = await event(pieces)

    assert name == "hello"
    assert [one["id"] for one in hello["running"]] == ["req_before"]
    assert [(one["id"], one["caller"], one["because"]) for one in begun["begun"]] == [("req_7", "ann", "relayed")]
    assert begun["rows"] == []
    assert (place, [row["number"] for row in ended["rows"]], ended["begun"]) == (1, [1], [])
    assert ended["rows"][0]["decided_by"] == "estimate"
    assert "words" not in ended["rows"][0]


async def test_a_batch_holds_the_newest_fifty_rows_and_counts_the_rest(rig):
    pieces = rig.read()
    await event(pieces)

    rig.finish(362)
    _, place, batch = await event(pieces)

    assert [row["number"] for row in batch["rows"]] == list(range(313, 363))
    assert (batch["more"], batch["missed"], batch["running"], place) == (312, 0, [], 362)


async def test_a_reader_that_stopped_is_told_how_many_rows_it_missed_and_others_get_theirs(rig):
    stopped, other = rig.read(), rig.read()
    await event(stopped)
    await event(other)

    seen = 0
    for _ in range(30):
        rig.finish(100)
        _, _, batch = await event(other)
        seen += len(batch["rows"]) + batch["more"]
    _, _, batch = await event(stopped)

    assert seen == 3_000
    assert (len(batch["rows"]), batch["more"], batch["missed"]) == (50, 950, 2_000)


async def test_a_reader_resumes_after_its_last_row(rig):
    rig.finish(10)

    _, place, _ = await event(resumed := rig.read(after=7))
    _, _, batch = await event(resumed)

    assert place == 7
    assert [row["number"] for row in batch["rows"]] == [8, 9, 10]
    assert batch["missed"] == 0


@pytest.mark.parametrize("reader", [BOSS, ANNS])
async def test_a_new_reader_is_sent_what_may_not_be_in_the_ledger_yet(rig, reader):
    rig.finish(2, at=time.time() - 60, duration_ms=50.0)
    rig.finish(at=time.time() - 60, duration_ms=60_000.0)

    _, place, _ = await event(pieces := rig.read(reader))
    _, _, batch = await event(pieces)

    assert place == 2
    assert ([row["number"] for row in batch["rows"]], batch["missed"]) == ([3], 0)


async def test_a_place_from_before_a_restart_begins_with_all_that_is_held(rig):
    rig.finish(3)

    await event(resumed := rig.read(after=5_000))
    _, _, batch = await event(resumed)

    assert [row["number"] for row in batch["rows"]] == [1, 2, 3]


async def test_a_caller_sees_its_own_rows_alone_and_misses_its_own_alone(rig):
    pieces, boss = rig.read(ANNS), rig.read()
    await event(pieces)
    await event(boss)

    rig.begin("req_8", BOB)
    for _ in range(2):
        rig.finish(600, BOB)
        rig.finish(100, ANN)
        await event(boss)
    _, _, batch = await event(pieces)

    assert {row["caller"] for row in batch["rows"]} == {"ann"}
    assert batch["begun"] == batch["running"] == []
    assert (len(batch["rows"]), batch["more"], batch["missed"]) == (50, 150, 0)


async def test_notices_come_when_they_change_and_others_budgets_stay_with_them(rig):
    pieces, boss = rig.read(ANNS), rig.read()
    await event(pieces)
    await event(boss)

    rig.notices += [Notice(Trouble.BUDGET_SPENT, "bob", 1.0, "spent", ""), Notice(Trouble.TARGET_OUT, "spark", 1.0, "out", "")]
    _, _, batch = await event(pieces)
    _, _, of_boss = await event(boss)
    rig.finish()
    _, _, later = await event(pieces)

    assert [notice["subject"] for notice in batch["notices"]] == ["spark"]
    assert [notice["kind"] for notice in of_boss["notices"]] == ["budget_spent", "target_out"]
    assert "notices" not in later


async def test_a_change_of_tier_in_a_session_is_a_hop(rig):
    pieces = rig.read()
    await event(pieces)

    for tier in ("fast", "deep", "fast"):
        rig.finish(tier=tier, session="s")
    rig.finish(tier="deep", session="s", turn_kind="side")
    _, _, batch = await event(pieces)

    assert [row["hop"] for row in batch["rows"]] == [None, "up", "down", None]


async def test_words_are_sent_to_those_who_ask_for_them(rig):
    pieces = rig.read(Reader("boss", is_admin=True, wants_words=True))
    await event(pieces)

    rig.finish(prompt_text="{}")
    _, _, batch = await event(pieces)

    assert batch["rows"][0]["words"] == "typed for req_0"


async def test_a_quiet_feed_says_every_fifteen_seconds_that_it_is_still_there(rig):
    loop, pieces = asyncio.get_running_loop(), rig.read()
    await event(pieces)
    began = loop.time()

    assert await anext(pieces) == b": still here\n\n"
    assert loop.time() - began == pytest.approx(15, abs=2 * BATCH_SECONDS)


async def test_nothing_is_scheduled_while_nobody_reads(rig):
    loop = asyncio.get_running_loop()
    before, pieces = len(loop._scheduled), rig.read()
    await event(pieces)
    reading = later(anext(pieces))
    await asyncio.sleep(0)
    assert sum(not timer.cancelled() for timer in loop._scheduled) == before + 1

    reading.cancel()
    await asyncio.wait([reading])

    assert sum(not timer.cancelled() for timer in loop._scheduled) == before


async def test_a_feed_that_does_not_go_on_ends_every_reader(rig):
    readers = [rig.read() for _ in range(3)]
    for pieces in readers:
        await event(pieces)

    rig.goes_on = False

    for pieces in readers:
        with pytest.raises(StopAsyncIteration):
            await anext(pieces)
