"""Parsing a request body once, with refusals that name the place."""

import re
from collections.abc import Mapping
from typing import Any

import orjson

from router.contract.errors import BadRequest, TooDeep, WrongMediaType
from router.contract.exchange import Arrival
from router.contract.parts import LARGE_BYTES, parse_members, parts_of
from router.contract.request import Json, JsonObject
from router.contract.words import Dialect
from router.dialects.fields import shown
from router.dialects.grown import cut_apart
from router.dialects.histories import NO_HISTORIES, Histories, History
from router.dialects.splice import find_repeated, parse_apart, split_members
from router.dialects.table import SPECS

# Possessive, and accepts an unterminated string, so that a truncated body is not searched repeatedly.
_TOKEN = re.compile(rb'"(?:[^"\\]|\\.)*+(?:"|\Z|\\\Z)|[{}\[\]:,]', re.DOTALL)
_LOOK_BACK_BYTES = 100_000
"""Faults further in are named by offset alone: locating them costs too much."""

_SHORT_BYTES = 4_096
"""Shorter bodies are read whole: cheaper than a history lookup."""
_LARGE_BYTES = 16_384
"""Smaller bodies are searched for a second `model` when sent on, where it is free."""
_MAX_VALUES = 800_000
"""Large bodies with more commas, colons and brackets are refused."""
_MAX_FIELDS = 1_000
"""At the top level."""
_CONVERSATIONS = ("messages", "input", "prompt")
_LIMITS = frozenset(name for spec in SPECS.values() for name in spec.limit_fields)
_COUNTS = frozenset({"n", "best_of"})
"""Whole numbers: hosts differ in whether they read `8.0` as 8, and each answer is paid for."""
_NUMBERS: Mapping[str, tuple[tuple[type[int | float], ...], int]] = {
    **dict.fromkeys(_COUNTS, ((int,), 128)),
    **dict.fromkeys(("temperature", "top_p"), ((int, float), 10)),
    **dict.fromkeys(_LIMITS, ((int, float), 100_000_000)),
}
"""What a number may be, and the highest."""
NUMBERS = frozenset(_NUMBERS)
_FIELDS = (
    *_CONVERSATIONS,
    *_LIMITS,
    *_COUNTS,
    *"tools system instructions stream tool_choice".split(),
    *"store previous_response_id response_format reasoning_effort reasoning thinking stop temperature".split(),
)
"""Fields that decide the route or the cost."""
_KEYS = {name: f'"{name}"'.encode() for name in _FIELDS}


def parse_request(arrival: Arrival, histories: Histories = NO_HISTORIES) -> tuple[JsonObject, bool, History | None]:
    """The body, whether it is known to hold `model` once, and the caller's history unless the body is short.

    Duplicate fields that matter are refused: parsers differ in which one counts, so a target could answer another request than
    the one judged here.
    """
    raw, history = arrival.raw, None
    if len(raw) > _SHORT_BYTES:
        history = histories.of(arrival.caller)
        if len(raw) > _LARGE_BYTES:
            if len(raw) > LARGE_BYTES:
                refuse_crowded(raw)
                return *_parse_in_parts(raw), history
            grown = history.parse_grown(raw, arrival.dialect) if history else None
            return grown or _parse_large(raw, arrival.dialect, history)
    body = parse_body(raw)
    # `rfind` instead of `in`, here and elsewhere: `in` first tries the bytes as a number and discards the error.
    # A single byte is found at memory's speed, and short bodies rarely have a backslash.
    has_escapes = raw.find(b"\\") >= 0 and raw.rfind(b"\\u00") >= 0
    if has_escapes or max(map(raw.count, filter(None, map(_KEYS.get, body))), default=0) > 1:
        refuse_repeated(raw)
    return body, False, history


def refuse_crowded(raw: bytes) -> None:
    """Refuse bodies that block the loop while parsed, even in a thread: 20 MB of `[]` take half a second.

    Characters in texts count too: a text with that many is longer than any model can read.
    """
    if len(raw) <= LARGE_BYTES:
        return
    most = _MAX_VALUES
    for part in parts_of(raw):
        most -= len(part) - len(part.translate(None, b",:{["))
        if most >= 0:
            continue
        raise BadRequest(f"the JSON has too many values: more than {_MAX_VALUES:,} commas, colons and opening brackets")


def _parse_in_parts(raw: bytes) -> tuple[JsonObject, bool]:
    try:
        members = split_members(raw)
        _refuse_many_fields(members)
        body = parse_members(members)
    except (ValueError, RecursionError):
        body, members = parse_body(raw), None  # which names the fault
    return body, not refuse_repeated(raw, members)


