"""Warm connections by address, and opening new ones: plain, TLS, or through a proxy."""

import asyncio
import contextlib
import os
import socket
import ssl
from dataclasses import dataclass
from functools import lru_cache
from urllib.parse import urlsplit

from router.contract.relay import Sink, Tls, UpstreamRequest
from router.telemetry.tasks import spawn
from router.upstream.call import Call
from router.upstream.connection import Connection

_MAX_IDLE = 128
_IDLE_SECONDS = 50.0
"""Most servers close an idle connection after a minute; going first saves the second try."""
_USER_AGENT = "tandem"


@dataclass(frozen=True, slots=True)
class Address:
    """Where a URL leads, taken apart once."""

    host: str
    port: int
    is_tls: bool
    authority: str
    path: str
    proxy: tuple[str, int] | None


@lru_cache(maxsize=256)
def read_address(url: str) -> Address:
    """Take a URL apart, and find the proxy that the environment names for it."""
    parts = urlsplit(url)
    host, is_tls = parts.hostname or "", parts.scheme == "https"
    port = parts.port or (443 if is_tls else 80)
    return Address(host, port, is_tls, parts.netloc, parts.path or "/", _find_proxy(parts.scheme, host, parts.netloc))


def _find_proxy(scheme: str, host: str, authority: str) -> tuple[str, int] | None:
    if scheme != "https" or host in ("localhost", "::1") or host.startswith("127."):
        return None
    url = os.environ.get("HTTPS_PROXY") or os.environ.get("https_proxy")
    exceptions = os.environ.get("NO_PROXY") or os.environ.get("no_proxy") or ""
    if not url or _bypasses_proxy(authority, exceptions):
        return None
    parts = urlsplit(url if "//" in url else f"//{url}")
    return (parts.hostname or "", parts.port or 8080) if parts.hostname else None


def _bypasses_proxy(authority: str, exceptions: str) -> bool:
    """Whether `NO_PROXY` names this host: itself, a domain above it, or everything."""
    host = authority.rsplit("@")[-1].rsplit(":", 1)[0].lower()
    names = [name.strip().lower().lstrip(".") for name in exceptions.split(",") if name.strip()]
    return any(name == "*" or host == name.rsplit(":", 1)[0] or host.endswith(f".{name}") for name in names)


