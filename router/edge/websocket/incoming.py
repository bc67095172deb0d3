"""What a caller sends on a WebSocket: frames to messages, and the bounds of both."""

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING

from router.contract.limits import Limits
from router.edge.http.deadline import DeadlineTimer

if TYPE_CHECKING:
    from websockets.server import ServerProtocol

_MAX_STRAY_FRAMES = 4_096
"""Frames without one message that is served: pieces of one, pings, nonsense."""
_SLICE_BYTES = 16_384
"""A read is taken in slices, so that a flood of tiny frames is noticed before all of it is worked through."""
_UNSUPPORTED, _INVALID_TEXT, _POLICY = 1003, 1007, 1008


class Incoming:
    """Reads the messages of one socket. `receive` takes each, and says whether it is served; `flush` sends a close."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        limits: Callable[[], Limits],
        receive: Callable[[bytes], bool],
        flush: Callable[[], object],
    ) -> None:
        self._loop, self._limits, self._receive, self._flush = loop, limits, receive, flush
        self._fragments: list[bytes] = []
        self._stray_frames = 0
        self._began: float | None = None
        """When the message began that is not here yet."""
        self._bytes = 0
        self._timer = DeadlineTimer(loop)

    def take(self, protocol: "ServerProtocol", data: bytes) -> None:
        """Take what was read. Where it breaks a rule, the protocol is told to close."""
        for begin in range(0, len(data), _SLICE_BYTES):
            piece = data[begin : begin + _SLICE_BYTES]
            protocol.receive_data(piece)
            events = protocol.events_received()
            for event in events:
                self._take_event(protocol, event)
            if protocol.state.name != "OPEN":
                return
            self._watch(protocol, len(piece), is_partial=bool(self._fragments) or not events)

    def close(self) -> None:
        """Nothing more is read."""
        self._timer.cancel()
        self._fragments.clear()

    def _take_event(self, protocol: "ServerProtocol", event: object) -> None:
        from websockets.frames import Frame, Opcode  # loaded by now
        from websockets.http11 import Request

        if isinstance(event, Request):
            protocol.send_response(protocol.accept(event))
        elif not isinstance(event, Frame) or protocol.state.name != "OPEN":
            return  # what came before a close in the same read is answered by nobody
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
        if not _is_text(message):
            protocol.fail(_INVALID_TEXT, "not UTF-8")
        elif self._receive(message):
            self._stray_frames = 0
        else:
            self._count_stray(protocol)

    def _count_stray(self, protocol: "ServerProtocol") -> None:
        self._stray_frames += 1
        if self._stray_frames > _MAX_STRAY_FRAMES:
            protocol.fail(_POLICY, "too many frames without a message that is served")

    def _watch(self, protocol: "ServerProtocol", size: int, *, is_partial: bool) -> None:
        """Give a message that is not here yet the time that a request's body has."""
        if not is_partial:
            self._began = None
            self._timer.clear()
            return
        if self._began is None:
            self._began, self._bytes = self._loop.time(), 0
            self._wait(protocol)
        self._bytes += size

    def _wait(self, protocol: "ServerProtocol") -> None:
        self._timer.set(self._limits().body_timeout_seconds, lambda: self._check(protocol))

    def _check(self, protocol: "ServerProtocol") -> None:
        """A message that comes too slowly is refused; one that comes at a fair pace may take its time."""
        waited = self._loop.time() - (self._began or 0.0)
        if self._bytes < self._limits().min_body_bytes_per_second * waited:
            protocol.fail(_POLICY, "the message did not arrive in time")
            self._flush()
        else:
            self._wait(protocol)


def _is_text(message: bytes) -> bool:
    try:
        message.decode()
    except UnicodeDecodeError:
        return False
    return True
