"""The live feed: requests as they begin and end, for everybody who reads along.

While nobody reads, nothing of this is loaded, and all that a request pays is one append to the ring (`page.ring`). Readers are
woken by one timer for all of them, which runs only while one of them waits. Each takes from the ring what is new to it, when
its connection can take more: nothing is queued for a reader, so that one that is slow or has stopped costs no memory. What the
ring has lost by then is counted for it.
"""

import asyncio
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from itertools import count
from typing import NamedTuple

import msgspec
import orjson
from msgspec import Struct
from msgspec.structs import asdict

from router.contract.entry import Line
from router.contract.exchange import Exchange
from router.contract.facts import AttemptOpened, Decided, PassedOn
from router.contract.notices import Notice, visible_to
from router.contract.past import name_hop
from router.contract.request import Json, JsonObject
from router.contract.words import PERSONS_KINDS
from router.page.ring import Ring

MAX_ROWS = 50
"""In one batch."""
BATCH_SECONDS = 0.1
QUIET_SECONDS = 15.0
"""After this long without a word, a comment goes out: proxies close what is silent."""
_STILL_HERE = b": still here\n\n"


class _Kept(Struct):
    """What a row needs of a kept decision, in every form that the ledger has known."""

    decided_by: str | None = None
    person_text: str | None = None


_read_kept = msgspec.json.Decoder(_Kept).decode


class Row(NamedTuple):
    """A request that is over, as the ring holds it."""

    number: int
    line: Line
    decision: str | None


class Reader(NamedTuple):
    """Who reads, and what it may see."""

    caller: str
    is_admin: bool
    wants_words: bool = False

    def sees(self, caller: str) -> bool:
        return self.is_admin or caller == self.caller


class Seen(NamedTuple):
    """How far a reader has come."""

    number: int
    total: int | None
    """How many rows of its own there had been then; None where nobody counted."""
    mark: int
    """Of the newest request under way that it was told of."""
    notices: tuple[Notice, ...]


