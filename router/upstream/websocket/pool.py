"""Idle sockets of all sessions, and targets that take none."""

import asyncio
from collections import Counter, OrderedDict
from collections.abc import Iterable
from contextlib import suppress

from router.contract.caller import SessionKey
from router.contract.relay import Headers, Tls, UpstreamRequest
from router.dialects.transports import LITE, OF_A_PLAN, SPEAKS_SOCKETS
from router.loop.off_loop import OffLoop
from router.loop.tasks import spawn
from router.telemetry import events
from router.upstream.address import read_address
from router.upstream.connection import MAX_AGE_SECONDS, CannotConnect
from router.upstream.dial import Dialer
from router.upstream.websocket.socket import ClosedEarly, UpgradeRefused, UpstreamSocket, open_socket

_MAX_SOCKETS = 256
_MAX_IDLE_SECONDS = 300.0
_LOOK_SECONDS = 30.0
_LEFT_ALONE_SECONDS = 300.0
_USER_AGENT = ("user-agent", "tandem")
_OF_ONE_REQUEST = ("x-client-request-id", OF_A_PLAN)
"""Beginnings of per-request headers: a socket has those of the request that opened it."""
_OF_A_BODY = frozenset({"content-type", "accept", LITE})
_ABOUT_ONE_REQUEST = (400, 401, 403, 408, 413, 414, 429, 431)
"""Handshake refusals about one caller's key, limits or headers, not about sockets."""
_MAX_LOST = 3
"""Fresh sockets lost in a row until a target counts as taking none."""

SocketKey = tuple[str, str, Tls | None, Headers, SessionKey | None]
"""Target, address, TLS, headers with the key, session: equal for requests on one socket."""


