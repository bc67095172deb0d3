"""What a screen is told: calls as they begin and end, events, and what is broken. Plain values, so that workers can send them.

`Watch` observes requests and events of one process. A request only appends; reading is done by `collect`, in the loop's ticks.
"""

import asyncio
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from router.contract.caller import LOCAL
from router.contract.decision import Decision
from router.contract.entry import Line
from router.contract.exchange import Exchange, Handler
from router.contract.facts import Decided, Dequeued, Fact, FirstToken, Queued, Read, Recorded, Settled
from router.contract.job import EndedJob, ListEnded
from router.contract.notices import Notice, Notices
from router.contract.words import Operation
from router.decide.estimate import estimates_of, weighing_of
from router.past.turns import Begun
from router.screen.figures import duration
from router.sessions.turns import read_turn

_LOOK_SECONDS = 2.0
"""How often troubles and jobs are looked for while no request shows them."""
_WORDS = 160
"""More typed text than any line shows."""


class Noted(Struct, frozen=True, tag=True):
    """A line above the turns; with a level it is an event, and has its time."""

    text: str
    level: str = ""
    at: float = 0.0


class Rejected(Struct, frozen=True, tag=True):
    """A request refused before admission."""

    at: float
    status: int
    message: str


class CallBegun(Struct, frozen=True, tag=True):
    call: Begun


class CallWaits(Struct, frozen=True, tag=True):
    """A call is queued for a target's quota, or no longer."""

    id: str
    is_waiting: bool


class CallSpoke(Struct, frozen=True, tag=True):
    """The first token of a call."""

    id: str
    seconds: float


class CallEnded(Struct, frozen=True, tag=True):
    line: Line
    message: str = ""
    """Why it was refused, in the words that the caller got."""
    client: str = ""
    session: str = ""
    decision: str | None = None
    """JSON, as in the ledger."""


class Pinned(Struct, frozen=True, tag=True):
    """What stays below the turns while it lasts."""

    jobs: tuple[EndedJob, ...] = ()
    notices: tuple[Notice, ...] = ()


Seen = Noted | Rejected | CallBegun | CallWaits | CallSpoke | CallEnded | Pinned


class Watch:
    """Observes one process; `note` and `reject` may be called from any thread."""

    def __init__(
        self,
        *,
        shows_words: bool = False,
        shows_estimates: bool = False,
        wall: Callable[[], float] = time.time,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        self._shows_words, self._shows_estimates, self._wall, self._clock = shows_words, shows_estimates, wall, clock
        self._facts: deque[tuple[Exchange, Any]] = deque()
        self._said: deque[Seen] = deque()
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._wake: Callable[[], None] = lambda: None
        self._notices: Notices = tuple
        self._list_ended: ListEnded = tuple
        self._pinned = Pinned()

    def start(self, loop: asyncio.AbstractEventLoop, wake: Callable[[], None]) -> None:
        """From now on, `wake` is called in the loop when there is something to collect."""
        self._loop, self._wake = loop, wake

    def stop(self) -> None:
        with self._lock:
            self._loop = None

    def look_at(self, notices: Notices, list_ended: ListEnded = tuple) -> None:
        """Look for troubles and uncollected jobs, now and every two seconds."""
        self._notices, self._list_ended = notices, list_ended
        self._look()

    def _look(self) -> None:
        if self._loop is not None:
            if self._find_pinned():
                self._wake()
            self._loop.call_later(_LOOK_SECONDS, self._look)

    def _find_pinned(self) -> bool:
        """Whether what is to be pinned has changed."""
        jobs = tuple(job if job.caller == LOCAL else replace(job, title="") for job in self._list_ended())
        found = Pinned(jobs, tuple(self._notices()))
        if found == self._pinned:
            return False
        self._pinned = found
        self._said.append(found)
        return True

    def handlers(self) -> Mapping[type[Fact], Handler]:
        return dict.fromkeys((Decided, Queued, Dequeued, FirstToken, Recorded), self._take)

    def _take(self, exchange: Exchange, fact: Any) -> None:
        self._facts.append((exchange, fact))
        if len(self._facts) == 1 and self._loop is not None:
            self._wake()

    def note(self, text: str, level: str = "") -> None:
        self._say(Noted(text, level, self._wall()))

    def reject(self, status: int, message: str) -> None:
        self._say(Rejected(self._wall(), status, message))

    def _say(self, seen: Seen) -> None:
        self._said.append(seen)
        with self._lock:
            if self._loop is not None and not self._loop.is_closed():
                self._loop.call_soon_threadsafe(self._wake)

    def collect(self) -> list[Seen]:
        """All that was seen since the last time."""
        self._find_pinned()
        found: list[Seen] = []
        while self._said:
            found.append(self._said.popleft())
        while self._facts:
            exchange, fact = self._facts.popleft()
            if isinstance(fact, Decided):
                found.append(CallBegun(self._read_begun(exchange, fact)))
            elif isinstance(fact, (Queued, Dequeued)):
                found.append(CallWaits(exchange.id, isinstance(fact, Queued)))
            elif isinstance(fact, FirstToken):
                found.append(CallSpoke(exchange.id, fact.at - exchange.began))
            elif exchange.arrival.operation is not Operation.COUNT_TOKENS:
                found.append(_read_ended(exchange, fact))
        return found

    def _read_begun(self, exchange: Exchange, decided: Decided) -> Begun:
        decision, turn, job = decided.decision, decided.decision.turn, exchange.arrival.job
        is_own_job = job is not None and exchange.caller == LOCAL  # other people's tasks are not the operator's to read
        shows_words = is_own_job or (self._shows_words and not turn.goes_on)
        return Begun(
            id=exchange.id,
            at=self._wall() - (self._clock() - exchange.began),
            kind=turn.kind,
            tier=decision.tier,
            because=decision.because,
            caller=exchange.caller.name,
            session=turn.session,
            client=turn.client,
            number=turn.history.turns + 1,
            words=_find_typed(exchange, decided)[:_WORDS] if shows_words else "",
            estimate=_say_estimate(decision) if self._shows_estimates else "",
            job=job or "",
        )


def _read_ended(exchange: Exchange, recorded: Recorded) -> CallEnded:
    line, settled = recorded.entry.line, exchange.last(Settled)
    if line.id != exchange.id:  # a job refused for now is recorded apart from its attempt
        line = replace(line, id=exchange.id)
    error = settled.ending.error if settled is not None else None
    client, session = line.client or "", line.session or ""
    read = exchange.last(Read)
    if not client and read is not None:  # refused before its turn was read: rare, so done here
        asked = read_turn(read.view)
        client, session = asked.client, asked.session
    return CallEnded(line, error.message if error is not None else "", client, session, recorded.entry.decision)


def _find_typed(exchange: Exchange, decided: Decided) -> str:
    """The typed text, including a tier line."""
    read = exchange.last(Read)
    turn = read_turn(read.view) if read is not None else decided.decision.turn
    return turn.person_text or ""


def _say_estimate(decision: Decision) -> str:
    estimates = estimates_of(weighing_of(decision), decision.score, decision.economics)
    times = ", ".join(f"{tier} {duration(estimate.seconds)}" for tier, estimate in estimates.items())
    return f"{decision.score:.0%} long: {times}" if times else f"{decision.score:.0%} long"
