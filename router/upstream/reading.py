"""Reading from targets: a bounded amount at a time, and in turns where much is to be read."""

import asyncio
from collections import deque
from functools import partial

READ_BYTES = 1 << 14
"""The most that one read takes. uvloop would take 256 KB, and up to 32 times in a row from a host that is fast enough.

A piece costs 5 % more instructions than with uvloop's own reads."""


class Turns:
    """Connections of a loop that have more to read. One reads in each round of the loop, so that other work is not delayed."""

    __slots__ = ("_waiting", "buffer", "get_buffer")

    def __init__(self) -> None:
        self.buffer = memoryview(bytearray(READ_BYTES))
        """Shared: each read is processed before the next one begins."""
        self.get_buffer = partial(getattr, self, "buffer")
        """Called for each read with a size hint, which `getattr` takes as its default. Costs no Python call."""
        self._waiting: deque[PausedReading] = deque()

    def wait(self, connection: "PausedReading") -> None:
        self._waiting.append(connection)
        if len(self._waiting) == 1:
            connection.loop.call_soon(self._let_read, connection.loop)

    def _let_read(self, loop: asyncio.AbstractEventLoop) -> None:
        waiting = self._waiting
        while waiting:
            if waiting.popleft().take_turn():
                break
        if waiting:
            loop.call_soon(self._let_read, loop)


class PausedReading(asyncio.BufferedProtocol):
    """Reads from its transport unless it is paused."""

    __slots__ = ("_buffer", "_is_paused", "_transport", "_turns", "_waits", "get_buffer", "loop")

    def __init__(self, turns: Turns) -> None:
        self._turns, self._buffer = turns, turns.buffer
        self.get_buffer = turns.get_buffer  # type: ignore[method-assign]  # saves a Python call for each read
        self._transport: asyncio.Transport | None = None
        self._is_paused = self._waits = False
        self.loop = asyncio.get_running_loop()
        """Kept because asking for the running loop is a system call."""

    def pause(self) -> None:
        self._is_paused = True
        self._stop_reading()

    def resume(self) -> None:
        """Read again when it is this connection's turn: many callers may begin to read at once."""
        if self._is_paused:
            self._is_paused = False
            self._wait()

    def read_in_turn(self) -> None:
        """Called after a full read: leave the rest for the next turn."""
        self._stop_reading()
        self._wait()

    def take_turn(self) -> bool:
        """Returns whether it reads now."""
        self._waits = False
        transport = self._transport
        if self._is_paused or transport is None or transport.is_closing():
            return False
        transport.resume_reading()
        return True

    def _stop_reading(self) -> None:
        if self._transport is not None and not self._transport.is_closing():
            self._transport.pause_reading()

    def _wait(self) -> None:
        if not self._waits:
            self._waits = True
            self._turns.wait(self)
