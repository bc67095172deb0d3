"""Accepting connections: only so many from one address, and none while the process is short of file handles.

Both event loops can accept by themselves, but without handles asyncio's logs an error for each place in its backlog, and uvloop
drops callers who could have waited. Neither has a place to count connections before a TLS handshake.
"""

import asyncio
import errno
import os
import resource
import socket
import ssl
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial

from router.loop.tasks import spawn
from router.telemetry import events

_AT_ONCE = 64
"""Connections that are accepted before the loop does something else."""
_PAUSE_SECONDS = 0.1
_QUIET_SECONDS = 60.0
"""What happens again within this time is not logged again."""
_MAX_SPARE_HANDLES = 64
"""Handles that callers may not have: a request that is accepted needs one for its target, and the ledger needs some too."""
_EXHAUSTED = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)
_LINK_LOCAL = b"\xfe\x80"
_MAPPED = b"\0" * 10 + b"\xff\xff"


class _Counted(socket.socket):
    """A caller's socket. The event loop lets go of it when the connection is over, whichever protocol has it by then."""

    __slots__ = ("on_close",)

    on_close: Callable[[], None]

    def close(self) -> None:
        """Close it, as asyncio does."""
        if self.fileno() >= 0:
            self.on_close()
        super().close()

    def detach(self) -> int:
        """Give its handle away, as uvloop does, which closes that."""
        if self.fileno() >= 0:
            self.on_close()
        return super().detach()


class Listener:
    """Accepts the connections of one listening socket."""

    def __init__(
        self,
        listening: socket.socket,
        make_protocol: Callable[[], asyncio.Protocol],
        max_per_address: Callable[[], int],
        *,
        tls: ssl.SSLContext | None = None,
        handshake_seconds: Callable[[], float] | None = None,
        closing_seconds: Callable[[], float] | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """A TLS handshake may take `handshake_seconds`. A caller has `closing_seconds` to read the rest and confirm the end."""
        self._listening, self._make_protocol, self._max_per_address = listening, make_protocol, max_per_address
        self._tls, self._clock = tls, clock
        self._handshake_seconds, self._closing_seconds = handshake_seconds, closing_seconds
        self._loop = asyncio.get_running_loop()
        self._open: dict[str | bytes, int] = {}
        """Connections by origin. One without any is not listed, so the table is as small as the limit of handles."""
        self._paused: asyncio.TimerHandle | None = None
        self._is_closed = False
        self._refused, self._refusal_at, self._pause_at = 0, -_QUIET_SECONDS, -_QUIET_SECONDS
        self._loop.add_reader(listening.fileno(), self._accept_some)

    @property
    def connections(self) -> int:
        """How many are open."""
        return sum(self._open.values())

    @property
    def is_paused(self) -> bool:
        """Whether callers wait until there are file handles."""
        return self._paused is not None

    def is_serving(self) -> bool:
        """Whether connections are accepted, as of a loop's own server."""
        return not self._is_closed

    def close(self) -> None:
        """Accept no more. The listening socket stays open, and so do the connections."""
        self._is_closed = True
        if self._listening.fileno() >= 0:
            self._loop.remove_reader(self._listening.fileno())
        if self._paused is not None:
            self._paused.cancel()

    async def wait_closed(self) -> None:
        """As of a loop's own server, which uvicorn waits for."""

    def _accept_some(self) -> None:
        for _ in range(_AT_ONCE):
            if not self._has_handles():
                self._pause()
                return
            try:
                accepted, address = self._listening.accept()
            except OSError as error:  # nobody is waiting, or somebody who was has left
                if error.errno in _EXHAUSTED:
                    self._pause()
                return
            self._take(accepted, origin_of(address[0]))

    def _has_handles(self) -> bool:
        """Whether there are more handles than the spare ones. A new handle gets the lowest number that is free."""
        limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        try:
            os.close(lowest := os.dup(self._listening.fileno()))
        except OSError:
            return False
        return limit == resource.RLIM_INFINITY or lowest < limit - min(_MAX_SPARE_HANDLES, limit // 8)

    def _pause(self) -> None:
        """Let callers wait in the backlog until there are handles again."""
        self._loop.remove_reader(self._listening.fileno())
        self._paused = self._loop.call_later(_PAUSE_SECONDS, self._resume)
        if self._clock() - self._pause_at >= _QUIET_SECONDS:
            events.accept_paused(connections=self.connections, handles=resource.getrlimit(resource.RLIMIT_NOFILE)[0])
        self._pause_at = self._clock()

    def _resume(self) -> None:
        if self._has_handles():
            self._paused = None
            self._loop.add_reader(self._listening.fileno(), self._accept_some)
        else:
            self._pause_at = self._clock()
            self._paused = self._loop.call_later(_PAUSE_SECONDS, self._resume)

    def _take(self, accepted: socket.socket, origin: str | bytes) -> None:
        limit = self._max_per_address()
        if (already := self._open.get(origin, 0)) >= limit:
            accepted.close()
            self._refuse(origin, limit)
            return
        self._open[origin] = already + 1
        counted = _Counted(accepted.family, accepted.type, socket.IPPROTO_TCP, accepted.detach())
        counted.on_close = partial(self._forget, origin)
        spawn(self._connect(counted), name="accept", loop=self._loop)

    async def _connect(self, accepted: socket.socket) -> None:
        seconds = self._handshake_seconds() if self._tls is not None and self._handshake_seconds is not None else None
        closing = self._closing_seconds() if self._tls is not None and self._closing_seconds is not None else None
        with suppress(OSError):  # its handshake failed or took too long, and the event loop closes it
            await self._loop.connect_accepted_socket(
                self._make_protocol,
                accepted,
                ssl=self._tls,
                ssl_handshake_timeout=seconds,
                ssl_shutdown_timeout=closing,
            )

    def _forget(self, origin: str | bytes) -> None:
        if left := self._open[origin] - 1:
            self._open[origin] = left
        else:
            del self._open[origin]

    def _refuse(self, origin: str | bytes, limit: int) -> None:
        """Count a refusal, and log it at most once a minute: whoever floods us must not flood the log."""
        self._refused += 1
        if self._clock() - self._refusal_at >= _QUIET_SECONDS:
            events.connections_refused(address=write_origin(origin), limit=limit, refused=self._refused)
            self._refusal_at, self._refused = self._clock(), 0


def origin_of(address: str) -> str | bytes:
    """What counts as one address: an IPv4 address, or the /64 network of an IPv6 one, all of which one caller usually has.

    Link-local addresses count by themselves: all machines of a link share one such network.
    """
    if ":" not in address:
        return address
    packed = socket.inet_pton(socket.AF_INET6, address.partition("%")[0])
    if packed.startswith(_MAPPED):
        return socket.inet_ntop(socket.AF_INET, packed[12:])
    return packed if packed.startswith(_LINK_LOCAL) else packed[:8]


def write_origin(origin: str | bytes) -> str:
    """An origin as people write it."""
    if isinstance(origin, str):
        return origin
    network = "" if len(origin) == 16 else "/64"
    return socket.inet_ntop(socket.AF_INET6, origin.ljust(16, b"\0")) + network
