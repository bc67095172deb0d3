"""A body that only grew is parsed where it grew: each call of a tool loop repeats the bytes of the last one and adds a message.

A body that was parsed is kept in two halves, cut behind its last message. If another one begins and ends with the same bytes,
only messages can be in between: where these parse as items of a list, the whole is what it was before, with these items added.
That is a proof and no guess, whoever sends it. The objects are shared by all who send it, and nobody changes them.

It is also cut before its last two messages, which clients still change (notes, cache marks). What the messages before a cut
told (`beginnings.py`) is kept with it, since the same bytes tell the same.
"""

import re
import threading
from itertools import chain
from operator import attrgetter
from typing import Any

import msgspec
import orjson
from msgspec import Struct
from msgspec.structs import replace

from router.contract.request import Beginning, Json, JsonObject
from router.contract.words import Dialect
from router.dialects.splice import find_repeated

_UNSETTLED = 2
_FEWEST, _MOST = 4, 2_000
"""Messages. With fewer it is hardly a conversation that goes on, and none is longer."""
_LAST_BYTES = 32
"""By so many bytes before a cut, another conversation is told from this one without comparing all that both begin with."""
_MAX_KEPT, _MAX_BYTES, _LARGEST_BYTES = 128, 1 << 23, 1 << 21
"""How many are kept, with how many bytes together, and the largest of them."""

_MEMBERS = msgspec.json.Decoder(dict[str, msgspec.Raw])
_ITEMS = msgspec.json.Decoder(list[msgspec.Raw])
_BLANKS = b" \t\r\n"
_UNREADABLE = (ValueError, RecursionError)
"""Not what it must be, or nested so deeply that only one of the two parsers takes it."""


class Items(list[Json]):
    """The messages of a body that is kept, the beginning of it that was known before, if any, and those that are kept now."""

    __slots__ = ("known",)

    known: tuple[Beginning | None, list[Beginning]]


class _Cut(Struct, eq=False):
    """A place behind a message, the bytes before it, and what the messages before it told."""

    place: int
    last_bytes: bytes
    beginning: Beginning


class _Kept(Struct, eq=False):
    """A body that was parsed. `start` ends with the last of its messages, and `end` goes on from there."""

    dialect: Dialect
    name: str
    start: bytes
    end: bytes
    before: JsonObject
    """The fields that come before the messages, and below those that come after them."""
    after: JsonObject
    items: list[Json]
    cuts: tuple[_Cut, _Cut]
    """Behind the last message, and before that."""
    has_one_model: bool


_kept: dict[int, _Kept] = {}
"""By their ids. The one that was met last is at the end."""
_lock = threading.Lock()
"""Heavy bodies are read in a thread."""
_halves = attrgetter("start", "end")


def clear() -> None:
    """Forget everything: the next body is parsed whole."""
    _kept.clear()


def parse_grown(raw: bytes, dialect: Dialect) -> tuple[JsonObject, bool] | None:
    """A body that begins as one that is kept, and whether `model` is known to be in it once. None if it is another."""
    for kept in reversed(list(_kept.values())):
        for cut in kept.cuts:
            if (
                raw.startswith(cut.last_bytes, cut.place - _LAST_BYTES)
                and raw.startswith(memoryview(kept.start)[: cut.place])
                and kept.dialect is dialect
            ):
                try:
                    grown, items = _go_on(kept, cut, raw)
                except _UNREADABLE:
                    return None
                _keep(grown, kept)
                return {**grown.before, grown.name: items, **grown.after}, grown.has_one_model
    return None


def _go_on(kept: _Kept, cut: _Cut, raw: bytes) -> tuple[_Kept, Items]:
    """The body with what comes behind a cut."""
    known, cuts = cut.beginning, kept.cuts
    stop = len(raw) - len(kept.end)
    if stop >= cut.place and raw.endswith(kept.end):
        written, end, after = b"[null%b]" % raw[cut.place : stop], kept.end, kept.after
        ((_, *new),) = orjson.loads(b"[%b]" % written)
    else:
        (_, *new), written, end, after = _read_behind(kept, cut, raw)
        stop = len(raw) - len(end)
    items = Items(kept.items[: known.count] + new)
    if new or cut is not cuts[0] or end is not kept.end:
        if cut is cuts[0] or len(new) <= _UNSETTLED:
            cuts = (_cut_at(raw, stop, len(items)), cut)
        else:
            cuts = _cut_twice(raw, stop, written, len(items))
        kept = replace(kept, start=raw[:stop], end=end, after=after, items=items, cuts=cuts)
    items.known = known, [each.beginning for each in reversed(cuts) if each.beginning.count > known.count]
    return kept, items


