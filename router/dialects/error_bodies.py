"""The error in a refusal's body, wherever hosts put it: under `error`, at the top, or in a list."""

import orjson

from router.contract.request import Json, JsonObject
from router.dialects.fields import as_object

_MAX_BYTES = 65_536
_WORDS = ("message", "error", "detail", "errors")
"""Where hosts put the message: a text, an object with a message, or a list of either."""


def find_told(body: bytes) -> Json:
    """The error: an object, a text, or the whole body."""
    told = _first(_parse(body))
    return told.get("error") or told if isinstance(told, dict) else told


def read_error(body: bytes) -> tuple[JsonObject, str]:
    """The error object and its message. A body that is not JSON, or too large to parse, is all message."""
    told = _parse(body) if len(body) <= _MAX_BYTES else _decode(body)
    if isinstance(told, str):
        return {}, told
    error = find_error(told)
    return error, words_in(error) or words_in(as_object(_first(told)))


def find_error(told: Json) -> JsonObject:
    whole = as_object(_first(told))
    return as_object(whole.get("error")) or whole


def words_in(error: JsonObject) -> str:
    for name in _WORDS:
        told = _first(error.get(name))
        words = told if isinstance(told, str) else as_object(told).get("message") or as_object(told).get("msg")
        if isinstance(words, str) and words:
            return words
    return ""


def _first(told: Json) -> Json:
    return told[0] if isinstance(told, list) and told else told


def _parse(body: bytes) -> Json:
    try:
        told: Json = orjson.loads(body)
    except orjson.JSONDecodeError:
        return _decode(body)
    return told


def _decode(body: bytes) -> str:
    return bytes(body[:_MAX_BYTES]).decode("utf-8", "replace")
