"""Create calls over plain ASGI: read the body, run the road, pump the answer, notice when the caller leaves."""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

from router.contract.errors import BodyTimeout, InternalFault, TandemError, Unavailable, UpgradeRequired, WrongMethod
from router.contract.relay import Flow, Headers
from router.contract.words import Dialect
from router.dialects.headers import REQUEST_ID
from router.dialects.refusals import refusal_body, refusal_headers
from router.dialects.requests import Arrival
from router.edge.doors import (
    DOORS,
    Door,
    Limits,
    check_body_headers,
    check_headers,
    check_knock,
    dialect_of_path,
    new_request_id,
    too_large,
)
from router.house import House
from router.telemetry import events
from router.telemetry.tasks import spawn

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

_HIGH_WATER_BYTES = 128 * 1024
_LOW_WATER_BYTES = 32 * 1024


class AsgiSink:
    """Holds what the road pushes until ASGI's `send` has taken it; pauses the upstream while it holds too much."""

    def __init__(self) -> None:
        self._messages: deque[MutableMapping[str, Any]] = deque()
        self._ready = asyncio.Event()
        self._flow: Flow | None = None
        self._held_bytes = 0
        self._is_paused = False
        self._is_over = False
        self.has_failed = False

    def feed_from(self, flow: Flow) -> None:
        self._flow = flow

    def start(self, status: int, headers: Headers) -> None:
        raw = [(name.encode("latin-1"), value.encode("latin-1", "replace")) for name, value in headers]
        self._push({"type": "http.response.start", "status": status, "headers": raw})

    def write(self, data: bytes) -> None:
        self._held_bytes += len(data)
        if self._held_bytes > _HIGH_WATER_BYTES and not self._is_paused and self._flow is not None:
            self._is_paused = True
            self._flow.pause()
        self._push({"type": "http.response.body", "body": data, "more_body": True})

    def end(self) -> None:
        self._is_over = True
        self._push({"type": "http.response.body", "body": b"", "more_body": False})

    def fail(self, error: TandemError) -> None:
        self.has_failed = True
        self.close()

    def close(self) -> None:
        """Nothing more will come."""
        self._is_over = True
        self._ready.set()

    def _push(self, message: MutableMapping[str, Any]) -> None:
        self._messages.append(message)
        self._ready.set()

    async def pump(self, send: Send) -> None:
        """Send what comes until it ends. Returning without a proper end makes the server cut the connection."""
        while True:
            while self._messages:
                message = self._messages.popleft()
                await send(message)
                self._held_bytes -= len(message.get("body", b""))
                if self._is_paused and self._held_bytes < _LOW_WATER_BYTES and self._flow is not None:
                    self._is_paused = False
                    self._flow.resume()
            if self._is_over:
                return
            self._ready.clear()
            await self._ready.wait()


