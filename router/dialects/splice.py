"""Putting the target's model name, and what else must change, into a body as it came."""

import re

import orjson

from router.contract.errors import TooDeep
from router.contract.request import JsonObject

_SMALL_BYTES = 16_384
_KEY = b'"model"'
_ESCAPED_LETTER = b"\\u006"
"""How any letter of the key would begin if it were escaped: no client does that, so such a body is written anew."""
_VALUE = re.compile(rb'[ \t\r\n]*:[ \t\r\n]*("(?:[^"\\]|\\.)*")')


def replace_model(raw: bytes, body: JsonObject, model: str, changes: JsonObject) -> bytes:
    """The body with another model name, and with `changes` made (None takes a field out); every other byte as it came.

    A small body is spliced. A large one is written anew first: that takes less time than to search it (150 µs against 700 for
    500 KB), and what comes out is the splice itself when the client wrote its JSON without spaces, as most do.
    """
    if not changes and len(raw) <= _SMALL_BYTES:
        return _splice(raw, model) or _rewrite(body, model, changes)
    written = _rewrite(body, model, changes)
    if changes or len(written) - len(orjson.dumps(model)) == len(raw) - len(orjson.dumps(body["model"])):
        return written
    return _splice(raw, model) or written


def _rewrite(body: JsonObject, model: str, changes: JsonObject) -> bytes:
    merged = {**body, **changes, "model": model}
    try:
        return orjson.dumps({key: value for key, value in merged.items() if value is not None or key not in changes})
    except orjson.JSONEncodeError as error:
        raise TooDeep("the JSON is nested too deeply to be rewritten: over 250 levels") from error


def _splice(raw: bytes, model: str) -> bytes | None:
    """Exchange the value of the one key `model`, or None where that is not safe.

    A quote inside a JSON string is escaped, so `"model"` before a colon is always a key. If it stands in the body once, it
    is the top-level key that the parse has seen. A second one, or one that is spelled with escapes, must not reach a target.
    """
    start = -1 if _ESCAPED_LETTER in raw else raw.find(_KEY)
    if start < 0 or raw.find(_KEY, start + len(_KEY)) >= 0:
        return None
    found = _VALUE.match(raw, start + len(_KEY))
    if found is None or raw[start - 1 : start] == b"\\":
        return None
    return b"".join((raw[: found.start(1)], orjson.dumps(model), raw[found.end(1) :]))
