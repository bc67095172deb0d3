"""Parse only the new part of a body: each call of a tool loop repeats the previous bytes and adds a message.

A parsed body is kept in two halves, split after its last message. A body that begins and ends with their bytes can only have
messages in between: if these parse as list items, the result is the old body with the items added. Requests share the parsed
objects, which must not be changed.

A second cut is before the last two messages, which clients still edit (notes, cache marks). What was learned from the messages
before a cut is kept with it. `histories.py` stores the bodies per caller.
"""

import re
from typing import Any

import msgspec
import orjson
from msgspec import Struct
from msgspec.structs import replace

from router.contract.caller import Caller
from router.contract.request import Beginning, Json, JsonObject
from router.contract.words import Dialect
from router.dialects.splice import find_repeated

UNSETTLED = 2
"""Last messages that clients still edit."""
LARGEST_BYTES = 1 << 21
_MIN_MESSAGES, _MAX_MESSAGES = 4, 2_000
_FIRST_BYTES = 32

_MEMBERS = msgspec.json.Decoder(dict[str, msgspec.Raw])
_ITEMS = msgspec.json.Decoder(list[msgspec.Raw])
_BLANKS = b" \t\r\n"
UNREADABLE = (ValueError, RecursionError)
"""Malformed, or nested too deeply for one of the two parsers."""


class Items(list[Json]):
    """A kept body's messages, with the beginning known before and those added."""

    __slots__ = ("found", "known", "raw_id")

    known: tuple[Beginning, list[Beginning]]
    raw_id: int
    """Identity of the bytes they were parsed from, which live as long as the request."""
    found: dict[bytes, bool]
    """Results of searches in those bytes (`marks.py`)."""


class Cut(Struct, eq=False):
    offset: int
    beginning: Beginning


class Body(Struct, eq=False):
    """A parsed body: `start` ends with the last message, `end` is the rest, `size` counts both."""

    caller: Caller
    dialect: Dialect
    name: str
    start: memoryview
    """A view of the received bytes: copying half a megabyte takes 50 µs, more into new memory."""
    settled: memoryview
    """The bytes up to the earlier cut: every continuation begins with these."""
    end: bytes
    before: JsonObject
    """Fields before the messages, in `after` those that follow."""
    after: JsonObject
    items: list[Json]
    cuts: tuple[Cut, Cut]
    """After the last message, and before the last two."""
    has_one_model: bool
    size: int


def go_on(kept: Body, cut: Cut, raw: bytes) -> tuple[Body, Items]:
    """Extend a body by what follows a cut. Raises one of `UNREADABLE` if that is not messages and an end."""
    known, cuts = cut.beginning, kept.cuts
    stop = len(raw) - len(kept.end)
    if stop >= cut.offset and raw.endswith(kept.end):
        written, end, after = b"[null%b]" % raw[cut.offset : stop], kept.end, kept.after
        ((_, *new),) = orjson.loads(b"[%b]" % written)
    else:
        (_, *new), written, end, after = _read_after(kept, cut, raw)
        stop = len(raw) - len(end)
    items = Items(kept.items[: known.count] + new)
    added: list[Beginning] = []
    if new or cut is not cuts[0] or end is not kept.end:
        if cut is cuts[0] or len(new) <= UNSETTLED:
            cuts = (_cut_at(stop, len(items)), cut)
        else:
            cuts = _cut_twice(raw, stop, written, len(items))
            added.append(cuts[1].beginning)
        if new:
            added.append(cuts[0].beginning)
        settled = (start := memoryview(raw)[:stop])[: cuts[1].offset]
        kept = replace(kept, start=start, settled=settled, end=end, after=after, items=items, cuts=cuts, size=len(raw))
    items.known, items.raw_id, items.found = (known, added), id(raw), {}
    return kept, items


def _read_after(kept: Body, cut: Cut, raw: bytes) -> tuple[list[Json], bytes, bytes, JsonObject]:
    """The messages after a cut if the end is new: Codex shuffles its last field every time."""
    name = kept.name.encode()
    rest = b'{"%b":[null%b' % (name, raw[cut.offset :])
    after: Any = orjson.loads(rest)
    if find_repeated(rest) is not None or not kept.before.keys().isdisjoint(after):
        raise ValueError("a field comes twice")
    written = bytes(_MEMBERS.decode(rest)[kept.name])
    return after.pop(kept.name), written, rest[len(name) + len(written) + 3 :], after


def cut_apart(
    raw: bytes, body: JsonObject, name: str, caller: Caller, dialect: Dialect, *, has_one_model: bool
) -> tuple[Body, bytes] | None:
    """Split a parsed body to keep it; also return its bytes with an empty message list.

    None if it must not be kept or the messages in the field `name` cannot be located. They become `Items`.
    """
    given = body[name]
    if not isinstance(given, list) or not _MIN_MESSAGES <= len(given) <= _MAX_MESSAGES or len(raw) > LARGEST_BYTES:
        return None
    fields = list(body)
    index = fields.index(name)
    found = re.search(rb'"%b"[ \t\r\n]*:[ \t\r\n]*\[' % name.encode(), raw)
    stop = _find_stop(raw, *fields[index + 1 : index + 2])
    if found is None or stop < found.end():
        return None
    start = found.end() - 1
    try:
        cuts = _cut_twice(raw, stop, raw[start : stop + 1], len(given))
        rest = b"%b[]%b" % (raw[:start], raw[stop + 1 :])
        # The remaining fields equal the body's, so this is its own list and not one nested in another field.
        left = _MEMBERS.decode(rest)
    except UNREADABLE:
        return None
    if list(left) != fields or bytes(left[name]) != b"[]":
        return None
    body[name] = items = Items(given)
    items.known, items.raw_id, items.found = (Beginning(0, 0), [each.beginning for each in reversed(cuts)]), id(raw), {}
    before, after = ({field: body[field] for field in part} for part in (fields[:index], fields[index + 1 :]))
    settled = (begins := memoryview(raw)[:stop])[: cuts[1].offset]
    return Body(caller, dialect, name, begins, settled, raw[stop:], before, after, items, cuts, has_one_model, len(raw)), rest


def _find_stop(raw: bytes, next_field: str = "") -> int:
    """Where the list before `next_field`, or the last list, probably ends as clients write it."""
    if not next_field:
        return raw.rfind(b"]")
    following = next_field.encode("utf-8", "replace")
    return max(raw.rfind(b'],"%b"' % following), raw.rfind(b'], "%b"' % following))


def _cut_twice(raw: bytes, stop: int, written: bytes, count: int) -> tuple[Cut, Cut]:
    """Cut after the last message and before the last two, with which `written` ends.

    Raises `ValueError` if a message that contains its own beginning was found inside itself.
    """
    offset, between = stop, b""
    for item in map(bytes, reversed(_ITEMS.decode(written)[-UNSETTLED:])):
        start = item[:_FIRST_BYTES]  # faster than searching for all of it; only blanks can follow
        begin = raw.rindex(start, 0, offset - len(item) + len(start))
        if raw[begin + len(item) : offset].strip(_BLANKS) != between or not raw.startswith(item, begin):
            raise ValueError("the message that was found is another one")
        offset, between = begin, b","
    comma = raw.rindex(b",", 0, offset)
    if raw[comma + 1 : offset].strip(_BLANKS):
        raise ValueError("there is no comma before the last two messages")
    return _cut_at(stop, count), _cut_at(comma, count - UNSETTLED)


def _cut_at(offset: int, count: int) -> Cut:
    return Cut(offset, Beginning(count, 0, size=offset))
