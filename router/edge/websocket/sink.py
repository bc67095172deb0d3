"""Writes a response to a socket, one frame per event."""

import re
from typing import Protocol

import orjson
from msgspec import Struct, field

from router.contract.errors import TandemError
from router.contract.relay import Flow, Headers
from router.contract.request import JsonObject
from router.contract.sinks import AnswerFact, Serving
from router.dialects.fields import as_object
from router.dialects.overrides import PREFIX
from router.dialects.sse import split_frames
from router.dialects.transports import LIMITS_EVENT, OF_A_PLAN, limits_as_event
from router.edge.websocket.interrupted import Said
from router.edge.websocket.messages import decision_frame, error_frame, queued_frame, refusal_frame, with_metadata
from router.sessions.clients import TURN_STATE_HEADERS

_EVENT = re.compile(rb"(?:event: [^\n]*\n)?data: ([^\n]*)").fullmatch
_ONE_EVENT = re.compile(rb"(?:event: [^\r\n]*\n)?data: (\{[^\r\n]*)\n\n").fullmatch
_IS_FAILED = (b'{"type":"response.failed"', b'{"type": "response.failed"')
_TELLS_FAILURE = (b'{"type":"error"', b'{"type": "error"', *_IS_FAILED)
_IS_CREATED = (b'{"type":"response.created"', b'{"type": "response.created"')
_TELLS_LIMITS = b"event: %b\n" % LIMITS_EVENT.encode()
_UNAUTHORIZED, _BAD_GATEWAY = 401, 502


class Frames(Protocol):
    is_paused: bool

    def send(self, frames: list[bytes]) -> None:
        """Each text gets its own frame."""
        ...


