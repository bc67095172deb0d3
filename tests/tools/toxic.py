"""A TCP relay before an upstream that delays, slices, cuts or resets what passes."""

import asyncio
import contextlib
import random
import socket
import struct
from dataclasses import dataclass
from urllib.parse import urlsplit

from tests.tools.waiting import by_the_clock, later, some_turns


@dataclass(frozen=True)
class Toxics:
    """What happens to answers; nothing by default."""

    latency_seconds: float = 0.0
    jitter_seconds: float = 0.0
    bytes_per_second: float = 0.0
    slice_bytes: int = 0
    gathers_seconds: float = 0.0
    """How long a piece is held, to be sent with later ones."""
    limit_bytes: int | None = None
    """After this many bytes: `closes`, `resets`, `half-closes` or `hangs`."""
    then: str = "closes"
    close_seconds: float = 0.0
    """The delay of a connection's end."""
    is_black_hole: bool = False


class Toxic:
    """A relay to one address. Changed toxics apply from the next piece on."""

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        self._address, self._path = (parts.hostname, parts.port), parts.path
        self.toxics = Toxics()
        self.connections = 0
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task] = set()
        self._writers: set[asyncio.StreamWriter] = set()

    @property
    def port(self) -> int:
        return self._server.sockets[0].getsockname()[1]

    @property
    def base_url(self) -> str:
        return f"http://127.0.0.1:{self.port}{self._path}"

    async def __aenter__(self) -> "Toxic":
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def reset_all(self) -> None:
        for writer in list(self._writers):
            _reset(writer)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        self._tasks.add(task)
        self._writers.add(writer)
        self.connections += 1
        far: asyncio.StreamWriter | None = None
        try:
            if self.toxics.is_black_hole:
                await reader.read()
                return
            answer, far = await asyncio.open_connection(*self._address)
            _send_at_once(writer)
            asking = later(_pass(reader, far))
            telling = later(self._spoil(answer, writer))
            try:
                await asyncio.wait([asking, telling], return_when=asyncio.FIRST_COMPLETED)
            finally:
                for one in (asking, telling):
                    one.cancel()
                await asyncio.gather(asking, telling, return_exceptions=True)
        except (ConnectionError, asyncio.CancelledError):
            pass
        finally:
            for end in (writer, far):
                if end is not None:
                    end.close()
            self._writers.discard(writer)
            self._tasks.discard(task)

    async def _spoil(self, answer: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        passed = 0
        while data := await self._read(answer):
            for piece in _slices(data, self.toxics.slice_bytes):
                toxics = self.toxics
                if toxics.latency_seconds or toxics.jitter_seconds:
                    await by_the_clock(toxics.latency_seconds + random.uniform(0, toxics.jitter_seconds))
                if toxics.bytes_per_second:
                    await by_the_clock(len(piece) / toxics.bytes_per_second)
                if toxics.limit_bytes is not None and passed + len(piece) > toxics.limit_bytes:
                    writer.write(piece[: max(0, toxics.limit_bytes - passed)])
                    await _end(writer, toxics.then)
                    return
                passed += len(piece)
                writer.write(piece)
                await writer.drain()
                await by_the_clock(0)  # the reader shares this loop, and must see each slice
        await by_the_clock(self.toxics.close_seconds)

    async def _read(self, answer: asyncio.StreamReader) -> bytes:
        data = await answer.read(1 << 16)
        if self.toxics.gathers_seconds and data:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self.toxics.gathers_seconds):
                    while more := await answer.read(1 << 16):
                        data += more
        return data


async def _pass(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await reader.read(1 << 16):
        writer.write(data)
        await writer.drain()


async def _end(writer: asyncio.StreamWriter, how: str) -> None:
    await some_turns()  # a reset drops what is still in the socket
    if how == "resets":
        _reset(writer)
    elif how == "half-closes":
        writer.write_eof()
        await asyncio.Event().wait()
    elif how == "hangs":
        await asyncio.Event().wait()


def _slices(data: bytes, size: int) -> list[bytes]:
    return [data[place : place + size] for place in range(0, len(data), size)] if size else [data]


def _send_at_once(writer: asyncio.StreamWriter) -> None:
    writer.get_extra_info("socket").setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)


def _reset(writer: asyncio.StreamWriter) -> None:
    writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.transport.abort()


@contextlib.contextmanager
def deaf_port():
    """A port with a full queue: connections hang as behind a firewall that drops packets."""
    with contextlib.ExitStack() as stack:
        listener = stack.enter_context(socket.socket())
        listener.bind(("127.0.0.1", 0))
        listener.listen(0)
        for _ in range(4):
            caller = stack.enter_context(socket.socket())
            caller.setblocking(False)
            with contextlib.suppress(BlockingIOError):
                caller.connect(listener.getsockname())
        yield listener.getsockname()[1]
