"""Messages on a socket: `response.create`, `response.steer`, and error frames."""

import re
from collections.abc import Mapping

import msgspec
import orjson
from msgspec import Struct
from msgspec.structs import replace

from router.contract.errors import BadRequest, InvalidStreamId, TandemError, TooDeep
from router.contract.relay import Headers
from router.contract.request import Json, JsonObject
from router.contract.secret import mask_keys
from router.contract.sinks import Waiting
from router.dialects.fields import as_object, as_text
from router.dialects.headers import describe_wait, name_decision
from router.dialects.json_body import refuse_crowded
from router.dialects.refusals import failure_words, refusal_headers, usage_limit
from router.dialects.transports import OF_A_PLAN, header_named

BUSY = "x-tandem-busy"
"""What to do if the lane is busy: `interrupt`, or wait."""
_CREATE, _STEER = "response.create", "response.steer"
_STREAM_ID = re.compile(r"[A-Za-z0-9_.-]{1,256}").fullmatch
_NOT_SENT_ON: JsonObject = {"type": None, "stream_id": None, "stream": True}
_MEMBERS = msgspec.json.Decoder(dict[str, msgspec.Raw])
_CARRIED = "x-"
_MAX_PAIRS, _MAX_VALUE = 16, 512
"""OpenAI's limits for `metadata`: pairs, and characters of a value."""
_NOT_CARRIED = frozenset({"connection", "upgrade", "host", "content-length", "transfer-encoding", "expect", "te", "trailer"})
_METADATA_ONLY = frozenset({BUSY, f"{OF_A_PLAN}installation-id", f"{OF_A_PLAN}ws-stream-request-start-ms"})
"""Fields of the metadata that are not headers over HTTP."""
_TOLD = ("retry-after", "x-should-retry", "x-tandem-", OF_A_PLAN)


class Create(Struct, frozen=True):
    """A request as it would be posted, with `stream: true`. Only fields that a socket needs are parsed here."""

    lane: str
    raw: bytes
    metadata: JsonObject
    previous: str
    """The response to continue; empty for none."""
    interrupts: bool
    steers: str = ""
    """The response that was ended for it by a steer."""

    def after(self, response_id: str) -> "Create":
        return replace(self, raw=_changed(self.raw, {"previous_response_id": response_id}), previous=response_id)

    def steered(self, steer: "Steer") -> "Create":
        """A copy with the person's words as its input; a second steer before it began adds to the first. Raises `TooDeep`."""
        words = steer.input
        if self.steers:
            words = [*_messages(orjson.loads(bytes(_MEMBERS.decode(self.raw)["input"]))), *_messages(steer.input)]
        raw = _changed(self.raw, {"input": words, "previous_response_id": steer.previous})
        return replace(self, raw=raw, previous=steer.previous, interrupts=False, steers=steer.previous)


class Steer(Struct, frozen=True):
    previous: str
    input: Json

    @property
    def is_valid(self) -> bool:
        if isinstance(self.input, list):
            return bool(self.input) and all(as_object(item).get("role") == "user" for item in self.input)
        return isinstance(self.input, str) and bool(self.input)


Message = Create | Steer | TandemError


def _messages(words: Json) -> list[Json]:
    return words if isinstance(words, list) else [{"type": "message", "role": "user", "content": words}]


def read_message(raw: bytes) -> Create | Steer:
    """Parse a message. Raises `BadRequest`."""
    refuse_crowded(raw)
    try:
        members = _MEMBERS.decode(raw)
    except msgspec.ValidationError as error:
        raise BadRequest("the message must be a JSON object with a type") from error
    except msgspec.DecodeError as error:
        raise BadRequest("the message is not valid JSON") from error
    except RecursionError as error:
        raise TooDeep("the message is nested too deeply") from error
    match _read(members, "type"):
        case "response.create":
            return _read_create(raw, members)
        case "response.steer":
            return Steer(as_text(_read(members, "previous_response_id")), _read(members, "input"))
        case kind:
            raise BadRequest(f"type: {str(kind)[:60]!r} is not known here. Send {_CREATE} or {_STEER}", param="type")


def _read(members: Mapping[str, msgspec.Raw], name: str) -> Json:
    try:
        return orjson.loads(bytes(members[name])) if name in members else None
    except orjson.JSONDecodeError as error:
        raise BadRequest(f"{name}: not valid JSON", param=name) from error


