"""One call: from the pool's connection to the last byte, with its timeouts and its one second chance."""

import asyncio
from typing import TYPE_CHECKING

from router.contract.errors import UpstreamCut, UpstreamMalformed, UpstreamTimeout, UpstreamUnreachable
from router.contract.relay import Sink, UpstreamRequest
from router.upstream.connection import Connection

if TYPE_CHECKING:
    from router.upstream.pool import Pool


class Call:
    """Watches one request. Every way that it can fail reaches the sink as one of our errors, once."""

    __slots__ = (
        "_connection",
        "_head",
        "_headed",
        "_is_over",
        "_is_paused",
        "_last",
        "_loop",
        "_pool",
        "_request",
        "_sink",
        "_timer",
    )

    def __init__(self, pool: "Pool", request: UpstreamRequest, head: bytes, sink: Sink) -> None:
        self._pool, self._request, self._head, self._sink = pool, request, head, sink
        self._loop = asyncio.get_running_loop()
        self._connection: Connection | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._headed = False
        self._is_over = False
        self._is_paused = False
        self._last = self._loop.time()
        sink.feed_from(self)

    def begin(self, connection: Connection) -> None:
        """Send the request over a connection that is open."""
        if self._is_over:
            self._pool.release(connection)
            return
        self._connection = connection
        self._last = self._loop.time()
        connection.send(self, self._sink, self._head, self._request.body)
        if self._is_paused:
            connection.pause()
        # An answer that comes in one piece takes as long as the model writes: only the request's deadline bounds it.
        if self._timer is None and self._request.waits_for_first_byte:
            self._timer = self._loop.call_later(self._limit(), self._check)

    def unreachable(self, reason: str) -> None:
        """No connection could be had."""
        self._end()
        name = self._request.target
        self._sink.fail(UpstreamUnreachable(name, f'target "{name}" could not be reached: {reason}'))

    def touch(self) -> None:
        """Something arrived. Before the head is whole that is no answer yet, and the wait for one goes on."""
        if self._headed:
            self._last = self._loop.time()

    def headed(self) -> None:
        """The head of the answer is here; from now on the wait is for the next piece."""
        self._headed = True
        self._last = self._loop.time()

    def watch(self) -> None:
        """More is to come behind the head. One timer watches for it; an answer that came in one read needs none."""
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._loop.call_later(self._limit(), self._check)

    def done(self, connection: Connection, *, may_reuse: bool) -> None:
        """The answer is whole; the sink is told by the connection, after this."""
        self._end()
        if may_reuse:
            self._pool.release(connection)
        else:
            connection.drop()

    def lost(self, connection: Connection) -> None:
        """The connection ended before the answer did."""
        self._connection = None
        name = self._request.target
        if connection.is_reused and not connection.answered and not self._is_over:
            # The target closed an idle connection as we wrote to it: nothing was answered, so a fresh one may be tried.
            self._pool.connect(self, self._request)
            return
        if self._is_over:
            return
        self._end()
        if self._headed:
            self._sink.fail(UpstreamCut(name, f'target "{name}" broke off its answer'))
        else:
            self._sink.fail(UpstreamUnreachable(name, f'target "{name}" closed the connection without an answer'))

    def malformed(self, reason: str) -> None:
        """What came is no answer."""
        if not self._is_over:
            self._end()
            name = self._request.target
            self._sink.fail(UpstreamMalformed(name, f'target "{name}" cannot be understood: {reason}'))

    def pause(self) -> None:
        """The reader is slow."""
        self._is_paused = True
        if self._connection is not None:
            self._connection.pause()

    def resume(self) -> None:
        """The reader caught up."""
        self._is_paused = False
        self._last = self._loop.time()
        if self._connection is not None:
            self._connection.resume()

    def cancel(self) -> None:
        """Hang up now."""
        connection = self._connection
        self._end()
        if connection is not None:
            connection.drop()

    def _end(self) -> None:
        self._is_over = True
        self._connection = None
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _limit(self) -> float:
        timeouts = self._request.timeouts
        if self._headed:
            return timeouts.stall_seconds
        return timeouts.first_byte_seconds

    def _check(self) -> None:
        """One timer for all waits: it looks how long nothing came, and sleeps for the rest."""
        limit = self._limit()
        silent = 0.0 if self._is_paused else self._loop.time() - self._last
        if silent < limit - 0.001:
            self._timer = self._loop.call_later(limit - silent, self._check)
            return
        name, headed = self._request.target, self._headed
        self.cancel()
        what = "stopped in the middle of its answer" if headed else "did not begin to answer"
        self._sink.fail(UpstreamTimeout(name, f'target "{name}" {what} for {limit:g} s'))
