"""A line for each finished turn: `tandem serve`, `tandem log --follow` and `tandem demo` print it as `tandem log` does."""

import os
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import TextIO

from msgspec.structs import replace

from router.cli.lines import Layout
from router.cli.tables import columns_of
from router.cli.text import style_of
from router.contract.exchange import Exchange, Handler
from router.contract.facts import Decided, Fact, Recorded, Settled
from router.past.rows import Call
from router.past.turns import Begun, Turn, Turns

_QUIET_SECONDS = 10.0
"""A turn without a call for this long is finished. One that goes on after that, since its tools are slow, has another line."""
_FORGET_SECONDS = 3_600.0


class FinishedTurns:
    """Calls as they begin and end → turns as they finish. A session's next turn finishes the one before."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._turns, self._clock = Turns(), clock
        self._open: dict[int, tuple[Turn, float]] = {}
        """Turns that are not shown yet, and when they were last heard of."""

    def handlers(self) -> Mapping[type[Fact], Handler]:
        return dict.fromkeys((Decided, Recorded), self.observe)

    def observe(self, exchange: Exchange, fact: Decided | Recorded) -> None:
        if isinstance(fact, Decided):
            turn = self.begin(_read_begun(exchange, fact))
            if not fact.view.body.get("tools"):
                turn.close()  # no tool call can follow its answer
        else:
            settled = exchange.last(Settled)
            error = settled.ending.error if settled is not None else None
            line = replace(fact.entry.line, id=exchange.id)  # a job refused for now is recorded apart from its attempt
            self.end(Call(line), error.message if error is not None else "")

    def begin(self, call: Begun) -> Turn:
        turn = self._turns.begin(call)
        self.add(turn)
        return turn

    def end(self, call: Call, message: str = "") -> None:
        if (turn := self._turns.replay(call, message)) is not None:
            self.add(turn)

    def add(self, turn: Turn) -> None:
        self._open[id(turn)] = turn, self._clock()

    def stop_all_but(self, running: Collection[str]) -> None:
        """Only these calls are under way."""
        self._turns.stop_all_but(running)

    @property
    def is_waiting(self) -> bool:
        """Whether a turn may finish without another call."""
        return bool(self._open)

    def take(self, *, is_last: bool = False) -> list[Turn]:
        """Turns that finished since the last time; with `is_last`, all of which no call runs."""
        quiet = self._clock() - _QUIET_SECONDS
        resting = [(turn, at) for turn, at in self._open.values() if not turn.running]
        finished = [turn for turn, at in resting if is_last or turn.is_closed or at <= quiet]
        for turn in finished:
            del self._open[id(turn)]
        self._turns.forget_before(time.time() - _FORGET_SECONDS)
        return finished


def _read_begun(exchange: Exchange, decided: Decided) -> Begun:
    decision, turn = decided.decision, decided.decision.turn
    return Begun(
        id=exchange.id,
        at=time.time() - (time.perf_counter() - exchange.began),
        kind=turn.kind,
        tier=decision.tier,
        because=decision.because,
        caller=exchange.caller.name,
        session=turn.session,
        client=turn.client,
        number=turn.history.turns + 1,
        job=exchange.arrival.job or "",
    )


class TurnLines:
    """Prints turns, with titles above them where the columns change."""

    def __init__(self, stream: TextIO) -> None:
        self._stream, self.style = stream, style_of(stream, os.environ)
        self._start = "\r" if stream.isatty() else ""  # over a ^C
        self._titles: tuple[str, ...] = ()
        self._caller = ""
        self._names_callers = False
        """Whether there was more than one caller: each line then names its own."""

    def write(self, turns: Iterable[Turn]) -> None:
        for turn in turns:
            self._names_callers |= bool(turn.caller and self._caller) and turn.caller != self._caller
            self._caller = self._caller or turn.caller
            layout = Layout(columns_of(self._stream), self.style, names_callers=self._names_callers)
            if layout.names != self._titles:
                self._titles = layout.names
                self.print(layout.head())
            self.print(*layout.lines(turn))

    def print(self, *lines: str) -> None:
        print(self._start + "\n".join(lines), file=self._stream, flush=True)
