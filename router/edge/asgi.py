"""The ASGI shim: create calls that come over a connection which was handed over, and the way to the control plane."""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, MutableMapping
from typing import Any

from router.contract.errors import BodyTimeout, TandemError, UpgradeRequired, WrongMethod
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
from router.edge.gate import Gate
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
        self.has_started = False

    def feed_from(self, flow: Flow) -> None:
        self._flow = flow

    def start(self, status: int, headers: Headers) -> None:
        self.has_started = True
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
        self.close()  # the pump then returns without an end, and the server cuts the connection

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
                self._flow = None
                return
            self._ready.clear()
            await self._ready.wait()


class Shim:
    """The ASGI app behind uvicorn's own protocol: guards every route, serves create calls, hands on the rest."""

    def __init__(self, gate: Gate, control: App) -> None:
        self._gate, self._control = gate, control

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
        limits = self._gate.limits
        try:
            check_headers(len(scope["headers"]), size, limits)
            check_knock(headers, hosts)
            door = DOORS.get(path)
            if door is None:
                scope["state"] = {"request_id": request_id}
                await self._control(scope, receive, send)
                return
            self._check_method(scope["method"], headers, door)
            check_body_headers(headers, limits)
            self._gate.enter()
        except TandemError as error:
            events.request_turned_away(status=error.status, code=error.code)
            await send_refusal(send, error, dialect_of_path(path), request_id)
            return
        try:
            body = await collect_body(_body_pieces(receive), limits)
            await self._serve(Arrival(request_id, door.dialect, door.operation, headers, body), receive, send)
        except TandemError as error:
            events.request_turned_away(status=error.status, code=error.code)
            await send_refusal(send, error, door.dialect, request_id)
        except CallerLeft:
            pass
        finally:
            self._gate.leave()

    @staticmethod
    def _check_method(method: str, headers: dict[str, str], door: Door) -> None:
        if method == "POST":
            return
        if door.dialect is Dialect.RESPONSES and headers.get("upgrade", "").lower() == "websocket":
            raise UpgradeRequired("WebSocket is not served here. Send the request over HTTP")
        raise WrongMethod(f"{method[:10]} is not allowed here. Use POST")

    async def _serve(self, arrival: Arrival, receive: Receive, send: Send) -> None:
        sink = AsgiSink()
        work = spawn(self._gate.serve(arrival, sink), name=arrival.id)
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


class CallerLeft(Exception):
    """The caller hung up in the middle of its own body."""


async def _body_pieces(receive: Receive) -> AsyncIterator[bytes]:
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise CallerLeft
        yield message.get("body", b"")
        if not message.get("more_body"):
            return


async def collect_body(pieces: AsyncIterator[bytes], limits: Limits) -> bytes:
    """A whole body, within its limits: neither too large, nor silent, nor by the byte."""
    loop = asyncio.get_running_loop()
    began, size = loop.time(), 0
    found: list[bytes] = []
    patience = limits.body_timeout_seconds
    while True:
        try:
            piece = await asyncio.wait_for(anext(pieces, None), patience)
        except TimeoutError as error:
            raise BodyTimeout("the body did not arrive in time") from error
        if piece is None:
            return b"".join(found)
        size += len(piece)
        if size > limits.max_body_bytes:
            raise too_large(limits)
        found.append(piece)
        elapsed = loop.time() - began
        if elapsed > patience and size < limits.min_body_bytes_per_second * elapsed:
            raise BodyTimeout("the body did not arrive in time")


async def _cancel_when_gone(receive: Receive, work: "asyncio.Task[None]") -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
    work.cancel()


async def send_refusal(send: Send, error: TandemError, dialect: Dialect, request_id: str) -> None:
    """Answer an error over ASGI."""
    body = refusal_body(error, dialect, request_id)
    headers = [
        ("content-type", "application/json"),
        ("content-length", str(len(body))),
        (REQUEST_ID, request_id),
        *refusal_headers(error),
    ]
    headers.append(("connection", "close"))  # its body was not read, so what comes next cannot be told from it
    raw = [(name.encode(), value.encode("latin-1", "replace")) for name, value in headers]
    await send({"type": "http.response.start", "status": error.status, "headers": raw})
    await send({"type": "http.response.body", "body": body})
