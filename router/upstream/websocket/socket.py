"""One WebSocket to a target: its handshake, messages out and in, its age, and how it closes.

Frames, masks and close codes are those of the `websockets` library, whose protocol layer does no I/O. It is loaded with the
first socket, in a thread: that takes 0.1 s, and most targets speak HTTP.
"""

import asyncio
from collections import deque
from typing import TYPE_CHECKING, Protocol, cast

from router.contract.relay import Headers, Tls
from router.dialects.json_body import is_utf8
from router.upstream.address import Address
from router.upstream.connection import CannotConnect
from router.upstream.dial import Dialer
from router.upstream.websocket.frames import ERROR, kind_of
from router.upstream.websocket.increment import Baseline

if TYPE_CHECKING:
    from websockets.client import ClientProtocol
    from websockets.frames import Frame
    from websockets.http11 import Response

_MAX_MESSAGE_BYTES = 64 << 20
_MAX_FRAGMENTS = 4_096
_MAX_CONTROL_FRAMES = 4_096
"""Pings and such without a message among them: a target that sends nothing else is not worth its socket."""
_MAX_UNREAD_BYTES = 1 << 16
"""While a target leaves more than this unread, its pings are not answered: it would not read the answers either."""
_MAX_PAST = 8
_CLOSE_SECONDS = 1.0
TOO_LARGE = 1009
"""The close code of a target for which a message was too large."""
_CONTINUED, _TEXT, _BINARY, _CLOSE = 0, 1, 2, 8
_STEADY_HEADERS = frozenset({"x-reasoning-included"})
"""Headers of the handshake that hold for every answer. Others, such as limits, are of that moment."""
_OF_A_RESPONSE = ("response.", ERROR)
_STATUS_LINE, _SWITCHED = b"HTTP/1.1 ", b"HTTP/1.1 101"


class UpgradeRefused(CannotConnect):
    """A target answered the handshake with something else than a socket."""

    def __init__(self, status: int) -> None:
        super().__init__(f"no WebSocket ({status})")
        self.status = status


class ClosedEarly(CannotConnect):
    """A target closed the connection before it had answered the handshake."""


class Owner(Protocol):
    """The sender of the request that is under way on a socket."""

    def received(self, text: bytes) -> None:
        """A message has come."""
        ...

    def lost(self, code: int | None = None) -> None:
        """The socket is gone, or what came on it breaks the protocol. With the code of the close frame, where one came."""
        ...


