"""Create calls at protocol level: a connection's bytes in, the road, the upstream's bytes straight to the transport.

What is not a plain create call (another route, a chunked body, an upgrade) is handed, connection and all, to uvicorn's own
protocol, where the control plane and the ASGI shim serve it.
"""

import asyncio
from collections.abc import Callable
from http import HTTPStatus
from typing import cast

from router.contract.errors import BadRequest, BodyTimeout, HeadersTooLarge, TandemError
from router.contract.relay import Flow, Headers
from router.contract.words import Dialect
from router.dialects.headers import REQUEST_ID
from router.dialects.refusals import refusal_body, refusal_headers
from router.dialects.requests import Arrival
from router.edge.doors import (
    DOORS,
    Door,
    check_body_headers,
    check_headers,
    check_knock,
    dialect_of_path,
    new_request_id,
)
from router.edge.gate import Gate
from router.edge.head import RequestHead
from router.telemetry import events
from router.telemetry.tasks import spawn, spawn_started

_HOT_STARTS = tuple(f"POST {path}{end}".encode() for path in DOORS for end in (" ", "?"))
_LONGEST_START = max(map(len, _HOT_STARTS))
_MAX_PIPELINED_BYTES = 65_536
_WRITE_HIGH_BYTES = 131_072
_LINGER_SECONDS = 1.0
_NEVER = float("inf")
_STATUS_LINES = {status.value: f"HTTP/1.1 {status.value} {status.phrase}\r\n" for status in HTTPStatus}


def write_head(status: int, headers: Headers, *, closes: bool, may_chunk: bool = True) -> tuple[bytes, bool]:
    """The head of an answer, and whether its body is chunked for want of a length. HTTP/1.0 knows only the close."""
    head = _STATUS_LINES.get(status) or f"HTTP/1.1 {status} Status\r\n"
    head += "".join([f"{name}: {value}\r\n" for name, value in headers])
    is_chunked = may_chunk and "\r\ncontent-length: " not in head
    if is_chunked:
        head += "transfer-encoding: chunked\r\n"
    if closes:
        head += "connection: close\r\n"
    return f"{head}\r\n".encode("latin-1", "replace"), is_chunked


class ClientSink:
    """Takes one answer straight to the caller's transport. Head and first piece leave in one write."""

    __slots__ = (
        "_connection",
        "_flow",
        "_head",
        "_is_chunked",
        "_may_chunk",
        "_transport",
        "closes",
        "has_ended",
        "has_started",
        "is_over",
    )

    def __init__(
        self, connection: "HotConnection", transport: asyncio.Transport, *, closes: bool, may_chunk: bool = True
    ) -> None:
        self._connection, self._transport, self.closes, self._may_chunk = connection, transport, closes, may_chunk
        self._head = b""
        self._is_chunked = False
        self._flow: Flow | None = None
        self.has_started = self.has_ended = self.is_over = False

    def feed_from(self, flow: Flow) -> None:
        self._flow = flow
        if self._connection.is_choked:
            flow.pause()

    def start(self, status: int, headers: Headers) -> None:
        self.has_started = True
        self._head, self._is_chunked = write_head(status, headers, closes=self.closes, may_chunk=self._may_chunk)

    def write(self, data: bytes) -> None:
        if self._is_chunked:
            data = b"%x\r\n%b\r\n" % (len(data), data)
        if self._head:
            data = self._head + data
            self._head = b""
        self._transport.write(data)

    def end(self) -> None:
        self.has_ended = self.is_over = True
        last = self._head + b"0\r\n\r\n" if self._is_chunked else self._head
        self._head = b""
        if last:
            self._transport.write(last)

    def fail(self, error: TandemError) -> None:
        # What was written is still sent; without its last chunk the caller knows that the answer is not whole.
        self.is_over = True
        self._transport.close()

    def let_go(self) -> None:
        """Nobody pushes any more."""
        self._flow = None

    def choke(self, *, is_choked: bool) -> None:
        """The caller reads more slowly than the target writes, or has caught up."""
        if self._flow is not None:
            if is_choked:
                self._flow.pause()
            else:
                self._flow.resume()


