"""What a target says on a socket, as it would say it over HTTP: events as server-sent ones, errors before them as refusals."""

import re

import orjson
from msgspec import Struct

from router.contract.relay import Headers
from router.contract.request import JsonObject
from router.dialects.answers import status_of
from router.dialects.fields import as_object, as_text

ERROR, ITEM_DONE, COMPLETED = "error", "response.output_item.done", "response.completed"
FAILED = "response.failed"
TERMINAL = frozenset({COMPLETED, "response.incomplete", FAILED})
FORGOTTEN, TOO_OLD = "previous_response_not_found", "websocket_connection_limit_reached"
_KIND = re.compile(rb'\{\s*"type"\s*:\s*"([\w.-]+)"').match
_IS_NAME = re.compile(r"[\w.-]+").fullmatch
_IS_HEADER = re.compile(r"[!#$%&'*+.^_`|~0-9a-z-]+").fullmatch
_JSON = ("content-type", "application/json")
_NOT_ITS_OWN = frozenset({"content-length", "content-type", "transfer-encoding", "content-encoding", "connection"})


class WholeAnswer(Struct, frozen=True):
    """An answer in one piece, as a target would give it over HTTP: mostly a refusal."""

    status: int
    headers: Headers
    body: bytes
    code: str


def kind_of(text: bytes) -> str:
    """The type of a message; empty where it is none that we could pass on."""
    found = _KIND(text)
    if found is not None:
        return found[1].decode("ascii", "replace")
    kind = as_text(read(text).get("type"))
    return kind if _IS_NAME(kind) else ""


def read(text: bytes) -> JsonObject:
    """A message as an object; empty where it is none."""
    try:
        return as_object(orjson.loads(text))
    except orjson.JSONDecodeError:
        return {}


def as_event(kind: str, text: bytes) -> bytes:
    """A message as a server-sent event, which has its data in one line."""
    if b"\n" in text or b"\r" in text:
        text = orjson.dumps(read(text))
    return b"event: %b\ndata: %b\n\n" % (kind.encode(), text)


def read_refusal(text: bytes) -> WholeAnswer:
    """An error frame as the refusal that it stands for. Its headers are at the top or in the error itself."""
    frame = read(text)
    error = dict(as_object(frame.get("error")))
    told = {**as_object(error.pop("headers", None)), **as_object(frame.get("headers"))}
    status = frame.get("status")
    return WholeAnswer(
        status if isinstance(status, int) and 400 <= status < 600 else status_of(error),
        (_JSON, *_read_headers(told)),
        orjson.dumps({"error": error}),
        as_text(error.get("code")),
    )


def _read_headers(told: JsonObject) -> Headers:
    named = ((name.lower(), str(value)) for name, value in told.items() if isinstance(value, str | int | float))
    return tuple(
        (name, value) for name, value in named if _IS_HEADER(name) and name not in _NOT_ITS_OWN and value.isprintable()
    )


def as_error_event(text: bytes) -> bytes:
    """An error frame in the middle of an answer: over HTTP its fields are at the top."""
    error = as_object(read(text).get("error"))
    told = {name: error.get(name) for name in ("code", "message", "param")}
    return as_event(ERROR, orjson.dumps({"type": ERROR, **told}))


def read_response(text: bytes) -> JsonObject:
    """The response that a message is about."""
    return as_object(read(text).get("response"))


def whole_answer(kind: str, response: JsonObject) -> WholeAnswer:
    """What a caller gets that does not stream: the response in one piece, or the refusal that a failed one stands for."""
    if kind != FAILED:
        return WholeAnswer(200, (_JSON,), orjson.dumps(response), "")
    error = as_object(response.get("error"))
    return WholeAnswer(status_of(error), (_JSON,), orjson.dumps({"error": error}), as_text(error.get("code")))
