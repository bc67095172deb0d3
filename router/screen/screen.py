"""The screen of `serve`, `top`, `run` and `demo`: turns on a terminal, fed with calls as they begin and end.

In a router it observes requests, which only append; drawing is done in ticks. `FeedView` feeds it remotely.
"""

import asyncio
import threading
import time
from collections import deque
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace as replace_fields
from pathlib import Path
from textwrap import wrap
from typing import Any, Protocol

from msgspec.structs import replace

from router.contract.decision import Decision
from router.contract.entry import Entry, Line
from router.contract.exchange import Exchange, Handler
from router.contract.facts import Decided, Dequeued, Fact, FirstToken, Queued, Read, Recorded, Settled
from router.contract.job import ListEnded
from router.contract.notices import Notice, Notices
from router.contract.words import Operation, Outcome
from router.decide.estimate import estimates_of, weighing_of
from router.past.rows import Call
from router.past.savings import read_worth
from router.past.turns import Begun, Turns
from router.past.turns import Turn as ShownTurn
from router.past.worth import Account, Worth, spend
from router.screen.around import Facts, write_head, write_jobs, write_notices
from router.screen.board import Board
from router.screen.figures import duration
from router.screen.text import Style, clean, fit
from router.sessions.turns import read_turn
from router.telemetry.colour import DIM

_SOON_SECONDS = 0.08
"""Delay after an event: looks immediate, but draws many requests at once."""
_TICK_SECONDS = 0.25
_LOOK_SECONDS = 2.0
"""How often notices are checked while no request shows them."""
_FORGET_SECONDS, _FORGET_EVERY_SECONDS = 3_600.0, 60.0
_WORDS = 160
"""More typed text than any line shows."""


class Output(Protocol):
    @property
    def is_busy(self) -> bool: ...
    @property
    def size(self) -> tuple[int, int]: ...
    def give(self, text: str) -> None: ...
    def close(self, text: str) -> None: ...


class Totals:
    """Sums since the start, printed when `serve` stops."""

    def __init__(self) -> None:
        self.refused = 0
        """Requests that were refused before admission."""
        self._worth = Worth()
        self._account = Account({}, lambda turn: turn.add_to(self._worth))
        self._ledger: Path | None = None
        self._since = 0.0

    def read_from(self, ledger: Path | None, since: float) -> None:
        """Take the sums since a moment from a ledger, which also knows what was marked, if it can be read."""
        self._ledger, self._since = ledger, since

    def count_end(self, entry: Entry) -> None:
        self._account.add(spend(entry.line, entry.decision))

    def sentence(self) -> str:
        if (worth := read_worth(self._ledger, self._since)) is None:
            self._account.close()
            worth = self._worth
        return replace_fields(worth, refused=worth.refused + self.refused).summary()