class HotConnection(asyncio.Protocol):
    """One caller's connection, until something on it is not hot."""

    __slots__ = (
        "_body",
        "_body_began",
        "_body_left",
        "_buffer",
        "_connections",
        "_deadline",
        "_door",
        "_gate",
        "_hand_over",
        "_head",
        "_is_deaf",
        "_is_inside",
        "_is_stopping",
        "_loop",
        "_on_deadline",
        "_request_id",
        "_sink",
        "_task",
        "_tasks",
        "_timer",
        "_transport",
        "_unread_bytes",
        "is_choked",
    )

    def __init__(
        self,
        gate: Gate,
        connections: set[asyncio.Protocol],
        tasks: "set[asyncio.Task[None]]",
        hand_over: Callable[[float], asyncio.Protocol],
    ) -> None:
        self._gate, self._connections, self._tasks, self._hand_over = gate, connections, tasks, hand_over
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport
        self._buffer = b""
        self._head: RequestHead | None = None
        self._door: Door
        self._request_id = ""
        self._body: list[bytes | memoryview] = []
        self._body_left = 0
        self._body_began = 0.0
        self._task: asyncio.Task[None] | None = None
        self._sink: ClientSink | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._deadline = _NEVER
        self._on_deadline: Callable[[], None] = self._close_silent
        self._is_stopping = False
        self._is_deaf = False
        self._is_inside = False
        self._unread_bytes = 0
        self.is_choked = False

    # The transport's calls.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self._transport.set_write_buffer_limits(high=_WRITE_HIGH_BYTES)
        self._connections.add(self)
        self._expect(self._gate.limits.header_timeout_seconds, self._close_silent)

    def connection_lost(self, error: Exception | None) -> None:
        self._connections.discard(self)
        if self._sink is None:
            self._go_out()
        self._deadline = _NEVER
        if self._timer is not None:
            self._timer.cancel()
        if self._task is not None and self._sink is not None and not self._sink.is_over:
            self._task.cancel()

    def eof_received(self) -> bool:
        # A caller that hangs up cannot be told from one that only stops sending, and cancelling is done by hanging up.
        return False

    def pause_writing(self) -> None:
        self.is_choked = True
        if self._sink is not None:
            self._sink.choke(is_choked=True)
        self._unread_bytes = self._transport.get_write_buffer_size()
        self._expect(self._gate.limits.write_idle_timeout_seconds, self._check_reader)

    def resume_writing(self) -> None:
        self.is_choked = False
        self._deadline = _NEVER
        if self._sink is not None:
            self._sink.choke(is_choked=False)
        elif self._head is None and not self._is_deaf:
            self._wait_for_next()

    def _check_reader(self) -> None:
        """A caller that reads slowly may; one that does not read at all is cut."""
        unread = self._transport.get_write_buffer_size()
        if unread >= self._unread_bytes:
            self._transport.abort()
            return
        self._unread_bytes = unread
        self._expect(self._gate.limits.write_idle_timeout_seconds, self._check_reader)

    def data_received(self, data: bytes) -> None:
        if self._is_deaf:
            return
        if self._sink is not None:
            self._buffer += data
            if len(self._buffer) > _MAX_PIPELINED_BYTES:
                self._hold_back(self._sink)
        elif self._head is not None:
            self._take_body(data)
        else:
            self._buffer = self._buffer + data if self._buffer else data
            self._take_head()

    def _hold_back(self, sink: ClientSink) -> None:
        """Too much has come behind a request that is still served."""
        if sink.is_over:
            self._transport.pause_reading()  # the answer is out and only its record is not: this is the next request
        else:
            self._transport.abort()  # not paused: a caller whose bytes are not read cannot be seen to leave

    def shutdown(self) -> None:
        """Stop after what is under way; uvicorn asks every connection to."""
        self._is_stopping = True
        if self._sink is None:
            self._transport.close()

    # Reading a request.

    def _take_head(self) -> None:
        buffer = self._buffer
        if not buffer.startswith(_HOT_STARTS) and (len(buffer) >= _LONGEST_START or not _may_be_hot(buffer)):
            self._leave()
            return
        limits = self._gate.limits
        end = buffer.find(b"\r\n\r\n")
        if end < 0 or end + 4 > limits.max_header_bytes:
            self._wait_for_head(buffer)
            return
        rest = memoryview(buffer)[end + 4 :]
        request_id, dialect = new_request_id(), Dialect.CHAT
        try:
            head = RequestHead(buffer[: end + 4])
            dialect = dialect_of_path(head.path)
            if head.version not in ("1.0", "1.1") or "transfer-encoding" in head.headers:
                self._leave()
                return
            check_headers(head.count, head.size, limits)
            check_knock(head.headers, head.hosts)
            check_body_headers(head.headers, limits)
            if head.length is None and head.lengths:
                raise BadRequest("content-length: must be one plain number")
            self._gate.enter()
            self._is_inside = True
        except TandemError as error:
            self._turn_away(error, dialect, request_id)
            return
        self._head, self._door, self._request_id = head, DOORS[head.path], request_id
        self._body_left = head.length or 0
        if self._body_left > len(rest) and head.headers.get("expect", "").lower() == "100-continue":
            self._transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        self._buffer = b""
        self._take_body(rest)

    def _wait_for_head(self, buffer: bytes) -> None:
        limits = self._gate.limits
        if len(buffer) > limits.max_header_bytes:
            message = f"the headers are over the limit of {limits.max_header_bytes} bytes"
            self._turn_away(HeadersTooLarge(message), Dialect.CHAT, new_request_id())
        elif b"\n\n" in buffer or b"\n\r\n" in buffer:
            self._turn_away(BadRequest("line ends must be CR LF"), Dialect.CHAT, new_request_id())
        elif self._on_deadline != self._close_late_head:
            self._expect(limits.header_timeout_seconds, self._close_late_head)

    def _take_body(self, data: bytes | memoryview) -> None:
        left = self._body_left
        if len(data) < left:
            if not self._body:
                self._body_began = self._loop.time()
                self._expect(self._gate.limits.body_timeout_seconds, self._check_body)
            self._body.append(data)
            self._body_left = left - len(data)
            return
        last, self._buffer = data[:left], bytes(data[left:])
        body = b"".join((*self._body, last)) if self._body else bytes(last)
        self._body = []
        self._serve(body)

    def _check_body(self) -> None:
        """A body that comes too slowly is refused; one that comes at a fair pace may take its time."""
        limits = self._gate.limits
        came = sum(map(len, self._body))
        if came < limits.min_body_bytes_per_second * (self._loop.time() - self._body_began):
            dialect = self._door.dialect
            self._turn_away(BodyTimeout("the body did not arrive in time"), dialect, self._request_id)
        else:
            self._expect(limits.body_timeout_seconds, self._check_body)

    # Serving it.

    def _serve(self, body: bytes) -> None:
        head, door = self._head, self._door
        assert head is not None
        self._head = None
        self._deadline = _NEVER
        is_old = head.version == "1.0"
        closes = self._is_stopping or not head.keeps_alive or is_old
        arrival = Arrival(self._request_id, door.dialect, door.operation, head.headers, body)
        self._sink = sink = ClientSink(self, self._transport, closes=closes, may_chunk=not is_old)
        # Alone, a request waits for no turn of the loop. Among others it does: each step of the road is cheaper right after
        # the same step of another, while the processor still has its code at hand (15 % of the CPU with sixteen callers).
        start = spawn_started if self._gate.inside == 1 else spawn
        self._task = task = start(self._gate.serve(arrival, sink), name=arrival.id)
        if task is None:
            self._loop.call_soon(self._served)  # not here: requests that wait behind this one would pile up on the stack
        else:
            self._tasks.add(task)
            task.add_done_callback(self._served)

    def _served(self, task: "asyncio.Task[None] | None" = None) -> None:
        if task is not None:
            self._tasks.discard(task)
        self._go_out()
        sink, self._sink, self._task = self._sink, None, None
        assert sink is not None
        sink.let_go()
        if self._transport.is_closing():
            return
        if not sink.has_ended or sink.closes or self._is_stopping:
            self._transport.close()
            return
        if not self.is_choked:
            self._wait_for_next()

    def _wait_for_next(self) -> None:
        """The answer is out: take the next request, here already or to come."""
        self._expect(self._gate.limits.keep_alive_seconds, self._close_silent)
        if len(self._buffer) > _MAX_PIPELINED_BYTES:
            self._transport.resume_reading()
        if self._buffer:
            self._take_head()

    def _turn_away(self, error: TandemError, dialect: Dialect, request_id: str) -> None:
        """Refuse before admission, and close: what the caller sends next cannot be told from the refused body."""
        events.request_turned_away(status=error.status, code=error.code)
        self._go_out()
        body = refusal_body(error, dialect, request_id)
        headers = (("content-type", "application/json"), ("content-length", str(len(body))), (REQUEST_ID, request_id))
        head, _ = write_head(error.status, (*headers, *refusal_headers(error)), closes=True)
        self._buffer = b""
        self._head = None
        self._transport.write(head + body)
        self._hang_up()

    def _go_out(self) -> None:
        if self._is_inside:
            self._is_inside = False
            self._gate.leave()

    def _hang_up(self) -> None:
        """Close so that the refusal is read: bytes that arrive at a closed socket would take it back."""
        self._is_deaf = True
        if self._transport.can_write_eof():
            self._transport.write_eof()
        self._expect(_LINGER_SECONDS, self._close_silent)

    def _leave(self) -> None:
        """Hand the connection over, with every byte of the request that is not ours, and the time that its head has left."""
        self._connections.discard(self)
        seconds = self._gate.limits.header_timeout_seconds
        if self._on_deadline == self._close_late_head:
            seconds = max(0.0, self._deadline - self._loop.time())
        self._deadline = _NEVER
        if self._timer is not None:
            self._timer.cancel()
        buffer, self._buffer = self._buffer, b""
        protocol = self._hand_over(seconds)
        self._transport.set_protocol(protocol)
        protocol.connection_made(self._transport)
        protocol.data_received(buffer)

    # Waiting, with one timer: a deadline that moves on costs nothing until the old one comes.

    def _expect(self, seconds: float, otherwise: Callable[[], None]) -> None:
        self._on_deadline = otherwise
        self._deadline = deadline = self._loop.time() + seconds
        if self._timer is None or self._timer.when() > deadline + 0.001:
            if self._timer is not None:
                self._timer.cancel()
            self._timer = self._loop.call_at(deadline, self._check_deadline)

    def _check_deadline(self) -> None:
        self._timer = None
        if self._deadline == _NEVER:
            return
        if self._loop.time() < self._deadline - 0.001:
            self._timer = self._loop.call_at(self._deadline, self._check_deadline)
            return
        self._on_deadline()

    def _close_silent(self) -> None:
        if self._transport.get_write_buffer_size():
            self._transport.abort()  # a close would wait for a reader that is not there
        else:
            self._transport.close()

    def _close_late_head(self) -> None:
        self._turn_away(BodyTimeout("the headers did not arrive in time"), Dialect.CHAT, new_request_id())


def _may_be_hot(buffer: bytes) -> bool:
    """Whether more bytes could make this a create call."""
    return any(start.startswith(buffer) for start in _HOT_STARTS)
