"""The live feed of requests as they begin and end.

Without readers none of this is loaded, and a request pays one append to the ring (`telemetry.ring`). One timer wakes all
waiting readers. Each takes new rows from the ring when its connection can send: nothing is queued for a slow reader, and rows
that the ring has lost by then are counted.
"""

import asyncio
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from functools import partial
from itertools import count, takewhile
from typing import TYPE_CHECKING, NamedTuple

import orjson
from msgspec.structs import asdict

from router.contract.entry import Line
from router.contract.exchange import Exchange
from router.contract.notices import Notice, visible_to
from router.contract.past import name_hop
from router.contract.request import Json, JsonObject
from router.contract.words import PERSONS_KINDS, Outcome
from router.page.begun import has_begun, show_begun, target_of
from router.past.rows import Call
from router.past.rows import Kept as KeptCall
from router.past.turns import Turn, Turns, say_trouble
from router.telemetry.ring import Held, Ring, read_kept

if TYPE_CHECKING:
    from router.contract.messages import CallUnderWay
    from router.page.others import OtherRouters, Shared

MAX_ROWS = 50
"""Per batch."""
_MAX_ROWS_TOGETHER = 250
"""Per batch with several routers: others' rows come twice a second, and are not in a ledger that the page can read."""
BATCH_SECONDS = 0.1
QUIET_SECONDS = 15.0
"""After this long a comment is sent: proxies close silent connections."""
_STILL_HERE = b": still here\n\n"
_MAX_FOLDED = 250
"""Rows from before the first reader that are put into turns. Of a turn that began earlier, the ledger has the rest."""
_UNWRITTEN_SECONDS = 2.0
"""A row this young may not be in the ledger yet, where a new reader finds the others."""


class Row(NamedTuple):
    """A finished request in the ring."""

    number: int
    line: Line
    decision: str | None
    replica: str | None = None
    """The router that served it, if another."""


class Begun(NamedTuple):
    """A request under way, here or at another router."""

    mark: int
    caller: str
    target: str | None
    show: Callable[[], JsonObject]
    is_here: bool = True


class Reader(NamedTuple):
    """A reader, and what it may see."""

    caller: str
    is_admin: bool
    wants_words: bool = False

    def sees(self, caller: str) -> bool:
        return self.is_admin or caller == self.caller


class Seen(NamedTuple):
    number: int
    total: int | None
    """Number of its own rows by then; None if uncounted."""
    mark: int
    """The newest request under way that it has seen."""
    notices: tuple[Notice, ...]
    shared: "Shared | None" = None


