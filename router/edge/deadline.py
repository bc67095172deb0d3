"""One timer whose deadline moves. Moving it on costs nothing until the old one comes."""

import asyncio
from collections.abc import Callable

_NEVER = float("inf")
_EARLY_SECONDS = 0.001
"""A loop may call a little early, and a deadline may come a little nearer without a new timer."""


class DeadlineTimer:
    """Calls one function when its time has come, unless the deadline was moved or cleared before."""

    __slots__ = ("_at", "_handle", "_loop", "on_deadline")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._at = _NEVER
        self._handle: asyncio.TimerHandle | None = None
        self.on_deadline: Callable[[], None] | None = None
        """Called when the time has come; None without a deadline."""

    def set(self, seconds: float, on_deadline: Callable[[], None]) -> None:
        """Move the deadline to this many seconds from now."""
        self.on_deadline = on_deadline
        self._at = at = self._loop.time() + seconds
        handle = self._handle
        if handle is None or handle.when() > at + _EARLY_SECONDS:
            if handle is not None:
                handle.cancel()
            self._handle = self._loop.call_at(at, self._check)

    def abort_unread(self, transport: asyncio.Transport, seconds: float) -> None:
        """Cut a caller that reads nothing for this long. One that reads slowly may."""
        unread_bytes = transport.get_write_buffer_size()

        def check() -> None:
            if transport.get_write_buffer_size() >= unread_bytes:
                transport.abort()
            else:
                self.abort_unread(transport, seconds)

        self.set(seconds, check)

    def clear(self) -> None:
        """Have no deadline. The timer is left where it is: the next `set` will mostly find it early enough."""
        self._at, self.on_deadline = _NEVER, None

    def cancel(self) -> None:
        """Have no deadline and no timer."""
        self.clear()
        if self._handle is not None:
            self._handle.cancel()
            self._handle = None

    @property
    def seconds_left(self) -> float:
        """Seconds until the deadline: never less than none."""
        return max(0.0, self._at - self._loop.time())

    def _check(self) -> None:
        self._handle = None
        on_deadline = self.on_deadline
        if on_deadline is None:
            return
        if self._loop.time() < self._at - _EARLY_SECONDS:
            self._handle = self._loop.call_at(self._at, self._check)
            return
        self.clear()
        on_deadline()
