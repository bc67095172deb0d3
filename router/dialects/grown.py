"""A body that only grew is parsed where it grew: each call of a tool loop repeats the bytes of the last one and adds a message.

A body that was parsed is kept in two halves, cut after its last message. If another one begins and ends with the same bytes,
only messages can be in between: where these parse as items of a list, the whole is what it was before, with these items added.
Equal bytes prove it. The objects are shared by all requests of its caller that repeat it, and nobody changes them.

It is also cut before its last two messages, which clients still change (notes, cache marks). What was learned from the messages
before a cut is kept with it, since the same bytes say the same. `histories.py` keeps the bodies, each for its caller.
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
"""The last messages. Clients still change these, so what was known before them is kept as well."""
LARGEST_BYTES = 1 << 21
"""The largest body that is kept."""
_MIN_MESSAGES, _MAX_MESSAGES = 4, 2_000
"""With fewer it is hardly a conversation that goes on, and none is longer."""
_FIRST_BYTES = 32
"""Of a message, by which it is searched for."""

_MEMBERS = msgspec.json.Decoder(dict[str, msgspec.Raw])
_ITEMS = msgspec.json.Decoder(list[msgspec.Raw])
_BLANKS = b" \t\r\n"
UNREADABLE = (ValueError, RecursionError)
"""Not what it must be, or nested so deeply that only one of the two parsers takes it."""


class Items(list[Json]):
    """The messages of a body that is kept, the beginning that was known before, perhaps of none of them, and those kept now."""

    __slots__ = ("found", "known", "raw_id")

    known: tuple[Beginning, list[Beginning]]
    raw_id: int
    """Of the bytes that they were read from, which live as long as their request."""
    found: dict[bytes, bool]
    """Whether all those bytes hold what was searched for in them (`marks.py`)."""


class Cut(Struct, eq=False):
    """Where a message ends, and what was learned from the messages up to it."""

    offset: int
    beginning: Beginning


class Body(Struct, eq=False):
    """A body that was parsed. `start` ends with the last of its messages, `end` goes on from there; `size` is that of both."""

    caller: Caller
    dialect: Dialect
    name: str
    start: memoryview
    """Of the bytes that came, which are kept: a copy of half a megabyte takes 50 µs, and much more in memory that is new."""
    settled: memoryview
    """The bytes of `start` up to the earlier of its cuts. Every body that goes on from it begins with these."""
    end: bytes
    before: JsonObject
    """The fields that come before the messages, and below those that come after them."""
    after: JsonObject
    items: list[Json]
    cuts: tuple[Cut, Cut]
    """Behind the last message, and before that."""
    has_one_model: bool
    size: int


def go_on(kept: Body, cut: Cut, raw: bytes) -> tuple[Body, Items]:
    """The body with what comes after a cut. Raises one of `UNREADABLE` where that is not more messages and an end."""
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
    """The messages after a cut, as they are written, and an end that is new: Codex shuffles its last field every time."""
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
    """A body that was parsed whole, as it may be kept, and its bytes with an empty list of messages.

    None if it may not be kept, or if the messages in the field `name` cannot be found among its bytes. They become `Items`.
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
        # The fields that are left are those of the body: so this is its own list, and none that is nested in another field.
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
    """Where the list before this field probably ends, as clients write it; without a next field, the last list."""
    if not next_field:
        return raw.rfind(b"]")
    following = next_field.encode("utf-8", "replace")
    return max(raw.rfind(b'],"%b"' % following), raw.rfind(b'], "%b"' % following))


def _cut_twice(raw: bytes, stop: int, written: bytes, count: int) -> tuple[Cut, Cut]:
    """Cut after the last message and before the last two. `written` is a list that ends with these, and has one more.

    Raises `ValueError` where a message is not where it should be: one that begins with itself is found inside itself.
    """
    offset, between = stop, b""
    for item in map(bytes, reversed(_ITEMS.decode(written)[-UNSETTLED:])):
        start = item[:_FIRST_BYTES]  # to search for all of it would take longer; nothing but blanks can be after it
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
