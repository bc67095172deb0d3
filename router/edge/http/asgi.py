"""The ASGI app: create calls on a connection that was handed over, and the way to the control plane."""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, MutableMapping
from contextlib import suppress
from typing import Any

from msgspec.structs import replace

from router.contract.errors import TandemError
from router.contract.exchange import Arrival, CancelReason, Exchange, Passed
from router.contract.relay import Flow, Headers
from router.contract.sinks import AnswerFact
from router.contract.words import Operation, PassedRoute
from router.dialects.headers import write_comment
from router.edge.admission import Admission, Slot, report_fault
from router.edge.http.bodies import ENCODING, collect_body, read_body
from router.edge.http.head import read_scope
from router.edge.http.refuse import send_refusal
from router.edge.routes import PATHS_WITH_BODY, Head, dialect_of_path, new_request_id, read_passed, write_passed
from router.loop.tasks import spawn

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

NO_PROBES: Mapping[tuple[str, str], App] = {}
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
        self.has_started = self.is_over = False

    def feed_from(self, flow: Flow) -> None:
        self._flow = flow

    def start(self, status: int, headers: Headers) -> None:
        self.has_started = True
        raw = [(name.encode("latin-1"), value.encode("latin-1", "replace")) for name, value in headers]
        self._push({"type": "http.response.start", "status": status, "headers": raw})

    def tell(self, fact: AnswerFact) -> None:
        self.write(write_comment(fact))

    def write(self, data: bytes) -> None:
        self._held_bytes += len(data)
        if self._held_bytes > _HIGH_WATER_BYTES and not self._is_paused and self._flow is not None:
            self._is_paused = True
            self._flow.pause()
        self._push({"type": "http.response.body", "body": data, "more_body": True})

    def end(self) -> None:
        self.is_over = True
        self._push({"type": "http.response.body", "body": b"", "more_body": False})

    def fail(self, error: TandemError) -> None:
        self.close()  # the pump then returns without an end, and the server cuts the connection

    def close(self) -> None:
        """Let the pump return once it has sent what is here."""
        self.is_over = True
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
            if self.is_over:
                self._flow = None
                return
            self._ready.clear()
            await self._ready.wait()


class AsgiApp:
    """The app behind uvicorn's own protocol: admits every request, serves create calls, hands on the rest."""

    def __init__(
        self, admission: Admission, build_control: Callable[[], App], probes: Mapping[tuple[str, str], App] = NO_PROBES
    ) -> None:
        """`probes`, by method and path, are answered without the control plane, which refuses other methods."""
        self._admission, self._build_control, self._probes = admission, build_control, probes
        self._building = asyncio.Lock()
        self._control: App | None = None
        """The control plane, built in a thread with the first request for it. Create calls never need it."""

    async def load(self) -> None:
        """Build the control plane before it is asked for anything. If that fails, the first request for it is refused."""
        with suppress(TandemError):
            await self._load_control("")

    async def _load_control(self, request_id: str) -> App:
        async with self._building:
            if self._control is None:
                try:
                    self._control = await asyncio.to_thread(self._build_control)
                except Exception as error:
                    raise report_fault(error, request_id) from error  # a broken installation, which else the start would show
            return self._control

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        head, request_id = read_scope(scope), new_request_id()
        try:
            if head.route is None:
                self._admission.recognise(head)
            caller = self._admission.admit(head, takes := Slot.REQUEST if head.path in PATHS_WITH_BODY else None)
        except TandemError as error:
            refusal = self._admission.refuse(error, head, scope.get("client"))
            await send_refusal(send, refusal, dialect_of_path(head.path, head.headers), request_id)
            return
        try:
            route = head.route
            if route is None and (passed := read_passed(head.path)) is not None:
                dialect = dialect_of_path(head.path)
                arrival = Arrival(request_id, dialect, Operation.CREATE, head.headers, b"", caller, head.key, path=head.path)
                await self._pass_on(passed, scope, head, arrival, receive, send)
                return
            if route is None:
                scope["state"] = {"request_id": request_id, "caller": caller, "headers": head.headers, "key": head.key}
                control = self._probes.get((head.method, head.path)) or self._control or await self._load_control(request_id)
                await control(scope, receive, send)
                return
            off_loop, headers = self._admission.speedups.off_loop, head.headers
            body = await read_body(body_pieces(receive), headers, self._admission.limits, off_loop)
            if ENCODING in headers:  # the body has none any more
                headers = {name: value for name, value in headers.items() if name != ENCODING}
            dialect, operation = route.dialect, route.operation
            arrival = Arrival(request_id, dialect, operation, headers, body, caller, head.key, path=head.path)
            await self._serve(arrival, receive, send)
        except TandemError as error:
            await send_refusal(send, error, dialect_of_path(head.path, head.headers), request_id)
        except CallerLeft:
            pass
        finally:
            if takes is Slot.REQUEST:
                self._admission.release(caller)

    async def _pass_on(
        self, route: PassedRoute, scope: Scope, head: Head, arrival: Arrival, receive: Receive, send: Send
    ) -> None:
        """Relay a request for a route that is not decided. It holds a slot as a create call does."""
        admission = self._admission
        admission.check_passed(route, head)
        admission.take_slot(admission.limits, arrival.caller)
        try:
            body = await collect_body(body_pieces(receive), admission.limits)
            admission.check_passed(route, head)  # the config may be another by now
            request = write_passed(head.method, scope["raw_path"], scope["query_string"], head.headers, body)
            await self._serve(replace(arrival, passed=Passed(route, request)), receive, send)
        finally:
            admission.release(arrival.caller)

    async def _serve(self, arrival: Arrival, receive: Receive, send: Send) -> None:
        sink = AsgiSink()
        exchange, work = self._admission.start(arrival, sink)
        if work is None:
            sink.close()
            await sink.pump(send)
            return
        work.add_done_callback(lambda _: sink.close())
        watch = spawn(_cancel_when_gone(receive, exchange, sink), name=f"{arrival.id} watch")
        try:
            await sink.pump(send)
        except Exception:
            exchange.cancel(CancelReason.CALLER_LEFT)
            raise
        finally:
            watch.cancel()
        await asyncio.wait([work])  # the answer is out, and its record is not: the next request comes after it


class CallerLeft(Exception):
    """The caller hung up in the middle of its own body."""


async def body_pieces(receive: Receive) -> AsyncIterator[bytes]:
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise CallerLeft
        yield message.get("body", b"")
        if not message.get("more_body"):
            return


async def _cancel_when_gone(receive: Receive, exchange: Exchange, sink: AsgiSink) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
    if not sink.is_over:
        exchange.cancel(CancelReason.CALLER_LEFT)