def _read_create(raw: bytes, members: Mapping[str, msgspec.Raw]) -> Create:
    lane = _read(members, "stream_id") if "stream_id" in members else ""
    if "stream_id" in members and not (isinstance(lane, str) and _STREAM_ID(lane)):
        raise InvalidStreamId("stream_id: 1 to 256 letters, digits, dots, dashes or underscores", param="stream_id")
    if _read(members, "background"):
        raise BadRequest("background: not supported over WebSocket", param="background")
    generate = _read(members, "generate")
    if generate is not None and not isinstance(generate, bool):
        raise BadRequest("generate: must be true or false", param="generate")
    changes = {**_NOT_SENT_ON, "generate": None} if generate is not False else _NOT_SENT_ON
    metadata = as_object(_read(members, "client_metadata"))
    previous = as_text(_read(members, "previous_response_id"))
    return Create(str(lane), _changed(raw, changes), metadata, previous, metadata.get(BUSY) == "interrupt")


def _changed(raw: bytes, changes: JsonObject) -> bytes:
    """Change fields of a JSON object (None removes one); all others stay byte for byte. Raises `TooDeep`."""
    members = {name: value for name, value in _MEMBERS.decode(raw).items() if name not in changes}
    try:
        members |= {name: msgspec.Raw(orjson.dumps(value)) for name, value in changes.items() if value is not None}
    except orjson.JSONEncodeError as error:
        raise TooDeep("nested too deeply") from error
    return _join(members)


def headers_of(handshake: Mapping[str, str], metadata: JsonObject) -> dict[str, str]:
    """The headers of the handshake and of the request's metadata."""
    headers = {
        name: value for name, value in handshake.items() if name not in _NOT_CARRIED and not name.startswith("sec-websocket")
    }
    for field, value in metadata.items():
        name = header_named(field)
        if name.startswith(_CARRIED) and name not in _METADATA_ONLY and isinstance(value, str) and value.isprintable():
            headers[name] = mask_keys(value)
    headers["content-type"] = "application/json"
    return headers


def error_frame(status: int, error: JsonObject, headers: Mapping[str, str], lane: str = "") -> bytes:
    """An error frame, with its headers in both places where clients look."""
    frame: JsonObject = {"type": "error", "status": status}
    if lane:
        frame["stream_id"] = lane
    told = {name: value for name, value in headers.items() if name.startswith(_TOLD)}
    return orjson.dumps({**frame, "error": {**error, "headers": told}, "headers": told})


def refusal_frame(error: TandemError, request_id: str, lane: str = "") -> bytes:
    kind = "invalid_request_error" if error.status < 500 else "server_error"
    words: JsonObject = {"type": kind, "code": error.code, "message": failure_words(error, request_id), "param": error.param}
    return error_frame(error.status, words | usage_limit(error), dict(refusal_headers(error)), lane)


def with_metadata(event: bytes, facts: Mapping[str, str]) -> bytes:
    """Add the target and reason to a `response.created`, for callers that do not take our events.

    The caller's own pairs stay, OpenAI's limit holds, and all else is kept byte for byte.
    """
    try:
        members = _MEMBERS.decode(event)
        response = _MEMBERS.decode(members["response"])
        given = as_object(_read(response, "metadata"))
    except (KeyError, msgspec.MsgspecError, RecursionError, BadRequest):
        return event
    room = max(0, _MAX_PAIRS - len(given))
    added = {name: value[:_MAX_VALUE] for name, value in facts.items() if name not in given}
    told: JsonObject = {**given, **dict(list(added.items())[:room])}
    written = _join({**response, "metadata": msgspec.Raw(orjson.dumps(told))})
    return _join({**members, "response": msgspec.Raw(written)})


def _join(members: Mapping[str, msgspec.Raw]) -> bytes:
    return b"{%b}" % b",".join([orjson.dumps(name) + b":" + bytes(value) for name, value in members.items()])


def decision_frame(headers: Headers, lane: str = "") -> bytes:
    """The target and reason, for callers that ask for our frames."""
    return _own_frame("tandem.decision", lane, name_decision(headers))


def queued_frame(fact: Waiting, lane: str = "") -> bytes:
    return _own_frame("tandem.queued", lane, {"message": describe_wait(fact)})


def _own_frame(kind: str, lane: str, told: Mapping[str, str]) -> bytes:
    return orjson.dumps({"type": kind, **({"stream_id": lane} if lane else {}), **told})
