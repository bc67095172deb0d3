"""The caller's end of an answer on a connection for create calls: bytes go straight to the transport."""

import asyncio
from http import HTTPStatus
from typing import Protocol

from router.contract.errors import TandemError
from router.contract.relay import Flow, Headers

_STATUS_LINES = {status.value: f"HTTP/1.1 {status.value} {status.phrase}\r\n" for status in HTTPStatus}


def write_head(status: int, headers: Headers, *, closes: bool, may_chunk: bool = True) -> tuple[bytes, bool]:
    """The head of an answer, and whether its body is chunked for want of a length. HTTP/1.0 knows only the close."""
    head = _STATUS_LINES.get(status) or f"HTTP/1.1 {status} Status\r\n"
    head += "".join([f"{name}: {value}\r\n" for name, value in headers])
    is_chunked = may_chunk and "\r\ncontent-length: " not in head
    if is_chunked:
        head += "transfer-encoding: chunked\r\n"
    if closes:
        head += "connection: close\r\n"
    return f"{head}\r\n".encode("latin-1", "replace"), is_chunked


class Pausable(Protocol):
    """A connection that may be paused already when an answer begins."""

    is_paused: bool


class CallerSink:
    """Takes one answer straight to the caller's transport. Head and first piece leave in one write."""

    __slots__ = (
        "_connection",
        "_flow",
        "_head",
        "_is_chunked",
        "_may_chunk",
        "_transport",
        "closes",
        "has_ended",
        "has_started",
        "is_over",
    )

    def __init__(self, connection: Pausable, transport: asyncio.Transport, *, closes: bool, may_chunk: bool = True) -> None:
        self._connection, self._transport, self.closes, self._may_chunk = connection, transport, closes, may_chunk
        self._head = b""
        self._is_chunked = False
        self._flow: Flow | None = None
        self.has_started = self.has_ended = self.is_over = False

    def feed_from(self, flow: Flow) -> None:
        self._flow = flow
        if self._connection.is_paused:
            flow.pause()

    def start(self, status: int, headers: Headers) -> None:
        self.has_started = True
        self._head, self._is_chunked = write_head(status, headers, closes=self.closes, may_chunk=self._may_chunk)

    def write(self, data: bytes) -> None:
        if self._is_chunked:
            data = b"%x\r\n%b\r\n" % (len(data), data)
        if self._head:
            data = self._head + data
            self._head = b""
        self._transport.write(data)

    def end(self) -> None:
        self.has_ended = self.is_over = True
        last = self._head + b"0\r\n\r\n" if self._is_chunked else self._head
        self._head = b""
        if last:
            self._transport.write(last)

    def fail(self, error: TandemError) -> None:
        # What was written is still sent; without its last chunk the caller knows that the answer is not whole.
        self.is_over = True
        self._transport.close()

    def detach(self) -> None:
        """Nothing is pushed any more."""
        self._flow = None

    def set_backpressure(self, *, is_paused: bool) -> None:
        """Pause the upstream while the caller reads more slowly than the target writes."""
        if self._flow is not None:
            if is_paused:
                self._flow.pause()
            else:
                self._flow.resume()
