"""uvicorn's own protocol for connections that were handed over, with the deadlines and limits that it lacks."""

import asyncio
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from router.edge.doors import Limits

_LINGER_SECONDS = 1.0


class ControlConnection(HttpToolsProtocol):
    """Headers must arrive in time and in size; a body must not come by the byte."""

    def __init__(self, limits: Limits, first_head_seconds: float, **given: Any) -> None:
        super().__init__(**given)
        self._limits = limits
        self._head_seconds = first_head_seconds
        self._waiting: asyncio.TimerHandle | None = None
        self._head_bytes = 0
        self._in_head = False
        self._is_deaf = False
        self._unread: asyncio.TimerHandle | None = None

    def data_received(self, data: bytes) -> None:
        """Feed the parser, and watch the clock and the size while a head is incomplete."""
        if self._is_deaf:
            return
        self._head_bytes += len(data)
        self._in_head = True
        super().data_received(data)
        if not self._in_head:
            self._head_bytes = 0
            self._head_seconds = self._limits.header_timeout_seconds
            self._stop_waiting()
        elif self._head_bytes > self._limits.max_header_bytes + 65_536 and not self.transport.is_closing():
            self._refuse(b"431 Request Header Fields Too Large")
        elif self._waiting is None and not self._is_answering() and not self.transport.is_closing():
            self._waiting = self.loop.call_later(self._head_seconds, self._refuse, b"408 Request Timeout")

    def on_headers_complete(self) -> None:
        """The head is whole. A target that names a host is another proxy's business."""
        self._in_head = False
        if not self.url.startswith(b"/"):
            self._refuse(b"400 Bad Request")
            return
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        """A body's own time is watched by who reads it."""
        self._in_head = False
        if not self._is_deaf:
            super().on_body(body)

    def on_message_complete(self) -> None:
        """The request is whole."""
        self._in_head = False
        if not self._is_deaf:
            super().on_message_complete()

    def pause_writing(self) -> None:
        """The caller reads slowly; if it does not read at all it is cut."""
        super().pause_writing()
        self._unread = self.loop.call_later(self._limits.write_idle_timeout_seconds, self.transport.abort)

    def resume_writing(self) -> None:
        """The caller caught up."""
        if self._unread is not None:
            self._unread.cancel()
            self._unread = None
        super().resume_writing()

    def _is_answering(self) -> bool:
        return self.cycle is not None and not self.cycle.response_complete

    def connection_lost(self, exc: Exception | None) -> None:
        """The caller is gone."""
        self._stop_waiting()
        if self._unread is not None:
            self._unread.cancel()
        super().connection_lost(exc)

    def _stop_waiting(self) -> None:
        if self._waiting is not None:
            self._waiting.cancel()
            self._waiting = None

    def _refuse(self, status: bytes) -> None:
        self._stop_waiting()
        self._is_deaf = True
        if self._is_answering():
            self.transport.close()  # one status is out already
            return
        self.transport.write(b"HTTP/1.1 " + status + b"\r\ncontent-length: 0\r\nconnection: close\r\n\r\n")
        if self.transport.can_write_eof():
            self.transport.write_eof()  # bytes that arrive at a closed socket would take the refusal back
        self._waiting = self.loop.call_later(_LINGER_SECONDS, self.transport.close)
