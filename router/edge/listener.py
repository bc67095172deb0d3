"""Accepts connections, limited per address, and pauses while file handles are short.

The event loop does the accepting, without limits of its own: out of handles, asyncio logs an error for each waiting connection,
and uvloop drops callers who could wait. Over TLS a connection counts before its handshake.
"""

import asyncio
import contextlib
import os
import resource
import select
import socket
import ssl
import sys
import time
from asyncio.sslproto import SSLProtocol
from collections.abc import Callable
from typing import Any, cast

from router.loop.tasks import spawn
from router.telemetry import events

YOUNG_SECONDS = 0.5
"""How long a stop waits for the first request of a new connection: balancers connect when they have one to send."""
_AT_ONCE = 1
"""One per turn of the loop, so that each is counted before the next."""
BACKLOG = 2048
_MAX_UNSENT_BYTES = 65_536
"""What the kernel takes for a caller beyond what is on its way: else up to 4 MB, made in vain for one that reads slowly."""
_PAUSE_SECONDS = 0.1
_QUIET_SECONDS = 60.0
"""Repeated events within this time are not logged again."""
_MAX_SPARE_HANDLES = 64
"""Handles kept for targets and the ledger."""
_ON_THEIR_WAY = 4
"""Handles in use before a pause begins: the loop's listening socket, and connections not yet counted."""
_LINK_LOCAL = b"\xfe\x80"
_MAPPED = b"\0" * 10 + b"\xff\xff"


class Place:
    """A slot in an address's connection limit. The connection's last protocol frees it."""

    __slots__ = ("_is_taken", "_open", "_origin")

    def __init__(self, open_connections: dict[str | bytes, int], origin: str | bytes) -> None:
        self._open, self._origin, self._is_taken = open_connections, origin, True
        open_connections[origin] = open_connections.get(origin, 0) + 1

    def free(self) -> None:
        """A second call does nothing."""
        if not self._is_taken:
            return
        self._is_taken = False
        if left := self._open[self._origin] - 1:
            self._open[self._origin] = left
        else:
            del self._open[self._origin]