class Screen:
    """Gathers and draws turns in the loop's thread; only `note` is thread-safe."""

    def __init__(
        self,
        output: Output,
        style: Style,
        *,
        is_each_call: bool = False,
        is_still: bool = False,
        is_story: bool = False,
        shows_words: bool = False,
        quiet_seconds: float | None = None,
        wall: Callable[[], float] = time.time,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        self._output, self._style, self._is_still = output, style, is_still
        self._board = Board(style, is_still=is_still, is_story=is_story, quiet_seconds=quiet_seconds)
        self._turns = Turns()
        self._calls = Turns(is_each_call=True) if is_each_call else None
        self.totals = Totals()
        self._shows_words, self._wall, self._clock = shows_words, wall, clock
        self._facts: deque[tuple[Exchange, Any]] = deque()
        self._notes: deque[tuple[str, str]] = deque()
        self._refusals: deque[ShownTurn] = deque()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._tick: asyncio.TimerHandle | None = None
        self._forget_at = 0.0
        self._notices: Notices = tuple
        self._list_ended: ListEnded = tuple
        self._waits_for: list[str] = []
        self._lock = threading.Lock()

    @property
    def is_running(self) -> bool:
        """Whether clocks must tick."""
        return self._board.is_running

    def handlers(self) -> Mapping[type[Fact], Handler]:
        return dict.fromkeys((Decided, Queued, Dequeued, FirstToken, Recorded), self._take)

    def open(self, loop: asyncio.AbstractEventLoop, facts: Facts) -> None:
        """Start drawing, head first."""
        self.start(loop)
        for line in write_head(facts, self._output.size[0], self._style):
            self._board.note(line)
        self.wake()

    def start(self, loop: asyncio.AbstractEventLoop) -> None:
        """Start taking in events."""
        self._loop = loop

    def watch(self, notices: Notices, list_ended: ListEnded = tuple) -> None:
        """Show uncollected jobs and notices below the turns while they last."""
        self._notices, self._list_ended = notices, list_ended
        self._look()

    def _look(self) -> None:
        if self._loop is not None:
            if self._pin():
                self.wake()
            self._loop.call_later(_LOOK_SECONDS, self._look)

    def wait_for(self, what: str) -> None:
        """Show below the turns what is awaited, if lines can be redrawn."""
        self._waits_for = [f"{self._style.cut} {what}"] if what and not self._is_still else []
        self.wake()

    def _pin(self) -> bool:
        return self.pin([*self._waits_for, *write_jobs(self._list_ended())], self._notices())

    def pin(self, lines: Sequence[str], notices: Sequence[Notice], problem: str = "") -> bool:
        """Keep these lines below the turns, and notices below them. Returns whether they are new."""
        columns, style = self._output.size[0], self._style
        pinned = [style.paint(fit(clean(line, style), columns, style), DIM) for line in lines]
        pinned += write_notices(notices, columns, style)
        if problem:
            pinned.append(fit(clean(f"! {problem}", style), columns, style))
        return self._board.pin(pinned)

    def note(self, text: str, colour: str = "") -> None:
        """Print above the changeable lines."""
        self._notes.append((clean(text, self._style), colour))
        self._wake_from_any_thread()

    def refuse(self, status: int, message: str) -> None:
        """A request refused before admission, shown like any other."""
        now = self._wall()
        self._refusals.append(
            ShownTurn(now, trouble=message, status=status, outcome=Outcome.REFUSED, last_at=now, is_closed=True)
        )
        self.totals.refused += 1
        self._wake_from_any_thread()

    def _wake_from_any_thread(self) -> None:
        with self._lock:
            if self._loop is not None and not self._loop.is_closed():
                self._loop.call_soon_threadsafe(self.wake)

    def wake(self) -> None:
        self._schedule(_SOON_SECONDS)

    def start_over(self) -> None:
        """Redraw below another program's output, as after Ctrl-Z."""
        self._board.start_over()
        self.wake()

    def close(self, *lines: str) -> None:
        """Draw once more, and print the totals, or these lines instead."""
        with self._lock:
            self._loop = None
        if self._tick is not None:
            self._tick.cancel()
        self._gather()
        told = lines or ("", *wrap(self.totals.sentence(), self._output.size[0]))
        self._output.close(self._frame(is_last=True) + "".join(f"{line}\r\n" for line in told))

    def draw(self, *, is_last: bool = False) -> None:
        """Update the output, for callers that feed the screen themselves."""
        if text := self._frame(is_last=is_last):
            self._output.give(text)

    def _frame(self, *, is_last: bool = False) -> str:
        columns = self._output.size[0]
        while self._notes:
            text, colour = self._notes.popleft()
            for line in wrap(text, columns, subsequent_indent="  ", break_long_words=False) or [""]:
                self._board.note(self._style.paint(line, colour) if colour else line)
        return self._board.draw(self._wall(), *self._output.size, is_last=is_last)

    def _take(self, exchange: Exchange, fact: Any) -> None:
        self._facts.append((exchange, fact))
        if len(self._facts) == 1:
            self._schedule(_SOON_SECONDS)

    def _schedule(self, seconds: float) -> None:
        if self._loop is None:
            return
        if self._tick is not None:
            if self._tick.when() <= self._loop.time() + seconds:
                return
            self._tick.cancel()
        self._tick = self._loop.call_later(seconds, self._draw)

    def _draw(self) -> None:
        self._tick = None
        self._gather()
        if self._output.is_busy:
            self._schedule(_TICK_SECONDS)
            return
        self.draw()
        if self.is_running:
            self._schedule(_TICK_SECONDS)

    def _gather(self) -> None:
        self._pin()
        while self._refusals:
            self._board.show(self._refusals.popleft())
        while self._facts:
            exchange, fact = self._facts.popleft()
            if isinstance(fact, Decided):
                self._begin_exchange(exchange, fact)
            elif isinstance(fact, (Queued, Dequeued)):
                for turns in self._both():
                    turns.wait(exchange.id, is_waiting=isinstance(fact, Queued))
            elif isinstance(fact, FirstToken):
                for turns in self._both():
                    turns.first_token(exchange.id, fact.at - exchange.began)
            elif exchange.arrival.operation is not Operation.COUNT_TOKENS:
                self._end_exchange(exchange, fact)
        self.forget()

    def forget(self) -> None:
        """Forget sessions that were silent for an hour."""
        now = self._wall()
        if now >= self._forget_at:
            self._forget_at = now + _FORGET_EVERY_SECONDS
            for turns in self._both():
                turns.forget_before(now - _FORGET_SECONDS)

    def _both(self) -> tuple[Turns, ...]:
        return (self._turns,) if self._calls is None else (self._turns, self._calls)

    def begin(self, call: Begun) -> None:
        """A call goes to a tier."""
        turn = self._turns.begin(call)
        self._board.show(turn if self._calls is None else self._calls.begin(call))

    def end(self, line: Line, message: str = "", complete: Callable[[ShownTurn], None] = lambda _: None) -> None:
        """End a call. `complete` adds to its line before it is shown."""
        shown = self._turns.end(line, message)
        if self._calls is not None:
            shown = self._calls.end(line, message)
        if shown is not None:
            complete(shown)
            self._board.show(shown)

    def replay(self, line: Line, complete: Callable[[ShownTurn], None]) -> None:
        """End a call whose beginning was not seen."""
        if (shown := self._turns.replay(Call(line))) is not None:
            complete(shown)
            self._board.show(shown)

    def keep_running(self, calls: Collection[str]) -> None:
        """Only these calls are under way."""
        self._turns.stop_all_but(calls)

    def _begin_exchange(self, exchange: Exchange, decided: Decided) -> None:
        decision, turn = decided.decision, decided.decision.turn
        call = Begun(
            id=exchange.id,
            at=self._wall() - (self._clock() - exchange.began),
            kind=turn.kind,
            tier=decision.tier,
            because=decision.because,
            caller=exchange.caller.name,
            session=turn.session,
            client=turn.client,
            number=turn.history.turns + 1,
            words=_find_typed(exchange, decided)[:_WORDS] if self._shows_words and not turn.goes_on else "",
            estimate=_say_estimate(decision) if self._calls is not None else "",
        )
        self.begin(call)

    def _end_exchange(self, exchange: Exchange, recorded: Recorded) -> None:
        line, settled = recorded.entry.line, exchange.last(Settled)
        if line.id != exchange.id:  # a job refused for now is recorded apart from its attempt
            line = replace(line, id=exchange.id)
        error = settled.ending.error if settled is not None else None
        self.end(line, error.message if error is not None else "", lambda shown: self._name_client(shown, exchange))
        self.totals.count_end(recorded.entry)

    def _name_client(self, turn: ShownTurn, exchange: Exchange) -> None:
        """The client of a request refused before admission: rare, so looked up here."""
        read = exchange.last(Read)
        if not turn.client and read is not None:
            asked = read_turn(read.view)
            turn.client, turn.session = asked.client, asked.session


def _find_typed(exchange: Exchange, decided: Decided) -> str:
    """The typed text, including a tier line."""
    read = exchange.last(Read)
    turn = read_turn(read.view) if read is not None else decided.decision.turn
    return turn.person_text or ""


def _say_estimate(decision: Decision) -> str:
    estimates = estimates_of(weighing_of(decision), decision.score, decision.economics)
    times = ", ".join(f"{tier} {duration(estimate.seconds)}" for tier, estimate in estimates.items())
    return f"{decision.score:.0%} long: {times}" if times else f"{decision.score:.0%} long"
