"""The lanes of one socket: serial within a lane, concurrent across lanes.

A request may interrupt the one before it, or a person may steer a response in progress: its text so far stays in the lane's
history, and the new words are routed again.
"""

import asyncio
import os
import time
from collections import deque
from collections.abc import Callable

import orjson
from msgspec import Struct, field

from router.contract.caller import Caller
from router.contract.errors import Interrupted, TandemError, TooDeep, TooManyLanes, Unavailable
from router.contract.exchange import Arrival, CancelReason, Exchange
from router.contract.facts import AttemptOpened, Read, Settled
from router.contract.request import JsonObject
from router.dialects.overrides import FRAMES
from router.edge.admission import Admission, report_fault
from router.edge.routes import Head, new_request_id
from router.edge.websocket.messages import Create, Message, Steer, headers_of, read_message, refusal_frame
from router.edge.websocket.sink import Frames, FrameSink
from router.responses.keep import record_response
from router.stores.memory.socket_responses import SocketResponses

_MAX_RUNNING = 16
_MAX_NAMED = 32
_MAX_WAITING = 64
_MAX_WAITING_BYTES = 64 << 20
_RETRY_LATER = (429, 503)
_COMPLETED = ("response_already_completed", "the response is complete. Send the message with the next response.create")
_NOT_FOUND = ("response_not_found", "no response with that id is in progress on this socket")


class _InFlight(Struct, eq=False):
    create: Create
    sink: FrameSink
    exchange: Exchange | None = None


class _Lane(Struct, eq=False):
    running: _InFlight | None = None
    waiting: deque[Create] = field(default_factory=deque)
    latest: str = ""
    latest_by: Caller | None = None