def _read_behind(kept: _Kept, cut: _Cut, raw: bytes) -> tuple[list[Json], bytes, bytes, JsonObject]:
    """The messages behind a cut, as they are written, and an end that is new: Codex shuffles its last field every time."""
    name = kept.name.encode()
    rest = b'{"%b":[null%b' % (name, raw[cut.place :])
    after: Any = orjson.loads(rest)
    if find_repeated(rest) is not None or not kept.before.keys().isdisjoint(after):
        raise ValueError("a field comes twice")
    written = bytes(_MEMBERS.decode(rest)[kept.name])
    return after.pop(kept.name), written, rest[len(name) + len(written) + 3 :], after


class Conversation(Struct, frozen=True):
    """Where a body that was parsed whole has its messages, in the field `name`. Proven: the bytes in between are that list."""

    name: str
    start: int
    stop: int
    """Where its closing bracket is."""
    cuts: tuple[_Cut, _Cut]
    rest: bytes
    """The body with an empty list in its place."""


def find_conversation(raw: bytes, body: JsonObject, name: str) -> Conversation | None:
    """The messages of a body that may be kept; None where it may not, or where they cannot be told from their bytes."""
    items = body[name]
    if not isinstance(items, list) or not _FEWEST <= len(items) <= _MOST or len(raw) > _LARGEST_BYTES:
        return None
    fields = list(body)
    found = re.search(rb'"%b"[ \t\r\n]*:[ \t\r\n]*\[' % name.encode(), raw)
    stop = _find_stop(raw, *fields[(place := fields.index(name)) + 1 : place + 2])
    if found is None or stop < found.end():
        return None
    start = found.end() - 1
    try:
        cuts = _cut_twice(raw, stop, raw[start : stop + 1], len(items))
        rest = b"%b[]%b" % (raw[:start], raw[stop + 1 :])
        # The fields that are left are those of the body: so this is its own list, and none that is nested in another field.
        left = _MEMBERS.decode(rest)
    except _UNREADABLE:
        return None
    is_own = list(left) == fields and bytes(left[name]) == b"[]"
    return Conversation(name, start, stop, cuts, rest) if is_own else None


def keep(found: Conversation, raw: bytes, body: JsonObject, dialect: Dialect, *, has_one_model: bool) -> None:
    """Keep a body that was parsed whole."""
    name, cuts, stop = found.name, found.cuts, found.stop
    fields = list(body)
    place = fields.index(name)
    body[name] = items = Items(body[name])  # type: ignore[arg-type]  # a list, where these were found
    items.known = None, [each.beginning for each in reversed(cuts)]
    before, after = ({field: body[field] for field in part} for part in (fields[:place], fields[place + 1 :]))
    _keep(_Kept(dialect, name, raw[:stop], raw[stop:], before, after, items, cuts, has_one_model))


def _find_stop(raw: bytes, next_field: str = "") -> int:
    """Where the list probably ends that this field comes after, as clients write it; without one, the last field."""
    if not next_field:
        return raw.rfind(b"]")
    following = next_field.encode("utf-8", "replace")
    return max(raw.rfind(b'],"%b"' % following), raw.rfind(b'], "%b"' % following))


def _cut_twice(raw: bytes, stop: int, written: bytes, count: int) -> tuple[_Cut, _Cut]:
    """Cut behind the last message and before the last two. `written` is a list that ends with these, and has one more.

    Raises `ValueError` where a message is not found in its place: one that begins with itself is found inside itself.
    """
    place, between = stop, b""
    for item in map(bytes, reversed(_ITEMS.decode(written)[-_UNSETTLED:])):
        start = item[:_LAST_BYTES]  # to search for all of it would take longer; nothing but blanks can be behind it
        begin = raw.rindex(start, 0, place - len(item) + len(start))
        if raw[begin + len(item) : place].strip(_BLANKS) != between or not raw.startswith(item, begin):
            raise ValueError("the message that was found is not in its place")
        place, between = begin, b","
    comma = raw.rindex(b",", 0, place)
    if raw[comma + 1 : place].strip(_BLANKS):
        raise ValueError("there is no comma before the last two messages")
    return _cut_at(raw, stop, count), _cut_at(raw, comma, count - _UNSETTLED)


def _cut_at(raw: bytes, place: int, count: int) -> _Cut:
    return _Cut(place, raw[place - _LAST_BYTES : place], Beginning(count, 0))


def _keep(new: _Kept, old: _Kept | None = None) -> None:
    """Keep a body as the latest one, instead of the one that it grew from."""
    with _lock:
        _kept.pop(id(old), None)
        if len(new.start) <= _LARGEST_BYTES:
            _kept[id(new)] = new
        while new is not old and (len(_kept) > _MAX_KEPT or _count_bytes() > _MAX_BYTES):
            del _kept[next(iter(_kept))]


def _count_bytes() -> int:
    return sum(map(len, chain.from_iterable(map(_halves, _kept.values()))))