class SocketPool:
    """One pool for all targets. Calls own busy sockets and claim their keys."""

    def __init__(self, dialer: Dialer, off_loop: OffLoop) -> None:
        self._dialer, self.off_loop = dialer, off_loop
        self._idle: OrderedDict[SocketKey, UpstreamSocket] = OrderedDict()
        self._claimed: set[SocketKey] = set()
        self._ahead: dict[SocketKey, asyncio.Task[None]] = {}
        self._left_alone: dict[tuple[str, str], float] = {}
        self._lost: Counter[tuple[str, str]] = Counter()
        self._too_large: dict[tuple[str, str], int] = {}
        self._is_looking = False
        self._used: frozenset[tuple[str, str]] | None = None
        """Targets of the current plan with their addresses; None before the first reload."""

    def key_of(self, request: UpstreamRequest, headers: Headers, session: SessionKey | None) -> SocketKey:
        steady = filter(_is_steady, (*request.headers, *headers))
        return request.target, request.url, request.tls, tuple(steady), session

    def claim(self, key: SocketKey) -> bool:
        """Fails while another request has the socket, and for targets that take none."""
        if key in self._claimed or self._is_left_alone(key):
            return False
        if key not in self._idle and len(self._idle) + len(self._claimed) >= _MAX_SOCKETS:
            if not self._idle:
                return False
            self._idle.popitem(last=False)[1].close()
        self._claimed.add(key)
        return True

    def take(self, key: SocketKey) -> UpstreamSocket | None:
        """The session's idle socket, or one opened ahead."""
        for kept in (key, (*key[:4], None)):
            socket = self._idle.pop(kept, None)
            if socket is not None and socket.is_usable and not self._is_too_old(socket):
                return socket
            if socket is not None:
                socket.close()
        return None

    async def connect(self, key: SocketKey, headers: Headers, within_seconds: float) -> UpstreamSocket:
        """Open a socket, or wait for one opened ahead. Raises `CannotConnect`."""
        if (ahead := self._ahead.get(spare := (*key[:4], None))) is not None and key != spare:
            await asyncio.wait({ahead})
            if (socket := self.take(key)) is not None:
                return socket
            if self._is_left_alone(key):
                raise CannotConnect("no WebSocket a moment ago")
        _, url, tls, steady, _ = key
        told = (*steady, *(header for header in headers if not _is_steady(header) and header[0] not in _OF_A_BODY))
        if all(name != _USER_AGENT[0] for name, _ in told):
            told = (_USER_AGENT, *told)
        try:
            return await open_socket(self._dialer, read_address(url), tls, told, within_seconds)
        except CannotConnect as error:
            if isinstance(error, ClosedEarly):
                self.note_lost(key, str(error))
            elif not (isinstance(error, UpgradeRefused) and error.status in _ABOUT_ONE_REQUEST):
                self.leave_alone(key, str(error))
            raise

    def leave_alone(self, key: SocketKey, reason: str) -> None:
        self._left_alone[key[:2]] = _now() + _LEFT_ALONE_SECONDS
        self._lost.pop(key[:2], None)
        events.socket_refused(target=key[0], reason=reason, seconds=_LEFT_ALONE_SECONDS)

    def note_lost(self, key: SocketKey, reason: str) -> None:
        """Leave a target alone after several fresh sockets lost without an answer."""
        self._lost[key[:2]] += 1
        if self._lost[key[:2]] >= _MAX_LOST:
            self.leave_alone(key, reason)

    def note_too_large(self, key: SocketKey, size: int) -> None:
        """Send messages of this size or more over HTTP: the target closed a socket for it."""
        self._too_large[key[:2]] = min(size, self._too_large.get(key[:2], size))

    def takes(self, key: SocketKey, size: int) -> bool:
        return size < self._too_large.get(key[:2], size + 1)

    def _is_left_alone(self, key: SocketKey) -> bool:
        return self._left_alone.get(key[:2], 0.0) > _now()

    def give_back(self, key: SocketKey, socket: UpstreamSocket) -> None:
        self._claimed.discard(key)
        self._lost.pop(key[:2], None)
        socket.release()
        if key in self._idle or not socket.is_usable or not self._is_used(key):
            socket.close()
            return
        self._idle[key] = socket
        if not self._is_looking:
            self._is_looking = True
            socket.loop.call_later(_LOOK_SECONDS, self._look)

    def release(self, key: SocketKey) -> None:
        self._claimed.discard(key)

    def connect_ahead(self, request: UpstreamRequest) -> None:
        """Open a socket for the next session, unless one is idle."""
        key = self.key_of(request, (), None)
        if not any(idle[:2] == key[:2] for idle in self._idle) and self.claim(key):
            seconds = request.timeouts.connect_seconds
            self._ahead[key] = spawn(self._connect_ahead(key, seconds), name=f"connect ahead {request.target}")

    async def _connect_ahead(self, key: SocketKey, within_seconds: float) -> None:
        try:
            with suppress(CannotConnect):  # the first request will see it
                self.give_back(key, await self.connect(key, (), within_seconds))
        finally:
            self.release(key)
            del self._ahead[key]

    def keep_only(self, used: Iterable[tuple[str, str]]) -> None:
        """Close sockets to other targets, busy ones once given back."""
        self._used = frozenset(used)
        for key in [key for key in self._idle if not self._is_used(key)]:
            self._idle.pop(key).close()

    def _is_used(self, key: SocketKey) -> bool:
        target, url = key[:2]
        return self._used is None or any(name == target and url.startswith(base) for name, base in self._used)

    def close(self) -> None:
        """Close idle sockets; busy ones end with their calls."""
        while self._idle:
            self._idle.popitem()[1].close()

    def _is_too_old(self, socket: UpstreamSocket) -> bool:
        return _now() - socket.made_at > MAX_AGE_SECONDS

    def _look(self) -> None:
        """Every 30 s, close sockets that are idle for too long, too old or dead."""
        now = _now()
        for key, socket in tuple(self._idle.items()):
            if now - socket.used_at > _MAX_IDLE_SECONDS or self._is_too_old(socket) or not socket.is_alive():
                del self._idle[key]
                socket.close()
        self._is_looking = bool(self._idle)
        if self._idle:
            next(iter(self._idle.values())).loop.call_later(_LOOK_SECONDS, self._look)


def _is_steady(header: tuple[str, str]) -> bool:
    name, value = header
    return not (name.startswith(_OF_ONE_REQUEST) or name in _OF_A_BODY or value.startswith(SPEAKS_SOCKETS))


def _now() -> float:
    return asyncio.get_running_loop().time()
