"""Turns the frames of a WebSocket into messages, within bounds.

Messages are processed in order. Light ones are read on the loop, a few per turn; a heavy one is read in a thread, while reading
from the caller is paused.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from http import HTTPStatus
from typing import TYPE_CHECKING, Generic, TypeVar

from router.contract.clock import CLOCK
from router.dialects.json_body import is_utf8
from router.edge.admission import Admission
from router.edge.deadline import DeadlineTimer
from router.loop.tasks import spawn

if TYPE_CHECKING:
    from websockets.server import ServerProtocol

_MAX_STRAY_FRAMES = 4_096
"""Frames since the last served message: fragments, pings, nonsense."""
_MAX_STRAY_BYTES = 64 << 20
"""Bytes of messages since the last served one."""
_SLICE_BYTES = 16_384
"""A read is processed in slices, to notice a flood of tiny frames early."""
_MAX_FRAMES_OF_A_TURN = 256
_MAX_BYTES_OF_A_TURN = 1 << 18
_UNSUPPORTED, _INVALID_TEXT, _POLICY = 1003, 1007, 1008

_M = TypeVar("_M")


class Incoming(Generic[_M]):
    """Reads the messages of one socket.

    `read` parses a message, possibly in a thread; `receive` takes the result and returns whether it is served. `flush` is
    called after work on a later turn of the loop.
    """

    def __init__(
        self,
        admission: Admission,
        loop: asyncio.AbstractEventLoop,
        read: Callable[[bytes], _M],
        receive: Callable[[_M], bool],
        flush: Callable[[], object],
    ) -> None:
        self._admission, self._loop, self._read, self._receive, self._flush = admission, loop, read, receive, flush
        self._pieces: deque[bytes] = deque()
        self._events: deque[object] = deque()
        self._fragments: list[bytes] = []
        self._stray_frames = self._stray_bytes = 0
        self._frames_left = self._bytes_left = 0
        self._began: float | None = None
        """When the incomplete message began."""
        self._bytes = 0
        self._timer = DeadlineTimer(loop)
        self._is_closed = False
        self.is_busy = False
        """More work is scheduled: pause reading from the caller until then."""

    def take(self, protocol: "ServerProtocol", data: bytes) -> None:
        """Process received data. If it breaks a rule, the protocol is closed."""
        self._pieces.extend(data[begin : begin + _SLICE_BYTES] for begin in range(0, len(data), _SLICE_BYTES))
        if not self.is_busy:
            self._run(protocol)

    def close(self) -> None:
        self._is_closed = True
        self._timer.cancel()
        for held in (self._pieces, self._events, self._fragments):
            held.clear()

    def _run(self, protocol: "ServerProtocol") -> None:
        """Process what is here, within the limits of one turn of the loop."""
        self._frames_left, self._bytes_left = _MAX_FRAMES_OF_A_TURN, _MAX_BYTES_OF_A_TURN
        while not self._is_closed and (self._events or self._pieces):
            if not self._events:
                self._parse(protocol, self._pieces.popleft())
                continue
            if self._frames_left <= 0 or self._bytes_left <= 0:
                self.is_busy = True
                self._loop.call_soon(self._go_on, protocol)
                return
            self._frames_left -= 1
            self._take_event(protocol, self._events.popleft())
            if self.is_busy:
                return
            if protocol.state.name != "OPEN":
                self._pieces.clear()  # the rest is for nobody

    def _go_on(self, protocol: "ServerProtocol") -> None:
        self.is_busy = False
        self._run(protocol)
        if not self._is_closed:
            self._flush()

    def _parse(self, protocol: "ServerProtocol", piece: bytes) -> None:
        protocol.receive_data(piece)
        events = protocol.events_received()
        self._events.extend(events)
        if protocol.state.name == "OPEN":
            self._watch(protocol, len(piece), is_partial=not events or protocol.current_size is not None)

    def _take_event(self, protocol: "ServerProtocol", event: object) -> None:
        from websockets.frames import Frame, Opcode  # loaded by now
        from websockets.http11 import Request

        if isinstance(event, Request):
            response = protocol.accept(event)
            if response.status_code != HTTPStatus.SWITCHING_PROTOCOLS:
                response.headers["Sec-WebSocket-Version"] = "13"  # what is spoken here (RFC 6455, 4.4)
            protocol.send_response(response)
        elif not isinstance(event, Frame) or protocol.state.name != "OPEN":
            return  # what preceded a close in one read is not answered
        elif event.opcode is Opcode.BINARY:
            protocol.fail(_UNSUPPORTED, "send text frames")
        elif event.opcode is Opcode.TEXT or event.opcode is Opcode.CONT:
            self._fragments.append(bytes(event.data))
            if not event.fin:
                self._count_stray(protocol)
            else:
                self._take_message(protocol)
        else:
            self._count_stray(protocol)

    def _take_message(self, protocol: "ServerProtocol") -> None:
        message = b"".join(self._fragments)
        self._fragments.clear()
        if not self._admission.speedups.off_loop.is_large(message):
            self._bytes_left -= len(message)
            self._deliver(protocol, self._prepare(message), len(message))
        else:
            self.is_busy = True
            spawn(self._take_heavy(protocol, message), name="websocket message", loop=self._loop)

    async def _take_heavy(self, protocol: "ServerProtocol", message: bytes) -> None:
        found = await self._admission.speedups.off_loop.run(self._prepare, message)
        if not self._is_closed:
            self._deliver(protocol, found, len(message))
        self._go_on(protocol)

    def _prepare(self, message: bytes) -> _M | None:
        """None if it is not UTF-8."""
        return self._read(message) if is_utf8(message) else None

    def _deliver(self, protocol: "ServerProtocol", found: _M | None, size: int) -> None:
        if found is None:
            protocol.fail(_INVALID_TEXT, "not UTF-8")
        elif self._receive(found):
            self._stray_frames = self._stray_bytes = 0
        else:
            self._count_stray(protocol, size)

    def _count_stray(self, protocol: "ServerProtocol", size: int = 0) -> None:
        self._stray_frames += 1
        self._stray_bytes += size
        if self._stray_frames > _MAX_STRAY_FRAMES or self._stray_bytes > _MAX_STRAY_BYTES:
            protocol.fail(_POLICY, "too many frames without a complete request")

    def _watch(self, protocol: "ServerProtocol", size: int, *, is_partial: bool) -> None:
        """Give an incomplete message the time of a request's body."""
        if not is_partial:
            self._began = None
            self._timer.clear()
            return
        if self._began is None:
            self._began, self._bytes = self._loop.time(), 0
            self._wait(protocol)
        self._bytes += size

    def _wait(self, protocol: "ServerProtocol") -> None:
        self._timer.set(self._admission.limits.body_timeout_seconds, lambda: self._check(protocol))

    def _check(self, protocol: "ServerProtocol") -> None:
        """Refuse a message that arrives too slowly."""
        waited = CLOCK.ran(self._began or 0.0, self._loop.time())
        if not self.is_busy and self._bytes < self._admission.limits.min_body_bytes_per_second * waited:
            protocol.fail(_POLICY, "the message did not arrive in time")
            self._flush()
        else:
            self._wait(protocol)