class Lanes:
    def __init__(
        self,
        socket: Frames,
        admission: Admission,
        handshake: Head,
        responses: SocketResponses,
        on_idle: Callable[[], None],
    ) -> None:
        self._socket, self._admission, self._handshake, self._responses = socket, admission, handshake, responses
        self._on_idle = on_idle
        self._loop = asyncio.get_running_loop()
        self._lanes: dict[str, _Lane] = {}
        self._waiting = self._waiting_bytes = self._running = 0
        self._is_closed = False
        self.has_refused_login = False
        """A plan refused the login of this socket."""

    @property
    def running(self) -> list[FrameSink]:
        return [lane.running.sink for lane in self._lanes.values() if lane.running is not None]

    @property
    def is_idle(self) -> bool:
        return not self._waiting and not self._running

    def read(self, raw: bytes) -> Message:
        """Parse a message into a request or an error. Pure: a heavy one is read in a thread."""
        try:
            return read_message(raw)
        except TandemError as error:
            return error
        except Exception as error:  # noqa: BLE001  the edge: one odd message must not cost all lanes of its socket
            return report_fault(error, new_request_id())

    def receive(self, message: Message) -> bool:
        """Returns whether the message was accepted."""
        lane = message.lane if isinstance(message, Create) else ""
        try:
            if isinstance(message, TandemError):
                raise message
            if isinstance(message, Steer):
                self._steer(message)
            else:
                self._enqueue(message)
        except TandemError as error:
            self._socket.send([refusal_frame(error, new_request_id(), lane)])
            return False
        except Exception as error:  # noqa: BLE001  as above
            self._socket.send([refusal_frame(report_fault(error, new_request_id()), new_request_id(), lane)])
            return False
        self._advance()
        return True

    def close(self) -> None:
        self._is_closed = True
        for lane in self._lanes.values():
            lane.waiting.clear()
            running = lane.running
            if running is not None and running.exchange is not None and not running.sink.is_over:
                running.exchange.cancel(CancelReason.CALLER_LEFT)
                running.sink.close()
        self._waiting = self._waiting_bytes = 0
        self._responses.clear()

    def _enqueue(self, create: Create) -> None:
        lane = self._lanes.get(create.lane)
        if lane is None:
            if create.lane and sum(map(bool, self._lanes)) >= _MAX_NAMED:
                raise TooManyLanes(f"stream_id: a socket has at most {_MAX_NAMED} of them. Reuse one", param="stream_id")
            lane = self._lanes[create.lane] = _Lane()
        if self._waiting >= _MAX_WAITING:
            raise Unavailable(f"{_MAX_WAITING} requests are waiting on this socket, which is the limit", retry_after_seconds=1)
        if self._waiting and self._waiting_bytes + len(create.raw) > _MAX_WAITING_BYTES:
            raise Unavailable("64 MB of requests are waiting on this socket, which is the limit", retry_after_seconds=1)
        if create.interrupts:
            create = self._after_interrupt(create, lane)
        self._wait(lane, create, is_next=create.interrupts)

    def _wait(self, lane: _Lane, create: Create, *, is_next: bool = False) -> None:
        self._waiting += 1
        self._waiting_bytes += len(create.raw)
        (lane.waiting.appendleft if is_next else lane.waiting.append)(create)

    def _take_next(self, lane: _Lane) -> Create:
        create = lane.waiting.popleft()
        self._waiting -= 1
        self._waiting_bytes -= len(create.raw)
        return create

    def _after_interrupt(self, create: Create, lane: _Lane) -> Create:
        """Interrupt, and continue from the partial text if the router holds the history."""
        while lane.waiting and lane.waiting[0].interrupts:
            self._supersede(self._take_next(lane))
        running = lane.running
        if running is None or running.sink.is_over:
            return create
        interrupted = self._interrupt(running, "interrupted")
        continues = create.previous in (interrupted, running.create.previous) and create.previous
        return create.after(interrupted) if interrupted and continues else create

    def _supersede(self, create: Create) -> None:
        """Refuse a superseded request: every request ends with an event."""
        error = Interrupted("interrupted by a newer message before any output")
        self._socket.send([refusal_frame(error, new_request_id(), create.lane)])

    def _steer(self, steer: Steer) -> None:
        """End the response in progress, and continue it with the person's words."""
        lane = self._lane_of(steer.previous)
        if lane is None or lane.running is None:
            self._refuse_steer(steer, *self._why_not_active(steer.previous))
        elif not steer.is_valid:
            self._refuse_steer(steer, "invalid_input", "input: must be text or a list of user messages")
        elif not lane.running.sink.is_over:
            self._redirect(lane, steer, lane.running.create, lane.running)
        elif lane.waiting and lane.waiting[0].steers == steer.previous:
            self._redirect(lane, steer, lane.waiting[0], None)
        else:
            self._refuse_steer(steer, *_COMPLETED)

    def _redirect(self, lane: _Lane, steer: Steer, before: Create, running: _InFlight | None) -> None:
        """Replace the running response, or the request that waits for it, by one with the person's words."""
        try:
            successor = before.steered(steer)
        except TooDeep as error:  # checked before anything is ended
            self._refuse_steer(steer, "invalid_input", f"input: {error.message}")
            return
        self._accept(steer)
        if running is not None:
            self._interrupt(running, "steered")
        else:
            self._take_next(lane)
        self._wait(lane, successor, is_next=True)

    def _lane_of(self, response_id: str) -> _Lane | None:
        """The lane that writes a response. A response has no id before its first event."""
        if not response_id:
            return None
        lanes = (lane for lane in self._lanes.values() if lane.running is not None)
        return next((lane for lane in lanes if lane.running and lane.running.sink.response_id == response_id), None)

    def _why_not_active(self, response_id: str) -> tuple[str, str]:
        return _COMPLETED if response_id in self._responses else _NOT_FOUND

    def _accept(self, steer: Steer) -> None:
        told: JsonObject = {"id": f"steer_{os.urandom(12).hex()}", "previous_response_id": steer.previous}
        self._socket.send([orjson.dumps({"type": "response.steer.accepted", "steer": told})])

    def _refuse_steer(self, steer: Steer, code: str, message: str) -> None:
        told: JsonObject = {
            "type": "response.steer.failed",
            "error": {"type": "invalid_request_error", "code": code, "message": message},
            "steer": {"previous_response_id": steer.previous, "input": steer.input},
        }
        try:
            frame = orjson.dumps(told)
        except orjson.JSONEncodeError:  # nested too deeply to be sent back
            frame = orjson.dumps({**told, "steer": {"previous_response_id": steer.previous}})
        self._socket.send([frame])

    def _interrupt(self, running: _InFlight, reason: str) -> str:
        """Stop a request and keep its text. Returns the id to continue from; empty if nothing was written.

        A text over the bound is not kept: its client gets an error, and sends the whole conversation.
        """
        exchange = running.exchange
        assert exchange is not None
        response = running.sink.cut(reason)
        read, opened = exchange.last(Read), exchange.last(AttemptOpened)
        if response is None:
            self._supersede(running.create)
        elif read is not None and opened is not None and not running.sink.is_forgotten:
            kept = record_response(read.view, opened.target, time.time(), response, written=exchange.written)
            self._responses.keep(kept, for_long=False)
        exchange.cancel(CancelReason.INTERRUPTED)
        return str(response["id"]) if response is not None else ""

    def _advance(self) -> None:
        """Start waiting requests. One that finds no slot is refused, and the lane's next is tried."""
        for lane in self._lanes.values():
            while lane.waiting and lane.running is None and self._running < _MAX_RUNNING:
                self._start(lane, self._take_next(lane))

    def _start(self, lane: _Lane, create: Create) -> None:
        request_id, handshake = new_request_id(), self._handshake
        route, headers = handshake.route, headers_of(handshake.headers, create.metadata)
        assert route is not None
        try:
            # Metadata may carry another key for a target, and the socket's key may have been revoked.
            caller = self._admission.identify(handshake, headers)
            self._admission.take_slot(self._admission.limits, caller)
        except TandemError as error:
            self._socket.send([refusal_frame(error, request_id, create.lane)])
            return
        self._running += 1
        sink = FrameSink(self._socket, request_id, create.lane, headers.get(FRAMES) == "1")
        lane.running = running = _InFlight(create, sink)
        arrival = Arrival(
            request_id,
            route.dialect,
            route.operation,
            headers,
            create.raw,
            caller,
            handshake.key,
            self._responses,
            path=handshake.path,
        )
        running.exchange, task = self._admission.start(arrival, running.sink, self._loop)
        if task is None:
            self._loop.call_soon(self._ended, lane, caller)
        else:
            task.add_done_callback(lambda _: self._ended(lane, caller))

    def _ended(self, lane: _Lane, caller: Caller) -> None:
        self._admission.release(caller)
        self._running -= 1
        running, lane.running = lane.running, None
        if running is not None:
            self._conclude(lane, running)
        if running is not None and running.exchange is not None:
            running.exchange.let_go()
        if self._is_closed:
            return
        self._advance()
        if self.is_idle:
            self._on_idle()

    def _conclude(self, lane: _Lane, running: _InFlight) -> None:
        """Note what a lane may continue from. As at OpenAI, a failed turn evicts its previous response.

        Exceptions: a turn told to retry later, a fork (its parent is another lane's), and a turn with another key.
        """
        status, previous, exchange = running.sink.failed_with, running.create.previous, running.exchange
        if running.sink.unauthorized and exchange is not None:
            self._tell_unauthorized(running.sink.unauthorized, exchange)
        caller = exchange.arrival.caller if exchange is not None else None
        if not status:
            lane.latest, lane.latest_by = running.sink.response_id or lane.latest, caller
        elif status not in _RETRY_LATER and previous and previous == lane.latest and caller == lane.latest_by:
            self._responses.evict(previous)

    def _tell_unauthorized(self, frame: bytes, exchange: Exchange) -> None:
        settled = exchange.last(Settled)
        error = settled.ending.error if settled is not None else None
        arrival = exchange.arrival
        if self._admission.refused_logins.note(arrival.headers, arrival.dialect, error, time.monotonic()):
            self.has_refused_login = True
        else:
            self._socket.send([frame])