class Front:
    """The outermost ASGI app: guards every route, serves create calls, hands the rest to the control plane."""

    def __init__(self, house: House, control: App, limits: Limits) -> None:
        self._house, self._control, self._limits = house, control, limits
        self.in_flight = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        path, request_id = scope["path"], new_request_id()
        headers: dict[str, str] = {}
        hosts = size = 0
        for name, value in scope["headers"]:
            key = name.decode("latin-1").lower()
            hosts += key == "host"
            size += len(name) + len(value)
            headers[key] = value.decode("latin-1")
        try:
            check_headers(len(scope["headers"]), size, self._limits)
            check_knock(headers, hosts)
            door = DOORS.get(path)
            if door is None:
                scope["state"] = {"request_id": request_id}
                await self._control(scope, receive, send)
                return
            self._check_method(scope["method"], headers, door)
            check_body_headers(headers, self._limits)
            if self.in_flight >= self._limits.max_in_flight:
                raise Unavailable(f"{self.in_flight} requests are running, as many as allowed", retry_after_seconds=1)
            body = await self._read_body(headers, receive)
        except TandemError as error:
            events.request_turned_away(status=error.status, code=error.code)
            await send_refusal(send, error, dialect_of_path(path), request_id)
            return
        if body is not None:
            await self._serve(Arrival(request_id, door.dialect, door.operation, headers, body), receive, send)

    @staticmethod
    def _check_method(method: str, headers: dict[str, str], door: Door) -> None:
        if method == "POST":
            return
        if door.dialect is Dialect.RESPONSES and headers.get("upgrade", "").lower() == "websocket":
            raise UpgradeRequired("WebSocket is not served here. Send the request over HTTP")
        raise WrongMethod(f"{method[:10]} is not allowed here. Use POST")

    async def _read_body(self, headers: dict[str, str], receive: Receive) -> bytes | None:
        """The whole body; None when the caller left in the middle of it."""
        limits, pieces, size = self._limits, [], 0
        expected = headers.get("content-length", "")
        given = int(expected) if expected.isdigit() else limits.max_body_bytes
        allowed = limits.body_timeout_seconds + given / limits.min_body_bytes_per_second
        try:
            async with asyncio.timeout(allowed if expected else limits.body_timeout_seconds):
                while True:
                    message = await receive()
                    if message["type"] == "http.disconnect":
                        return None
                    piece = message.get("body", b"")
                    size += len(piece)
                    if size > limits.max_body_bytes:
                        raise too_large(limits)
                    pieces.append(piece)
                    if not message.get("more_body"):
                        return b"".join(pieces)
        except TimeoutError as error:
            raise BodyTimeout("the body did not arrive in time") from error

    async def _serve(self, arrival: Arrival, receive: Receive, send: Send) -> None:
        sink = AsgiSink()
        self.in_flight += 1
        work = spawn(self._run(arrival, sink), name=arrival.id)
        leave = spawn(_cancel_when_gone(receive, work), name=f"{arrival.id} leave")
        work.add_done_callback(lambda _: sink.close())
        try:
            await sink.pump(send)
        finally:
            leave.cancel()
            if not work.done():
                # Pumped to its end, the road has only its settling left; otherwise the caller is gone.
                await asyncio.wait([work], timeout=0.2)
                work.cancel()
            self.in_flight -= 1

    async def _run(self, arrival: Arrival, sink: AsgiSink) -> None:
        try:
            await self._house.serve(arrival, sink)
        except Exception as error:  # noqa: BLE001  the edge: a defect must not leave the caller without an answer
            report_fault(error, arrival.id)
            fault = InternalFault("Tandem had an internal error")
            body = refusal_body(fault, arrival.dialect, arrival.id)
            sink.start(
                500, (("content-type", "application/json"), ("content-length", str(len(body))), (REQUEST_ID, arrival.id))
            )
            sink.write(body)
            sink.end()


async def _cancel_when_gone(receive: Receive, work: "asyncio.Task[None]") -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
    work.cancel()


def report_fault(error: Exception, request_id: str) -> None:
    """Log a defect by its kind and its place in our code, never by its values."""
    place, trace = "", error.__traceback__
    while trace is not None:
        code = trace.tb_frame.f_code
        place = f"{code.co_name}:{trace.tb_lineno}"
        trace = trace.tb_next
    events.fault_caught(request_id=request_id, kind=type(error).__name__, where=place)


async def send_refusal(send: Send, error: TandemError, dialect: Dialect, request_id: str) -> None:
    """Answer an error over ASGI."""
    body = refusal_body(error, dialect, request_id)
    headers = [
        ("content-type", "application/json"),
        ("content-length", str(len(body))),
        (REQUEST_ID, request_id),
        *refusal_headers(error),
    ]
    if error.status in (408, 413, 415, 431):
        headers.append(("connection", "close"))
    raw = [(name.encode(), value.encode("latin-1", "replace")) for name, value in headers]
    await send({"type": "http.response.start", "status": error.status, "headers": raw})
    await send({"type": "http.response.body", "body": body})
