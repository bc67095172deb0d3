"""One WebSocket to a target.

Framing is that of `websockets`, whose protocol layer does no I/O. It is imported with the first socket, in a thread: that takes
0.1 s, and most targets speak HTTP.
"""

import asyncio
from collections import deque
from functools import partial
from typing import TYPE_CHECKING, Protocol, cast

from router.contract.relay import Headers, Tls
from router.dialects.json_body import is_utf8
from router.dialects.transports import OF_A_PLAN
from router.upstream.address import Address
from router.upstream.connection import CannotConnect
from router.upstream.dial import Dialer
from router.upstream.reading import READ_BYTES, PausedReading, Turns
from router.upstream.websocket.frames import ERROR, kind_of
from router.upstream.websocket.increment import Baseline

if TYPE_CHECKING:
    from websockets.client import ClientProtocol
    from websockets.frames import Frame
    from websockets.http11 import Response

_MAX_MESSAGE_BYTES = 64 << 20
_MAX_FRAGMENTS = 4_096
_MAX_CONTROL_FRAMES = 4_096
"""Control frames without a message in between: a target that sends only those is dropped."""
_MAX_UNREAD_BYTES = 1 << 16
"""While a target leaves more unread, its pings are not answered."""
_MAX_PAST = 8
_CLOSE_SECONDS = 1.0
TOO_LARGE = 1009
"""Close code: message too large."""
_CONTINUED, _TEXT, _BINARY, _CLOSE = 0, 1, 2, 8
_STEADY_HEADERS = frozenset({"x-reasoning-included"})
"""Handshake headers valid for every answer. Others, such as limits, are momentary: the first answer has those of a plan."""
_OF_A_RESPONSE = ("response.", ERROR)
_STATUS_LINE, _SWITCHED = b"HTTP/1.1 ", b"HTTP/1.1 101"


class UpgradeRefused(CannotConnect):
    """The target answered the handshake with another status."""

    def __init__(self, status: int) -> None:
        super().__init__(f"no WebSocket ({status})")
        self.status = status


class ClosedEarly(CannotConnect):
    """The target closed the connection during the handshake."""


class Owner(Protocol):
    def received(self, text: bytes) -> None: ...

    def lost(self, code: int | None = None) -> None:
        """Called if the socket is gone or broke the protocol, with the close code if one came."""
        ...


class UpstreamSocket(PausedReading):
    """Serves one owner at a time. While idle, an answer or error that arrives closes it."""

    def __init__(self, protocol: "ClientProtocol", headers: Headers, turns: Turns) -> None:
        super().__init__(turns)
        self._protocol, self._headers = protocol, headers
        self._owner: Owner | None = None
        self._first = b""
        self._fragments: list[bytes] = []
        self._control_frames = 0
        self._closing: asyncio.TimerHandle | None = None
        self._is_silent = False
        self.opened: asyncio.Future[None] = self.loop.create_future()
        """Fails with `CannotConnect`."""
        self.made_at = self.used_at = self.loop.time()
        self._steady_headers: Headers = ()
        self._first_headers: Headers = ()
        self.baseline: Baseline | None = None
        self.past_ids: deque[str] = deque(maxlen=_MAX_PAST)

    @property
    def is_usable(self) -> bool:
        return self._transport is not None and not self._transport.is_closing() and self._protocol.state.name == "OPEN"

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        request = self._protocol.connect()
        for name, value in self._headers:
            request.headers[name] = value
        self._headers = ()  # they hold a key
        self._protocol.send_request(request)
        self._flush()

    def buffer_updated(self, size: int) -> None:
        data = bytes(self._buffer[:size])
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
        elif size == READ_BYTES:
            self.read_in_turn()

    def _is_refusal(self) -> bool:
        """Refuse anything but a switch, without waiting for its body as the library would."""
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
        named = [(name.lower(), value) for name, value in response.headers.raw_items()]
        self._steady_headers = tuple(header for header in named if header[0] in _STEADY_HEADERS)
        self._first_headers = tuple(header for header in named if header[0].startswith(OF_A_PLAN))
        self.opened.set_result(None)

    def take_answer_headers(self) -> Headers:
        """What the handshake says about the next answer."""
        first, self._first_headers = self._first_headers, ()
        return self._steady_headers + first

    def _take(self, frame: "Frame") -> None:
        """Handle a frame. The library answers pings."""
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
            self.abort()  # unrequested: the socket is too old, or cannot be trusted

    def send(self, owner: Owner, text: bytes) -> None:
        self._owner = owner
        self.used_at = self.loop.time()
        self._protocol.send_text(text)
        self._flush()

    def release(self) -> None:
        self._owner = None
        self.used_at = self.loop.time()

    def is_alive(self) -> bool:
        """Whether anything came since the last call. Sends a ping."""
        if self._is_silent or not self.is_usable:
            return False
        self._is_silent = True
        self._protocol.send_ping(b"")
        self._flush()
        return True

    def close(self) -> None:
        """Close with a close frame, without telling the owner."""
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
        """Close without a close frame."""
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
    """Dial a target and complete the handshake. Raises `CannotConnect`."""
    protocol = await asyncio.to_thread(_make_protocol, address)
    socket: UpstreamSocket | None = None
    try:
        async with asyncio.timeout(within_seconds):
            socket = await dialer.dial_for(partial(UpstreamSocket, protocol, headers), address, tls, within_seconds)
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
    # No compression: messages of a running conversation are small, and every event would pay for it.
    return ClientProtocol(WebSocketURI(address.is_tls, address.host, address.port, path, query), max_size=_MAX_MESSAGE_BYTES)
