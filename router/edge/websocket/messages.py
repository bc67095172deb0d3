"""What a client says on a socket: `response.create` and `response.steer`, and the frames in which it is told what was wrong."""

import re
from collections.abc import Mapping

import orjson
from msgspec import Struct
from msgspec.structs import replace

from router.contract.errors import BadRequest, InvalidStreamId, TandemError
from router.contract.relay import Headers
from router.contract.request import Json, JsonObject
from router.dialects.fields import as_object, as_text
from router.dialects.refusals import failure_words, refusal_headers
from router.dialects.splice import replace_fields

BUSY = "x-tandem-busy"
"""What to do with a request on a lane that is busy: `interrupt`, or wait."""
_CREATE, _STEER = "response.create", "response.steer"
_STREAM_ID = re.compile(r"[A-Za-z0-9_.-]{1,256}").fullmatch
_NOT_SENT_ON: JsonObject = {"type": None, "stream_id": None, "stream": True}
_CARRIED = "x-"
_NOT_CARRIED = frozenset({"connection", "upgrade", "host", "content-length", "transfer-encoding", "expect", "te", "trailer"})


class Create(Struct, frozen=True):
    """A request for a response, as it would be posted: with `stream: true`, and without what only a socket knows."""

    lane: str
    raw: bytes
    body: JsonObject
    interrupts: bool
    steers: str = ""
    """The response that was ended for it by the person's new words."""

    @property
    def previous(self) -> str:
        """The response that it goes on from; empty for none."""
        return as_text(self.body.get("previous_response_id"))

    def after(self, response_id: str) -> "Create":
        """The same, going on from another response."""
        return self._changed({"previous_response_id": response_id})

    def steered(self, steer: "Steer") -> "Create":
        """What follows when the person says something meanwhile: the same settings, with the new words as all of the input.

        Said twice before it began, both count.
        """
        words = [*_messages(self.body.get("input")), *_messages(steer.input)] if self.steers else steer.input
        changed = self._changed({"input": words, "previous_response_id": steer.previous})
        return replace(changed, interrupts=False, steers=steer.previous)

    def _changed(self, changes: JsonObject) -> "Create":
        return replace(self, raw=replace_fields(self.raw, self.body, changes), body={**self.body, **changes})


class Steer(Struct, frozen=True):
    """What the person says while a response is being written."""

    previous: str
    input: Json

    @property
    def is_valid(self) -> bool:
        """Whether the input is a text, or a list of messages of the user."""
        if isinstance(self.input, list):
            return bool(self.input) and all(as_object(item).get("role") == "user" for item in self.input)
        return isinstance(self.input, str) and bool(self.input)


def _messages(words: Json) -> list[Json]:
    return words if isinstance(words, list) else [{"type": "message", "role": "user", "content": words}]


def read_message(raw: bytes) -> Create | Steer:
    """What one message asks for. Raises `BadRequest`."""
    try:
        message = orjson.loads(raw)
    except orjson.JSONDecodeError as error:
        raise BadRequest("the message is not valid JSON") from error
    if not isinstance(message, dict):
        raise BadRequest("the message must be a JSON object with a type")
    match message.get("type"):
        case "response.create":
            return _read_create(raw, message)
        case "response.steer":
            return Steer(as_text(message.get("previous_response_id")), message.get("input"))
        case kind:
            raise BadRequest(f"type: {str(kind)[:60]!r} is not known here. Send {_CREATE} or {_STEER}", param="type")


def _read_create(raw: bytes, message: JsonObject) -> Create:
    lane = message.get("stream_id", "")
    if "stream_id" in message and not (isinstance(lane, str) and _STREAM_ID(lane)):
        raise InvalidStreamId("stream_id: 1 to 256 letters, digits, dots, dashes or underscores", param="stream_id")
    if message.get("background"):
        raise BadRequest("background: is not possible on a socket", param="background")
    changes = {**_NOT_SENT_ON, "generate": None} if message.get("generate") is not False else _NOT_SENT_ON
    body = {key: value for key, value in {**message, **changes}.items() if value is not None or key not in changes}
    interrupts = as_object(message.get("client_metadata")).get(BUSY) == "interrupt"
    return Create(str(lane), replace_fields(raw, message, changes), body, interrupts)


def headers_of(handshake: Mapping[str, str], body: JsonObject) -> dict[str, str]:
    """The headers that a request would have had: those of the handshake, and those that its metadata carries."""
    headers = {
        name: value for name, value in handshake.items() if name not in _NOT_CARRIED and not name.startswith("sec-websocket")
    }
    for name, value in as_object(body.get("client_metadata")).items():
        if name.lower().startswith(_CARRIED) and name.lower() != BUSY and isinstance(value, str) and value.isprintable():
            headers[name.lower()] = value
    headers["content-type"] = "application/json"
    return headers


def error_frame(status: int, error: JsonObject, headers: Mapping[str, str], lane: str = "") -> bytes:
    """An error as a socket tells it. Its headers are where one client looks for them, and where another does."""
    frame: JsonObject = {"type": "error", "status": status}
    if lane:
        frame["stream_id"] = lane
    told = {name: value for name, value in headers.items() if name.startswith(("retry-after", "x-should-retry", "x-tandem-"))}
    return orjson.dumps({**frame, "error": {**error, "headers": told}, "headers": told})


def refusal_frame(error: TandemError, request_id: str, lane: str = "") -> bytes:
    """A refusal of our own."""
    kind = "invalid_request_error" if error.status < 500 else "server_error"
    words: JsonObject = {"type": kind, "code": error.code, "message": failure_words(error, request_id), "param": error.param}
    return error_frame(error.status, words, dict(refusal_headers(error)), lane)


def decision_frame(headers: Headers, lane: str = "") -> bytes:
    """Who serves, and why: what an answer over HTTP says in its headers. Clients that do not know it pass over it."""
    told: JsonObject = {"type": "tandem.decision"}
    if lane:
        told["stream_id"] = lane
    for name, value in headers:
        if name.startswith("x-tandem-"):
            told[name.removeprefix("x-tandem-").replace("-", "_")] = value
    return orjson.dumps(told)
