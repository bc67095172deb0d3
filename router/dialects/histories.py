"""Memory of conversations, so that a tool loop's requests are read only where they grew.

Kept per caller:

- Parsed bodies (`grown.py`). A body with the same beginning is parsed only from there on.
- What readers learned from a beginning (`learn`). One unknown by its bytes is found by a hash of its messages, so edited,
  compacted or forked histories match no further than they should. Count and last message would not do: clients shorten old tool
  results in place. The hash costs under half of the parsing, and is keyed per process, so collisions cannot be made.
"""

import threading
from bisect import bisect
from collections.abc import Callable
from itertools import compress
from operator import add, attrgetter
from typing import Any, TypeVar

import msgspec
from msgspec import Struct

from router.contract.caller import Caller
from router.contract.request import Beginning, Conversation, Json, JsonObject, Message
from router.contract.words import Dialect
from router.dialects.grown import LARGEST_BYTES, UNREADABLE, UNSETTLED, Body, Items, go_on

_START = 4
"""First messages that identify a conversation: with every known client they hold the person's first words."""
_SHORTEST = 12
"""Shorter ones are read whole: cheaper than a lookup, above all with long messages."""
MAX_BYTES = (1 << 26) // 4
"""Of kept bodies. Parsed, a byte takes four in memory: 64 MB."""
_MARK_BYTES, _MARK_STRIDE = 32, 251
"""The last bytes before a landmark, and every so many of those before: agents repeat instructions and output, so conversations
of one client may be alike for long."""
_LANDMARKS = tuple(top << bits for bits in range(3, LARGEST_BYTES.bit_length() - 3) for top in range(4, 8))
"""Offsets by which a body is found: four per doubling, so that one is in its last fifth."""
_PLACES = tuple(tuple(place for place in reversed(_LANDMARKS) if place < 1 << bits) for bits in range(64))
"""By bit length of a body: the landmarks that it may have, last first, since late bytes are unique."""
_ENDS, _SAMPLES = (
    tuple(tuple(map(slices.__getitem__, places)) for places in _PLACES)
    for slices in (
        {place: slice(place - _MARK_BYTES, place) for place in _LANDMARKS},
        {place: slice(0, place, _MARK_STRIDE) for place in _LANDMARKS},
    )
)
"""Both parts of a mark at each of these landmarks."""
_MAX_STARTS = 2_048
_MAX_ALIKE = 4
"""Beginnings per start: of a conversation, its forks, and others that begin alike."""

_write = msgspec.msgpack.Encoder(enc_hook=attrgetter("text")).encode  # keeps all digits of large numbers

_settled = attrgetter("settled")

_T = TypeVar("_T")
Reader = Callable[[_T, Conversation, int, int], _T]
"""Continues from what was learned with the messages between two indexes. The result must be a small frozen value that follows
from the messages alone and holds none of them."""


class Histories:
    """Histories of all callers within one bound."""

    def __init__(self, *, remembers: bool = True) -> None:
        self.remembers = remembers
        self.bodies: dict[bytes, tuple[Body, ...]] = {}
        """By their mark at a landmark; most recently used last, here and below."""
        self.kept_bytes = 0
        self.starts: dict[tuple[Caller, Callable[[Json], Message], int], list[Beginning]] = {}
        """By caller, message reader (one per dialect) and hash of the first messages."""
        self.lock = threading.Lock()
        """Large requests are read in threads."""

    def of(self, caller: Caller) -> "History | None":
        return History(self, caller) if self.remembers else None

    def clear(self) -> None:
        with self.lock:
            self.bodies.clear()
            self.starts.clear()
            self.kept_bytes = 0

    def forget(self, body: Body, mark: bytes) -> None:
        """Drop a body if it is still there. Call with the lock held."""
        alike = self.bodies.get(mark, ())
        if body in alike:
            self.kept_bytes -= body.size
            if others := tuple(each for each in alike if each is not body):
                self.bodies[mark] = others
            else:
                del self.bodies[mark]


NO_HISTORIES = Histories(remembers=False)