class Feed:
    def __init__(
        self,
        ring: Ring,
        running: Iterable[Exchange],
        notices: Callable[[], Sequence[Notice]] = tuple,
        clock: Callable[[], float] = time.perf_counter,
        others: "OtherRouters | None" = None,
    ) -> None:
        """`running` are requests under way, on the monotonic `clock`; `notices` says what is broken now."""
        self._others = others
        self._shared: Shared | None = None
        self._left = 0
        """The mark when a call of another router last vanished: its row may never come."""
        self._running, self._ask_notices, self._clock = running, notices, clock
        self._ring, self._epoch = ring.rows, ring.epoch
        self._counted = 0
        self._totals: Counter[str] = Counter()
        self._turns, self._turn_of = Turns(), dict[int, Turn]()
        self._begun: dict[str, Begun] = {}
        self._marks = count(1)
        self._mark = 0
        self._notices: tuple[Notice, ...] = ()
        self._events: dict[tuple[Reader, Seen], tuple[bytes | None, Seen]] = {}
        self._waiting: set[asyncio.Future[None]] = set()
        self._timer: asyncio.TimerHandle | None = None

    @property
    def newest(self) -> int:
        """Number of the newest row; 0 before the first."""
        return self._ring[-1][0] if self._ring else 0

    async def read(
        self, reader: Reader, after: int | None, hello: JsonObject, goes_on: Callable[[], bool]
    ) -> AsyncIterator[bytes]:
        """Events for one reader: `hello`, then batches, until it leaves or `goes_on` is false.

        `after` is the number of its last row; None for new rows only, and those hardly in the ledger yet.
        """
        self._look()
        if self._others is not None:
            self._others.want()
        seen = self._find_place(reader, after)
        begun = [call.show() for call in self._begun.values() if reader.sees(call.caller)]
        told: JsonObject = {"running": [*begun], "notices": _show_notices(reader, self._notices)}
        yield self._write("hello", seen.number, {**hello, **told, "shared": _show_shared(self._shared)})
        quiet_since = self._clock()
        while goes_on():
            await self._wait()
            batch, seen = self._next_event(reader, seen)
            if batch is not None:
                yield batch
            elif self._clock() - quiet_since < QUIET_SECONDS:
                continue
            else:
                yield _STILL_HERE
            quiet_since = self._clock()

    def _find_place(self, reader: Reader, after: int | None) -> Seen:
        """A reader's position. A number not reached yet is from before a restart, so nothing is known."""
        number = self._find_settled() if after is None else after if 0 <= after <= self._counted else 0
        if reader.is_admin:
            return Seen(number, number, self._mark, self._notices, self._shared)
        oldest = self._ring[0][0] if self._ring else 1
        own = sum(line.caller == reader.caller for place, (line, *_) in self._ring if place > number)
        total = self._totals[reader.caller] - own if number >= oldest - 1 else None
        return Seen(number, total, self._mark, self._notices, self._shared)

    def _find_settled(self) -> int:
        """Number of the newest row that the ledger must have by now."""
        since, number = time.time() - _UNWRITTEN_SECONDS, self._counted
        for place, (line, *_) in reversed(self._ring):
            if line.at + line.duration_ms / 1000 < since:
                break
            number = place - 1
        return number

    async def _wait(self) -> None:
        """Wait for the next look, the only timer here."""
        loop = asyncio.get_running_loop()
        waiter = loop.create_future()
        self._waiting.add(waiter)
        if self._timer is None:
            self._timer = loop.call_later(BATCH_SECONDS, self._tick)
        try:
            await waiter
        finally:
            self._waiting.discard(waiter)
            if not self._waiting and self._timer is not None:
                self._timer.cancel()
                self._timer = None

    def _tick(self) -> None:
        self._timer = None
        self._look()
        waiting, self._waiting = [*self._waiting], set()
        self._wake(waiting, BATCH_SECONDS / len(waiting) if waiting else 0.0)

    def _wake(self, waiting: list[asyncio.Future[None]], gap_seconds: float) -> None:
        """Wake readers one after another with gaps, so that a request waits for one of them at most."""
        while waiting:
            waiter = waiting.pop()
            if not waiter.done():
                waiter.set_result(None)
                break
        if waiting:
            asyncio.get_running_loop().call_later(gap_seconds, self._wake, waiting, gap_seconds)

    def _look(self) -> None:
        new = [*takewhile(lambda held: held[0] > self._counted, reversed(self._ring))]
        self._totals.update(line.caller for _, (line, *_) in new)
        if new:
            self._fold(new[_MAX_FOLDED - 1 :: -1])
        self._counted = self.newest
        self._events.clear()
        self._look_at_running()
        self._notices = tuple(self._ask_notices())

        if self._others is not None:
            self._shared = self._others.describe()
            if self._waiting:
                self._others.want()

    def _fold(self, new: Iterable[Held]) -> None:
        """Put rows into the turns that they belong to."""
        for number, (line, decision, *_) in new:
            kept = read_kept(decision)
            chosen = KeptCall(kept.tier, kept.decided_by or "", person_text=kept.person_text) if kept.tier is not None else None
            if (turn := self._turns.replay(Call(line, chosen))) is not None:
                self._turn_of[number] = turn
        oldest = self._ring[0][0]
        self._turn_of = {number: turn for number, turn in self._turn_of.items() if number >= oldest}
        self._turns.forget_before(self._ring[0][1][0].at)

    def _look_at_running(self) -> None:
        known, now = self._begun, dict[str, Begun]()
        for exchange in self._running:
            if has_begun(exchange):
                show = partial(show_begun, exchange, self._clock)
                now[exchange.id] = self._mark_begun(exchange.id, Begun(0, exchange.caller.name, target_of(exchange), show))
        for replica, call in self._others.under_way() if self._others is not None else ():
            show = partial(_show_elsewhere, replica, call)
            now.setdefault(call.id, self._mark_begun(call.id, Begun(0, call.caller, call.target, show, is_here=False)))
        if any(not call.is_here and name not in now for name, call in known.items()):
            self._left = self._next_mark()
        self._begun = now

    def _mark_begun(self, name: str, call: Begun) -> Begun:
        """A current call; it is news if unknown, or if its target changed."""
        before = self._begun.get(name)
        is_news = before is None or before.target != call.target
        return call._replace(mark=self._next_mark() if before is None or is_news else before.mark)

    def _next_mark(self) -> int:
        self._mark = next(self._marks)
        return self._mark

    def _next_event(self, reader: Reader, seen: Seen) -> tuple[bytes | None, Seen]:
        """News for a reader, or None, and its new position. Readers in step share one event."""
        known = self._events.get((reader, seen))
        if known is None:
            known = self._events[reader, seen] = self._write_event(reader, seen)
        return known

    def _write_event(self, reader: Reader, seen: Seen) -> tuple[bytes | None, Seen]:
        rows = [row for row in self._rows_after(seen.number) if reader.sees(row.line.caller)]
        total = self._counted if reader.is_admin else self._totals[reader.caller]
        missed = None if seen.total is None else max(0, total - seen.total - len(rows))
        begun = [call.show() for call in self._begun.values() if call.mark > seen.mark and reader.sees(call.caller)]
        now = Seen(self._counted, total, self._mark, self._notices, self._shared)
        has_notices, has_left, has_routers = seen.notices != self._notices, self._left > seen.mark, seen.shared != self._shared
        if not (rows or begun or missed or has_notices or has_left or has_routers):
            return None, now
        most = MAX_ROWS if self._others is None else _MAX_ROWS_TOGETHER
        hops, more = self._find_hops() if rows else {}, max(0, len(rows) - most)
        shown = [
            _show_row(row, hops.get(row.number), self._turn_of.get(row.number), wants_words=reader.wants_words)
            for row in rows[-most:]
        ]
        batch: JsonObject = {"begun": [*begun], "rows": [*shown], "more": more, "missed": missed}
        if more or missed or has_left:
            batch["running"] = [name for name, call in self._begun.items() if reader.sees(call.caller)]
        if has_notices:
            batch["notices"] = _show_notices(reader, self._notices)
        if has_routers:
            batch["shared"] = _show_shared(self._shared)
        return self._write("batch", now.number, batch), now

    def _rows_after(self, number: int) -> list[Row]:
        """Rows present at the last look."""
        found = []
        for place, held in reversed(self._ring):
            if place <= number:
                break
            if place <= self._counted:
                found.append(Row(place, *held))
        return found[::-1]

    def _find_hops(self) -> dict[int, str]:
        """Where a row's session changed tier, by number, as far back as the ring."""
        tiers: dict[tuple[str, str], str] = {}
        found: dict[int, str] = {}
        for number, (line, *_) in self._ring:
            if line.session is None or line.tier is None or line.turn_kind not in PERSONS_KINDS:
                continue
            key = line.caller, line.session
            if (hop := name_hop(tiers.get(key), line.tier)) is not None:
                found[number] = hop
            tiers[key] = line.tier
        return found

    def _write(self, event: str, number: int, body: JsonObject) -> bytes:
        return b"event: %b\nid: %b-%d\ndata: %b\n\n" % (event.encode(), self._epoch.encode(), number, orjson.dumps(body))


