"""Large JSON, read and written in parts. Call these in a thread.

One C call holds the interpreter's lock until it returns, and so stops the event loop from any thread: `orjson.loads` of 16 MB
takes 30 to 100 ms. A part takes about a millisecond, and the loop gets its turn before the next.
"""

import re
import time
from collections.abc import Callable, Iterable, Iterator
from io import BytesIO
from itertools import islice
from typing import cast

import msgspec
import orjson

from router.contract.request import Json, JsonObject

LARGE_BYTES = 1 << 21
"""Up to here, one call is quick enough: 3 to 12 ms."""
PART_BYTES = 1 << 19
_PART_ITEMS, _FEW = 4_096, 64
_MAX_DEPTH = 8
"""Levels that are taken apart: an image is in a message, a part, an object and a field."""
_TURN_SECONDS = 0.0001
"""A sleep of 0 would take the lock again before the loop wakes up."""
_MEMBERS = msgspec.json.Decoder(dict[str, msgspec.Raw])
_ITEMS = msgspec.json.Decoder(list[msgspec.Raw])
_BLANKS = re.compile(rb"[ \t\r\n]*")
_LONGEST_ESCAPE = 6
_HIGH_HALF = re.compile(rb"\\u[dD][89abAB]")

Loads = Callable[[bytes], Json]
Default = Callable[[object], object]


def give_way() -> None:
    """Let the event loop take its turn."""
    time.sleep(_TURN_SECONDS)


def parts_of(raw: bytes, overlap: int = 0) -> Iterator[bytes]:
    """Consecutive parts. Each holds the first bytes of the next one too, as many as `overlap` says."""
    for start in range(0, len(raw), PART_BYTES):
        yield raw[start : start + PART_BYTES + overlap]
        give_way()


def is_in(text: str, mark: str) -> bool:
    for start in range(0, len(text), PART_BYTES):
        if text.find(mark, start, start + PART_BYTES + len(mark) - 1) >= 0:
            return True
        give_way()
    return False


def parse_parts(raw: bytes, loads: Loads = orjson.loads) -> Json:
    """What `loads` returns for the whole, which may be small. Raises what it raises."""
    if len(raw) <= LARGE_BYTES:
        return loads(raw)
    start = _BLANKS.match(raw)
    try:
        return _parse(memoryview(raw)[start.end() if start else 0 :], _MAX_DEPTH, loads)
    except (ValueError, RecursionError):  # malformed, or nested too deeply for msgspec
        return loads(raw)


def parse_members(members: dict[str, msgspec.Raw]) -> JsonObject:
    """An object that msgspec has split. Raises `ValueError` or `RecursionError`."""
    return dict(zip(members, _parse_all(members.values(), _MAX_DEPTH, orjson.loads), strict=True))


def _parse(raw: memoryview, depth: int, loads: Loads) -> Json:
    if len(raw) > LARGE_BYTES and depth:
        match bytes(raw[:1]):
            case b'"':
                return _parse_text(raw)
            case b"[":
                return _parse_all(_ITEMS.decode(raw), depth - 1, loads)
            case b"{":
                members = _MEMBERS.decode(raw)
                return dict(zip(members, _parse_all(members.values(), depth - 1, loads), strict=True))
    return loads(bytes(raw))


def _parse_all(values: Iterable[msgspec.Raw], depth: int, loads: Loads) -> list[Json]:
    found: list[Json] = []
    left = iter(values)
    while some := list(islice(left, _PART_ITEMS)):
        if len(some) > _FEW and len(joined := _join(some)) <= PART_BYTES:
            found += _list(loads(joined))
        else:
            _parse_each(some, depth, loads, found)
        give_way()
    return found


def _list(value: Json) -> list[Json]:
    return value if isinstance(value, list) else []


def _join(values: list[msgspec.Raw]) -> bytes:
    return b"[%b]" % b",".join(cast("list[bytes]", values))


def _parse_each(values: list[msgspec.Raw], depth: int, loads: Loads, found: list[Json]) -> None:
    """Parse small values together, and large ones in parts."""
    small: list[msgspec.Raw] = []
    size = 0
    for value in values:
        length = len(memoryview(cast("bytes", value)))
        if small and size + length > PART_BYTES:
            found += _list(loads(_join(small)))
            small, size = [], 0
            give_way()
        if length > LARGE_BYTES:
            found.append(_parse(memoryview(cast("bytes", value)), depth, loads))
        else:
            small.append(value)
            size += length
    found += _list(loads(_join(small)))


def _parse_text(raw: memoryview) -> str:
    texts: list[str] = []
    start, end = 1, len(raw) - 1
    while start < end:
        part = bytes(raw[start : min(start + PART_BYTES, end)])
        if start + len(part) < end:
            part = part[: _end_of_characters(part)]
        texts.append(orjson.loads(b'"%b"' % part))
        start += len(part)
        give_way()
    return "".join(texts)


def _end_of_characters(text: bytes) -> int:
    """Where a JSON text can be cut near its end: neither in a character or an escape, nor between a surrogate pair's halves."""
    end = len(text)
    while text[end - 1] & 0xC0 == 0x80 and len(text) - end < 3:
        end -= 1
    if text[end - 1] >= 0xC0:
        return end - 1
    end = len(text)
    if (escape := _find_escape(text, end)) >= 0:
        end = escape
        if (before := _find_escape(text, end)) >= 0 and _HIGH_HALF.match(text, before):
            end = before
    return end


def _find_escape(text: bytes, end: int) -> int:
    """Where an escape begins that may reach this end; -1 if none does."""
    last = text.rfind(b"\\", end - _LONGEST_ESCAPE, end)
    head = text[: last + 1]
    is_first = (len(head) - len(head.rstrip(b"\\"))) % 2  # of two, the second is the escaped character
    return last if is_first else -1


def write_parts(value: Json, default: Default | None = None, *, is_open: bool = False) -> bytes:
    """What `orjson.dumps` returns. `is_open`: without the last bracket of an object, so that another field can follow."""
    written = BytesIO()  # pieces and their sum would be the value twice
    size = 0
    for piece in _write(value, _MAX_DEPTH, default):
        size += written.write(piece)
        if size > PART_BYTES:
            size = 0
            give_way()
    if is_open:
        written.truncate(written.tell() - 1)
    return written.getvalue()


def _write(value: Json, depth: int, default: Default | None) -> Iterator[bytes]:
    match value:
        case str() if len(value) > PART_BYTES:
            yield b'"'
            for start in range(0, len(value), PART_BYTES):
                yield orjson.dumps(value[start : start + PART_BYTES])[1:-1]
            yield b'"'
        case dict() if depth and value:
            for index, (name, field) in enumerate(value.items()):
                yield b"%b%b:" % (b"," if index else b"{", orjson.dumps(name))
                yield from _write(field, depth - 1, default)
            yield b"}"
        case list() if len(value) > _PART_ITEMS:
            for start in range(0, len(value), _PART_ITEMS):
                yield (b"," if start else b"[") + orjson.dumps(value[start : start + _PART_ITEMS], default=default)[1:-1]
            yield b"]"
        case list() if depth and value:
            for index, item in enumerate(value):
                yield b"," if index else b"["
                yield from _write(item, depth - 1, default)
            yield b"]"
        case _:
            yield orjson.dumps(value, default=default)
