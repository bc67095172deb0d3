"""One connection to a target: a request out, its answer pushed into a sink.

llhttp (through httptools) parses. Ours are framing by end of file, interim answers, header limits, and noting how much of an
answer came: after the first byte a call must not be retried.
"""

import asyncio
from collections import deque
from collections.abc import Iterable
from enum import IntEnum
from functools import lru_cache
from itertools import chain
from operator import itemgetter, methodcaller
from typing import Protocol, cast

import httptools

from router.contract.relay import Headers, Sink
from router.upstream.reading import READ_BYTES, PausedReading, Turns

_MAX_HEADERS = 200
_MAX_HEADER_BYTES = 65_536
_MAX_INTERIM = 128
_MAX_FRAMING_BYTES = 1 << 20
"""Chunk sizes and trailers, which the parser buffers."""
_IDLE_SECONDS = 50.0
"""Most servers close idle connections after a minute; closing first saves the retry."""
MAX_AGE_SECONDS = 600.0
"""Then a new connection asks for the address again: a name may have moved while the old machine still answers."""
_WHOLE = -1
"""A finished answer. `data_received` acts on it after the last piece of the body."""
_first, _second, _decode = itemgetter(0), itemgetter(1), methodcaller("decode", "latin-1")
_FRAMING = frozenset({"content-length", "transfer-encoding"})


class CannotConnect(Exception):
    """No connection could be opened; the text says why."""


class Seen(IntEnum):
    NOTHING = 0
    BYTES = 1
    HEADERS = 2


class Owner(Protocol):
    """The sender of a request, which owns the connection until one of the last three methods is called."""

    def headers_seen(self) -> None:
        """The sink has status and headers; the body is still to come."""
        ...

    def completed(self, *, may_reuse: bool) -> None:
        """The answer is complete. The sink's `end` comes after this."""
        ...

    def lost(self, seen: Seen) -> None:
        """The connection ended before the answer. The sink is not called."""
        ...

    def malformed(self, reason: str) -> None:
        """The answer is invalid, and the connection closed. The sink is not called."""
        ...


@lru_cache(maxsize=512)
def _header_name(raw: bytes) -> str:
    return raw.decode("latin-1").lower()


def _read_headers(raw: Iterable[tuple[bytes, bytes]]) -> Headers:
    """In C: hosts send twenty headers with every answer."""
    names, values = map(_header_name, map(_first, raw)), map(str.strip, map(_decode, map(_second, raw)))
    return tuple(zip(names, values, strict=True))


