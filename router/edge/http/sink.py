"""Writes an answer to the connection of a create call."""

import asyncio
from email.utils import formatdate
from http import HTTPStatus
from typing import Protocol

from msgspec import Struct

from router.contract.errors import TandemError
from router.contract.relay import Flow, Headers
from router.contract.sinks import AnswerFact
from router.dialects.headers import write_comment
from router.loop.together import Outbox

_PHRASES = {status.value: status.phrase for status in HTTPStatus}
_write_line = ": ".join


class _Beginnings(dict[int, str]):
    """The status line and `Date` by status, so that answers of one second share them."""

    def __missing__(self, status: int) -> str:
        beginning = f"HTTP/1.1 {status} {_PHRASES.get(status, 'Status')}\r\ndate: {formatdate(usegmt=True)}"
        self[status] = beginning
        return beginning


_BEGINNINGS = _Beginnings()
forget_date = _BEGINNINGS.clear
"""Called once a second by the server."""


def write_head(status: int, headers: Headers, closes: bool, may_chunk: bool = True) -> tuple[bytes, bool]:
    """The head of an answer, and whether its body is chunked. HTTP/1.0 marks its end by closing."""
    head = "\r\n".join([_BEGINNINGS[status], *map(_write_line, headers)])
    is_chunked = may_chunk and "\r\ncontent-length: " not in head
    if is_chunked:
        head += "\r\ntransfer-encoding: chunked"
    if closes:
        head += "\r\nconnection: close"
    return f"{head}\r\n\r\n".encode("latin-1", "replace"), is_chunked


class Pausable(Protocol):
    is_paused: bool


class CallerSink(Struct, eq=False):
    """Sends one answer to the caller's transport. Head and first piece leave in one write."""

    _connection: Pausable
    _transport: asyncio.Transport
    closes: bool
    may_chunk: bool = True
    _outbox: Outbox | None = None
    """Batches answers that are not chunked: whole ones, and HTTP/1.0 streams."""
    _head: bytes = b""
    _is_chunked: bool = False
    _flow: Flow | None = None
    has_started: bool = False
    has_ended: bool = False
    is_over: bool = False

    def feed_from(self, flow: Flow) -> None:
        self._flow = flow
        if self._connection.is_paused:
            flow.pause()

    def start(self, status: int, headers: Headers) -> None:
        self.has_started = True
        self._head, self._is_chunked = write_head(status, headers, self.closes, self.may_chunk)

    def tell(self, fact: AnswerFact) -> None:
        self.write(write_comment(fact))

    def write(self, data: bytes) -> None:
        if self._is_chunked:
            data = b"%x\r\n%b\r\n" % (len(data), data)
        elif self._outbox is not None:
            self._outbox.put(self._send, self._head + data)
            self._head = b""
            return
        if self._head:
            data = self._head + data
            self._head = b""
        self._send(data)

    def _send(self, data: bytes) -> None:
        try:  # noqa: SIM105  free per piece, unlike a `with`
            self._transport.write(data)
        except RuntimeError:
            pass  # uvloop has closed it, and reports the caller's departure a little later

    def end(self) -> None:
        self.has_ended = self.is_over = True
        self._flow = None
        if self._is_chunked or self._head:
            self.write(b"")  # the last chunk is empty

    def fail(self, error: TandemError) -> None:
        # Written data is still sent; without a last chunk the caller knows that the answer is incomplete.
        self.is_over = True
        self._flow = None
        if self._outbox is not None:
            self._outbox.empty()
        self._transport.close()

    def set_backpressure(self, *, is_paused: bool) -> None:
        """Pause the upstream while the caller reads too slowly."""
        if self._flow is not None:
            if is_paused:
                self._flow.pause()
            else:
                self._flow.resume()