def _show_elsewhere(replica: str, call: "CallUnderWay") -> JsonObject:
    shown: JsonObject = asdict(call)
    return {**shown, "replica": replica or None}


def _show_shared(shared: "Shared | None") -> Json:
    return {**shared._asdict()} if shared is not None else None


def show_line(line: Line, number: int, decided_by: str | None, hop: str | None) -> JsonObject:
    """A row, as every route shows it."""
    shown: JsonObject = asdict(line)
    trouble = say_trouble(line) if line.outcome != Outcome.SERVED else None
    return {**shown, "number": number, "decided_by": decided_by, "hop": hop, "trouble": trouble}


def show_turn(turn: Turn, *, with_words: bool) -> JsonObject:
    """A turn, as every route shows it. It has no number: earlier turns of its session were not counted."""
    shown = turn.as_json()
    del shown["turn"]
    return {**shown, "words": turn.ask.words or None} if with_words else shown


def _show_row(row: Row, hop: str | None, turn: Turn | None, *, wants_words: bool) -> JsonObject:
    kept = read_kept(row.decision)
    shown = {**show_line(row.line, row.number, kept.decided_by, hop), "replica": row.replica or None}
    shown["turn"] = show_turn(turn, with_words=wants_words) if turn is not None else None
    return {**shown, "words": kept.person_text} if wants_words else shown


def _show_notices(reader: Reader, notices: Sequence[Notice]) -> list[Json]:
    return [
        {**asdict(notice), "kind": str(notice.kind)} for notice in visible_to(reader.caller, notices, is_admin=reader.is_admin)
    ]
