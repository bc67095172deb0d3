"""The `Upstream` of the router: warm connections by address, and calls over them."""

from router.contract.relay import Sink, Tls, UpstreamRequest
from router.upstream.address import Address, pool_key, read_address
from router.upstream.call import Call, PreparedCall, write_fields
from router.upstream.connection import Connection
from router.upstream.dial import Dialer

_MAX_IDLE = 128
_IDLE_SECONDS = 50.0
"""Most servers close an idle connection after a minute; going first saves the second try."""
_USER_AGENT = "tandem"


class PooledOrigin:
    """One address: the connections to it that are idle, which belong to it alone, and the way to open more."""

    __slots__ = ("_address", "_dialer", "_idle", "_tls")

    def __init__(self, address: Address, tls: Tls | None, dialer: Dialer) -> None:
        self._address, self._tls, self._dialer = address, tls, dialer
        self._idle: list[Connection] = []

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
        return await self._dialer.dial(self._address, self._tls, within_seconds)

    def give_back(self, connection: Connection) -> None:
        """Keep a connection that has nothing under way, unless too many wait already."""
        if len(self._idle) >= _MAX_IDLE:
            connection.drop()
        else:
            self._idle.append(connection)

    def close(self) -> None:
        """Drop what is idle."""
        while self._idle:
            self._idle.pop().drop()


class Pool:
    """One for all targets. What is at work belongs to its call, and what is idle to its origin."""

    def __init__(self) -> None:
        self._origins: dict[str, PooledOrigin] = {}
        self._dialer = Dialer()

    def open(self, request: UpstreamRequest, sink: Sink) -> Call:
        """Start a call, on a warm connection if there is one."""
        return self.prepare(request).open(request.body, sink)

    def prepare(self, request: UpstreamRequest) -> PreparedCall:
        """Look up the address and write the head, for any number of calls."""
        address = read_address(request.url)
        return PreparedCall(self._origin(address, request.tls), request, _write_head(request, address))

    def _origin(self, address: Address, tls: Tls | None) -> PooledOrigin:
        key = pool_key(address, tls)
        origin = self._origins.get(key)
        if origin is None:
            origin = self._origins[key] = PooledOrigin(address, tls, self._dialer)
        return origin

    async def close(self) -> None:
        """Drop every idle connection; those at work end with their calls."""
        for origin in self._origins.values():
            origin.close()


def _write_head(request: UpstreamRequest, address: Address) -> bytes:
    first = f"{request.method} {address.path} HTTP/1.1\r\n".encode("latin-1", "replace")
    ours = (("host", address.authority), ("user-agent", _USER_AGENT), ("accept-encoding", "identity"))
    return first + write_fields((*ours, *request.headers))
