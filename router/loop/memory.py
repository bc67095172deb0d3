"""Giving free memory back to the system. Otherwise the C library keeps all of it."""

import asyncio
import ctypes
import gc
from contextlib import suppress

_LATER_SECONDS = 2.0


class FreeMemory:
    """Gives memory back once for all who ask within a moment; in plain mode never."""

    def __init__(self, *, plain: bool = False) -> None:
        self._is_waiting = plain

    def give_back_later(self, loop: asyncio.AbstractEventLoop) -> None:
        """Give memory back in a moment, in a thread. Call this when much of it became free at once, which is rare."""
        if not self._is_waiting:
            self._is_waiting = True
            loop.call_later(_LATER_SECONDS, self._start, loop)

    def _start(self, loop: asyncio.AbstractEventLoop) -> None:
        self._is_waiting = False
        loop.run_in_executor(None, give_back)


def give_back() -> None:
    """Give back what is free now.

    What a caller left unread is in a cycle of its connection and its transport, which the collector would find much later.
    """
    gc.collect()
    trim()


def trim() -> None:
    """Only one C library knows how to give free memory back; elsewhere nothing is done."""
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).malloc_trim(0)
