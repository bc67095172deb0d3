"""One timer whose deadline can be moved at no cost."""

import asyncio
from collections.abc import Callable

from router.contract.clock import CLOCK

_NEVER = float("inf")
_EARLY_SECONDS = 0.001
"""A loop may call a little early; a deadline this much nearer needs no new timer."""
_GRACE_SECONDS = 5.0
"""What a peer is given after a pause of this process in which its deadline passed."""


class DeadlineTimer:
    __slots__ = ("_at", "_handle", "_loop", "on_deadline")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._at = _NEVER
        self._handle: asyncio.TimerHandle | None = None
        self.on_deadline: Callable[[], None] | None = None

    def set(self, seconds: float, on_deadline: Callable[[], None]) -> None:
        self.on_deadline = on_deadline
        self._at = at = self._loop.time() + seconds
        handle = self._handle
        if handle is None or handle.when() > at + _EARLY_SECONDS:
            if handle is not None:
                handle.cancel()
            self._handle = self._loop.call_at(at, self._check)

    def abort_unread(self, transport: asyncio.Transport, seconds: float) -> None:
        """Cut a caller that reads nothing for this long. Slow readers are kept."""
        unread_bytes = transport.get_write_buffer_size()

        def check() -> None:
            if transport.get_write_buffer_size() >= unread_bytes:
                transport.abort()
            else:
                self.abort_unread(transport, seconds)

        self.set(seconds, check)

    def clear(self) -> None:
        """Drop the deadline but keep the timer, which the next `set` can mostly reuse."""
        self._at, self.on_deadline = _NEVER, None

    def cancel(self) -> None:
        self.clear()
        if self._handle is not None:
            self._handle.cancel()
            self._handle = None

    @property
    def seconds_left(self) -> float:
        return max(0.0, self._at - self._loop.time())

    def _check(self) -> None:
        self._handle = None
        on_deadline = self.on_deadline
        if on_deadline is None:
            return
        now = self._loop.time()
        if CLOCK.has_paused(self._at, now):  # read first what came meanwhile
            self._at = now + _GRACE_SECONDS
        if now < self._at - _EARLY_SECONDS:
            self._handle = self._loop.call_at(self._at, self._check)
            return
        self.clear()
        on_deadline()
