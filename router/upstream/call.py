"""One call from its connection to the last byte, with timeouts and one retry."""

import asyncio
import re
from contextlib import suppress

from msgspec import Struct

from router.contract.caller import SessionKey
from router.contract.clock import CLOCK
from router.contract.errors import (
    BadRequest,
    UpstreamCut,
    UpstreamError,
    UpstreamLost,
    UpstreamMalformed,
    UpstreamTimeout,
    UpstreamUnreachable,
)
from router.contract.relay import Headers, Sink, Tls, UpstreamRequest
from router.loop.tasks import spawn
from router.loop.together import Outbox
from router.upstream.address import Address
from router.upstream.connection import CannotConnect, Connection, Seen
from router.upstream.dial import Dialer

_MAX_IDLE = 128
_is_name = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+").fullmatch
"""A token of RFC 9110."""
_find_control = re.compile(r"[\x00-\x08\x0a-\x1f\x7f]").search


class Origin:
    """One address: its idle connections, and how to open more. A call owns a connection until it returns it."""

    __slots__ = ("_address", "_dialer", "_dialling", "_idle", "_max_idle", "_tls", "outbox")

    def __init__(self, address: Address, tls: Tls | None, dialer: Dialer, outbox: Outbox) -> None:
        self._address, self._tls, self._dialer = address, tls, dialer
        self.outbox = outbox
        """Batches calls over warm connections."""
        self._idle: list[Connection] = []
        self._dialling, self._max_idle = 0, _MAX_IDLE

    def take(self) -> Connection | None:
        """The most recently used connection, if still good."""
        idle = self._idle
        while idle:
            connection = idle.pop()
            if connection.may_serve_again():
                return connection
            connection.drop()
        return None

    async def connect(self, within_seconds: float) -> Connection:
        self._dialling += 1
        try:
            return await self._dialer.dial(self._address, self._tls, within_seconds)
        finally:
            self._dialling -= 1

    def give_back(self, connection: Connection) -> None:
        """Keep an idle connection, unless there are too many."""
        if len(self._idle) >= self._max_idle:
            connection.drop()
        else:
            self._idle.append(connection)

    def connect_ahead(self, within_seconds: float, target: str) -> None:
        """Open a connection in the background, unless one is idle or being opened."""
        if not self._has_one():
            spawn(self._connect_ahead(within_seconds), name=f"connect ahead {target}")

    async def _connect_ahead(self, within_seconds: float) -> None:
        await asyncio.sleep(0)  # a current request may be dialling this address
        if not self._has_one():
            with suppress(CannotConnect):  # the first request will report it
                self.give_back(await self.connect(within_seconds))

    def _has_one(self) -> bool:
        return not self._max_idle or bool(self._dialling) or any(idle.may_serve_again() for idle in self._idle)

    def close(self) -> None:
        while self._idle:
            self._idle.pop().drop()

    def retire(self) -> None:
        """Stop keeping connections, since no target has this address. Running calls finish."""
        self._max_idle = 0
        self.close()


class PreparedCall:
    """What calls of one kind share: connections, timeouts, and head.

    The head ends with the name of the length field, whose value each call writes. It holds the target's key, so nothing here is
    ever shown.
    """

    __slots__ = ("_head", "origin", "target", "timeouts", "waits_for_first_byte")

    def __init__(self, origin: Origin, request: UpstreamRequest, head: bytes) -> None:
        self.origin, self.target, self.timeouts = origin, request.target, request.timeouts
        self.waits_for_first_byte = request.waits_for_first_byte
        self._head = head + b"content-length: "

    def open(self, body: bytes, sink: Sink, headers: Headers = (), session: SessionKey | None = None) -> "Call":
        """Start a call, over a warm connection if possible."""
        more = write_fields(headers) if headers else b""
        call = Call(self, b"%b%d\r\n%b\r\n" % (self._head, len(body), more), body, sink)
        sink.feed_from(call)
        connection = self.origin.take()
        if connection is None:
            call.connect()
        else:
            self.origin.outbox.put(call.send, connection, call.send_late)
        return call


def check_fields(headers: Headers) -> None:
    """Refuse headers that would become other headers, or another request, on the wire. Raises `BadRequest`."""
    for name, value in headers:
        if not _is_name(name):
            raise BadRequest(f"header {name[:80]!a}: not a valid header name")
        if _find_control(value):
            raise BadRequest(f"header {name}: its value has a control character")


def write_fields(headers: Headers) -> bytes:
    """Header fields in wire format. Raises `BadRequest`."""
    check_fields(headers)
    return "".join([f"{name}: {value}\r\n" for name, value in headers]).encode("latin-1", "replace")


