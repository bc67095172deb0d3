"""The screen of `serve`, `top`, `run` and `demo`: turns on a terminal, fed with calls as they begin and end.

In a router it observes requests (`seen`), with workers it is told what they saw, and `FeedView` feeds it remotely. Drawing is
done in ticks.
"""

import asyncio
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Protocol

from router.contract.entry import Line
from router.contract.exchange import Handler
from router.contract.facts import Fact
from router.contract.notices import Notice
from router.contract.words import Outcome
from router.past.rows import Call
from router.past.savings import read_worth
from router.past.turns import Begun, Turns
from router.past.turns import Turn as ShownTurn
from router.past.worth import Account, Worth, spend
from router.screen.around import Facts, write_event, write_head, write_jobs, write_notices
from router.screen.board import Board
from router.screen.seen import CallBegun, CallEnded, CallSpoke, CallWaits, Pinned, Rejected, Seen, Watch
from router.screen.text import Style, clean, fold
from router.telemetry.colour import DIM

_SOON_SECONDS = 0.08
"""Delay after an event: looks immediate, but draws many requests at once."""
_TICK_SECONDS = 0.25
_LEAST_TABLE = 6
"""Rows of the terminal that are left to the turns."""
_FORGET_SECONDS, _FORGET_EVERY_SECONDS = 3_600.0, 60.0


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

    def count_end(self, line: Line, decision: str | None) -> None:
        self._account.add(spend(line, decision))

    def sentence(self) -> str:
        if (worth := read_worth(self._ledger, self._since)) is None:
            self._account.close()
            worth = self._worth
        return replace(worth, refused=worth.refused + self.refused).summary()