class Connection(PausedReading):
    """Serves one owner at a time. While idle, any byte that arrives closes it."""

    # The parser calls the `on_` methods. `on_body` is a list's `append`, which saves a Python call.
    __slots__ = (
        "_body",
        "_has_excess",
        "_head_bytes",
        "_headers",
        "_interim",
        "_is_interim",
        "_keeps_alive",
        "_owner",
        "_parser",
        "_serves_until",
        "_sink",
        "_status",
        "_time",
        "last_read_at",
        "on_body",
    )

    def __init__(self, turns: Turns) -> None:
        super().__init__(turns)
        self._owner: Owner | None = None
        self._sink: Sink | None = None
        self._time = self.loop.time
        self.last_read_at = self._time()
        """Loop time. Set directly to save a call per piece."""
        self._serves_until = self.last_read_at + MAX_AGE_SECONDS
        self._has_excess = self._is_interim = self._keeps_alive = False
        self._body: list[bytes] = []
        self.on_body = self._body.append
        self._headers: deque[tuple[bytes, bytes]] = deque(maxlen=_MAX_HEADERS + 1)
        """Bounded: a head of a hundred thousand is refused without being stored."""
        self._status = self._head_bytes = self._interim = 0
        self._parser = httptools.HttpResponseParser(self)

    @property
    def is_usable(self) -> bool:
        return self._transport is not None and not self._transport.is_closing()

    def may_serve_again(self) -> bool:
        """Whether it is open, was used lately and is not too old."""
        transport, now = self._transport, self._time()
        if transport is None or transport.is_closing():
            return False
        return now < self._serves_until and now < self.last_read_at + _IDLE_SECONDS

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)

    def send(self, owner: Owner, sink: Sink, head: bytes, body: bytes) -> None:
        transport = self._transport
        assert transport is not None
        self._owner, self._sink = owner, sink
        if len(body) < 65_536:
            transport.write(head + body)
        else:
            transport.write(head)
            transport.write(body)

    def drop(self) -> None:
        """Close at once without telling owner or sink."""
        self._owner = self._sink = None
        if self._transport is not None:
            self._transport.abort()

    def buffer_updated(self, size: int) -> None:
        owner, body, status = self._owner, self._body, self._status
        if owner is None:
            self.drop()  # an answer without a request: the connection cannot be trusted
            return
        self.last_read_at = self._time()
        try:
            self._parser.feed_data(self._buffer[:size])
        except httptools.HttpParserUpgrade:
            self._break_off("unexpected protocol switch")
        except httptools.HttpParserError:
            self._break_off("not HTTP/1.1")
        if body:
            sink = self._sink
            if sink is not None:
                sink.write(b"".join(body))
            body.clear()
        elif status:
            self._count(size, _MAX_FRAMING_BYTES, "trailers too large")
        if self._status == status:
            if not status:
                self._count(size, _MAX_HEADER_BYTES, "headers too large")
            elif size == READ_BYTES:
                self.read_in_turn()
        elif self._owner is owner:
            if self._status == _WHOLE:
                self._finish(owner)
            elif not status:
                owner.headers_seen()
                if size == READ_BYTES:
                    self.read_in_turn()

    def _break_off(self, reason: str) -> None:
        """Handle unreadable bytes. What came before them counts, as in a separate read."""
        body, sink = self._body, self._sink
        if self._status == _WHOLE:
            self._has_excess = True
            return
        if body and sink is not None:
            piece = b"".join(body)
            body.clear()
            sink.write(piece)
        self._fail_malformed(reason)

    def _count(self, size: int, max_bytes: int, problem: str) -> None:
        """Bound bytes that bring no body: endless heads and trailers."""
        self._head_bytes += size
        if self._head_bytes > max_bytes:
            self._fail_malformed(problem)

    def eof_received(self) -> bool:
        return False

    def connection_lost(self, error: Exception | None) -> None:
        self._transport = None
        owner, sink = self._owner, self._sink
        if owner is None or sink is None:
            return
        self._owner = self._sink = None
        has_headers = self._status > 0
        is_framed = any(_header_name(name) in _FRAMING for name, _ in self._headers)
        if has_headers and not is_framed and error is None:  # unframed answers end with their connection
            owner.completed(may_reuse=False)
            sink.end()
        else:
            owner.lost(Seen.HEADERS if has_headers else Seen.BYTES if self._head_bytes else Seen.NOTHING)

    def on_message_begin(self) -> None:
        if self._status == _WHOLE:
            raise httptools.HttpParserError("bytes after the answer")  # ends the parsing

    def on_header(self, name: bytes, value: bytes) -> None:
        self._headers.append((name, value))

    def on_headers_complete(self) -> None:
        status, headers = self._parser.get_status_code(), self._headers
        if status < 100:
            self._fail_malformed("invalid status line")
        elif len(headers) > _MAX_HEADERS or sum(map(len, chain.from_iterable(headers))) > _MAX_HEADER_BYTES:
            self._fail_malformed("headers too large")
        elif status >= 200:
            self._status = status
            if self._sink is not None:
                self._sink.start(status, _read_headers(headers))
        else:
            self._is_interim = True
            self._interim += 1
            if self._interim > _MAX_INTERIM:
                self._fail_malformed("too many interim responses")

    def on_message_complete(self) -> None:
        if self._is_interim:
            self._is_interim = False
            self._headers.clear()
            return
        self._status = _WHOLE
        self._keeps_alive = self._parser.should_keep_alive()  # the parser forgets it after this

    def _finish(self, owner: Owner) -> None:
        sink, transport = self._sink, self._transport
        if sink is None:
            return
        has_sent_all = transport is not None and not transport.is_closing() and not transport.get_write_buffer_size()
        may_reuse = has_sent_all and self._keeps_alive and not self._has_excess
        self._owner = self._sink = None
        self._headers.clear()
        self._status = self._head_bytes = self._interim = 0
        if self._is_paused:
            self.resume()  # the pause ends with its call
        owner.completed(may_reuse=may_reuse)
        sink.end()

    def _fail_malformed(self, reason: str) -> None:
        owner = self._owner
        self.drop()
        if owner is not None:
            owner.malformed(reason)
