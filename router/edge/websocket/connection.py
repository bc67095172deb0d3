"""One WebSocket: output, age, silence and close. The protocol layer of `websockets` does frames, without I/O."""

import asyncio
from typing import TYPE_CHECKING, cast

from router.contract.caller import Caller
from router.contract.errors import SocketTooOld
from router.contract.lasting import Held
from router.edge.admission import Admission
from router.edge.deadline import DeadlineTimer
from router.edge.listener import YOUNG_SECONDS, Place
from router.edge.routes import Head, new_request_id
from router.edge.websocket.incoming import Incoming
from router.edge.websocket.lanes import Lanes
from router.edge.websocket.messages import Message, refusal_frame
from router.loop.tasks import spawn
from router.stores.memory.socket_responses import SocketResponses

if TYPE_CHECKING:
    from websockets.server import ServerProtocol

_MAX_AGE_SECONDS = 3_600.0
_PING_SECONDS = 30.0
_MAX_SILENT_PINGS = 3
_MAX_IDLE_SECONDS = 1_800.0
_WRITE_HIGH_BYTES = 65_536
_MAX_UNREAD_BYTES = 1 << 20
"""Unread output after which the caller's messages wait too."""
_CLOSE_SECONDS = 5.0
_TLS_CLOSE_SECONDS = 0.5
_NORMAL, _GOING_AWAY, _POLICY = 1000, 1001, 1008