class History(Struct, frozen=True):
    """One caller's part of the histories; other callers' requests cannot find it."""

    _all: Histories
    caller: Caller

    def parse_grown(self, raw: bytes, dialect: Dialect) -> "tuple[JsonObject, bool, History] | None":
        """Parse a continuation of a kept body, with whether it holds `model` only once; None if it continues none."""
        caller, bodies = self.caller, self._all.bodies
        bits, part = len(raw).bit_length(), raw.__getitem__
        for mark in filter(bodies.__contains__, map(add, map(part, _ENDS[bits]), map(part, _SAMPLES[bits]))):
            alike = bodies.get(mark, ())[::-1]
            for body in compress(alike, map(raw.startswith, map(_settled, alike))):
                if body.caller != caller or body.dialect is not dialect:
                    continue
                last, before = body.cuts
                try:
                    grown, items = go_on(body, last if raw.startswith(body.start) else before, raw)
                except UNREADABLE:
                    return None
                self.keep(grown, body, mark)
                return {**grown.before, grown.name: items, **grown.after}, grown.has_one_model, self
        return None

    def keep(self, new: Body, old: Body | None = None, mark: bytes = b"") -> None:
        """Store a body in place of `old`, found by `mark`."""
        everyone = self._all
        bodies, fits = everyone.bodies, len(new.start) <= LARGEST_BYTES
        with everyone.lock:
            alike = bodies.get(mark, ())
            if fits and alike[-1:] == (old,):  # found first, and will be again
                del bodies[mark]
                bodies[mark] = (*alike[:-1], new)
                everyone.kept_bytes += new.size - alike[-1].size
            else:
                if old is not None:
                    everyone.forget(old, mark)
                if fits:
                    landmark = _LANDMARKS[bisect(_LANDMARKS, new.cuts[1].offset) - 1]
                    mark = bytes(new.start[landmark - _MARK_BYTES : landmark]) + bytes(new.start[:landmark:_MARK_STRIDE])
                    bodies[mark] = (*bodies.pop(mark, ()), new)
                    everyone.kept_bytes += new.size
            while everyone.kept_bytes > MAX_BYTES:
                oldest = next(iter(bodies))
                everyone.forget(bodies[oldest][0], oldest)

    def converse(self, items: list[Json], read: Callable[[Json], Message]) -> Conversation:
        conversation = Conversation(items, read, self)
        if type(items) is Items:
            known = conversation.known = items.known
            if known[0].count == 0 and len(items) >= _SHORTEST:
                conversation.known = self._recall(items, read, known[1])
        elif len(items) >= _SHORTEST:
            conversation.known = self._recall(items, read, [])
        return conversation

    def _recall(
        self, items: list[Json], read: Callable[[Json], Message], kept: list[Beginning]
    ) -> tuple[Beginning, list[Beginning]]:
        """The known beginning, and new ones: of the settled messages, and of all."""
        count = len(items)
        try:
            written = tuple(map(_write, items))
        except RecursionError:
            return Beginning(0, 0), kept or [Beginning(count, 0)]
        kept = kept or [Beginning(count - UNSETTLED, 0), Beginning(count, 0)]
        for beginning in kept:
            beginning.mark = hash(written[: beginning.count])
        start, starts = (self.caller, read, hash(written[:_START])), self._all.starts
        with self._all.lock:
            alike = starts[start] = starts.pop(start, [])
            before = next((each for each in reversed(alike) if _is_of(each, written)), None) or Beginning(0, 0)
            new = [beginning for beginning in kept if beginning.count > before.count]
            alike[:] = (alike + new)[-_MAX_ALIKE:]
            if len(starts) > _MAX_STARTS:
                del starts[next(iter(starts))]
        for beginning in kept:
            if beginning.count == before.count:
                beginning.learned = before.learned
        return before, new


def learn(conversation: Conversation, name: str, nothing: _T, read: Reader[_T]) -> _T:
    """What a reader, identified by `name`, learns from a whole conversation, beginning with `nothing`."""
    if conversation.known is None:
        return read(nothing, conversation, 0, len(conversation.items))
    before, new = conversation.known
    index = before.count
    learned: _T | None = before.learned.get(name)
    if learned is None:
        learned = before.learned[name] = read(nothing, conversation, 0, index) if index else nothing
    for beginning in new:
        learned = beginning.learned[name] = read(learned, conversation, index, beginning.count)
        index = beginning.count
    return learned


def learned_at(known: tuple[Beginning, list[Beginning]], count: int) -> dict[str, Any]:
    """What was learned from the first `count` messages; empty if no known beginning ends there."""
    before, new = known
    if before.count == count:
        return before.learned
    for beginning in new:
        if beginning.count == count:
            return beginning.learned
    return {}


def _is_of(beginning: Beginning, written: tuple[bytes, ...]) -> bool:
    return beginning.count <= len(written) and hash(written[: beginning.count]) == beginning.mark
