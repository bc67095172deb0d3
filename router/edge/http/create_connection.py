"""Create calls at protocol level: a connection's bytes in, the road, the upstream's bytes straight to the transport.

What is not a plain create call (another route, a chunked body) is handed, connection and all, to uvicorn's own protocol, where
the control plane and the ASGI app serve it.
"""

import asyncio
from collections.abc import Callable
from typing import cast

from router.contract.caller import LOCAL, Caller
from router.contract.errors import BodyTimeout, TandemError
from router.contract.exchange import Arrival, CancelReason, Exchange
from router.edge.admission import Admission
from router.edge.http.deadline import DeadlineTimer
from router.edge.http.head import RequestHead
from router.edge.http.request_reader import HAND_OVER, RequestReader
from router.edge.http.sink import CallerSink
from router.edge.refuse import refusal_bytes
from router.edge.routes import ROUTES, new_request_id

_MAX_PIPELINED_BYTES = 65_536
_WRITE_HIGH_BYTES = 131_072
_LINGER_SECONDS = 1.0


class CreateConnection(asyncio.Protocol):
    """One caller's connection, until something on it is not a create call."""

    __slots__ = (
        "_admission",
        "_body_began",
        "_caller",
        "_connections",
        "_deadline",
        "_exchange",
        "_holds_slot",
        "_ignores_input",
        "_is_stopping",
        "_loop",
        "_make_successor",
        "_reader",
        "_request_id",
        "_sink",
        "_transport",
        "_unread_bytes",
        "is_paused",
    )

    def __init__(
        self,
        admission: Admission,
        connections: set[asyncio.Protocol],
        make_successor: Callable[[float], asyncio.Protocol],
    ) -> None:
        self._admission, self._connections, self._make_successor = admission, connections, make_successor
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport
        self._reader = RequestReader()
        self._deadline = DeadlineTimer(self._loop)
        self._request_id = ""
        self._caller: Caller = LOCAL
        self._exchange: Exchange | None = None
        self._sink: CallerSink | None = None
        self._body_began = 0.0
        self._unread_bytes = 0
        self._holds_slot = False
        self._ignores_input = False
        self._is_stopping = False
        self.is_paused = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self._transport.set_write_buffer_limits(high=_WRITE_HIGH_BYTES)
        self._connections.add(self)
        self._deadline.set(self._admission.limits.header_timeout_seconds, self._close_silent)

    def connection_lost(self, error: Exception | None) -> None:
        self._connections.discard(self)
        self._deadline.cancel()
        if self._exchange is None:
            self._release_slot()
        elif self._sink is not None and not self._sink.is_over:
            self._exchange.cancel(CancelReason.CALLER_LEFT)

    def eof_received(self) -> bool:
        # A caller that hangs up cannot be told from one that only stops sending, and cancelling is done by hanging up.
        return False

    def shutdown(self) -> None:
        """Stop after what is under way; uvicorn asks every connection to."""
        self._is_stopping = True
        if self._sink is None:
            self._transport.close()

    def data_received(self, data: bytes) -> None:
        if self._ignores_input:
            return
        self._reader.receive_data(data)
        if self._sink is None:
            self._read()
        elif self._reader.buffered_bytes > _MAX_PIPELINED_BYTES:
            self._hold_back(self._sink)

    def _hold_back(self, sink: CallerSink) -> None:
        """Too much has come behind a request that is still served."""
        if sink.is_over:
            self._transport.pause_reading()  # the answer is out and only its record is not: this is the next request
        else:
            self._transport.abort()  # not paused: a caller whose bytes are not read cannot be seen to leave

    def _read(self) -> None:
        """Go on with the request that is being read, as far as its bytes have come."""
        limits, reader = self._admission.limits, self._reader
        is_new = reader.head is None
        try:
            event = reader.next_event(limits)
            if isinstance(event, RequestHead):
                self._request_id = new_request_id()
                self._caller = self._admission.admit(event)
                self._holds_slot = True
                event = reader.next_event(limits)
        except TandemError as error:
            self._reject(error)
            return
        if event is HAND_OVER:
            self._hand_over()
        elif isinstance(event, bytes):
            self._serve(event)
        elif is_new:
            self._wait_for_rest()

    def _wait_for_rest(self) -> None:
        """The first bytes of a request are here, and not the whole of it: give the rest its time."""
        limits = self._admission.limits
        if self._reader.head is not None:
            if self._reader.expects_continue:
                self._transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")
            self._body_began = self._loop.time()
            self._deadline.set(limits.body_timeout_seconds, self._check_body)
        elif not self._waits_for_head():
            self._deadline.set(limits.header_timeout_seconds, self._reject_late_head)

    def _waits_for_head(self) -> bool:
        return self._deadline.on_deadline == self._reject_late_head

    def _reject_late_head(self) -> None:
        self._reject(BodyTimeout("the headers did not arrive in time"))

    def _check_body(self) -> None:
        """A body that comes too slowly is refused; one that comes at a fair pace may take its time."""
        limits = self._admission.limits
        if self._reader.body_bytes < limits.min_body_bytes_per_second * (self._loop.time() - self._body_began):
            self._reject(BodyTimeout("the body did not arrive in time"))
        else:
            self._deadline.set(limits.body_timeout_seconds, self._check_body)

    def _serve(self, body: bytes) -> None:
        head = self._reader.head
        assert head is not None
        self._deadline.clear()
        is_old = head.version == "1.0"
        route = ROUTES[head.path]
        self._sink = sink = CallerSink(
            self, self._transport, closes=self._is_stopping or not head.keeps_alive or is_old, may_chunk=not is_old
        )
        arrival = Arrival(self._request_id, route.dialect, route.operation, head.headers, body, self._caller)
        self._exchange, task = self._admission.start(arrival, sink)
        if task is None:
            self._loop.call_soon(self._served)  # not here: requests that wait behind this one would pile up on the stack
        else:
            task.add_done_callback(self._served)

    def _served(self, _: "asyncio.Task[None] | None" = None) -> None:
        self._release_slot()
        sink, self._sink, self._exchange = self._sink, None, None
        assert sink is not None
        sink.detach()
        if self._transport.is_closing():
            return
        if not sink.has_ended or sink.closes or self._is_stopping:
            self._transport.close()
            return
        self._reader.start_next_cycle()
        if not self.is_paused:
            self._read_next()

    def _read_next(self) -> None:
        """The answer is out: take the next request, here already or to come."""
        self._deadline.set(self._admission.limits.keep_alive_seconds, self._close_silent)
        waiting = self._reader.buffered_bytes
        if waiting > _MAX_PIPELINED_BYTES:
            self._transport.resume_reading()
        if waiting:
            self._read()

    def pause_writing(self) -> None:
        self.is_paused = True
        if self._sink is not None:
            self._sink.set_backpressure(is_paused=True)
        self._unread_bytes = self._transport.get_write_buffer_size()
        self._deadline.set(self._admission.limits.write_idle_timeout_seconds, self._check_progress)

    def resume_writing(self) -> None:
        self.is_paused = False
        if self._ignores_input:
            return
        if self._sink is not None:
            self._deadline.clear()
            self._sink.set_backpressure(is_paused=False)
        elif self._reader.head is None:
            self._read_next()
        else:
            self._deadline.set(self._admission.limits.body_timeout_seconds, self._check_body)

    def _check_progress(self) -> None:
        """A caller that reads slowly may; one that does not read at all is cut."""
        unread = self._transport.get_write_buffer_size()
        if unread >= self._unread_bytes:
            self._transport.abort()
            return
        self._unread_bytes = unread
        self._deadline.set(self._admission.limits.write_idle_timeout_seconds, self._check_progress)

    def _reject(self, error: TandemError) -> None:
        """Refuse what is being read, and close: what the caller sends next cannot be told from the refused body."""
        request_id = new_request_id() if self._reader.head is None else self._request_id
        self._release_slot()
        self._transport.write(refusal_bytes(error, self._reader.dialect, request_id))
        self._reader = RequestReader()
        self._hang_up()

    def _release_slot(self) -> None:
        if self._holds_slot:
            self._holds_slot = False
            self._admission.release()

    def _hang_up(self) -> None:
        """Close so that the refusal is read: bytes that arrive at a closed socket would take it back."""
        self._ignores_input = True
        if self._transport.can_write_eof():
            self._transport.write_eof()
        self._deadline.set(_LINGER_SECONDS, self._close_silent)

    def _hand_over(self) -> None:
        """Let another protocol go on, with every byte of the request that is not ours, and the time that its head has left."""
        self._connections.discard(self)
        seconds = self._admission.limits.header_timeout_seconds
        if self._waits_for_head():
            seconds = self._deadline.seconds_left
        self._deadline.cancel()
        successor = self._make_successor(seconds)
        self._transport.set_protocol(successor)
        successor.connection_made(self._transport)
        successor.data_received(self._reader.take_buffer())

    def _close_silent(self) -> None:
        if self._transport.get_write_buffer_size():
            self._transport.abort()  # a close would wait for a reader that is not there
        else:
            self._transport.close()
