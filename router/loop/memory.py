"""Giving free memory back to the system. Otherwise the C library keeps all of it."""

import asyncio
import ctypes
import gc
from contextlib import suppress

_LATER_SECONDS = 2.0
_waiting: set[asyncio.AbstractEventLoop] = set()
"""The loops on which a trim is scheduled: one is enough for all who ask in the meantime."""


def give_back_later(loop: asyncio.AbstractEventLoop) -> None:
    """Give memory back in a moment, in a thread. To be called when much of it became free at once, which is seldom."""
    if loop not in _waiting:
        _waiting.add(loop)
        loop.call_later(_LATER_SECONDS, _start, loop)


def _start(loop: asyncio.AbstractEventLoop) -> None:
    _waiting.discard(loop)
    loop.run_in_executor(None, give_back)


def give_back() -> None:
    """Give back what is free now. Only one C library knows how to; elsewhere nothing is done.

    What a caller left unread is in a cycle of its connection and its transport, which the collector would find much later.
    """
    gc.collect()
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).malloc_trim(0)
