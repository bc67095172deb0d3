"""One connection to a target: a request out, its answer pushed into a sink as it arrives.

The parser is llhttp (through httptools). What is ours: framing by end of file, interim answers, limits on headers, and how
much of an answer was seen: once any byte of an answer has been seen, the call must not be retried.
"""

import asyncio
from enum import IntEnum
from functools import lru_cache
from typing import Protocol, cast

import httptools

from router.contract.relay import Sink

_MAX_HEADERS = 200
_MAX_HEADER_BYTES = 65_536
_MAX_INTERIM = 128
_WHOLE = -1
"""The status of an answer that has ended. `data_received` acts on it, after the last piece of the body went out."""


class CannotConnect(Exception):
    """No connection could be opened. Its text says why, in words for people."""


class Seen(IntEnum):
    """How much of an answer had arrived."""

    NOTHING = 0
    BYTES = 1
    HEADERS = 2


class Owner(Protocol):
    """Whoever sent a request over a connection. It owns the connection until it is told one of the last three, once."""

    def headers_seen(self) -> None:
        """The sink has the answer's status and headers, and its body is still to come."""
        ...

    def completed(self, *, may_reuse: bool) -> None:
        """The answer is whole. The sink is told after this."""
        ...

    def lost(self, seen: Seen) -> None:
        """The connection ended before the answer did. The sink is not told."""
        ...

    def malformed(self, reason: str) -> None:
        """What came is not an answer, and the connection is closed. The sink is not told."""
        ...


@lru_cache(maxsize=512)
def _header_name(raw: bytes) -> str:
    return raw.decode("latin-1").lower()


class Connection(asyncio.Protocol):
    """Serves one owner at a time. Without one it is idle, and any byte that arrives closes it."""

    __slots__ = (
        "_body",
        "_has_excess",
        "_header_bytes",
        "_headers",
        "_interim",
        "_is_chunked",
        "_is_interim",
        "_is_paused",
        "_keeps_alive",
        "_length",
        "_owner",
        "_parser",
        "_seen_any",
        "_sink",
        "_status",
        "_time",
        "_transport",
        "last_read_at",
    )

    def __init__(self) -> None:
        self._transport: asyncio.Transport | None = None
        self._owner: Owner | None = None
        self._sink: Sink | None = None
        self._is_paused = False
        self._time = asyncio.get_running_loop().time
        self.last_read_at = 0.0
        """When bytes last arrived, on the loop's clock. Read by its owner; setting it here spares a call for each piece."""
        self._body: list[bytes] = []
        self._parser = httptools.HttpResponseParser(self)
        self._reset()

    def _reset(self) -> None:
        self._headers: list[tuple[str, str]] = []
        self._header_bytes = 0
        self._interim = 0
        self._is_interim = False
        self._is_chunked = False
        self._length: int | None = None
        self._status = 0
        self._has_excess = False
        self._keeps_alive = False
        self._seen_any = False

    @property
    def is_usable(self) -> bool:
        """Whether a new request may be written to it."""
        return self._transport is not None and not self._transport.is_closing()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)

    def send(self, owner: Owner, sink: Sink, head: bytes, body: bytes) -> None:
        """Write a request. Its answer goes to the sink; the owner is told how that ended."""
        assert self._transport is not None
        self._owner, self._sink = owner, sink
        if len(body) < 65_536:
            self._transport.write(head + body)
        else:
            self._transport.write(head)
            self._transport.write(body)

    def pause(self) -> None:
        """Stop reading: the kernel's buffers fill, and the target waits."""
        if self._transport is not None and not self._transport.is_closing():
            self._is_paused = True
            self._transport.pause_reading()

    def resume(self) -> None:
        """Read on."""
        self._is_paused = False
        if self._transport is not None and not self._transport.is_closing():
            self._transport.resume_reading()

    def drop(self) -> None:
        """Close at once, whatever is under way. Neither owner nor sink is told."""
        self._owner = self._sink = None
        if self._transport is not None:
            self._transport.abort()

    def data_received(self, data: bytes) -> None:
        owner = self._owner
        if owner is None:
            self.drop()  # an answer without a request: whatever comes next on it cannot be trusted
            return
        self.last_read_at = self._time()
        self._seen_any, had_headers = True, self._status > 0
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade:
            self._fail_malformed("unexpected protocol switch")
        except httptools.HttpParserError:
            self._fail_malformed("not HTTP/1.1")
        if self._body:
            body = self._body[0] if len(self._body) == 1 else b"".join(self._body)
            self._body.clear()
            if self._sink is not None:
                self._sink.write(body)
        if self._owner is not owner:
            return
        if self._status == _WHOLE:
            self._finish()
        elif self._status > 0 and not had_headers:
            owner.headers_seen()

    def eof_received(self) -> bool:
        return False

    def connection_lost(self, error: Exception | None) -> None:
        self._transport = None
        owner, sink = self._owner, self._sink
        if owner is None or sink is None:
            return
        self._owner = self._sink = None
        has_headers = self._status > 0 and not self._is_interim
        ends_by_closing = has_headers and self._length is None and not self._is_chunked and error is None
        if ends_by_closing:
            owner.completed(may_reuse=False)
            sink.end()
        else:
            owner.lost(Seen.HEADERS if has_headers else Seen.BYTES if self._seen_any else Seen.NOTHING)

    # What the parser calls, in order.

    def on_message_begin(self) -> None:
        if self._status == _WHOLE:
            self._has_excess = True

    def on_header(self, name: bytes, value: bytes) -> None:
        if self._has_excess:
            return
        headers = self._headers
        self._header_bytes = size = self._header_bytes + len(name) + len(value)
        if size > _MAX_HEADER_BYTES or len(headers) >= _MAX_HEADERS:
            self._fail_malformed("headers too large")
            return
        lower = _header_name(name)
        if lower == "transfer-encoding":
            self._is_chunked = True
        elif lower == "content-length" and value.isdigit():
            self._length = int(value)
        headers.append((lower, value.decode("latin-1").strip()))

    def on_headers_complete(self) -> None:
        if self._has_excess:
            return
        status = self._parser.get_status_code()
        if status < 100:
            self._fail_malformed("invalid status line")
            return
        if status < 200:
            self._is_interim = True
            self._interim += 1
            if self._interim > _MAX_INTERIM:
                self._fail_malformed("too many interim responses")
            return
        self._status = status
        if self._sink is not None:
            self._sink.start(status, tuple(self._headers))

    def on_body(self, body: bytes) -> None:
        if not self._has_excess:
            self._body.append(body)

    def on_message_complete(self) -> None:
        if self._is_interim:
            self._is_interim = False
            self._headers.clear()
            return
        self._status = _WHOLE
        self._keeps_alive = self._parser.should_keep_alive()  # asked here: the parser forgets it right after

    def _finish(self) -> None:
        owner, sink = self._owner, self._sink
        if owner is None or sink is None:
            return
        has_sent_all = self._transport is not None and self._transport.get_write_buffer_size() == 0
        may_reuse = self._keeps_alive and self.is_usable and not self._has_excess and has_sent_all
        self._owner = self._sink = None
        self._reset()
        if self._is_paused:
            self.resume()  # the pause ends with its call: the next one must find the connection reading
        owner.completed(may_reuse=may_reuse)
        sink.end()

    def _fail_malformed(self, reason: str) -> None:
        owner = self._owner
        self.drop()
        if owner is not None:
            owner.malformed(reason)
