"""A link of a given delay and rate, on loopback: what leaves one end arrives at the other as late as it would from far away.

Both directions have the rate for themselves, and all connections of a direction share it, as on one line. Bytes are counted.
"""

import asyncio
import contextlib
from collections import deque
from collections.abc import AsyncIterator
from typing import cast

_PIECE_BYTES = 4_096
_MAX_QUEUED_BYTES = 1 << 20


class Shaper:
    """When bytes arrive that are sent now: behind all that was sent before them, and after the delay."""

    def __init__(self, delay_seconds: float, bytes_per_second: float) -> None:
        self._delay, self._rate = delay_seconds, bytes_per_second
        self._free_at = 0.0
        self.bytes = 0

    def arrival(self, now: float, size: int) -> float:
        """The moment at which the last of `size` bytes is there."""
        self.bytes += size
        self._free_at = max(now, self._free_at) + size / self._rate
        return self._free_at + self._delay


class Link:
    """One line to a port of this machine."""

    def __init__(self, port: int, delay_seconds: float, bytes_per_second: float) -> None:
        self.target_port = port
        self.up = Shaper(delay_seconds, bytes_per_second)
        self.down = Shaper(delay_seconds, bytes_per_second)
        self.port = 0
        self.ends: set[_End] = set()


@contextlib.asynccontextmanager
async def open_link(port: int, *, round_trip_seconds: float, bits_per_second: float) -> AsyncIterator[Link]:
    """A link to a port, as long as it is used."""
    loop = asyncio.get_running_loop()
    link = Link(port, round_trip_seconds / 2, bits_per_second / 8)
    server = await loop.create_server(lambda: _NearEnd(link), "127.0.0.1", 0)
    link.port = server.sockets[0].getsockname()[1]
    try:
        yield link
    finally:
        server.close()
        for end in link.ends:
            end.transport.close()
        while link.ends:  # noqa: ASYNC110  a moment, once
            await asyncio.sleep(0.001)


class _End(asyncio.Protocol):
    """One end of a connection over the link: what it receives, the other end writes later."""

    def __init__(self, link: Link, shaper: Shaper) -> None:
        self._link, self._shaper = link, shaper
        self._loop = asyncio.get_running_loop()
        self._queue: deque[tuple[float, bytes]] = deque()
        """What is under way, and when it arrives. Nothing stands for the end."""
        self._queued_bytes = 0
        self._is_paused = False
        self._early: list[bytes] = []
        self.transport: asyncio.Transport
        self.other: _End | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)
        self._link.ends.add(self)

    def join(self, other: "_End") -> None:
        """Go on with the other end, which is there now."""
        self.other = other
        for data in self._early:
            self._send_all(data)
        self._early.clear()

    def data_received(self, data: bytes) -> None:
        if self.other is None:
            self._early.append(data)
        else:
            self._send_all(data)

    def connection_lost(self, error: Exception | None) -> None:
        self._link.ends.discard(self)
        self.data_received(b"")

    def _send_all(self, data: bytes) -> None:
        for begin in range(0, len(data) or 1, _PIECE_BYTES):
            self._send(data[begin : begin + _PIECE_BYTES])
        if self._queued_bytes > _MAX_QUEUED_BYTES and not self._is_paused:
            self._is_paused = True
            self.transport.pause_reading()

    def _send(self, piece: bytes) -> None:
        if not self._queue:
            self._loop.call_soon(self._deliver)
        self._queue.append((self._shaper.arrival(self._loop.time(), len(piece)), piece))
        self._queued_bytes += len(piece)

    def _deliver(self) -> None:
        """Hand on what has arrived, and come again for the rest. One timer for all: several may fire in another order."""
        arrived = []
        while self._queue and self._queue[0][0] <= self._loop.time():
            arrived.append(self._queue.popleft()[1])
        self._queued_bytes -= sum(map(len, arrived))
        if self._is_paused and self._queued_bytes <= _MAX_QUEUED_BYTES and not self.transport.is_closing():
            self._is_paused = False
            self.transport.resume_reading()
        if self._queue:
            self._loop.call_at(self._queue[0][0], self._deliver)
        other = self.other
        if other is not None and arrived and not other.transport.is_closing():
            other.transport.write(b"".join(arrived))
            if not arrived[-1]:
                other.transport.close()


class _NearEnd(_End):
    """The end to which the caller connects."""

    def __init__(self, link: Link) -> None:
        super().__init__(link, link.up)
        self._dialling: asyncio.Task[None] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self._dialling = self._loop.create_task(self._dial())

    async def _dial(self) -> None:
        link = self._link
        _, far = await self._loop.create_connection(lambda: _End(link, link.down), "127.0.0.1", link.target_port)
        far.join(self)
        self.join(far)