def _refuse_many_fields(body: Mapping[str, object]) -> None:
    if len(body) > _MAX_FIELDS:
        raise BadRequest(f"the body has too many fields: {len(body):,}, and at most {_MAX_FIELDS:,} are read")


def _parse_large(raw: bytes, dialect: Dialect, history: History | None) -> tuple[JsonObject, bool, History | None]:
    body, is_apart = parse_apart(raw), True
    if body is None:
        body, is_apart = parse_body(raw), False
    _refuse_many_fields(body)
    name = next(filter(body.__contains__, _CONVERSATIONS), None)
    found = cut_apart(raw, body, name, history.caller, dialect, has_one_model=is_apart) if name and history else None
    # Splitting half a megabyte takes half as long as parsing it: only the rest is checked if the conversation was split off.
    has_two_models = refuse_repeated(raw if found is None else found[1])
    if history and found and not has_two_models:  # kept bodies have one model
        history.keep(found[0])
    return body, is_apart, history


def refuse_repeated(raw: bytes, members: dict[str, Any] | None = None) -> bool:
    """Refuse duplicate fields at the top level.

    Returns whether `model` is duplicated, which is allowed: such a body is rewritten.
    """
    try:
        name = find_repeated(raw, members)
    except (ValueError, RecursionError) as error:
        raise TooDeep("the JSON is nested too deeply to be checked for duplicate keys") from error
    if name is not None and name != "model":
        raise BadRequest(f'duplicate key "{name[:60]}". Send it once', param=name[:60])
    return name is not None


def parse_body(raw: bytes) -> JsonObject:
    """Raises `BadRequest` or `WrongMediaType` with the fault and its place."""
    try:
        body: Json = orjson.loads(raw)
    except orjson.JSONDecodeError as error:
        raise _explain(raw, error) from error
    if not isinstance(body, dict):
        kind = "null" if body is None else type(body).__name__
        raise BadRequest(f"the body is a JSON {kind}. Send a JSON object")
    return body


def check_numbers(body: JsonObject) -> None:
    """Refuse numbers that every host would reject, naming the field."""
    for name in body.keys() & _NUMBERS.keys():
        value, (kinds, highest) = body[name], _NUMBERS[name]
        if value is None:
            continue
        if isinstance(value, bool) or not isinstance(value, kinds) or not -2 <= value <= highest:
            kind = "number" if float in kinds else "whole number"
            raise BadRequest(f"{name}: must be a {kind} up to {highest}, not {shown(value)}", param=name)


def _explain(raw: bytes, error: orjson.JSONDecodeError) -> BadRequest | WrongMediaType:
    if not raw or raw.isspace():
        return BadRequest("the body is empty. Send a JSON object")
    if raw.startswith(b"\xef\xbb\xbf"):
        return BadRequest("the body begins with a byte order mark. Send plain UTF-8")
    if raw.startswith((b"\xff\xfe", b"\xfe\xff")) or b"\x00" in raw[:4]:
        return WrongMediaType("the body is not UTF-8. Send JSON in UTF-8")
    reason, offset = error.msg.split(": line ")[0], error.pos
    if "depth limit" in reason:
        return TooDeep(f"the JSON is nested too deeply: over 1024 levels at byte {offset}")
    path = "" if "end of data" in reason else locate(raw, offset)
    where = f"{path}: " if path else ""
    return BadRequest(f"{where}not valid JSON at byte {offset}: {reason}", param=path or None)


def locate(raw: bytes, offset: int) -> str:
    """The JSON path of a byte, like `messages[3].content`; empty at the top level or too far in."""
    if offset > _LOOK_BACK_BYTES:
        return ""
    path: list[str | int] = []
    key: str | None = None
    for token in _TOKEN.finditer(raw, 0, offset):
        text = token.group()
        if text == b"{":
            path.append("")
        elif text == b"[":
            path.append(0)
        elif text in (b"}", b"]"):
            if path:
                path.pop()
        elif text == b"," and path and isinstance(path[-1], int):
            path[-1] += 1
        elif text == b":" and path and key is not None:
            path[-1] = key
        elif text[:1] == b'"':
            key = text[1:-1].decode("utf-8", "replace")[:60]
    parts = [f"[{step}]" if isinstance(step, int) else f".{step}" for step in path if step != ""]
    return "".join(parts).lstrip(".")


def is_utf8(message: bytes) -> bool:
    """WebSocket text frames must be UTF-8."""
    if message.isascii():
        return True
    try:
        message.decode()
    except UnicodeDecodeError:
        return False
    return True
