"""Change the model name and other fields of a body, leaving every other byte as it came.

Written again, integers over 64 bit would become floats, and `1e400` or seventeen digits something else.
"""

import re
from typing import Any

import msgspec
import orjson

from router.contract.digits import as_written
from router.contract.errors import TooDeep
from router.contract.request import Json, JsonObject

_KEY = b'"model"'
_ESCAPED_LETTER = b"\\u006"
"""How an escaped letter of the key begins: no client writes that."""
_FIRST = re.compile(rb'[ \t\r\n]*+\{[ \t\r\n]*+"model"[ \t\r\n]*+:[ \t\r\n]*+("(?:[^"\\]|\\.)*+")')
_FIRST_OF_MORE = re.compile(_FIRST.pattern + rb"[ \t\r\n]*+,")
_VALUE = re.compile(rb'(?<!\\)"model"[ \t\r\n]*+:[ \t\r\n]*+("(?:[^"\\]|\\.)*+")')
_MEMBER_KEY = re.compile(rb'[ \t\r\n]*+,?[ \t\r\n]*+("(?:[^"\\]|\\.)*+")[ \t\r\n]*+:[ \t\r\n]*+', re.DOTALL)
_END = re.compile(rb"[ \t\r\n]*+\}")
_MEMBERS = msgspec.json.Decoder(dict[str, msgspec.Raw])
_ITEMS = msgspec.json.Decoder(list[msgspec.Raw])
_NOTHING: JsonObject = {}


def parse_apart(raw: bytes) -> JsonObject | None:
    """Parse a body that begins with its model, and prove that it has no second one. None if that is impossible.

    The rest is parsed without that key: if the result has none, there is none. Searching half a megabyte for another key takes
    five times as long.
    """
    found = _FIRST_OF_MORE.match(raw)
    if found is None:
        return None
    try:
        rest = orjson.loads(b"".join((b"{", memoryview(raw)[found.end() :])))
        model = orjson.loads(found[1])
    except orjson.JSONDecodeError:
        return None
    # An empty rest would hide a trailing comma.
    return {"model": model, **rest} if rest and "model" not in rest else None


def split_members(raw: bytes) -> dict[str, msgspec.Raw]:
    """The members of an object, unparsed. Raises `ValueError` or `RecursionError`."""
    return _MEMBERS.decode(raw)


def find_repeated(raw: bytes, members: dict[str, Any] | None = None) -> str | None:
    """A duplicate key of an object, or None. `members` are those that `split_members` returned.

    Walks the members next to the parsed values. A parser keeps the last value, so the first of two differs from it or is
    followed by a known key. Raises `ValueError` or `RecursionError` if it is nested too deeply for one of the parsers.
    """
    if members is None:
        members = _MEMBERS.decode(raw)
    # The shortest possible encoding of the members fills the body: there are no more.
    if sum(map(_size, members.values())) + sum(map(len, members)) + 4 * len(members) + 1 == len(raw):
        return None
    seen: set[str] = set()
    offset, name = raw.index(b"{") + 1, ""
    while (found := _MEMBER_KEY.match(raw, offset)) is not None:
        name = str(orjson.loads(found[1]))
        value, offset = memoryview(members[name]), found.end()
        if name in seen or not raw.startswith(value, offset):
            return name
        seen.add(name)
        offset += len(value)
    # A number may be a prefix of another: the walk then ends inside the first of the two.
    return None if _END.match(raw, offset) else name


def _size(value: Any) -> int:
    return len(memoryview(value))


def replace_model(
    raw: bytes, body: JsonObject, model: str, changes: JsonObject, *, has_one_model: bool = False, added: JsonObject = _NOTHING
) -> bytes:
    """The body with another model name and `changes` made (None removes a field).

    `has_one_model`: it was read by `parse_apart` or written by us, so no search is needed. `added` are new fields, inserted
    after the model.
    """
    if not changes:
        found = (_FIRST.match(raw) if has_one_model else None) or _find_only_model(raw)
        if found is not None:
            name = orjson.dumps(model)
            if added:
                name += b"," + orjson.dumps(added)[1:-1]
            return b"".join((raw[: found.start(1)], name, memoryview(raw)[found.end(1) :]))
    return replace_fields(raw, body, {**changes, **added, "model": model})


def _find_only_model(raw: bytes) -> re.Match[bytes] | None:
    """The only `model` key, or None if there may be another, which must not reach a target.

    Quotes inside a JSON string are escaped, so `"model"` before a colon is always a key; if it occurs once, it is the top-level
    one. Searching from the end is twice as fast.
    """
    offset = raw.rfind(_KEY)
    if raw.rfind(_KEY, 0, offset) >= 0 or (raw.find(b"\\") >= 0 and raw.rfind(_ESCAPED_LETTER) >= 0):
        return None
    return _VALUE.match(raw, offset)


def replace_fields(raw: bytes, body: JsonObject, changes: JsonObject) -> bytes:
    """A JSON object, parsed from `raw` into `body`, with some fields changed (None removes one)."""
    merged = {key: value for key, value in {**body, **changes}.items() if value is not None or key not in changes}
    try:
        return _write(merged, body, raw)
    except (orjson.JSONEncodeError, RecursionError) as error:
        raise TooDeep("the JSON is nested too deeply to be rewritten") from error


def _write(value: Json, before: Json, raw: bytes) -> bytes:
    if value is before:
        return raw
    if isinstance(value, dict) and isinstance(before, dict):
        return _write_object(value, before, raw)
    if isinstance(value, list) and isinstance(before, list):
        return _write_list(value, before, raw)
    return orjson.dumps(value, default=as_written)


def _write_object(value: JsonObject, before: JsonObject, raw: bytes) -> bytes:
    members, written = _MEMBERS.decode(raw), []
    for key, new in value.items():
        text = _write(new, before[key], bytes(members[key])) if key in members else orjson.dumps(new, default=as_written)
        written.append(orjson.dumps(key) + b":" + text)
    return b"{%b}" % b",".join(written)


def _write_list(value: list[Json], before: list[Json], raw: bytes) -> bytes:
    """Unchanged items are recognised by identity, or by position if the length is equal."""
    items = [bytes(item) for item in _ITEMS.decode(raw)]
    if len(value) == len(before):
        return b"[%b]" % b",".join([_write(new, old, item) for new, old, item in zip(value, before, items, strict=True)])
    known = {id(old): item for old, item in zip(before, items, strict=True)}
    return b"[%b]" % b",".join([known.get(id(new)) or orjson.dumps(new, default=as_written) for new in value])
