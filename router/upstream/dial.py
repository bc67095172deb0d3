"""Opening connections: plain, TLS, or TLS inside a tunnel through a proxy."""

import asyncio
import contextlib
import os
import socket
import ssl
from collections.abc import Callable
from functools import partial
from typing import TypeVar

from router.contract.clock import CLOCK
from router.contract.relay import Tls
from router.upstream.address import Address, Proxy
from router.upstream.connection import CannotConnect, Connection
from router.upstream.reading import Turns

_MAX_PROXY_ANSWER_BYTES = 16_384
_P = TypeVar("_P", bound=asyncio.BaseProtocol)


class Dialer:
    """Opens connections, which read in turns, with one TLS context per target."""

    def __init__(self) -> None:
        self._turns = Turns()
        self._contexts: dict[Tls | None, tuple[list[int], ssl.SSLContext]] = {}

    async def dial(self, address: Address, tls: Tls | None, within_seconds: float) -> Connection:
        """Raises `CannotConnect` with the reason."""
        return await self.dial_for(Connection, address, tls, within_seconds)

    async def dial_for(self, make: Callable[[Turns], _P], address: Address, tls: Tls | None, within_seconds: float) -> _P:
        began = asyncio.get_running_loop().time()
        try:
            async with asyncio.timeout(within_seconds):
                return await self._dial(partial(make, self._turns), address, tls)
        except TimeoutError as error:
            if CLOCK.has_paused(began, asyncio.get_running_loop().time()):
                return await self.dial_for(make, address, tls, within_seconds)
            way = f" through the proxy in {address.proxy.variable}" if address.proxy is not None else ""
            raise CannotConnect(f"no connection{way} within {within_seconds:g} s") from error
        except ssl.SSLError as error:
            raise CannotConnect(f"TLS failed ({error.reason or 'handshake'})") from error
        except socket.gaierror as error:
            raise CannotConnect("host name does not resolve") from error
        except OSError as error:
            raise CannotConnect("connection failed") from error

    async def _dial(self, make: Callable[[], _P], address: Address, tls: Tls | None) -> _P:
        context = self._context(tls) if address.is_tls else None
        if address.proxy is not None:
            return await _dial_through(make, address, address.proxy, context)
        transport, connection = await asyncio.get_running_loop().create_connection(
            make, address.host, address.port, ssl=context, server_hostname=address.host if context else None
        )
        _set_no_delay(transport)
        return connection

    def _context(self, tls: Tls | None) -> ssl.SSLContext:
        """Files that were replaced are loaded again; until they can be used, the old context is."""
        marks = [_modified_at(path) for path in (tls.ca_file, tls.client_cert) if path] if tls is not None else []
        known = self._contexts.get(tls)
        if known is not None and known[0] == marks:
            return known[1]
        try:
            context = ssl.create_default_context(cafile=tls.ca_file if tls else None)
            if tls is not None and tls.client_cert:
                context.load_cert_chain(tls.client_cert)
        except OSError:
            if known is None:
                raise
            return known[1]
        self._contexts[tls] = marks, context
        return context


def _modified_at(path: str) -> int:
    try:
        return os.stat(path).st_mtime_ns
    except OSError:
        return 0


async def _dial_through(make: Callable[[], _P], address: Address, proxy: Proxy, context: ssl.SSLContext | None) -> _P:
    sock = await _open_tunnel(f"{address.host}:{address.port}", proxy)
    try:
        loop = asyncio.get_running_loop()
        transport, connection = await loop.create_connection(make, sock=sock, ssl=context, server_hostname=address.host)
    except BaseException:
        sock.close()
        raise
    _set_no_delay(transport)
    return connection


async def _open_tunnel(target: str, proxy: Proxy) -> socket.socket:
    """A socket to the target. Failures up to here are the proxy's."""
    named = f"the proxy in {proxy.variable}"
    if not proxy.host:
        raise CannotConnect(
            f"{named} is not an address such as http://host:port. Special characters in a password must be percent-encoded"
        )
    if not proxy.is_supported:
        raise CannotConnect(f"{named} is a {proxy.scheme}:// proxy, which is not supported: only http:// proxies are")
    loop = asyncio.get_running_loop()
    try:
        found = await loop.getaddrinfo(proxy.host, proxy.port, type=socket.SOCK_STREAM)
    except OSError as error:
        raise CannotConnect(f"the host name of {named} does not resolve") from error
    family, kind, protocol, _, place = found[0]
    sock = socket.socket(family, kind, protocol)
    sock.setblocking(False)
    try:
        await loop.sock_connect(sock, place)
        status = await _ask_for_tunnel(sock, target, proxy)
    except OSError as error:
        sock.close()
        raise CannotConnect(f"{named} does not accept connections") from error
    except BaseException:
        sock.close()
        raise
    if status != "200":
        sock.close()
        raise CannotConnect(f"{named} {_say_refusal(status, has_credentials=bool(proxy.credentials))}")
    return sock


async def _ask_for_tunnel(sock: socket.socket, target: str, proxy: Proxy) -> str:
    """The proxy's status; empty if it hangs up or does not speak HTTP."""
    loop = asyncio.get_running_loop()
    credentials = f"proxy-authorization: {proxy.credentials}\r\n" if proxy.credentials else ""
    await loop.sock_sendall(sock, f"CONNECT {target} HTTP/1.1\r\nhost: {target}\r\n{credentials}\r\n".encode())
    answer = await _read_head(sock)
    version, _, rest = answer.partition(b" ")
    status = rest[:3].decode("ascii", "replace")
    return status if version.startswith(b"HTTP/") and status.isdigit() else ""


async def _read_head(sock: socket.socket) -> bytes:
    """Read up to the end of the headers. The rest belongs to the tunnel, so bytes are peeked first."""
    loop, head = asyncio.get_running_loop(), b""
    while b"\r\n\r\n" not in head and len(head) < _MAX_PROXY_ANSWER_BYTES:
        first = await loop.sock_recv(sock, 1)
        if not first:
            return b""
        head += first
        with contextlib.suppress(BlockingIOError):
            ahead = head + sock.recv(_MAX_PROXY_ANSWER_BYTES, socket.MSG_PEEK)
            end = ahead.find(b"\r\n\r\n") + 4
            head += sock.recv((end if end > 3 else len(ahead)) - len(head))
    return head


def _say_refusal(status: str, *, has_credentials: bool) -> str:
    if not status:
        return "closed the connection, or is not an HTTP proxy"
    if status == "407" and has_credentials:
        return "refused its user name and password (407)"
    if status == "407":
        return "requires a user name and a password (407)"
    return f"refused to open a connection to the target ({status})"


def _set_no_delay(transport: asyncio.BaseTransport) -> None:
    sock = transport.get_extra_info("socket")
    if sock is not None:
        with contextlib.suppress(OSError):
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
