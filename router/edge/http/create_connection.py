"""Create calls at protocol level: the upstream's bytes go straight to the transport.

Everything else (another route, a chunked or compressed body) is handed over to uvicorn's protocol and the ASGI app.
"""

import asyncio
from collections.abc import Callable
from typing import cast

from router.contract.caller import Caller
from router.contract.clock import CLOCK
from router.contract.errors import BodyTimeout, TandemError
from router.contract.exchange import Arrival, CancelReason, Exchange
from router.edge.admission import Admission, Slot
from router.edge.deadline import DeadlineTimer
from router.edge.http.head import RequestHead
from router.edge.http.refuse import refusal_bytes
from router.edge.http.request_reader import HAND_OVER, UPGRADE, RequestReader
from router.edge.http.sink import CallerSink
from router.edge.listener import YOUNG_SECONDS, Place
from router.edge.routes import new_request_id
from router.loop.together import Outbox

_MAX_PIPELINED_BYTES = 65_536
_WRITE_HIGH_BYTES = 65_536
_LINGER_SECONDS = 1.0
_NOBODY = Caller("")


class CreateConnection(asyncio.Protocol):
    """A connection, as long as it sends only create calls."""

    __slots__ = (
        "_admission",
        "_body_began",
        "_caller",
        "_connections",
        "_deadline",
        "_exchange",
        "_idle_since",
        "_ignores_input",
        "_is_stopping",
        "_loop",
        "_make_successor",
        "_outbox",
        "_place",
        "_reader",
        "_says_close",
        "_sink",
        "_transport",
        "is_paused",
    )

    def __init__(
        self,
        admission: Admission,
        connections: set[asyncio.Protocol],
        place: Place,
        make_successor: Callable[[Place, float], asyncio.Protocol],
        outbox: Outbox,
    ) -> None:
        self._admission, self._connections, self._place, self._make_successor = admission, connections, place, make_successor
        self._outbox = outbox
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport
        self._reader = RequestReader()
        self._deadline = DeadlineTimer(self._loop)
        self._caller = _NOBODY
        """Who holds a slot."""
        self._exchange: Exchange | None = None
        self._sink: CallerSink | None = None
        self._body_began = self._idle_since = 0.0
        self._ignores_input = False
        self._is_stopping = self._says_close = False
        self.is_paused = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self._transport.set_write_buffer_limits(high=_WRITE_HIGH_BYTES)
        self._connections.add(self)
        self._deadline.set(self._admission.limits.header_timeout_seconds, self._close_silent)

    def connection_lost(self, error: Exception | None) -> None:
        self._connections.discard(self)
        self._place.free()
        self._deadline.cancel()
        if self._exchange is None:
            self._release_slot()
        elif self._sink is not None and not self._sink.is_over:
            self._exchange.cancel(CancelReason.CALLER_LEFT)
        if self.is_paused:
            self._admission.speedups.memory.give_back_later(self._loop)  # unread output of slow callers can be large

    def eof_received(self) -> bool:
        # Callers cancel by hanging up, which cannot be told from a half-close.
        return False

    def say_close(self) -> None:
        """Send `connection: close` with the next answer, and close after it."""
        self._says_close = True
        if self._sink is not None and not self._sink.has_started:
            self._sink.closes = True

    def shutdown(self) -> None:
        """Stop after requests that are running, arriving or about to; on a second call, do not wait for the last kind."""
        self.say_close()
        was_asked, self._is_stopping = self._is_stopping, True
        if self._sink is None and self._reader.head is None and not self._reader.buffered_bytes:
            if not was_asked and (seconds := self._seconds_young()) > 0:
                self._deadline.set(seconds, self._close_silent)
            else:
                self._close()

    def _seconds_young(self) -> float:
        """How long a stop waits for this connection's first request."""
        if not self._waits_to(self._close_silent):
            return 0.0
        return YOUNG_SECONDS - (self._admission.limits.header_timeout_seconds - self._deadline.seconds_left)

    @property
    def is_done(self) -> bool:
        """Whether only the caller has yet to notice the close."""
        return self._sink is None and self._transport.is_closing() and not self._transport.get_write_buffer_size()

    def data_received(self, data: bytes) -> None:
        if self._ignores_input:
            return
        self._reader.receive_data(data)
        if self._sink is None and not self.is_paused:
            self._read()
        elif self._reader.buffered_bytes > _MAX_PIPELINED_BYTES:
            self._hold_back()

    def _hold_back(self) -> None:
        """Bound what is buffered after a request in progress or an unread answer."""
        if self._sink is None or self._sink.is_over:
            self._transport.pause_reading()  # answered but not yet recorded: this is the next request
        else:
            self._transport.abort()  # not paused: a caller whose bytes are not read cannot be seen to leave

    def _read(self) -> None:
        head = self._reader.head or self._read_head()
        if head is None:
            return
        body = self._reader.read_body()
        if body is not None:
            self._serve(head, body)
        elif not self._waits_to(self._check_body):
            self._wait_for_body()

    def _read_head(self) -> RequestHead | None:
        """The next request's head, once it is here and admitted."""
        try:
            head = self._reader.read_head(self._admission.limits)
            if isinstance(head, RequestHead):
                self._caller = self._admission.admit(head)
                return head
        except TandemError as error:
            self._reject(error)
            return None
        if head is HAND_OVER:
            self._hand_over()
        elif head is UPGRADE:
            self._upgrade()
        elif not self._waits_to(self._reject_late_head):
            self._deadline.set(self._admission.limits.header_timeout_seconds, self._reject_late_head)
        return None

    def _wait_for_body(self) -> None:
        if self._reader.expects_continue:
            self._transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        self._body_began = self._loop.time()
        self._deadline.set(self._admission.limits.body_timeout_seconds, self._check_body)

    def _waits_to(self, act: Callable[[], None]) -> bool:
        return self._deadline.on_deadline == act

    def _reject_late_head(self) -> None:
        self._reject(BodyTimeout("the headers did not arrive in time"))

    def _check_body(self) -> None:
        limits = self._admission.limits
        if self._reader.body_bytes < limits.min_body_bytes_per_second * CLOCK.ran(self._body_began, self._loop.time()):
            self._reject(BodyTimeout("the body did not arrive in time"))
        else:
            self._deadline.set(limits.body_timeout_seconds, self._check_body)

    def _serve(self, head: RequestHead, body: bytes) -> None:
        self._deadline.on_deadline = self._check_idle
        self._sink = sink = CallerSink(
            self, self._transport, self._says_close or not head.keeps_alive, head.reads_chunks, self._outbox
        )
        route = head.route
        assert route is not None
        arrival = Arrival(
            new_request_id(), route.dialect, route.operation, head.headers, body, self._caller, head.key, path=head.path
        )
        self._exchange, task = self._admission.start(arrival, sink, self._loop)
        if task is None:
            self._loop.call_soon(self._served)  # not directly: pipelined requests would deepen the stack
        else:
            task.add_done_callback(self._served)

    def _served(self, _: "asyncio.Task[None] | None" = None) -> None:
        self._admission.release(self._caller)
        self._caller = _NOBODY
        exchange, sink, self._sink, self._exchange = self._exchange, self._sink, None, None
        assert sink is not None
        if exchange is not None and exchange.cancelled is not None:
            exchange.let_go()
        if not sink.has_ended or sink.closes or self._is_stopping or self._transport.is_closing():
            self._close()
        elif not self.is_paused:
            self._read_next()

    def _read_next(self) -> None:
        self._idle_since = self._loop.time()
        waiting = self._reader.buffered_bytes
        if waiting:
            if waiting > _MAX_PIPELINED_BYTES:
                self._transport.resume_reading()
            self._read()

    def _check_idle(self) -> None:
        """Close an idle connection. Requests do not move this deadline, which saves each a timer."""
        seconds = self._admission.limits.keep_alive_seconds
        if self._sink is None:
            seconds -= self._loop.time() - self._idle_since
        if seconds > 0:
            self._deadline.set(seconds, self._check_idle)
        else:
            self._close_silent()

    def pause_writing(self) -> None:
        self.is_paused = True
        if self._sink is not None:
            self._sink.set_backpressure(is_paused=True)
        self._deadline.abort_unread(self._transport, self._admission.limits.write_idle_timeout_seconds)

    def resume_writing(self) -> None:
        self.is_paused = False
        if self._ignores_input or self._transport.is_closing():
            return
        self._deadline.on_deadline = self._check_idle
        if self._sink is not None:
            self._sink.set_backpressure(is_paused=False)
        elif self._reader.head is None:
            self._read_next()
        else:
            self._deadline.set(self._admission.limits.body_timeout_seconds, self._check_body)
            self._read()

    def _close(self) -> None:
        """Close once the caller has read what was written."""
        self._ignores_input = True  # over TLS, input still arrives until the caller notices
        if self._transport.is_closing():  # asyncio's TLS cannot be closed twice
            return
        self._transport.close()
        if self._transport.get_write_buffer_size():
            self._deadline.abort_unread(self._transport, self._admission.limits.write_idle_timeout_seconds)

    def _reject(self, error: TandemError) -> None:
        """Refuse the request and close: what follows cannot be told from the refused body."""
        self._release_slot()
        head, peer = self._reader.head or self._reader.socket_head, self._transport.get_extra_info("peername")
        error = self._admission.refuse(error, head, peer)
        self._transport.write(refusal_bytes(error, self._reader.dialect, new_request_id()))
        self._reader = RequestReader()
        self._hang_up()

    def _release_slot(self) -> None:
        if self._caller is not _NOBODY:
            self._admission.release(self._caller)
            self._caller = _NOBODY

    def _hang_up(self) -> None:
        """Close so that the refusal is read: bytes that arrive at a closed socket would reset it."""
        self._ignores_input = True
        if self._transport.can_write_eof():
            self._transport.write_eof()
        self._deadline.set(_LINGER_SECONDS, self._close_silent)

    def _hand_over(self) -> None:
        """Pass the connection to uvicorn's protocol, with the head's remaining time."""
        self._connections.discard(self)
        seconds = self._admission.limits.header_timeout_seconds
        if self._waits_to(self._reject_late_head):
            seconds = self._deadline.seconds_left
        self._deadline.cancel()
        successor = self._make_successor(self._place, seconds)
        self._transport.set_protocol(successor)
        successor.connection_made(self._transport)
        successor.data_received(self._reader.take_buffer())

    def _upgrade(self) -> None:
        head, admission = self._reader.socket_head, self._admission
        assert head is not None
        try:
            caller = admission.admit(head, Slot.SOCKET)
        except TandemError as error:
            self._reject(error)
            return
        self._connections.discard(self)
        self._deadline.cancel()
        from router.edge.websocket.connection import SocketConnection  # only for clients that speak it

        socket = SocketConnection(admission, self._connections, self._place, head, caller)
        self._transport.set_protocol(socket)
        socket.connection_made(self._transport)
        socket.data_received(self._reader.take_buffer())
        if self._is_stopping:
            socket.shutdown()

    def _close_silent(self) -> None:
        self._ignores_input = True
        if self._transport.get_write_buffer_size():
            self._transport.abort()  # a close would wait for the caller to read
        else:
            if not self._transport.is_closing():
                self._transport.close()
            self._deadline.set(_LINGER_SECONDS, self._transport.abort)  # over TLS, a close waits for the caller's
