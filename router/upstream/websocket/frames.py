"""Socket messages as HTTP would carry them: server-sent events, and refusals for early errors."""

import re

import msgspec
import orjson
from msgspec import Struct

from router.contract.relay import Headers
from router.contract.request import JsonObject
from router.dialects.answers import status_of
from router.dialects.fields import as_object, as_text

ERROR, ITEM_DONE, COMPLETED = "error", "response.output_item.done", "response.completed"
FAILED = "response.failed"
TERMINAL = frozenset({COMPLETED, "response.incomplete", FAILED})
HEADS = TERMINAL | {"response.created", "response.queued", "response.in_progress"}
"""Messages that carry a response id."""
USED_UP = "usage_limit_reached"
FORGOTTEN, TOO_OLD = "previous_response_not_found", "websocket_connection_limit_reached"
_KIND = re.compile(rb'\{\s*"type"\s*:\s*"([\w.-]+)"').match
_IS_NAME = re.compile(r"[\w.-]+").fullmatch
_IS_HEADER = re.compile(r"[!#$%&'*+.^_`|~0-9a-z-]+").fullmatch
_IS_STATUS = re.compile(r"[45][0-9]{2}").fullmatch
_JSON = ("content-type", "application/json")
_ERROR_FIELDS = ("code", "message", "param", "headers")
_MAX_ERROR_BYTES = 1 << 20
_ONE_LINE = bytes.maketrans(b"\r\n", b"  ")
_UNREADABLE = (ValueError, RecursionError)
_NOT_ITS_OWN = frozenset({"content-length", "content-type", "transfer-encoding", "content-encoding", "connection"})


class WholeAnswer(Struct, frozen=True):
    status: int
    headers: Headers
    body: bytes
    code: str


class _Typed(Struct, frozen=True):
    type: str


class _Named(Struct, frozen=True):
    id: str = ""


class _About(Struct, frozen=True):
    response: _Named = _Named()


class _Whole(Struct, frozen=True):
    response: msgspec.Raw = msgspec.Raw(b"{}")


# These skip the rest of a message, however large.
_TYPE, _ID, _RESPONSE = msgspec.json.Decoder(_Typed), msgspec.json.Decoder(_About), msgspec.json.Decoder(_Whole)


def kind_of(text: bytes) -> str:
    """The type of a message; empty if it cannot be passed on."""
    found = _KIND(text)
    if found is not None:
        return found[1].decode("ascii", "replace")
    try:
        kind = _TYPE.decode(text).type
    except _UNREADABLE:
        return ""
    return kind if _IS_NAME(kind) else ""


def read_id(text: bytes) -> str | None:
    """The response id in a message; empty if absent, None if the message is invalid."""
    try:
        return _ID.decode(text).response.id
    except _UNREADABLE:
        return None


def read(text: bytes) -> JsonObject:
    try:
        return as_object(orjson.loads(text))
    except orjson.JSONDecodeError:
        return {}


def as_event(kind: str, text: bytes) -> bytes:
    """A message as an event, whose data is one line: line breaks in JSON are only whitespace."""
    if b"\n" in text or b"\r" in text:
        text = text.translate(_ONE_LINE)
    return b"event: %b\ndata: %b\n\n" % (kind.encode(), text)


def _read_error(frame: JsonObject) -> JsonObject:
    """The error in a frame: an object, the frame's own fields, or a text."""
    error = frame.get("error")
    if isinstance(error, str):
        error = {"message": error}
    return dict(as_object(error)) or {name: frame[name] for name in _ERROR_FIELDS if name in frame}


def _read_status(frame: JsonObject, error: JsonObject) -> int:
    for told in (frame, error):
        for name in ("status", "status_code"):
            status = str(told.get(name))
            if _IS_STATUS(status):
                return int(status)
    return status_of(error)


def read_refusal(text: bytes) -> WholeAnswer:
    """An error frame as a refusal. Headers are at the top or in the error."""
    frame = read(text) if len(text) <= _MAX_ERROR_BYTES else {}
    error = _read_error(frame)
    told = {**as_object(error.pop("headers", None)), **as_object(frame.get("headers"))}
    return WholeAnswer(
        _read_status(frame, error),
        (_JSON, *_read_headers(told)),
        _write({"error": error}),
        as_text(error.get("code")),
    )


def _write(error: JsonObject) -> bytes:
    try:
        return orjson.dumps(error)
    except orjson.JSONEncodeError:  # readable, but nested too deeply to write
        return b'{"error":{}}'


def _read_headers(told: JsonObject) -> Headers:
    named = ((name.lower(), str(value)) for name, value in told.items() if isinstance(value, str | int | float))
    return tuple(
        (name, value) for name, value in named if _IS_HEADER(name) and name not in _NOT_ITS_OWN and value.isprintable()
    )


def as_error_event(text: bytes) -> bytes:
    """In mid-answer, HTTP has the error's fields at the top. A plan that is used up says until when."""
    frame = read(text) if len(text) <= _MAX_ERROR_BYTES else {}
    error = _read_error(frame)
    told: JsonObject = {"type": ERROR, **{name: error.get(name) for name in ("code", "message", "param")}}
    if error.get("type") == USED_UP:
        told |= {"status": _read_status(frame, error), "error": error}
    return as_event(ERROR, _write(told))


def read_response(text: bytes) -> JsonObject:
    return as_object(read(text).get("response"))


def whole_answer(kind: str, text: bytes) -> WholeAnswer:
    """The whole response or a refusal, for callers that do not stream."""
    if kind != FAILED:
        return WholeAnswer(200, (_JSON,), bytes(_RESPONSE.decode(text).response), "")
    error = as_object(read_response(text).get("error"))
    return WholeAnswer(status_of(error), (_JSON,), _write({"error": error}), as_text(error.get("code")))