class Feed:
    """Gives each reader what is new to it."""

    def __init__(
        self,
        ring: Ring,
        running: Iterable[Exchange],
        notices: Callable[[], Sequence[Notice]] = tuple,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        """`running` are the requests under way, on the monotonic `clock`; `notices` says what is broken now."""
        self._running, self._ask_notices, self._clock = running, notices, clock
        self._ring, self._epoch = ring.rows, ring.epoch
        self._counted = 0
        self._totals: Counter[str] = Counter()
        self._begun: dict[str, tuple[int, Exchange, str | None]] = {}
        self._marks = count(1)
        self._mark = 0
        self._notices: tuple[Notice, ...] = ()
        self._events: dict[tuple[Reader, Seen], tuple[bytes | None, Seen]] = {}
        """What was written since the last look, by who reads it and where that reader was."""
        self._waiting: set[asyncio.Future[None]] = set()
        self._timer: asyncio.TimerHandle | None = None

    @property
    def newest(self) -> int:
        """The number of the newest row; 0 before the first."""
        return self._ring[-1][0] if self._ring else 0

    async def read(
        self, reader: Reader, after: int | None, hello: JsonObject, goes_on: Callable[[], bool]
    ) -> AsyncIterator[bytes]:
        """The events for one reader: `hello`, then a batch now and then, until it leaves or `goes_on` says no.

        `after` is the number of the last row that it has; None for one that wants only what is new.
        """
        self._look()
        seen = self._find_place(reader, after)
        begun = [self._show_begun(exchange) for _, exchange, _ in self._begun.values() if reader.sees(exchange.caller.name)]
        notices = _show_notices(reader, self._notices)
        yield self._write("hello", seen.number, {**hello, "running": [*begun], "notices": notices})
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
        """Where a reader goes on. A number that is not reached yet is from before a restart: nothing here is known to it."""
        newest = self._counted
        number = newest if after is None else after if 0 <= after <= newest else 0
        if reader.is_admin:
            return Seen(number, number, self._mark, self._notices)
        oldest = self._ring[0][0] if self._ring else 1
        own = sum(line.caller == reader.caller for place, (line, _) in self._ring if place > number)
        total = self._totals[reader.caller] - own if number >= oldest - 1 else None
        return Seen(number, total, self._mark, self._notices)

    async def _wait(self) -> None:
        """Until the next look. The timer is the one thing that is ever scheduled here."""
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
        """Let one reader go on, and after a while the next: a request that comes meanwhile waits for one of them at most."""
        while waiting:
            waiter = waiting.pop()
            if not waiter.done():
                waiter.set_result(None)
                break
        if waiting:
            asyncio.get_running_loop().call_later(gap_seconds, self._wake, waiting, gap_seconds)

    def _look(self) -> None:
        """See what is new since the last look: rows to be counted, requests under way, what is broken."""
        for number, (line, _) in reversed(self._ring):
            if number <= self._counted:
                break
            self._totals[line.caller] += 1
        self._counted = self.newest
        self._events.clear()
        known, now = self._begun, {}
        for exchange in self._running:
            target = _target_of(exchange)
            if target is None and exchange.last(Decided) is None and exchange.last(PassedOn) is None:
                continue
            before = known.get(exchange.id)
            if before is None or before[2] != target:
                before = (self._next_mark(), exchange, target)
            now[exchange.id] = before
        self._begun = now
        self._notices = tuple(self._ask_notices())

    def _next_mark(self) -> int:
        self._mark = next(self._marks)
        return self._mark

    def _next_event(self, reader: Reader, seen: Seen) -> tuple[bytes | None, Seen]:
        """What is new to a reader, None for nothing, and how far it has come with that. Readers in step share one event."""
        known = self._events.get((reader, seen))
        if known is None:
            known = self._events[reader, seen] = self._write_event(reader, seen)
        return known

    def _write_event(self, reader: Reader, seen: Seen) -> tuple[bytes | None, Seen]:
        rows = [row for row in self._rows_after(seen.number) if reader.sees(row.line.caller)]
        total = self._counted if reader.is_admin else self._totals[reader.caller]
        missed = None if seen.total is None else max(0, total - seen.total - len(rows))
        begun = [
            self._show_begun(exchange)
            for mark, exchange, _ in self._begun.values()
            if mark > seen.mark and reader.sees(exchange.caller.name)
        ]
        now, has_notices = Seen(self._counted, total, self._mark, self._notices), seen.notices != self._notices
        if not (rows or begun or missed or has_notices):
            return None, now
        hops, more = self._find_hops() if rows else {}, max(0, len(rows) - MAX_ROWS)
        shown = [_show_row(row, hops.get(row.number), wants_words=reader.wants_words) for row in rows[-MAX_ROWS:]]
        batch: JsonObject = {"begun": [*begun], "rows": [*shown], "more": more, "missed": missed}
        if more or missed:
            batch["running"] = [name for name, (_, ours, _) in self._begun.items() if reader.sees(ours.caller.name)]
        if has_notices:
            batch["notices"] = _show_notices(reader, self._notices)
        return self._write("batch", now.number, batch), now

    def _rows_after(self, number: int) -> list[Row]:
        """Those that were there at the last look: what came since waits for the next."""
        found = []
        for place, (line, decision) in reversed(self._ring):
            if place <= number:
                break
            if place <= self._counted:
                found.append(Row(place, line, decision))
        return found[::-1]

    def _find_hops(self) -> dict[int, str]:
        """By number: where a row's session changed its tier, as far as the ring goes back."""
        tiers: dict[tuple[str, str], str] = {}
        found: dict[int, str] = {}
        for number, (line, _) in self._ring:
            if line.session is None or line.tier is None or line.turn_kind not in PERSONS_KINDS:
                continue
            key = line.caller, line.session
            if (hop := name_hop(tiers.get(key), line.tier)) is not None:
                found[number] = hop
            tiers[key] = line.tier
        return found

    def _write(self, event: str, number: int, body: JsonObject) -> bytes:
        return b"event: %b\nid: %b-%d\ndata: %b\n\n" % (event.encode(), self._epoch.encode(), number, orjson.dumps(body))

    def _show_begun(self, exchange: Exchange) -> JsonObject:
        decided, opened, passed = exchange.last(Decided), exchange.last(AttemptOpened), exchange.last(PassedOn)
        turn = decided.decision.turn if decided is not None else None
        tier = opened.target.tier if opened is not None else decided.decision.tier if decided is not None else None
        because = decided.decision.because if decided is not None else passed.because if passed is not None else None
        return {
            "id": exchange.id,
            "at": time.time() - (self._clock() - exchange.began),
            "caller": exchange.caller.name,
            "session": turn.session if turn is not None else None,
            "turn_kind": str(turn.kind) if turn is not None else None,
            "client": turn.client if turn is not None else None,
            "tier": str(tier) if tier is not None else None,
            "target": _target_of(exchange),
            "because": because,
        }


def _target_of(exchange: Exchange) -> str | None:
    """The target that is called, or is about to be."""
    if (opened := exchange.last(AttemptOpened)) is not None:
        return opened.target.name
    decided = exchange.last(Decided)
    return decided.decision.targets[0] if decided is not None and decided.decision.targets else None


def show_line(line: Line, number: int, decided_by: str | None, hop: str | None) -> JsonObject:
    """A row, as every route shows it."""
    shown: JsonObject = asdict(line)
    return {**shown, "number": number, "decided_by": decided_by, "hop": hop}


def _show_row(row: Row, hop: str | None, *, wants_words: bool) -> JsonObject:
    try:
        kept = _read_kept(row.decision) if row.decision is not None else _Kept()
    except msgspec.MsgspecError:
        kept = _Kept()
    shown = show_line(row.line, row.number, kept.decided_by, hop)
    return {**shown, "words": kept.person_text} if wants_words else shown


def _show_notices(reader: Reader, notices: Sequence[Notice]) -> list[Json]:
    return [
        {**asdict(notice), "kind": str(notice.kind)} for notice in visible_to(reader.caller, notices, is_admin=reader.is_admin)
    ]
