"""uvicorn's protocol for connections that were handed over, with the deadlines and limits that it lacks."""

import asyncio
import logging
import re
from collections.abc import Callable
from email.utils import formatdate
from typing import Any

import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
from uvicorn.server import ServerState

from router.contract.errors import BadRequest, BodyTimeout, HeadersTooLarge, TandemError
from router.edge.admission import Admission
from router.edge.deadline import DeadlineTimer
from router.edge.http.asgi import App
from router.edge.http.head import INVALID
from router.edge.http.refuse import refusal_bytes
from router.edge.http.request_reader import may_become_socket
from router.edge.listener import Place
from router.edge.routes import dialect_of_path, new_request_id

STREAMS = "streams"
"""State of a request whose answer is sent in pieces as they come."""
_LINGER_SECONDS = 1.0
_MAX_BODY_BYTES_BEHIND_A_HEAD = 65_536
_MAX_PIPELINED_BYTES = 65_536
_MAX_PIPELINED = 64
_VERSIONS = ("1.0", "1.1")
_ABSOLUTE = re.compile(rb"https?://(?P<host>[^/?#@]+)(?P<path>(?:[/?].*)?)", re.IGNORECASE | re.DOTALL).fullmatch
_CODINGS: tuple[list[bytes], ...] = ([], [b"chunked"])


class ControlConnections:
    """What uvicorn's protocol needs of a server, without uvicorn's logging."""

    def __init__(
        self, admission: Admission, app: App, make_first: Callable[[Place], asyncio.Protocol], connections: set[Any]
    ) -> None:
        for name in ("uvicorn", "uvicorn.error", "uvicorn.asgi"):
            logging.getLogger(name).setLevel(logging.CRITICAL + 1)
        self._admission, self._make_first = admission, make_first
        self._config = uvicorn.Config(
            app,
            http=ControlConnection,  # keeps uvicorn from loading its own
            ws="none",
            lifespan="off",
            log_config=None,
            access_log=False,
            server_header=False,
            proxy_headers=False,  # anyone can forge them, and wrong keys are counted by address
        )
        self._state = ServerState()
        self._state.connections = connections

    def make(self, place: Place, head_seconds: float) -> "ControlConnection":
        given = {"config": self._config, "server_state": self._state, "app_state": {}}
        return ControlConnection(self._admission, place, head_seconds, self._make_first, **given)

    def set_date(self, *, closes: bool) -> None:
        """The headers of every answer. `closes` asks each caller to reconnect, to another router."""
        date = (b"date", formatdate(usegmt=True).encode())
        self._state.default_headers = [date, (b"connection", b"close")] if closes else [date]

    @property
    def is_busy(self) -> bool:
        return bool(self._state.tasks)


