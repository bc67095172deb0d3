"""The `Upstream` of the router: warm connections by address, and calls over them."""

import asyncio
from contextlib import suppress

from router.contract.relay import PreparedRequest, Sink, Tls, UpstreamCall, UpstreamRequest
from router.loop.speedups import Speedups
from router.loop.tasks import spawn
from router.loop.together import Outbox
from router.upstream.address import Address, pool_key, read_address
from router.upstream.call import Call, PreparedCall, write_fields
from router.upstream.connection import CannotConnect, Connection
from router.upstream.dial import Dialer
from router.upstream.websocket.call import PreparedSocketCall
from router.upstream.websocket.pool import SocketPool

_MAX_IDLE = 128
_IDLE_SECONDS = 50.0
"""Most servers close an idle connection after a minute; going first saves the second try."""
_USER_AGENT = "tandem"


class PooledOrigin:
    """One address: the connections to it that are idle, which belong to it alone, and the way to open more."""

    __slots__ = ("_address", "_dialer", "_dialling", "_idle", "_outbox", "_tls")

    def __init__(self, address: Address, tls: Tls | None, dialer: Dialer, outbox: Outbox) -> None:
        self._address, self._tls, self._dialer, self._outbox = address, tls, dialer, outbox
        self._idle: list[Connection] = []
        self._dialling = 0

    def take(self) -> Connection | None:
        """The connection that was idle for the shortest time, if it is still good."""
        idle = self._idle
        while idle:
            connection = idle.pop()
            if connection.may_serve_after(_IDLE_SECONDS):
                return connection
            connection.drop()
        return None

    async def connect(self, within_seconds: float) -> Connection:
        """A fresh connection. Raises `CannotConnect`."""
        self._dialling += 1
        try:
            return await self._dialer.dial(self._address, self._tls, within_seconds)
        finally:
            self._dialling -= 1

    def send(self, call: Call, connection: Connection) -> None:
        """Send a call over a connection that was taken for it, together with those that are sent at the same time."""
        self._outbox.put(call.send_warm, connection)

    def give_back(self, connection: Connection) -> None:
        """Keep a connection that has nothing under way, unless too many wait already."""
        if len(self._idle) >= _MAX_IDLE:
            connection.drop()
        else:
            self._idle.append(connection)

    def connect_ahead(self, within_seconds: float, target: str) -> None:
        """Open a connection in the background, unless one is idle or on its way."""
        if not self._has_one():
            spawn(self._connect_ahead(within_seconds), name=f"connect ahead {target}")

    async def _connect_ahead(self, within_seconds: float) -> None:
        await asyncio.sleep(0)  # a request that is being sent just now may be dialling the same address
        if not self._has_one():
            with suppress(CannotConnect):  # the first request will see for itself
                self.give_back(await self.connect(within_seconds))

    def _has_one(self) -> bool:
        return bool(self._dialling) or any(idle.may_serve_after(_IDLE_SECONDS) for idle in self._idle)

    def close(self) -> None:
        """Drop what is idle."""
        while self._idle:
            self._idle.pop().drop()


class Pool:
    """One for all targets. What is at work belongs to its call, and what is idle to its origin."""

    def __init__(self, speedups: Speedups | None = None) -> None:
        self._origins: dict[str, PooledOrigin] = {}
        self._dialer, self._speedups = Dialer(), speedups or Speedups(plain=True)
        self._sockets = SocketPool(self._dialer, self._speedups.off_loop)

    def open(self, request: UpstreamRequest, sink: Sink) -> UpstreamCall:
        """Start a call, on a warm connection if there is one."""
        return self.prepare(request).open(request.body, sink)

    def prepare(self, request: UpstreamRequest) -> PreparedRequest:
        """Look up the address and write the head, for any number of calls."""
        address = read_address(request.url)
        prepared = PreparedCall(self._origin(address, request.tls), request, _write_head(request, address))
        return PreparedSocketCall(self._sockets, request, prepared) if request.over_websocket else prepared

    def connect_ahead(self, request: UpstreamRequest) -> None:
        """Have a connection ready for requests like this one."""
        if request.over_websocket:
            self._sockets.connect_ahead(request)
        else:
            origin = self._origin(read_address(request.url), request.tls)
            origin.connect_ahead(request.timeouts.connect_seconds, request.target)

    def _origin(self, address: Address, tls: Tls | None) -> PooledOrigin:
        key = pool_key(address, tls)
        origin = self._origins.get(key)
        if origin is None:
            origin = self._origins[key] = PooledOrigin(address, tls, self._dialer, self._speedups.new_outbox())
        return origin

    async def close(self) -> None:
        """Drop every idle connection; those at work end with their calls."""
        for origin in self._origins.values():
            origin.close()
        self._sockets.close()


def _write_head(request: UpstreamRequest, address: Address) -> bytes:
    first = f"{request.method} {address.path} HTTP/1.1\r\n".encode("latin-1", "replace")
    ours = (("host", address.authority), ("user-agent", _USER_AGENT), ("accept-encoding", "identity"))
    return first + write_fields((*ours, *request.headers))
