"""A progress bar on standard error: one line on a terminal, occasional lines elsewhere."""

import shutil
import sys
import time
from types import TracebackType

from router.cli.common import say
from router.telemetry.colour import CLEAR_LINE, GREEN, can_redraw, paint

_REDRAW_SECONDS = 0.1
_PLAIN_SECONDS = 10.0
_BAR_WIDTH = 24


class Progress:
    def __init__(self, name: str, total: int) -> None:
        self._name, self._total, self._done = name, max(total, 1), 0
        self._is_live = can_redraw(sys.stderr)
        self._drawn = time.monotonic() if not self._is_live else 0.0
        self.note = ""

    def advance(self, amount: int = 0) -> None:
        """Report progress. Cheap: it draws at most ten times a second."""
        self._done = min(self._total, self._done + amount)
        now = time.monotonic()
        if now - self._drawn >= (_REDRAW_SECONDS if self._is_live else _PLAIN_SECONDS):
            self._drawn = now
            self._draw()

    def __enter__(self) -> "Progress":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if self._is_live:
            sys.stderr.write(CLEAR_LINE)
            sys.stderr.flush()

    def _draw(self) -> None:
        share = self._done / self._total
        if not self._is_live:
            say(f"{self._name}: {share:.0%}{f', {self.note}' if self.note else ''}")
            return
        full = int(share * _BAR_WIDTH)
        bar = "█" * full + "░" * (_BAR_WIDTH - full)
        room = shutil.get_terminal_size().columns - 1
        line = f"{self._name} {bar} {share:>4.0%} {self.note}"[:room]
        sys.stderr.write(CLEAR_LINE + line.replace(bar, paint(bar, GREEN, sys.stderr)))
        sys.stderr.flush()