class Screen:
    """Draws turns in the loop's thread."""

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
        self.watch = Watch(shows_words=shows_words, shows_estimates=is_each_call, wall=wall, clock=clock)
        self._wall = wall
        self._loop: asyncio.AbstractEventLoop | None = None
        self._tick: asyncio.TimerHandle | None = None
        self._forget_at = 0.0
        self._waits_for: list[str] = []
        self._pinned: dict[int, Pinned] = {}
        self._under_way: dict[int, set[str]] = {}
        """Calls by worker; 0 without workers."""

    @property
    def is_running(self) -> bool:
        """Whether clocks must tick."""
        return self._board.is_running

    def handlers(self) -> Mapping[type[Fact], Handler]:
        return self.watch.handlers()

    def open(self, loop: asyncio.AbstractEventLoop, facts: Facts) -> None:
        """Start drawing, head first."""
        self.start(loop)
        self.totals.read_from(Path(facts.ledger_path) if facts.ledger_path else None, self._wall())
        for line in write_head(facts, self._output.size[0], self._style):
            self._board.note(line)
        self.wake()

    def start(self, loop: asyncio.AbstractEventLoop) -> None:
        """Start taking in events."""
        self._loop = loop
        self.watch.start(loop, self.wake)

    def wait_for(self, what: str) -> None:
        """Show below the turns what is awaited, if lines can be redrawn."""
        self._waits_for = [f"{self._style.cut} {what}"] if what and not self._is_still else []
        self.wake()

    def pin(self, lines: Sequence[str], notices: Sequence[Notice], problem: str = "") -> bool:
        """Keep these lines below the turns, and notices below them. Returns whether they are new."""
        (columns, rows), style = self._output.size, self._style
        troubles = write_notices(notices, columns, rows // 2, style)
        if problem:
            troubles += fold(clean(f"! {problem}", style), columns, "  ")
        others = [style.paint(part, DIM) for line in lines for part in fold(clean(line, style), columns, "  ")]
        return self._board.pin([*others[: max(0, rows - _LEAST_TABLE - len(troubles))], *troubles])

    def note(self, text: str, level: str = "") -> None:
        """Print above the changeable lines, from any thread. With a level it is an event, and has its time."""
        self.watch.note(text, level)

    def wake(self) -> None:
        self._schedule(_SOON_SECONDS)

    def start_over(self) -> None:
        """Redraw below another program's output, as after Ctrl-Z."""
        self._board.start_over()
        self.wake()

    def close(self, *lines: str) -> None:
        """Draw once more, and print the totals, or these lines instead."""
        self.watch.stop()
        self._loop = None
        if self._tick is not None:
            self._tick.cancel()
        self._gather()
        told = lines or ("", *fold(self.totals.sentence(), self._output.size[0]))
        self._output.close(self._frame(is_last=True) + "".join(f"{line}\r\n" for line in told))

    def draw(self, *, is_last: bool = False) -> None:
        """Update the output, for callers that feed the screen themselves."""
        self._take_all()
        if text := self._frame(is_last=is_last):
            self._output.give(text)

    def _frame(self, *, is_last: bool = False) -> str:
        return self._board.draw(self._wall(), *self._output.size, is_last=is_last)

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
        self._take_all()
        self._pin()
        self.forget()

    def _take_all(self) -> None:
        for seen in self.watch.collect():
            self.take(seen)

    def take(self, seen: Seen, worker: int = 0) -> None:
        """Take in what this process or a worker saw; `wake` shows it."""
        if isinstance(seen, CallBegun):
            self._under_way.setdefault(worker, set()).add(seen.call.id)
            self.begin(seen.call)
        elif isinstance(seen, CallEnded):
            self._under_way.get(worker, set()).discard(seen.line.id)
            self._take_end(seen)
        elif isinstance(seen, CallWaits):
            for turns in self._both():
                turns.wait(seen.id, is_waiting=seen.is_waiting)
        elif isinstance(seen, CallSpoke):
            for turns in self._both():
                turns.first_token(seen.id, seen.seconds)
        elif isinstance(seen, Pinned):
            self._pinned[worker] = seen
        elif isinstance(seen, Rejected):
            self.totals.refused += 1
            self._board.show(
                ShownTurn(
                    seen.at,
                    trouble=seen.message,
                    status=seen.status,
                    outcome=Outcome.REFUSED,
                    last_at=seen.at,
                    is_closed=True,
                )
            )
        else:
            for line in write_event(seen, self._output.size[0], self._style):
                self._board.note(line)

    def _take_end(self, ended: CallEnded) -> None:
        def name_client(turn: ShownTurn) -> None:
            if not turn.client:
                turn.client, turn.session = ended.client, ended.session

        self.end(ended.line, ended.message, name_client)
        self.totals.count_end(ended.line, ended.decision)

    def leave(self, worker: int) -> None:
        """A worker ended: its calls are over, and its troubles unknown."""
        self._pinned.pop(worker, None)
        calls = self._under_way.pop(worker, ())
        for turns in self._both():
            turns.stop(calls)
        self.wake()

    def _pin(self) -> bool:
        """Workers see the same jobs, and often the same troubles."""
        jobs = {job.id: job for pinned in self._pinned.values() for job in pinned.jobs}
        notices = {notice.place: notice for pinned in self._pinned.values() for notice in pinned.notices}
        return self.pin([*self._waits_for, *write_jobs([*jobs.values()])], [*notices.values()])

    def forget(self) -> None:
        """Forget sessions that were silent for an hour."""
        now = self._wall()
        if now >= self._forget_at:
            self._forget_at = now + _FORGET_EVERY_SECONDS
            for turns in self._both():
                turns.forget_before(now - _FORGET_SECONDS)

    def _both(self) -> tuple[Turns, ...]:
        return (self._turns,) if self._calls is None else (self._turns, self._calls)

    def begin(self, call: Begun) -> ShownTurn:
        """A call goes to a tier. Returns its turn."""
        turn = self._turns.begin(call)
        self._board.show(turn if self._calls is None else self._calls.begin(call))
        return turn

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
