"""A request body as JSON: one parse, and refusals that name the place."""

import re

import orjson

from router.contract.errors import BadRequest, TooDeep, WrongMediaType
from router.contract.request import Json, JsonObject
from router.dialects.splice import parse_apart

# Possessive, and content with a string that does not end: a cut-off body must not be searched again and again.
_TOKEN = re.compile(rb'"(?:[^"\\]|\\.)*+(?:"|\Z|\\\Z)|[{}\[\]:,]', re.DOTALL)
_LOOK_BACK_BYTES = 100_000
"""A fault further in than this is named by its offset alone: finding its path would cost more than it tells."""

_LARGE_BYTES = 16_384
"""A smaller body is searched for a second `model` when it is sent on, which costs nothing there."""


def parse_request(raw: bytes) -> tuple[JsonObject, bool]:
    """The body of a request, and whether it is known that `model` is in it once."""
    if len(raw) > _LARGE_BYTES and (body := parse_apart(raw)) is not None:
        return body, True
    return parse_body(raw), False


def parse_body(raw: bytes) -> JsonObject:
    """Parse a body, or say what is wrong with it and where."""
    try:
        body: Json = orjson.loads(raw)
    except orjson.JSONDecodeError as error:
        raise _explain(raw, error) from error
    if not isinstance(body, dict):
        kind = "null" if body is None else type(body).__name__
        raise BadRequest(f"the body is a JSON {kind}. Send a JSON object")
    return body


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
