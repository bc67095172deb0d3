"""JSON numbers that keep their digits.

The parser that reads everything here turns integers over 64 bit into floats, and keeps seventeen digits of a fraction. Where
JSON that a caller or a target wrote is written again (a tool's arguments, a schema, a conversation that is held), such a number
must come out as it went in. A text without one, which is nearly every text, is looked at once.
"""

import json
import re
from contextlib import suppress

import orjson

from router.contract.request import Json, JsonObject

_SHORT = 15
"""A number of so few digits is never changed."""
_MARKED = bytes(0x30 if byte in b"0123456789." else 0x20 for byte in range(256))
_RUN = b"0" * (_SHORT + 1)
_NUMBER = re.compile(rb"[:,\[ \t\r\n]-?[0-9.]{%d}" % (_SHORT + 1))


class Digits(float):
    """A number with the text that it was written as. For everyone who reckons with it, it is a float."""

    __slots__ = ("text",)
    text: str

    def __new__(cls, text: str) -> "Digits":
        number = super().__new__(cls, text)
        number.text = text
        return number


def as_written(value: object) -> orjson.Fragment:
    """For `orjson.dumps(…, default=as_written)`: a number by its text."""
    if isinstance(value, Digits):
        return orjson.Fragment(value.text)
    raise TypeError(f"not JSON: {type(value).__name__}")


def may_lose_digits(raw: bytes) -> bool:
    """Whether a JSON text may hold a number that a parse would change. Quick: a run of digits, before a regular expression."""
    return _RUN in raw.translate(_MARKED) and (_NUMBER.search(raw) is not None or raw[:1] in b"-.0123456789")


def parse_exactly(raw: bytes) -> Json:
    """Parse JSON with all digits. Raises `orjson.JSONDecodeError`, as that parser does."""
    value: Json = orjson.loads(raw)
    if not may_lose_digits(raw):
        return value
    with suppress(RecursionError):  # nested so deeply that it cannot be written again in any case
        value = json.loads(raw, parse_int=_read_whole, parse_float=_read_fraction)
    return value


def with_digits(raw: bytes, body: JsonObject) -> JsonObject:
    """A body that was parsed from `raw`, with all digits."""
    if not may_lose_digits(raw):
        return body
    exact = parse_exactly(raw)
    return exact if isinstance(exact, dict) else body


def keep_large(value: Json) -> Json:
    """A value of another parser's, which reads integers of any size: those over 64 bit become numbers that can be written."""
    match value:
        case dict():
            return {name: keep_large(field) for name, field in value.items()}
        case list():
            return [keep_large(item) for item in value]
        case int() if abs(value) >> 63:
            return Digits(str(value))
    return value


def _read_whole(text: str) -> int | float:
    return int(text) if len(text) <= _SHORT else Digits(text)


def _read_fraction(text: str) -> float:
    return float(text) if len(text) <= _SHORT else Digits(text)
