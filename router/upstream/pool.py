"""The router's `Upstream`: warm connections by address, and calls over them."""

from collections.abc import Iterable
from typing import TYPE_CHECKING

from router.contract.relay import PreparedRequest, Sink, Tls, UpstreamCall, UpstreamRequest, Used
from router.loop.speedups import Speedups
from router.upstream.address import Address, pool_key, read_address
from router.upstream.call import Origin, PreparedCall, write_fields
from router.upstream.dial import Dialer

if TYPE_CHECKING:
    from router.upstream.websocket.pool import SocketPool

_USER_AGENT = "tandem"


class Pool:
    """One pool for all targets. Calls own busy connections, origins idle ones."""

    def __init__(self, speedups: Speedups | None = None) -> None:
        self._origins: dict[str, Origin] = {}
        self._dialer, self._speedups = Dialer(), speedups or Speedups(plain=True)
        self._sockets: SocketPool | None = None
        """Made for the first target that is reached over WebSockets."""

    def open(self, request: UpstreamRequest, sink: Sink) -> UpstreamCall:
        return self.prepare(request).open(request.body, sink)

    def prepare(self, request: UpstreamRequest) -> PreparedRequest:
        address = read_address(request.url)
        prepared = PreparedCall(self._origin(address, request.tls), request, _write_head(request, address))
        if not request.over_websocket:
            return prepared
        from router.upstream.websocket.call import PreparedSocketCall

        return PreparedSocketCall(self._open_sockets(), request, prepared)

    def _open_sockets(self) -> "SocketPool":
        from router.upstream.websocket.pool import SocketPool

        if self._sockets is None:
            self._sockets = SocketPool(self._dialer, self._speedups.off_loop)
        return self._sockets

    def connect_ahead(self, request: UpstreamRequest) -> None:
        if request.over_websocket:
            self._open_sockets().connect_ahead(request)
        else:
            origin = self._origin(read_address(request.url), request.tls)
            origin.connect_ahead(request.timeouts.connect_seconds, request.target)

    def _origin(self, address: Address, tls: Tls | None) -> Origin:
        key = pool_key(address, tls)
        origin = self._origins.get(key)
        if origin is None:
            origin = self._origins[key] = Origin(address, tls, self._dialer, self._speedups.new_outbox())
        return origin

    def keep_only(self, used: Iterable[Used]) -> None:
        """Close connections to all other addresses, busy ones once their calls end."""
        ends = list(used)
        kept = {pool_key(read_address(end.base_url), end.tls) for end in ends}
        for key in self._origins.keys() - kept:
            self._origins.pop(key).retire()
        if self._sockets is not None:
            self._sockets.keep_only((end.target, end.base_url.rstrip("/")) for end in ends)

    async def close(self) -> None:
        """Drop idle connections; busy ones end with their calls."""
        for origin in self._origins.values():
            origin.close()
        if self._sockets is not None:
            self._sockets.close()


def _write_head(request: UpstreamRequest, address: Address) -> bytes:
    first = f"{request.method} {address.path} HTTP/1.1\r\n".encode("latin-1", "replace")
    named = (("user-agent", _USER_AGENT),) if request.names_tandem else ()
    return first + write_fields((("host", address.authority), *named, ("accept-encoding", "identity"), *request.headers))