class Pool:
    """The `Upstream` of the house: one for all targets, keyed by address and TLS."""

    def __init__(self) -> None:
        self._idle: dict[str, list[Connection]] = {}
        self._contexts: dict[Tls | None, ssl.SSLContext] = {}

    def open(self, request: UpstreamRequest, sink: Sink) -> Call:
        """Start a call, on a warm connection if there is one."""
        address = read_address(request.url)
        call = Call(self, request, _write_head(request, address), sink)
        connection = self._take(_home(address, request.tls))
        if connection is not None:
            call.begin(connection)
        else:
            self.connect(call, request)
        return call

    def connect(self, call: Call, request: UpstreamRequest) -> None:
        """Open a fresh connection for a call."""
        task = spawn(self._connect(call, request), name=f"connect {request.target}")
        task.add_done_callback(lambda done: _tell_of_defect(done, call))

    async def _connect(self, call: Call, request: UpstreamRequest) -> None:
        address = read_address(request.url)
        try:
            async with asyncio.timeout(request.timeouts.connect_seconds):
                connection = await self._dial(address, request.tls)
        except TimeoutError:
            call.unreachable(f"no connection within {request.timeouts.connect_seconds:g} s")
            return
        except ssl.SSLError as error:
            call.unreachable(f"TLS failed ({error.reason or 'handshake'})")
            return
        except OSError as error:
            call.unreachable("its name does not resolve" if isinstance(error, socket.gaierror) else "no connection")
            return
        connection.home = _home(address, request.tls)
        call.begin(connection)

    async def _dial(self, address: Address, tls: Tls | None) -> Connection:
        loop = asyncio.get_running_loop()
        context = self._context(tls) if address.is_tls else None
        if address.proxy is not None:
            return await self._dial_through(address, address.proxy, context)
        transport, connection = await loop.create_connection(
            Connection, address.host, address.port, ssl=context, server_hostname=address.host if context else None
        )
        _set_no_delay(transport)
        return connection

    async def _dial_through(self, address: Address, proxy: tuple[str, int], context: ssl.SSLContext | None) -> Connection:
        """A tunnel through a proxy: CONNECT in plain text, then TLS with the target inside it."""
        loop = asyncio.get_running_loop()
        target = f"{address.host}:{address.port}"
        family, kind, protocol, _, place = (await loop.getaddrinfo(*proxy, type=socket.SOCK_STREAM))[0]
        sock = socket.socket(family, kind, protocol)
        sock.setblocking(False)
        try:
            await loop.sock_connect(sock, place)
            await loop.sock_sendall(sock, f"CONNECT {target} HTTP/1.1\r\nhost: {target}\r\n\r\n".encode())
            answer = b""
            while b"\r\n\r\n" not in answer and len(answer) < 16_384:
                piece = await loop.sock_recv(sock, 1)  # byte by byte: what follows the head belongs to the tunnel
                if not piece:
                    raise ConnectionError("the proxy hung up")
                answer += piece
            if answer.split(b" ", 2)[1:2] != [b"200"]:
                raise ConnectionError("the proxy refused the tunnel")
            transport, connection = await loop.create_connection(
                Connection, sock=sock, ssl=context, server_hostname=address.host
            )
        except BaseException:
            sock.close()
            raise
        _set_no_delay(transport)
        return connection

    def release(self, connection: Connection) -> None:
        """Take a connection back that is whole and may serve again."""
        idle = self._idle.setdefault(connection.home, [])
        if not connection.is_usable or len(idle) >= _MAX_IDLE:
            connection.drop()
            return
        connection.is_reused = True
        connection.idle_since = asyncio.get_running_loop().time()
        idle.append(connection)

    def _take(self, home: str) -> Connection | None:
        idle = self._idle.get(home)
        now = asyncio.get_running_loop().time()
        while idle:
            connection = idle.pop()
            if connection.is_usable and now - connection.idle_since < _IDLE_SECONDS:
                return connection
            connection.drop()
        return None

    def _context(self, tls: Tls | None) -> ssl.SSLContext:
        context = self._contexts.get(tls)
        if context is None:
            context = ssl.create_default_context(cafile=tls.ca_file if tls else None)
            if tls is not None and tls.client_cert:
                context.load_cert_chain(tls.client_cert)
            self._contexts[tls] = context
        return context

    async def close(self) -> None:
        """Drop every idle connection; those at work end with their calls."""
        for idle in self._idle.values():
            for connection in idle:
                connection.drop()
        self._idle.clear()


def _tell_of_defect(task: "asyncio.Task[None]", call: Call) -> None:
    """A call must hear of every failure, a defect of ours included: nobody else would end it."""
    if task.cancelled() or task.exception() is not None:
        call.unreachable("the connection could not be prepared")


@lru_cache(maxsize=256)
def _home(address: Address, tls: Tls | None) -> str:
    """What two connections must share to stand for each other."""
    return f"{'https' if address.is_tls else 'http'}://{address.host}:{address.port} {tls or ''}"


def _set_no_delay(transport: asyncio.BaseTransport) -> None:
    sock = transport.get_extra_info("socket")
    if sock is not None:
        with contextlib.suppress(OSError):
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)


def _write_head(request: UpstreamRequest, address: Address) -> bytes:
    lines = [
        f"{request.method} {address.path} HTTP/1.1",
        f"host: {address.authority}",
        f"user-agent: {_USER_AGENT}",
        "accept-encoding: identity",
        f"content-length: {len(request.body)}",
        *(f"{name}: {value}" for name, value in request.headers),
    ]
    return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1", "replace")