class SocketConnection(asyncio.Protocol):
    def __init__(
        self, admission: Admission, connections: set[asyncio.Protocol], place: Place, handshake: Head, caller: Caller
    ) -> None:
        self._admission, self._connections, self._place, self._caller = admission, connections, place, caller
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport
        self._protocol: ServerProtocol | None = None
        self._early: list[bytes] = []
        self._lanes = Lanes(self, admission, handshake, SocketResponses(admission.responses), self._check_leave)
        self._incoming = Incoming(admission, self._loop, self._lanes.read, self._receive, self._took)
        self._timer, self._reading = DeadlineTimer(self._loop), DeadlineTimer(self._loop)
        self._began = self._last_message = self._loop.time()
        self._silent_pings = 0
        self._is_leaving = False
        self._held = Held("sockets", handshake.caller, handshake.key, self._revoke)
        self._farewell = _GOING_AWAY, "the router is shutting down"
        self._is_open = False
        """The handshake is done, and no closing frame is out."""
        self._is_ending = False
        """The closing timer runs."""
        self._holds_back = False
        self._is_reading = True
        self.is_paused = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self._transport.set_write_buffer_limits(high=_WRITE_HIGH_BYTES)
        self._connections.add(self)
        self._admission.lasting.hold(self._held)
        spawn(self._begin(), name="websocket")

    async def _begin(self) -> None:
        """Answer the handshake. The first socket loads the library, in a thread."""
        self._protocol = await asyncio.to_thread(_make_protocol, self._admission.limits.max_body_bytes)
        if self._transport.is_closing():
            return
        self._timer.set(_PING_SECONDS, self._tick)
        for data in self._early:
            self.data_received(data)
        self._early.clear()

    def connection_lost(self, error: Exception | None) -> None:
        self._connections.discard(self)
        self._admission.lasting.release(self._held)
        self._place.free()
        self._timer.cancel()
        self._reading.cancel()
        self._incoming.close()
        self._is_open = False
        self._lanes.close()
        if self.is_paused or self._holds_back:
            self._admission.speedups.memory.give_back_later(self._loop)  # unread output of slow callers can be large
        self._protocol = None  # frees its buffers
        self._admission.release_socket(self._caller)

    def eof_received(self) -> bool:
        if self._protocol is not None:
            self._protocol.receive_eof()
            self._flush()
        return False

    def shutdown(self) -> None:
        """Close when idle, once the first message has had its time; on a second call, without that time."""
        was_asked, self._is_leaving = self._is_leaving, True
        young_seconds = self._began + YOUNG_SECONDS - self._loop.time() if self._last_message == self._began else 0.0
        if young_seconds > 0 and not was_asked:
            self._loop.call_later(young_seconds, self._check_leave)
        else:
            self._check_leave()

    @property
    def is_done(self) -> bool:
        return self._transport.is_closing() and not self._transport.get_write_buffer_size()

    def data_received(self, data: bytes) -> None:
        protocol = self._protocol
        if protocol is None:
            self._early.append(data)
            return
        self._silent_pings = 0
        self._incoming.take(protocol, data)
        self._took()

    def _took(self) -> None:
        """Send replies, and pause reading until they are read and all messages processed."""
        if self._flush() and self._transport.get_write_buffer_size() > _MAX_UNREAD_BYTES:
            self._holds_back = True
        self._set_reading()

    def _set_reading(self) -> None:
        if self._holds_back or self._incoming.is_busy:
            self._is_reading = False
            self._transport.pause_reading()
        elif not self._is_reading:
            self._is_reading = True
            self._transport.resume_reading()

    def _receive(self, message: Message) -> bool:
        """Returns whether the message is served or queued."""
        self._is_open = True  # a message may arrive with the handshake
        self._last_message = self._loop.time()
        if self._is_too_old():
            self._refuse_age()
            return False
        return self._lanes.receive(message)

    def send(self, frames: list[bytes]) -> None:
        """Each text gets its own frame; all are dropped if the socket is closing."""
        if not self._is_open or self._transport.is_closing():
            return
        protocol = self._protocol
        assert protocol is not None
        for frame in frames:
            protocol.send_text(frame)
        pieces = protocol.data_to_send()
        self._transport.write(pieces[0] if len(pieces) == 1 else b"".join(pieces))

    def _flush(self) -> bool:
        """Send the library's output, close if it asks, and return whether messages may follow."""
        protocol, transport = self._protocol, self._transport
        if protocol is None:
            return False
        pieces = protocol.data_to_send()
        self._is_open = protocol.state.name == "OPEN"
        if transport.is_closing():
            return False
        if pieces:
            transport.write(b"".join(pieces))
        if not self._is_open:
            self._close_soon(says_end=b"" in pieces)
        return self._is_open

    def _close_soon(self, *, says_end: bool) -> None:
        """A closing frame is out. Close if one came too, else wait briefly for it."""
        protocol, transport = self._protocol, self._transport
        assert protocol is not None
        self._lanes.close()
        self._incoming.close()
        if says_end and protocol.close_rcvd is not None:
            self._close()
            return
        if says_end and transport.can_write_eof():
            transport.write_eof()  # not closed: bytes that arrive at a closed socket would reset the closing frame
        elif says_end:
            self._timer.set(_TLS_CLOSE_SECONDS, self._close)  # TLS has no half-close, so the caller waits for ours
            self._is_ending = True
        if not self._is_ending:
            self._is_ending = True
            self._timer.set(_CLOSE_SECONDS, transport.abort)

    def _close(self) -> None:
        """Close. Over TLS, bound the wait for the caller's close."""
        self._transport.close()
        self._timer.set(_CLOSE_SECONDS, self._transport.abort)

    def _tick(self) -> None:
        protocol = self._protocol
        assert protocol is not None
        if protocol.state.name != "OPEN":
            self._transport.abort()
            return
        if self._silent_pings >= _MAX_SILENT_PINGS:
            self._transport.abort()
            return
        if self._lanes.is_idle and self._is_too_old():
            self._refuse_age()
            self._leave(_NORMAL, "an hour old")
        elif self._lanes.is_idle and self._loop.time() - self._last_message > _MAX_IDLE_SECONDS:
            self._leave(_GOING_AWAY, "idle")
        else:
            self._silent_pings += 1
            protocol.send_ping(b"")
            self._flush()
            self._timer.set(_PING_SECONDS, self._tick)

    def _is_too_old(self) -> bool:
        return self._loop.time() - self._began > _MAX_AGE_SECONDS

    def _refuse_age(self) -> None:
        error = SocketTooOld("this socket is an hour old. Open another one, and send the whole conversation there")
        self.send([refusal_frame(error, new_request_id())])

    def _check_leave(self) -> None:
        if self._lanes.has_refused_login:
            self._is_leaving, self._farewell = True, (_POLICY, "the plan refused this login")
        if self._is_leaving and self._lanes.is_idle and not self._transport.is_closing():
            self._leave(*self._farewell)

    def _revoke(self) -> None:
        """Close once the answers under way have ended; what waits is refused."""
        self._is_leaving, self._farewell = True, (_POLICY, "the key was revoked or has expired")
        self._check_leave()

    def _leave(self, code: int, reason: str) -> None:
        protocol = self._protocol
        if protocol is None or protocol.state.name != "OPEN":
            self._close()
            return
        protocol.send_close(code, reason)
        self._flush()

    def pause_writing(self) -> None:
        self.is_paused = True
        self._reading.abort_unread(self._transport, self._admission.limits.write_idle_timeout_seconds)
        for sink in self._lanes.running:
            sink.set_backpressure(is_paused=True)

    def resume_writing(self) -> None:
        self.is_paused = False
        self._reading.clear()
        if self._holds_back:
            self._holds_back = False
            self._set_reading()
        for sink in self._lanes.running:
            sink.set_backpressure(is_paused=False)


def _make_protocol(max_bytes: int) -> "ServerProtocol":
    """A socket's protocol. Its library takes 0.1 s to load, and most callers use no sockets."""
    from websockets.server import ServerProtocol

    return ServerProtocol(max_size=max_bytes)