class Listener:
    def __init__(
        self,
        listening: socket.socket,
        make_protocol: Callable[[Place], asyncio.Protocol],
        max_per_address: Callable[[], int],
        *,
        tls: ssl.SSLContext | None = None,
        handshake_seconds: Callable[[], float] | None = None,
        closing_seconds: Callable[[], float] | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`handshake_seconds` bounds a TLS handshake; `closing_seconds`, a caller's time to read the rest and confirm."""
        self._listening, self._make_protocol, self._max_per_address = listening, make_protocol, max_per_address
        self._handshake_seconds, self._closing_seconds = handshake_seconds, closing_seconds
        self._tls, self._clock = tls, clock
        self._loop = asyncio.get_running_loop()
        self._server: asyncio.Server | None = None
        self._open: dict[str | bytes, int] = {}
        """By origin, without zeros: bounded by the handle limit."""
        self._paused: asyncio.TimerHandle | None = None
        self._is_closed = False
        self._refused, self._refusal_at, self._pause_at = 0, -_QUIET_SECONDS, -_QUIET_SECONDS

    @property
    def connections(self) -> int:
        return sum(self._open.values())

    @property
    def is_paused(self) -> bool:
        return self._paused is not None

    def is_serving(self) -> bool:
        return not self._is_closed

    async def start(self) -> None:
        """Accept connections. The loop gets a duplicate handle, so that the socket listens on during a pause."""
        with contextlib.suppress(OSError):  # inherited by the connections
            self._listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NOTSENT_LOWAT, _MAX_UNSENT_BYTES)
        server = await self._loop.create_server(lambda: _Door(self), sock=self._listening.dup(), backlog=_AT_ONCE)
        self._listening.listen(BACKLOG)
        if self._is_closed or self._paused is not None:  # paused by a connection accepted before this point
            server.close()
        else:
            self._server = server

    @property
    def has_waiting(self) -> bool:
        """Whether a caller waits to be accepted: closing the socket would cut it off."""
        if self._is_closed:
            return False
        waiting = select.poll()
        waiting.register(self._listening, select.POLLIN)
        return bool(waiting.poll(0))

    def close(self) -> None:
        """Stop accepting. The socket and open connections stay open."""
        self._is_closed = True
        self._stop_accepting()
        if self._paused is not None:
            self._paused.cancel()

    def take(self, transport: asyncio.BaseTransport) -> Place | None:
        """A slot for a new connection, if its address may have one more."""
        if not self._has_handles() and self._paused is None:
            self._pause()
        peer = transport.get_extra_info("peername")
        if peer is None:  # the caller has left
            return None
        origin = origin_of(peer[0])
        if self._open.get(origin, 0) < (limit := self._max_per_address()):
            return Place(self._open, origin)
        self._refuse(origin, limit)
        return None

    def make_protocol(self, transport: asyncio.Transport, place: Place) -> asyncio.BaseProtocol:
        """The protocol of an accepted connection. Over TLS the event loop's calls ours after the handshake."""
        first = self._make_protocol(place)
        return first if self._tls is None else self._behind_tls(self._tls, first, transport, place)

    def _behind_tls(
        self, tls: ssl.SSLContext, first: asyncio.Protocol, transport: asyncio.Transport, place: Place
    ) -> asyncio.BaseProtocol:
        def settle(done: asyncio.Future[None]) -> None:
            if done.exception() is not None or transport.is_closing():  # then `first` never learns of the end
                place.free()

        shaken = self._loop.create_future()
        shaken.add_done_callback(settle)
        made: asyncio.BaseProtocol = tls_protocol_of(self._loop)(
            self._loop,
            first,
            tls,
            shaken,
            server_side=True,
            ssl_handshake_timeout=self._handshake_seconds() if self._handshake_seconds is not None else None,
            ssl_shutdown_timeout=self._closing_seconds() if self._closing_seconds is not None else None,
        )
        return made

    def _has_handles(self) -> bool:
        """Whether handles remain besides the spare ones.

        A new handle gets the lowest free number, so one probe is enough. After a shortage high numbers are in use and a low one
        may be the last: then as many as needed are probed.
        """
        limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        if limit == resource.RLIM_INFINITY:
            return True
        spare = min(_MAX_SPARE_HANDLES, limit // 8)
        wanted = spare + _ON_THEIR_WAY if self._clock() - self._pause_at < _QUIET_SECONDS else 1
        tried: list[int] = []
        try:
            while len(tried) < wanted:
                tried.append(os.dup(self._listening.fileno()))
        except OSError:
            return False
        finally:
            for handle in tried:
                os.close(handle)
        return tried[0] < limit - spare

    def _stop_accepting(self) -> None:
        if self._server is not None:
            self._server.close()
            self._server = None

    def _pause(self) -> None:
        self._stop_accepting()
        self._paused = self._loop.call_later(_PAUSE_SECONDS, self._look_again)
        if self._clock() - self._pause_at >= _QUIET_SECONDS:
            events.accept_paused(connections=self.connections, handles=resource.getrlimit(resource.RLIMIT_NOFILE)[0])
        self._pause_at = self._clock()

    def _look_again(self) -> None:
        if self._has_handles():
            self._paused = None
            spawn(self.start(), name="accept again", loop=self._loop)
        else:
            self._pause_at = self._clock()
            self._paused = self._loop.call_later(_PAUSE_SECONDS, self._look_again)

    def _refuse(self, origin: str | bytes, limit: int) -> None:
        """Count a refusal, and log at most one a minute."""
        self._refused += 1
        if self._clock() - self._refusal_at >= _QUIET_SECONDS:
            events.connections_refused(address=write_origin(origin), limit=limit, refused=self._refused)
            self._refusal_at, self._refused = self._clock(), 0


class _Door(asyncio.Protocol):
    """A connection's first protocol: counts it, then lets it in or closes it."""

    __slots__ = ("_listener",)

    def __init__(self, listener: Listener) -> None:
        self._listener = listener

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        accepted = cast("asyncio.Transport", transport)
        place = self._listener.take(accepted)
        if place is None:
            accepted.abort()
            return
        first = self._listener.make_protocol(accepted, place)
        accepted.set_protocol(first)
        first.connection_made(accepted)


def origin_of(address: str) -> str | bytes:
    """An IPv4 address, an IPv6 /64, which one caller usually has whole, or a link-local address, whose /64 is shared."""
    if ":" not in address:
        return address
    packed = socket.inet_pton(socket.AF_INET6, address.partition("%")[0])
    if packed.startswith(_MAPPED):
        return socket.inet_ntop(socket.AF_INET, packed[12:])
    return packed if packed.startswith(_LINK_LOCAL) else packed[:8]


def write_origin(origin: str | bytes) -> str:
    if isinstance(origin, str):
        return origin
    network = "" if len(origin) == 16 else "/64"
    return socket.inet_ntop(socket.AF_INET6, origin.ljust(16, b"\0")) + network


def tls_protocol_of(loop: asyncio.AbstractEventLoop) -> Any:
    """The event loop's TLS protocol. uvloop's is in C and takes asyncio's arguments.

    Neither is documented; the documented `start_tls` loses bytes that the caller sends before it is called.
    """
    uvloop = sys.modules.get("uvloop.loop")
    return uvloop.SSLProtocol if uvloop is not None and isinstance(loop, uvloop.Loop) else SSLProtocol