class ControlConnection(HttpToolsProtocol):
    """Bounds the time and size of heads, and the pace of bodies."""

    url = b""

    def __init__(
        self,
        admission: Admission,
        place: Place,
        first_head_seconds: float,
        make_first: Callable[[Place], asyncio.Protocol],
        **given: Any,
    ) -> None:
        super().__init__(**given)
        self._admission, self._place, self._make_first = admission, place, make_first
        self.timeout_keep_alive = round(admission.limits.keep_alive_seconds)
        self._head_seconds = first_head_seconds
        self._waiting, self._unread = DeadlineTimer(self.loop), DeadlineTimer(self.loop)
        self._head_bytes = 0
        self._in_head = self._in_body = False
        self._reads_fields = False
        self._ignores_input = False
        self._unanswered: list[Any] = []
        """Oldest first."""
        self._pipelined_bytes = 0

    def data_received(self, data: bytes) -> None:
        if self._ignores_input or self.transport.is_closing():  # over TLS, bytes arrive until the caller notices
            return
        if self._is_between_requests and may_become_socket(data):
            self._hand_back(data)
            return
        self._head_bytes += len(data)
        self._in_head = True
        super().data_received(data)
        self._watch_head()

    @property
    def _is_between_requests(self) -> bool:
        """Whether the next request has not begun. The first cannot be for a WebSocket."""
        return self.cycle is not None and not (self._in_head or self._in_body or self._is_answering() or self.pipeline)

    def _hand_back(self, data: bytes) -> None:
        """Start over on a connection that may now ask for a WebSocket: proxies reuse one for any request."""
        self._waiting.cancel()
        self._unset_keepalive_if_required()
        self.connections.discard(self)
        first = self._make_first(self._place)
        self.transport.set_protocol(first)
        first.connection_made(self.transport)
        first.data_received(data)

    def _watch_head(self) -> None:
        if self._ignores_input:
            return
        limits = self._admission.limits
        if not self._in_head:
            self._head_bytes = 0
            self._head_seconds = limits.header_timeout_seconds
            self._waiting.cancel()
        elif self.transport.is_closing():
            return
        elif self._head_bytes > limits.max_header_bytes + _MAX_BODY_BYTES_BEHIND_A_HEAD:
            self._reject(HeadersTooLarge(f"the headers are over the limit of {limits.max_header_bytes} bytes"))
        elif self._waiting.on_deadline is None and not self._is_answering():
            self._waiting.set(self._head_seconds, self._reject_late_head)

    def _reject_late_head(self) -> None:
        self._reject(BodyTimeout("the headers did not arrive in time"))

    def on_message_begin(self) -> None:
        self._reads_fields = self._in_body = True
        super().on_message_begin()

    def on_header(self, name: bytes, value: bytes) -> None:
        """Trailers are ignored, since they were not checked."""
        if self._reads_fields:
            super().on_header(name, value)

    def on_headers_complete(self) -> None:
        """Check the request line and framing."""
        self._in_head = self._reads_fields = False
        if self._ignores_input:
            return
        if self.url[:4].lower() == b"http":
            self._read_absolute()
        if not self.url.startswith(b"/") or b"#" in self.url:
            self._reject(BadRequest("the request target must be a path or an http URL"))
        elif self.parser.get_http_version() not in _VERSIONS or self._codings() not in _CODINGS:
            self._reject(BadRequest(INVALID))
        else:
            self._begin_cycle()

    def _read_absolute(self) -> None:
        """Take host and path from an absolute URL, which clients send to a proxy. Its host counts (RFC 9112, 3.2.2)."""
        found = _ABSOLUTE(self.url)
        if found is not None:
            self.url = found["path"] if found["path"].startswith(b"/") else b"/" + found["path"]
            self.headers[:] = [(name, found["host"] if name == b"host" else value) for name, value in self.headers]

    def _codings(self) -> list[bytes]:
        return [value.strip().lower() for name, value in self.headers if name == b"transfer-encoding"]

    def _begin_cycle(self) -> None:
        """Serve the request, or queue it after earlier ones.

        uvicorn stops reading while one waits, and reports a disconnect to the last request only. Here reading continues, to
        notice a caller that leaves, and all are informed.
        """
        super().on_headers_complete()
        self._unanswered.append(self.cycle)
        if self.pipeline:
            self.flow.resume_reading()
            if len(self.pipeline) > _MAX_PIPELINED:
                self.transport.abort()

    def on_response_complete(self) -> None:
        self._unanswered = [cycle for cycle in self._unanswered if not cycle.response_complete]
        super().on_response_complete()
        if not self.pipeline:
            self._pipelined_bytes = 0

    def on_body(self, body: bytes) -> None:
        self._in_head = False
        if self._ignores_input:
            return
        super().on_body(body)
        if self.pipeline:
            self._pipelined_bytes += len(body)
            if self._pipelined_bytes > _MAX_PIPELINED_BYTES:
                self.transport.abort()

    def on_message_complete(self) -> None:
        self._in_head = self._in_body = False
        if not self._ignores_input:
            super().on_message_complete()

    def pause_writing(self) -> None:
        """Cut a caller that reads nothing for too long."""
        super().pause_writing()
        self._unread.set(self._admission.limits.write_idle_timeout_seconds, self.transport.abort)

    def resume_writing(self) -> None:
        self._unread.clear()
        super().resume_writing()

    def _is_answering(self) -> bool:
        return self.cycle is not None and not self.cycle.response_complete

    def connection_lost(self, exc: Exception | None) -> None:
        self._place.free()
        self._waiting.cancel()
        self._unread.cancel()
        for cycle in self._unanswered:
            cycle.disconnected = True
            cycle.message_event.set()
        super().connection_lost(exc)

    def shutdown(self) -> None:
        """Stop after requests that are running or arriving, but do not wait for a stream that its caller no longer reads."""
        if self._is_answering() and self.flow.write_paused and self.cycle.scope.get("state", {}).get(STREAMS):
            self.transport.abort()
        elif (not self._in_head or self._is_answering()) and not self.transport.is_closing():  # asyncio's TLS closes only once
            super().shutdown()

    @property
    def is_done(self) -> bool:
        return not self._is_answering() and self.transport.is_closing() and not self.transport.get_write_buffer_size()

    def send_400_response(self, msg: str) -> None:
        self._reject(BadRequest(INVALID))

    def _reject(self, error: TandemError) -> None:
        """Stop reading, and refuse the request. A complete earlier one still gets its answer."""
        self._waiting.cancel()
        self._ignores_input = True
        if self._is_answering():
            cycle = self.cycle
            if not cycle.more_body:
                cycle.keep_alive = False
                return
            if cycle.response_started or self.pipeline:
                self.transport.close()  # a refusal would pass for another request's answer
                return
            cycle.disconnected = True
            cycle.message_event.set()
        path, names = self.url.partition(b"?")[0].decode("latin-1"), {name.decode("latin-1") for name, _ in self.headers}
        self.transport.write(refusal_bytes(error, dialect_of_path(path, names), new_request_id()))
        if self.transport.can_write_eof():
            self.transport.write_eof()  # bytes that arrive at a closed socket would reset the refusal
        self._waiting.set(_LINGER_SECONDS, self.transport.close)