class FrameSink(Struct, eq=False):
    """Sends one answer to a socket, and keeps its text so far for an interrupt."""

    _socket: Frames
    _request_id: str
    lane: str = ""
    _takes_frames: bool = False
    """The caller asked for our events. Otherwise the response's metadata has their content."""
    _facts: dict[str, str] = {}
    """Headers with the target and reason, until the response begins."""
    _limits: bytes = b""
    """A plan's limits, told before the first event unless the target tells them itself."""
    _status: int = 200
    _headers: Headers = ()
    _streams: bool = True
    _flow: Flow | None = None
    _rest: bytes = b""
    _said: Said = field(default_factory=Said)
    _pieces: list[bytes] = []
    """Of an answer that does not stream."""
    _has_told: bool = False
    has_started: bool = False
    is_over: bool = False
    failed_with: int = 0
    """A status; 0 without a failure."""
    unauthorized: bytes = b""
    """A 401 that is not sent yet: a plan's own closes the socket instead."""

    def feed_from(self, flow: Flow) -> None:
        self._flow = flow
        if self._socket.is_paused:
            flow.pause()

    def start(self, status: int, headers: Headers) -> None:
        self.has_started = True
        self._status, self._headers = status, headers
        self._streams = status == 200 and any(name == "content-type" and "event-stream" in value for name, value in headers)
        if self._streams:
            self._tell_head(headers)

    def tell(self, fact: AnswerFact) -> None:
        if self.is_over:
            return
        if isinstance(fact, Serving):
            self._tell_head(fact.headers)
        elif self._takes_frames:
            self._socket.send([queued_frame(fact, self.lane)])

    def _tell_head(self, headers: Headers) -> None:
        """Send what an HTTP head has: target, reason, and the client's turn state."""
        frames: list[bytes] = []
        if self._takes_frames:
            frames.append(decision_frame(headers, self.lane))
        else:
            self._facts = {name: value for name, value in headers if name.startswith(PREFIX)}
        if carried := {name: value for name, value in headers if name in TURN_STATE_HEADERS or name.startswith(OF_A_PLAN)}:
            frames.append(self._in_lane(orjson.dumps({"type": "response.metadata", "headers": carried})))
            self._limits = limits_as_event(carried)
        if frames:
            self._socket.send(frames)

    def write(self, data: bytes) -> None:
        if self.is_over:
            return
        if not self._streams:
            self._pieces.append(data)
            return
        if self._limits:
            if not data.startswith(_TELLS_LIMITS):
                self._socket.send([self._in_lane(self._limits)])
            self._limits = b""
        # Nearly every read from a target is one whole event.
        if not self._rest and (found := _ONE_EVENT(data)) is not None:
            self._socket.send([self._as_frame(found[1])])
        elif frames := self._read_frames(data):
            self._socket.send(frames)

    def end(self) -> None:
        if not self.is_over and not self._streams:
            frame = self._whole()
            if self.failed_with == _UNAUTHORIZED:
                self.unauthorized = frame
            else:
                self._socket.send([frame])
        self.is_over, self._flow = True, None

    def fail(self, error: TandemError) -> None:
        if not self.is_over:
            self.failed_with = error.status
            if not self._has_told:
                self._socket.send([refusal_frame(error, self._request_id, self.lane)])
        self.is_over, self._flow = True, None

    def close(self) -> None:
        self.is_over, self._flow, self._said, self._rest = True, None, Said(), b""
        self._pieces.clear()

    def set_backpressure(self, *, is_paused: bool) -> None:
        if self._flow is not None:
            if is_paused:
                self._flow.pause()
            else:
                self._flow.resume()

    def cut(self, reason: str) -> JsonObject | None:
        """End the response as incomplete. Returns it as far as it came; None before it began."""
        self.is_over, self._flow = True, None
        response = self._said.so_far()
        if response is not None:
            response |= {"status": "incomplete", "incomplete_details": {"reason": reason}}
            told: JsonObject = {
                "type": "response.incomplete",
                "response": response,
                "sequence_number": self._said.last_number + 1,
            }
            self._socket.send([self._in_lane(orjson.dumps(told))])
        return response

    @property
    def response_id(self) -> str:
        return self._said.response_id

    @property
    def is_forgotten(self) -> bool:
        """Whether it is too long to be continued."""
        return self._said.is_too_long

    def _read_frames(self, data: bytes) -> list[bytes]:
        if self._rest:
            data = self._rest + data
        if b"\r" in data:
            data = data.replace(b"\r\n", b"\n")
        end = len(data) - 2 if data.endswith(b"\n\n") else data.rfind(b"\n\n")
        if end < 0:
            self._rest = data
            return []
        self._rest = data[end + 2 :]
        frames: list[bytes] = []
        for block in data[:end].split(b"\n\n"):
            found = _EVENT(block)
            events = [found[1]] if found is not None else [frame.data for frame in split_frames(block)]
            frames += [self._as_frame(event) for event in events if event.startswith(b"{")]
        return frames

    def _as_frame(self, event: bytes) -> bytes:
        if not event.isascii():
            event = _as_text(event)
        self._said.add(event)
        if self._facts and event.startswith(_IS_CREATED):
            event, self._facts = with_metadata(event, self._facts), {}
        elif event.startswith(_TELLS_FAILURE):
            self._has_told, self.failed_with = True, _BAD_GATEWAY
            if not event.startswith(_IS_FAILED):
                return self._error_of(event)
        return self._in_lane(event) if self.lane else event

    def _in_lane(self, event: bytes) -> bytes:
        if not self.lane:
            return event
        rest = event[1:].lstrip()
        return b'{"stream_id":"%b"%b%b' % (self.lane.encode(), b"" if rest.startswith(b"}") else b",", rest)

    def _error_of(self, event: bytes) -> bytes:
        """Events have no status, and keep an error's fields at the top."""
        told = _read(event)
        error = as_object(told.get("error")) or {
            name: value for name, value in told.items() if name in ("code", "message", "param")
        }
        status = given if isinstance(given := told.get("status"), int) else _BAD_GATEWAY
        return error_frame(status, {"type": "server_error", **error}, {}, self.lane)

    def _whole(self) -> bytes:
        body = _read(b"".join(self._pieces))
        if self._status == 200 and body.get("object") == "response":
            return self._in_lane(orjson.dumps({"type": "response.completed", "response": body, "sequence_number": 0}))
        error = as_object(body.get("error")) or {"type": "server_error", "code": None, "message": "the target did not answer"}
        self.failed_with = self._status if self._status != 200 else _BAD_GATEWAY
        return error_frame(self.failed_with, error, dict(self._headers), self.lane)


def _read(data: bytes) -> JsonObject:
    """Empty for anything but an object that can be encoded again."""
    try:
        found = as_object(orjson.loads(data))
        orjson.dumps([[found]])  # the depth it has in a frame
    except (orjson.JSONDecodeError, orjson.JSONEncodeError):
        return {}
    return found


def _as_text(event: bytes) -> bytes:
    """The event as valid UTF-8, which text frames require."""
    try:
        event.decode()
    except UnicodeDecodeError:
        return event.decode("utf-8", "replace").encode()
    return event
