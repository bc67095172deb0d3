"""One connection to a target: a request out, its answer pushed into a sink as it arrives.

The parser is llhttp (through httptools). What is ours: framing by end of file, interim answers, limits on headers, and
knowing whether anything of an answer was seen, since only then may nobody try again.
"""

import asyncio
from functools import lru_cache
from typing import TYPE_CHECKING, cast

import httptools

from router.contract.relay import Sink

if TYPE_CHECKING:
    from router.upstream.call import Call

_MAX_HEADERS = 200
_MAX_HEADER_BYTES = 65_536
_MAX_INTERIM = 128
_WHOLE = -1
"""The status of an answer that has ended. `data_received` acts on it, after the last piece of the body went out."""


@lru_cache(maxsize=512)
def _header_name(raw: bytes) -> str:
    return raw.decode("latin-1").lower()


class Connection(asyncio.Protocol):
    """Serves one call at a time. The pool owns it while it is idle, a `Call` while it works."""

    __slots__ = (
        "_body",
        "_call",
        "_has_excess",
        "_header_bytes",
        "_headers",
        "_interim",
        "_is_chunked",
        "_is_interim",
        "_is_paused",
        "_keeps_alive",
        "_length",
        "_parser",
        "_sink",
        "_status",
        "_transport",
        "answered",
        "home",
        "idle_since",
        "is_reused",
    )

    def __init__(self) -> None:
        self._transport: asyncio.Transport | None = None
        self._call: Call | None = None
        self._sink: Sink | None = None
        self.is_reused = False
        self.answered = False
        self.idle_since = 0.0
        self._is_paused = False
        self.home = ""
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
        self.answered = False

    @property
    def is_usable(self) -> bool:
        """Whether a new request may be written to it."""
        return self._transport is not None and not self._transport.is_closing()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)

    def send(self, call: "Call", sink: Sink, head: bytes, body: bytes) -> None:
        """Write a request. Its answer goes to the sink; `call` is told when the connection is free or lost."""
        assert self._transport is not None
        self._call, self._sink = call, sink
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
        """Close at once, whatever is under way. Nobody hears of it."""
        self._call = self._sink = None
        if self._transport is not None:
            self._transport.abort()

    def data_received(self, data: bytes) -> None:
        call = self._call
        if call is None:
            self.drop()  # an answer that nobody asked for: whatever comes next on it cannot be trusted
            return
        call.touch()
        self.answered, was_headed = True, self._status > 0
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade:
            self._fail_malformed("it switched protocols")
        except httptools.HttpParserError:
            self._fail_malformed("its answer is not HTTP/1.1")
        if self._body:
            body = self._body[0] if len(self._body) == 1 else b"".join(self._body)
            self._body.clear()
            if self._sink is not None:
                self._sink.write(body)
        if self._call is not call:
            return
        if self._status == _WHOLE:
            self._finish()
        elif self._status > 0 and not was_headed:
            call.watch()

    def eof_received(self) -> bool:
        return False

    def connection_lost(self, error: Exception | None) -> None:
        self._transport = None
        call, sink = self._call, self._sink
        if call is None or sink is None:
            return
        self._call = self._sink = None
        ends_here = (
            self._status > 0 and not self._is_interim and self._length is None and not self._is_chunked and error is None
        )
        if ends_here:
            call.done(self, may_reuse=False)
            sink.end()
        else:
            call.lost(self)

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
            self._fail_malformed("its headers are too large")
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
            self._fail_malformed("its status is none")
            return
        if status < 200:
            self._is_interim = True
            self._interim += 1
            if self._interim > _MAX_INTERIM:
                self._fail_malformed("it sends interim answers without end")
            return
        self._status = status
        if self._call is not None and self._sink is not None:
            self._call.headed()
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
        call, sink = self._call, self._sink
        if call is None or sink is None:
            return
        has_sent_all = self._transport is not None and self._transport.get_write_buffer_size() == 0
        may_reuse = self._keeps_alive and self.is_usable and not self._has_excess and has_sent_all
        self._call = self._sink = None
        self._reset()
        self.is_reused = True
        if self._is_paused:
            self.resume()  # by now the pause belongs to nobody: the next call must find the connection reading
        call.done(self, may_reuse=may_reuse)
        sink.end()

    def _fail_malformed(self, reason: str) -> None:
        call = self._call
        self.drop()
        if call is not None:
            call.malformed(reason)