class Call(Struct, eq=False):
    """Owns one connection for one request. Every failure reaches the sink as one of our errors, once."""

    _prepared: PreparedCall
    _head: bytes
    _body: bytes
    _sink: Sink
    _connection: Connection | None = None
    _timer: asyncio.TimerHandle | None = None
    _is_warm: bool = True
    """Whether its connection has served before, so that the target may just have closed it."""
    _has_headers: bool = False
    _is_over: bool = False
    _is_paused: bool = False
    _waiting_since: float = 0.0

    __repr__ = object.__repr__  # never shown: it holds the target's key

    def connect(self) -> None:
        """Send the request over a new connection."""
        spawn(self._connect(), name=f"connect {self._prepared.target}")

    async def _connect(self) -> None:
        origin = self._prepared.origin
        try:
            connection = await origin.connect(self._prepared.timeouts.connect_seconds)
            self._is_warm = False
            if self._is_over:
                origin.give_back(connection)
            elif connection.is_usable:
                self.send(connection)
            else:
                self._fail(UpstreamUnreachable, "closed the connection without an answer")
        except CannotConnect as error:
            self._fail(UpstreamUnreachable, f"could not be reached: {error}")
        except BaseException:
            # The sink must learn of every end, even after a bug of ours: no timer runs yet.
            self._fail(UpstreamUnreachable, "could not be reached: the connection could not be set up")
            raise

    def send_late(self, connection: Connection) -> None:
        """Send over a warm connection after a wait: the call may be over, or the connection closed."""
        if self._is_over:
            self._prepared.origin.give_back(connection)
        elif connection.is_usable:
            self.send(connection)
        else:
            self.connect()

    def send(self, connection: Connection) -> None:
        self._connection = connection
        connection.send(self, self._sink, self._head, self._body)
        if self._is_paused:
            connection.pause()
        # A whole answer takes as long as the model writes: only the request's deadline bounds it, or the target's own limit.
        if self._prepared.waits_for_first_byte:
            self._waiting_since = connection.loop.time()
            if self._timer is None:
                self._timer = connection.loop.call_later(self._limit(), self._check)

    # Called by the connection.

    def headers_seen(self) -> None:
        """From now on wait for the next piece. An answer in one read skips this and its timer."""
        assert self._connection is not None
        self._has_headers = True
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._connection.loop.call_later(self._limit(), self._check)

    def completed(self, *, may_reuse: bool) -> None:
        """Return or close the connection, which then tells the sink."""
        connection = self._end()
        if connection is None:
            return
        if may_reuse:
            self._prepared.origin.give_back(connection)
        else:
            connection.drop()

    def lost(self, seen: Seen) -> None:
        """Retry once if the target closed an idle connection as we wrote; else fail."""
        self._connection = None
        if self._is_warm and seen is Seen.NOTHING and not self._is_over:
            self.connect()
        elif seen is Seen.HEADERS:
            self._fail(UpstreamCut, "closed the connection in the middle of its answer")
        else:
            self._fail(UpstreamLost, "closed the connection without an answer")

    def malformed(self, reason: str) -> None:
        self._fail(UpstreamMalformed, f"sent an invalid answer: {reason}")

    # Called by the sink or the call's owner.

    def pause(self) -> None:
        self._is_paused = True
        if self._connection is not None:
            self._connection.pause()

    def resume(self) -> None:
        self._is_paused = False
        if self._connection is not None:
            self._waiting_since = self._connection.loop.time()
            self._connection.resume()

    def cancel(self) -> None:
        connection = self._end()
        if connection is not None:
            connection.drop()

    def _fail(self, kind: type[UpstreamError], what: str) -> None:
        if not self._is_over:
            self._end()
            name = self._prepared.target
            self._sink.fail(kind(name, f'target "{name}" {what}'))

    def _end(self) -> Connection | None:
        """Drop all references; the caller decides about the connection."""
        connection, timer = self._connection, self._timer
        self._is_over, self._connection = True, None
        if timer is not None:
            timer.cancel()
            self._timer = None
        return connection

    def _limit(self) -> float:
        timeouts = self._prepared.timeouts
        return timeouts.stall_seconds if self._has_headers else timeouts.first_byte_seconds

    def _silent_seconds(self) -> float:
        """Time without data. Bytes of unfinished headers do not count."""
        if self._is_paused:
            return 0.0
        since = self._waiting_since
        if self._has_headers and self._connection is not None:
            since = max(since, self._connection.last_read_at)
        return CLOCK.ran(since, asyncio.get_running_loop().time())

    def _check(self) -> None:
        """One timer for all waits: checks the silence and sleeps for the rest."""
        limit, silent = self._limit(), self._silent_seconds()
        if silent < limit - 0.001:
            self._timer = asyncio.get_running_loop().call_later(limit - silent, self._check)
            return
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.drop()
        what = f"sent nothing for {limit:g} s in mid-answer" if self._has_headers else f"did not begin to answer in {limit:g} s"
        self._fail(UpstreamTimeout, what)
