"""The screen of `serve`, `top`, `run` and `demo`: turns on a terminal, fed with calls as they begin and end.

In a router it observes requests (`seen`), with workers it is told what they saw, and `FeedView` feeds it remotely. Drawing is
done in ticks.
"""

import asyncio
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Protocol

from router.contract.decision import Weighing
from router.contract.entry import Line
from router.contract.exchange import Handler
from router.contract.facts import Fact
from router.contract.notices import Notice
from router.contract.words import Outcome, Tier
from router.decide.yardstick import Assumptions
from router.past.rows import Call
from router.past.sums import TierSums, all_deep, as_it_was
from router.past.turns import BEGINS, Begun, Turns
from router.past.turns import Turn as ShownTurn
from router.screen.around import Facts, write_event, write_head, write_jobs, write_notices
from router.screen.board import Board
from router.screen.figures import duration, money, plural
from router.screen.seen import CallBegun, CallEnded, CallSpoke, CallWaits, Pinned, Rejected, Seen, Watch
from router.screen.text import Style, clean, fold
from router.telemetry.colour import DIM

_SOON_SECONDS = 0.08
"""Delay after an event: looks immediate, but draws many requests at once."""
_TICK_SECONDS = 0.25
_LEAST_TABLE = 6
"""Rows of the terminal that are left to the turns."""
_FORGET_SECONDS, _FORGET_EVERY_SECONDS = 3_600.0, 60.0
_LEAST_SECONDS = 1.0
"""Smaller time differences are left out of the totals."""


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
        self.turns = self.moved_up = self.failed = self.refused = 0
        self.tiers = dict.fromkeys(Tier, 0)
        self.sums = {tier: TierSums() for tier in Tier}

    def count_begin(self, turn: ShownTurn, *, had_moved_up: bool) -> None:
        if turn.is_persons and turn.calls == 1 and turn.tier is not None:
            self.turns += 1
            self.tiers[Tier(turn.tier)] += 1
        self.moved_up += turn.has_moved_up and not had_moved_up

    def count_end(self, turn: ShownTurn, line: Line, expected: Weighing | None, *, had_failed: bool) -> None:
        """`expected` is the decision's expectation of both tiers."""
        if line.tier is None:
            self.refused += turn.calls == 0 and bool(turn.trouble)
            return
        self.failed += turn.has_failed - had_failed
        sums = self.sums[Tier(line.tier)]
        sums.measure(line)
        if line.turn_kind in BEGINS:
            sums.begin(line, expected)

    def sentence(self) -> str:
        refused = f", {self.refused} refused" if self.refused else ""
        if not self.turns:
            return f"no turns{refused}"
        tiers = " ".join(f"{count} {tier}" for tier, count in self.tiers.items() if count)
        seconds = sum(sums.seconds for sums in self.sums.values())
        usd = sum(sums.usd for sums in self.sums.values())
        unpriced = sum(sums.unpriced for sums in self.sums.values())
        took = money(usd, is_part=bool(unpriced)) if usd or not unpriced else duration(seconds)
        against = self._say_against()
        against = f" (all on deep: about {against})" if against else ""
        return (
            f"{plural(self.turns, 'turn')}, {tiers}, {took}{against}; {self.moved_up} moved up, {self.failed} failed{refused}"
        )

    def _say_against(self) -> str:
        deep = all_deep(self.sums)
        longer = deep.done_seconds - as_it_was(self.sums, Assumptions()).done_seconds
        parts = [] if deep.usd is None else [money(deep.usd)]
        if abs(longer) >= _LEAST_SECONDS:
            parts.append(f"{duration(abs(longer))} {'longer' if longer > 0 else 'shorter'} to done")
        return ", ".join(parts)


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
            had_moved_up = self._turns.has_moved_up(seen.call)
            self.totals.count_begin(self.begin(seen.call), had_moved_up=had_moved_up)
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
        line, had_failed = ended.line, self._turns.has_failed(ended.line.id)

        def name_client(turn: ShownTurn) -> None:
            if not turn.client:
                turn.client, turn.session = ended.client, ended.session

        if (turn := self.end(line, ended.message, name_client)) is not None:
            self.totals.count_end(turn, line, ended.expected, had_failed=had_failed)

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

    def end(self, line: Line, message: str = "", complete: Callable[[ShownTurn], None] = lambda _: None) -> ShownTurn | None:
        """End a call. `complete` adds to its line before it is shown. Returns its turn."""
        shown = counted = self._turns.end(line, message)
        if self._calls is not None:
            shown = self._calls.end(line, message)
        if shown is not None:
            complete(shown)
            self._board.show(shown)
        return counted

    def replay(self, line: Line, complete: Callable[[ShownTurn], None]) -> None:
        """End a call whose beginning was not seen."""
        if (shown := self._turns.replay(Call(line))) is not None:
            complete(shown)
            self._board.show(shown)

    def keep_running(self, calls: Collection[str]) -> None:
        """Only these calls are under way."""
        self._turns.stop_all_but(calls)
