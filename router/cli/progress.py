"""A progress bar: one line on a terminal, a plain line now and then elsewhere. Always beside the data, on standard error."""

import os
import shutil
import sys
import time
from types import TracebackType

from router.cli.common import say

_REDRAW_SECONDS = 0.1
_PLAIN_SECONDS = 10.0
_BAR_WIDTH = 24
_GREEN, _PLAIN = "\x1b[32m", "\x1b[0m"


class Progress:
    """Shows how much of something is done. `note` says what is being found on the way."""

    def __init__(self, name: str, total: int) -> None:
        self._name, self._total, self._done = name, max(total, 1), 0
        self._is_live = sys.stderr.isatty() and os.environ.get("TERM") != "dumb"
        self._has_colour = self._is_live and not os.environ.get("NO_COLOR")
        self._drawn = time.monotonic() if not self._is_live else 0.0
        self.note = ""

    def advance(self, amount: int = 0) -> None:
        """Say that some more is done. Cheap: it draws ten times a second at most."""
        self._done = min(self._total, self._done + amount)
        now = time.monotonic()
        if now - self._drawn >= (_REDRAW_SECONDS if self._is_live else _PLAIN_SECONDS):
            self._drawn = now
            self._draw()

    def __enter__(self) -> "Progress":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if self._is_live:
            sys.stderr.write("\r\x1b[K")
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
        if self._has_colour:
            line = line.replace(bar, f"{_GREEN}{bar}{_PLAIN}")
        sys.stderr.write(f"\r\x1b[K{line}")
        sys.stderr.flush()