class UpstreamSocket(asyncio.Protocol):
    """Serves one owner at a time. Without one it is idle, and an answer or an error that arrives closes it."""

    def __init__(self, protocol: "ClientProtocol", headers: Headers) -> None:
        self._protocol, self._headers = protocol, headers
        self._transport: asyncio.Transport | None = None
        self._owner: Owner | None = None
        self._first = b""
        """The first bytes of its answer to the handshake, until they say what it is."""
        self._fragments: list[bytes] = []
        self._control_frames = 0
        self._closing: asyncio.TimerHandle | None = None
        self._is_silent = False
        self.loop = asyncio.get_running_loop()
        self.opened: asyncio.Future[None] = self.loop.create_future()
        """Done once the target has taken the handshake; fails with `CannotConnect`."""
        self.made_at = self.used_at = self.loop.time()
        self.answer_headers: Headers = ()
        """What the handshake said for all answers."""
        self.baseline: Baseline | None = None
        """What its next request may go on from."""
        self.past_ids: deque[str] = deque(maxlen=_MAX_PAST)
        """The last responses that it had."""

    @property
    def is_usable(self) -> bool:
        """Whether a request may be sent on it."""
        return self._transport is not None and not self._transport.is_closing() and self._protocol.state.name == "OPEN"

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        request = self._protocol.connect()
        for name, value in self._headers:
            request.headers[name] = value
        self._headers = ()  # they hold a key
        self._protocol.send_request(request)
        self._flush()

    def data_received(self, data: bytes) -> None:
        if len(self._first) < len(_SWITCHED):
            self._first += data[: len(_SWITCHED) - len(self._first)]
            if not _SWITCHED.startswith(self._first) and self._is_refusal():
                return
        self._is_silent = False
        self._protocol.receive_data(data)
        for event in self._protocol.events_received():
            if self.opened.done():
                self._take(cast("Frame", event))
            else:
                self._open(cast("Response", event))
        if self._protocol.state.name == "OPEN" and self._unread_bytes > _MAX_UNREAD_BYTES:
            self._protocol.data_to_send()
        else:
            self._flush()
        if self._protocol.parser_exc is not None:
            self._lose()
        elif self._protocol.handshake_exc is not None:
            self._refuse(CannotConnect("its answer to the handshake is not valid"))

    def _is_refusal(self) -> bool:
        """Refuse what is no switch to a WebSocket, without the body of the refusal, for which the library would wait."""
        if len(self._first) < len(_SWITCHED) and _STATUS_LINE.startswith(self._first[: len(_STATUS_LINE)]):
            return False
        status = self._first[9:12]
        self._refuse(UpgradeRefused(int(status)) if status.isdigit() else CannotConnect("its answer is not HTTP/1.1"))
        return True

    @property
    def _unread_bytes(self) -> int:
        return 0 if self._transport is None else self._transport.get_write_buffer_size()

    def _open(self, response: "Response") -> None:
        if self._protocol.handshake_exc is not None:
            self._refuse(UpgradeRefused(response.status_code))
            return
        named = ((name.lower(), value) for name, value in response.headers.raw_items())
        self.answer_headers = tuple((name, value) for name, value in named if name in _STEADY_HEADERS)
        self.opened.set_result(None)

    def _take(self, frame: "Frame") -> None:
        """Take a frame. Pings were answered by the library."""
        if frame.opcode in (_TEXT, _CONTINUED):
            self._control_frames = 0
            self._take_text(frame)
            return
        self._control_frames += 1
        if frame.opcode in (_BINARY, _CLOSE) or self._control_frames > _MAX_CONTROL_FRAMES:
            self._lose()

    def _refuse(self, error: CannotConnect) -> None:
        if not self.opened.done():
            self.opened.set_exception(error)
        self.abort()

    def _take_text(self, frame: "Frame") -> None:
        self._fragments.append(bytes(frame.data))
        if not frame.fin:
            if len(self._fragments) > _MAX_FRAGMENTS:
                self._lose()
            return
        text = b"".join(self._fragments)
        self._fragments.clear()
        if not is_utf8(text):
            self._lose()
        elif self._owner is not None:
            self._owner.received(text)
        elif kind_of(text).startswith(_OF_A_RESPONSE):
            self.abort()  # nobody asked for it: the socket is too old, or cannot be trusted

    def send(self, owner: Owner, text: bytes) -> None:
        """Send a message. What comes back goes to the owner."""
        self._owner = owner
        self.used_at = self.loop.time()
        self._protocol.send_text(text)
        self._flush()

    def release(self) -> None:
        self._owner = None
        self.used_at = self.loop.time()

    def pause(self) -> None:
        """Stop reading: the target waits."""
        if self._transport is not None and not self._transport.is_closing():
            self._transport.pause_reading()

    def resume(self) -> None:
        if self._transport is not None and not self._transport.is_closing():
            self._transport.resume_reading()

    def is_alive(self) -> bool:
        """Whether anything has come since this was last asked. Asks the target to say something."""
        if self._is_silent or not self.is_usable:
            return False
        self._is_silent = True
        self._protocol.send_ping(b"")
        self._flush()
        return True

    def close(self) -> None:
        """Close at once, whatever is under way, and say so. No owner is told."""
        self._owner = None
        transport = self._transport
        if transport is None:
            return
        if self.is_usable:
            self._protocol.send_close(1000)
            self._flush()
        transport.close()
        if self._closing is None:
            self._closing = self.loop.call_later(_CLOSE_SECONDS, transport.abort)

    def abort(self) -> None:
        """Close without a word."""
        self._owner = None
        if self._transport is not None:
            self._transport.abort()

    def eof_received(self) -> bool:
        return False

    def connection_lost(self, error: Exception | None) -> None:
        self._transport = None
        if self._closing is not None:
            self._closing.cancel()
        if not self.opened.done():
            self.opened.set_exception(ClosedEarly("closed in the middle of the handshake"))
        self._lose()

    def _lose(self) -> None:
        owner, self._owner = self._owner, None
        if self._transport is not None:
            self._transport.close()
        if owner is not None:
            close = self._protocol.close_rcvd
            owner.lost(None if close is None else close.code)

    def _flush(self) -> None:
        pieces = self._protocol.data_to_send()
        transport = self._transport
        if pieces and transport is not None and not transport.is_closing():
            transport.write(b"".join(pieces))


async def open_socket(
    dialer: Dialer, address: Address, tls: Tls | None, headers: Headers, within_seconds: float
) -> UpstreamSocket:
    """Dial a target, and have it take the handshake. Raises `CannotConnect`."""
    protocol = await asyncio.to_thread(_make_protocol, address)
    socket: UpstreamSocket | None = None
    try:
        async with asyncio.timeout(within_seconds):
            socket = await dialer.dial_for(lambda: UpstreamSocket(protocol, headers), address, tls, within_seconds)
            await socket.opened
    except TimeoutError as error:
        raise CannotConnect(f"no WebSocket within {within_seconds:g} s") from error
    finally:
        if socket is not None and not socket.is_usable:
            socket.abort()
    return socket


def _make_protocol(address: Address) -> "ClientProtocol":
    from websockets.client import ClientProtocol
    from websockets.uri import WebSocketURI

    path, _, query = address.path.partition("?")
    # Without compression: what is sent is small once a conversation goes on, and every event would pay for it.
    return ClientProtocol(WebSocketURI(address.is_tls, address.host, address.port, path, query), max_size=_MAX_MESSAGE_BYTES)
