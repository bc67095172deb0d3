"""Writes to the terminal in a thread, so that a paused one (Ctrl-S, a sleeping connection) delays no request."""

import os
import threading
from collections.abc import Mapping
from typing import TextIO

from router.screen.text import Style
from router.telemetry.colour import can_redraw, has_colour

_COLUMNS, _ROWS = 80, 24
_CLOSE_SECONDS = 1.0


def style_of(stream: TextIO, environment: Mapping[str, str]) -> Style:
    return Style(stream.encoding or "ascii", has_colour(stream, environment))


def size_of(stream: TextIO) -> tuple[int, int]:
    """Columns and rows; 80 and 24 if unknown."""
    try:
        columns, rows = os.get_terminal_size(stream.fileno())
    except (OSError, ValueError):
        return _COLUMNS, _ROWS
    return columns or _COLUMNS, rows or _ROWS


class Plain:
    """Writes at once. If lines cannot be redrawn, they end as in a file."""

    is_busy = False

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    @property
    def size(self) -> tuple[int, int]:
        return size_of(self._stream)

    def give(self, text: str) -> None:
        self._stream.write(text if can_redraw(self._stream) else text.replace("\r\n", "\n"))
        self._stream.flush()

    close = give


class Terminal:
    """Writes text in its own thread, and reports whether it is still writing."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._text = ""
        self._wake = threading.Event()
        self._is_done = threading.Event()
        self._is_done.set()
        self._is_closing = False
        self._thread = threading.Thread(target=self._run, name="screen", daemon=True)
        self._thread.start()

    @property
    def is_busy(self) -> bool:
        """Whether the last text is unwritten: no more may be given."""
        return not self._is_done.is_set()

    @property
    def size(self) -> tuple[int, int]:
        return size_of(self._stream)

    def give(self, text: str) -> None:
        self._text = text
        self._is_done.clear()
        self._wake.set()

    def close(self, text: str) -> None:
        """Write the last text, unless the terminal is paused."""
        if self._is_done.wait(_CLOSE_SECONDS):
            self._is_closing = True
            self.give(text)
            self._is_done.wait(_CLOSE_SECONDS)

    def _run(self) -> None:
        is_last = False
        while not is_last:
            self._wake.wait()
            self._wake.clear()
            is_last = self._is_closing
            try:
                self._stream.buffer.write(self._text.encode(self._stream.encoding or "ascii", "replace"))
                self._stream.buffer.flush()
            except (OSError, ValueError):
                pass  # a closed terminal must not end the router
            self._is_done.set()
