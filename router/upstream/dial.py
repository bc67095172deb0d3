"""Opening connections: plain, TLS, or TLS inside a tunnel through a proxy."""

import asyncio
import contextlib
import socket
import ssl
from collections.abc import Callable
from typing import TypeVar

from router.contract.relay import Tls
from router.upstream.address import Address
from router.upstream.connection import CannotConnect, Connection

_MAX_PROXY_ANSWER_BYTES = 16_384
_P = TypeVar("_P", bound=asyncio.Protocol)


class Dialer:
    """Opens connections. Every target's TLS context is made once."""

    def __init__(self) -> None:
        self._contexts: dict[Tls | None, ssl.SSLContext] = {}

    async def dial(self, address: Address, tls: Tls | None, within_seconds: float) -> Connection:
        """Open a connection. Raises `CannotConnect`, with the reason in words."""
        return await self.dial_for(Connection, address, tls, within_seconds)

    async def dial_for(self, make: Callable[[], _P], address: Address, tls: Tls | None, within_seconds: float) -> _P:
        """Open a connection for another protocol than that of one request after another."""
        try:
            async with asyncio.timeout(within_seconds):
                return await self._dial(make, address, tls)
        except TimeoutError as error:
            raise CannotConnect(f"no connection within {within_seconds:g} s") from error
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
        context = self._contexts.get(tls)
        if context is None:
            context = ssl.create_default_context(cafile=tls.ca_file if tls else None)
            if tls is not None and tls.client_cert:
                context.load_cert_chain(tls.client_cert)
            self._contexts[tls] = context
        return context


async def _dial_through(make: Callable[[], _P], address: Address, proxy: tuple[str, int], context: ssl.SSLContext | None) -> _P:
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
        while b"\r\n\r\n" not in answer and len(answer) < _MAX_PROXY_ANSWER_BYTES:
            piece = await loop.sock_recv(sock, 1)  # byte by byte: what follows the headers belongs to the tunnel
            if not piece:
                raise ConnectionError("the proxy closed the connection")
            answer += piece
        if answer.split(b" ", 2)[1:2] != [b"200"]:
            raise ConnectionError("the proxy refused the tunnel")
        transport, connection = await loop.create_connection(make, sock=sock, ssl=context, server_hostname=address.host)
    except BaseException:
        sock.close()
        raise
    _set_no_delay(transport)
    return connection


def _set_no_delay(transport: asyncio.BaseTransport) -> None:
    sock = transport.get_extra_info("socket")
    if sock is not None:
        with contextlib.suppress(OSError):
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
