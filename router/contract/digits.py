"""JSON numbers that keep their digits.

orjson turns integers over 64 bits into floats, and keeps 17 digits of a fraction. JSON that is parsed and written again (tool
arguments, schemas, stored conversations) must not change. Nearly every text has no such number, and is scanned once.
"""

import json
import re
from contextlib import suppress

import orjson

from router.contract.parts import LARGE_BYTES, parse_parts, parts_of
from router.contract.request import Json, JsonObject

_SHORT = 15
"""Numbers of so few digits survive a parse."""
_MARKED = bytes(0x30 if byte in b"0123456789." else 0x20 for byte in range(256))
_RUN = b"0" * (_SHORT + 1)
_NUMBER = re.compile(rb"[:,\[ \t\r\n]-?[0-9.]{%d}" % (_SHORT + 1))


class Digits(float):
    """A float with the text that it was written as."""

    __slots__ = ("text",)
    text: str

    def __new__(cls, text: str) -> "Digits":
        number = super().__new__(cls, text)
        number.text = text
        return number


def as_written(value: object) -> orjson.Fragment:
    """Write `Digits` by their text: for `orjson.dumps(…, default=as_written)`."""
    if isinstance(value, Digits):
        return orjson.Fragment(value.text)
    raise TypeError(f"not JSON: {type(value).__name__}")


def may_lose_digits(raw: bytes) -> bool:
    """Whether parsing may change a number: a quick search for a run of digits, then a regular expression."""
    return _RUN in raw.translate(_MARKED) and (_NUMBER.search(raw) is not None or raw[:1] in b"-.0123456789")


def _may_have_run(raw: bytes) -> bool:
    """Look at every fourth byte: half the time of looking at all."""
    return _RUN[::4] in raw[::4].translate(_MARKED)


def parse_exactly(raw: bytes) -> Json:
    """Parse JSON with all digits. Raises `orjson.JSONDecodeError`."""
    value: Json = orjson.loads(raw)
    if not may_lose_digits(raw):
        return value
    with suppress(RecursionError):  # nested too deeply to be written again anyway
        value = json.loads(raw, parse_int=_read_whole, parse_float=_read_fraction)
    return value


def with_digits(raw: bytes, body: JsonObject) -> JsonObject:
    parts = (raw,) if len(raw) <= LARGE_BYTES else filter(_may_have_run, parts_of(raw, overlap=_SHORT + 3))
    if not any(map(may_lose_digits, parts)):
        return body
    exact = parse_parts(raw, parse_exactly)
    return exact if isinstance(exact, dict) else body


def keep_large(value: Json) -> Json:
    """Make integers over 64 bits, which other parsers return, writable."""
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
