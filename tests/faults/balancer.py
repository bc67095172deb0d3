"""A balancer like nginx with `docs/deploy/several/nginx.conf`: fewest requests first, kept connections, no resent POSTs."""

import asyncio
import contextlib
from collections import Counter
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass, field

from tests.tools.http import call
from tests.tools.waiting import later

REST_SECONDS = 2.0
_GONE = (OSError, asyncio.IncompleteReadError)
_BAD_GATEWAY = b"HTTP/1.1 502 Bad Gateway\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"
Link = tuple[asyncio.StreamReader, asyncio.StreamWriter]


@dataclass
class Backend:
    port: int
    is_ready: bool = True
    rests_until: float = 0.0
    active: int = 0
    served: int = 0
    idle: list[Link] = field(default_factory=list)

    async def connect(self) -> tuple[Link, str]:
        """The last used open connection or a new one, and which it is. Raises `OSError`."""
        while self.idle:
            reader, writer = self.idle.pop()
            if not reader.at_eof() and not writer.is_closing():
                return (reader, writer), "kept"
            writer.close()
        return await asyncio.open_connection("127.0.0.1", self.port, limit=1 << 24), "new"


class Balancer:
    """Spreads callers' requests. `failures` has what it could not serve."""

    def __init__(self, ports: Sequence[int]) -> None:
        self.port = 0
        self.backends = [Backend(port) for port in ports]
        self.failures: Counter[str] = Counter()
        self._tasks: set[asyncio.Task] = set()

    def backend_of(self, port: int) -> Backend:
        return next(backend for backend in self.backends if backend.port == port)

    async def watch(self, pause_seconds: float) -> None:
        """Poll each router's readiness."""
        while True:
            for backend in self.backends:
                try:
                    backend.is_ready = (await call(backend.port, "/readyz")).status == 200
                except _GONE:
                    backend.is_ready = False
            await asyncio.sleep(pause_seconds)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        self._tasks.add(task)
        try:
            with contextlib.suppress(*_GONE):
                while await self._forward(*await _read_request(reader), reader, writer):
                    pass
        except asyncio.CancelledError:
            pass
        finally:
            writer.close()
            self._tasks.discard(task)

    def close(self) -> None:
        for task in self._tasks:
            task.cancel()
        for backend in self.backends:
            for _, writer in backend.idle:
                writer.close()

    async def _forward(self, head: bytes, body: bytes, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        """Have a router serve a request. Returns whether the caller may reuse the connection."""
        for backend in self._order():
            try:
                link, kind = await backend.connect()
            except OSError:
                backend.rests_until = asyncio.get_running_loop().time() + REST_SECONDS
                continue
            backend.active += 1
            backend.served += 1
            try:
                return await self._exchange(backend, link, kind, head + body, (reader, writer))
            finally:
                backend.active -= 1
        self.failures["no router took the connection"] += 1
        writer.write(_BAD_GATEWAY)
        return False

    def _order(self) -> list[Backend]:
        now = asyncio.get_running_loop().time()
        fit = [backend for backend in self.backends if backend.is_ready and backend.rests_until <= now]
        return sorted(fit or self.backends, key=lambda backend: backend.active)

    async def _exchange(self, backend: Backend, link: Link, kind: str, request: bytes, caller: Link) -> bool:
        is_kept, writer = False, caller[1]
        try:
            link[1].write(request)
            try:
                head = await link[0].readuntil(b"\r\n\r\n")
            except _GONE as error:
                self.failures[f"a {kind} connection ended before an answer ({type(error).__name__})"] += 1
                writer.write(_BAD_GATEWAY)
                return False
            writer.write(head)
            if b" 101 " in head.partition(b"\r\n")[0]:
                await _join(link, caller)
                return False
            is_whole = await self._relay_body(head.lower(), link[0], writer)
            is_kept = is_whole and b"\r\nconnection: close" not in head.lower()
            return is_kept
        finally:
            if is_kept:
                backend.idle.append(link)
            else:
                link[1].close()

    async def _relay_body(self, head: bytes, source: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        """Relay an answer. Returns whether the caller got all of it."""

        async def take(reading: Callable[[], AsyncIterator[bytes]]) -> bool:
            pieces = reading()
            while True:
                try:
                    piece = await anext(pieces, None)
                except _GONE:
                    self.failures["an answer was cut"] += 1
                    return False
                if piece is None:
                    return True
                if writer.is_closing():
                    return False
                writer.write(piece)
                try:
                    await writer.drain()
                except OSError:  # the caller has left
                    return False

        return await take(lambda: _read_body(head, source))


async def _read_request(reader: asyncio.StreamReader) -> tuple[bytes, bytes]:
    """A request's body and head, without headers about its connection."""
    lines = (await reader.readuntil(b"\r\n\r\n")).split(b"\r\n")
    headers = {name.strip().lower(): value.strip() for name, _, value in (line.partition(b":") for line in lines[1:])}
    body = await reader.readexactly(int(headers.get(b"content-length", b"0")))
    if b"upgrade" not in headers:
        lines = [line for line in lines if not line.lower().startswith(b"connection:")]
    return b"\r\n".join(lines), body


async def _read_body(head: bytes, source: asyncio.StreamReader) -> AsyncIterator[bytes]:
    """The pieces of a body as written. Raises if it ends early."""
    if b"transfer-encoding: chunked" in head:
        while True:
            line = await source.readuntil(b"\r\n")
            size = int(line, 16)
            yield line + await source.readexactly(size + 2)
            if not size:
                return
    _, _, rest = head.partition(b"content-length:")
    yield await source.readexactly(int(rest.partition(b"\r\n")[0]))


async def _join(one: Link, other: Link) -> None:
    """Relay a socket in both directions until either side ends it."""

    async def pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(*_GONE):
            while data := await reader.read(1 << 16):
                writer.write(data)
                await writer.drain()
        writer.close()

    await asyncio.gather(pump(one[0], other[1]), pump(other[0], one[1]))


@contextlib.asynccontextmanager
async def balancer_of(ports: Sequence[int], probe_seconds: float | None) -> AsyncIterator[Balancer]:
    """Without `probe_seconds` it never asks for `/readyz`, like nginx."""
    balancer = Balancer(ports)
    server = await asyncio.start_server(balancer.serve, "127.0.0.1", 0, limit=1 << 24)
    balancer.port = server.sockets[0].getsockname()[1]
    watching = later(balancer.watch(probe_seconds)) if probe_seconds is not None else None
    try:
        yield balancer
    finally:
        if watching is not None:
            watching.cancel()
            await asyncio.gather(watching, return_exceptions=True)
        server.close()
        balancer.close()
