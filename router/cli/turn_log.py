"""What `tandem serve` prints for a person: a line for each finished turn and each event, and the sums at the end.

A thread prints, so that a paused terminal (Ctrl-S, a sleeping connection) delays no request.
"""

import contextlib
import queue
import threading
import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import TextIO

from router.cli.figures import clock
from router.cli.text import clean
from router.cli.totals import Totals
from router.cli.turn_lines import FinishedTurns, TurnLines
from router.contract.exchange import Exchange, Handler
from router.contract.facts import Decided, Fact, Recorded
from router.contract.words import Outcome
from router.past.turns import Turn
from router.telemetry.colour import RED

_MOST_WAITING = 10_000
"""Steps that wait while the terminal is paused; more are dropped."""
_TICK_SECONDS = 0.25
_CLOSE_SECONDS = 1.0


class TurnLog:
    """Observes requests. `note` and `reject` may be called from any thread."""

    def __init__(self, stream: TextIO) -> None:
        self.totals = Totals()
        self._turns, self._lines = FinishedTurns(), TurnLines(stream)
        self._steps: queue.Queue[Callable[[], object]] = queue.Queue(_MOST_WAITING)
        self._is_over = False
        self._thread = threading.Thread(target=self._run, name="turn log", daemon=True)
        self._thread.start()

    def handlers(self) -> Mapping[type[Fact], Handler]:
        return dict.fromkeys((Decided, Recorded), lambda exchange, fact: self._put(partial(self._observe, exchange, fact)))

    def note(self, text: str, level: str = "") -> None:
        """Print an event."""
        style, mark = self._lines.style, f"{level}: " if level in ("warning", "error") else ""
        line = f"{clock(time.time())}  {mark}{clean(text, style)}"
        self.say(style.paint(line, RED) if level == "error" else line)

    def say(self, text: str) -> None:
        self._put(partial(self._lines.print, text))

    def reject(self, status: int, message: str) -> None:
        """Print a request that was refused before admission."""
        self.totals.refused += 1
        at, outcome = time.time(), Outcome.REFUSED
        self._put(partial(self._turns.add, Turn(at, trouble=message, status=status, outcome=outcome, is_closed=True)))

    def close(self) -> None:
        """Print the rest, and the sums; a paused terminal is left alone."""
        self._put(self._finish)
        self._thread.join(_CLOSE_SECONDS)

    def _put(self, step: Callable[[], object]) -> None:
        with contextlib.suppress(queue.Full):
            self._steps.put_nowait(step)

    def _run(self) -> None:
        due = 0.0
        while not self._is_over:
            # A terminal that was closed must not end the router.
            with contextlib.suppress(queue.Empty, OSError, ValueError):
                self._steps.get(timeout=_TICK_SECONDS if self._turns.is_waiting else None)()
            if time.monotonic() >= due:
                due = time.monotonic() + _TICK_SECONDS
                self._write()

    def _write(self, *, is_last: bool = False) -> None:
        with contextlib.suppress(OSError, ValueError):
            self._lines.write(self._turns.take(is_last=is_last))

    def _observe(self, exchange: Exchange, fact: Decided | Recorded) -> None:
        self._turns.observe(exchange, fact)
        if isinstance(fact, Recorded):
            self.totals.add(fact.entry)

    def _finish(self) -> None:
        self._is_over = True
        self._write(is_last=True)
        self._lines.print("", self.totals.sentence())
