"""One call: from its connection to the last byte, with its timeouts and its one second chance."""

import asyncio
from typing import Protocol

from router.contract.errors import UpstreamCut, UpstreamError, UpstreamMalformed, UpstreamTimeout, UpstreamUnreachable
from router.contract.relay import Sink, UpstreamRequest
from router.telemetry.tasks import spawn
from router.upstream.connection import CannotConnect, Connection, Seen


class Origin(Protocol):
    """Where a call gets its connections. What it got belongs to the call until it is given back or dropped."""

    def take(self) -> Connection | None:
        """A warm connection, if there is one."""
        ...

    async def connect(self, within_seconds: float) -> Connection:
        """A fresh connection. Raises `CannotConnect`."""
        ...

    def give_back(self, connection: Connection) -> None:
        """Hand over a connection that has nothing under way and may serve again."""
        ...


class Call:
    """Owns one connection for one request. Every way that it can fail reaches the sink as one of our errors, once."""

    __slots__ = (
        "_connection",
        "_has_headers",
        "_head",
        "_is_over",
        "_is_paused",
        "_is_warm",
        "_loop",
        "_origin",
        "_request",
        "_sink",
        "_timer",
        "_waiting_since",
    )

    def __init__(self, origin: Origin, request: UpstreamRequest, head: bytes, sink: Sink) -> None:
        self._origin, self._request, self._head, self._sink = origin, request, head, sink
        self._loop = asyncio.get_running_loop()
        self._connection: Connection | None = None
        self._is_warm = False
        self._timer: asyncio.TimerHandle | None = None
        self._has_headers = False
        self._is_over = False
        self._is_paused = False
        self._waiting_since = 0.0
        sink.feed_from(self)

    def begin(self) -> None:
        """Send the request, over a warm connection if there is one."""
        connection = self._origin.take()
        if connection is not None:
            self._send(connection, is_warm=True)
        else:
            spawn(self._connect(), name=f"connect {self._request.target}")

    async def _connect(self) -> None:
        try:
            connection = await self._origin.connect(self._request.timeouts.connect_seconds)
            self._send(connection, is_warm=False)
        except CannotConnect as error:
            self._fail(UpstreamUnreachable, f"could not be reached: {error}")
        except BaseException:
            # The sink must be told of every end, even after a bug of ours: no timer runs yet that would end the call.
            self._fail(UpstreamUnreachable, "could not be reached: the connection could not be set up")
            raise

    def _send(self, connection: Connection, *, is_warm: bool) -> None:
        if self._is_over:
            self._origin.give_back(connection)
            return
        if not connection.is_usable:
            self._fail(UpstreamUnreachable, "closed the connection without an answer")
            return
        self._connection, self._is_warm = connection, is_warm
        self._waiting_since = self._loop.time()
        connection.send(self, self._sink, self._head, self._request.body)
        if self._is_paused:
            connection.pause()
        # An answer that comes in one piece takes as long as the model writes: only the request's deadline bounds it.
        if self._timer is None and self._request.waits_for_first_byte:
            self._timer = self._loop.call_later(self._limit(), self._check)

    # What the connection tells its owner.

    def headers_seen(self) -> None:
        """From now on the wait is for the next piece. An answer that came in one read never gets here, nor sets a timer."""
        self._has_headers = True
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._loop.call_later(self._limit(), self._check)

    def completed(self, *, may_reuse: bool) -> None:
        """Give the connection back, or close it. The sink is told by the connection, after this."""
        connection = self._connection
        self._end()
        if connection is None:
            return
        if may_reuse:
            self._origin.give_back(connection)
        else:
            connection.drop()

    def lost(self, seen: Seen) -> None:
        """Try once more if the target closed an idle connection just as we wrote to it; else the call has failed."""
        self._connection = None
        if self._is_warm and seen is Seen.NOTHING and not self._is_over:
            spawn(self._connect(), name=f"connect {self._request.target}")
        elif seen is Seen.HEADERS:
            self._fail(UpstreamCut, "closed the connection in the middle of its answer")
        else:
            self._fail(UpstreamUnreachable, "closed the connection without an answer")

    def malformed(self, reason: str) -> None:
        """The bytes are not a valid answer."""
        self._fail(UpstreamMalformed, f"sent an invalid answer: {reason}")

    # What the sink, or whoever asked, tells the call.

    def pause(self) -> None:
        """The reader is slow."""
        self._is_paused = True
        if self._connection is not None:
            self._connection.pause()

    def resume(self) -> None:
        """The reader caught up."""
        self._is_paused = False
        self._waiting_since = self._loop.time()
        if self._connection is not None:
            self._connection.resume()

    def cancel(self) -> None:
        """Hang up now."""
        connection = self._connection
        self._end()
        if connection is not None:
            connection.drop()

    def _fail(self, kind: type[UpstreamError], what: str) -> None:
        if not self._is_over:
            self._end()
            name = self._request.target
            self._sink.fail(kind(name, f'target "{name}" {what}'))

    def _end(self) -> None:
        self._is_over = True
        self._connection = None
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _limit(self) -> float:
        timeouts = self._request.timeouts
        return timeouts.stall_seconds if self._has_headers else timeouts.first_byte_seconds

    def _silent_seconds(self) -> float:
        """How long nothing has arrived. Bytes of unfinished headers do not count: the wait for an answer goes on."""
        if self._is_paused:
            return 0.0
        since = self._waiting_since
        if self._has_headers and self._connection is not None:
            since = max(since, self._connection.last_read_at)
        return self._loop.time() - since

    def _check(self) -> None:
        """One timer for all waits: it checks how long nothing has arrived, and sleeps for the rest."""
        limit, silent = self._limit(), self._silent_seconds()
        if silent < limit - 0.001:
            self._timer = self._loop.call_later(limit - silent, self._check)
            return
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.drop()
        what = f"sent nothing for {limit:g} s in mid-answer" if self._has_headers else f"did not begin to answer in {limit:g} s"
        self._fail(UpstreamTimeout, what)
