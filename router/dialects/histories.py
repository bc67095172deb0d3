"""What is remembered of conversations that go on, so that each request of a tool loop is read only where it grew.

Every call of a tool loop repeats the whole conversation and adds a message or two. Two things are kept, for each caller apart:

- Bodies that were parsed (`grown.py`). Another body that begins with the same bytes is parsed only from there on.
- What the readers of a history learned from its beginning (`learn`). A beginning that `grown.py` does not know by its bytes is
  known by a mark of everything in its messages, so a history that was edited anywhere, cut, compacted or forked has another
  mark, and is read from where it is known, or whole. The count and the last message would not be enough: clients shorten old
  tool results in place. C writes and hashes the messages in less than half the time of their parsing. The hash has a secret
  key in every process, so nobody can make two histories with the same mark.
"""

import threading
from bisect import bisect
from collections.abc import Callable
from itertools import compress
from operator import attrgetter
from typing import Any, TypeVar

import msgspec
from msgspec import Struct

from router.contract.caller import Caller
from router.contract.request import Beginning, Conversation, Json, JsonObject, Message
from router.contract.words import Dialect
from router.dialects.grown import LARGEST_BYTES, UNREADABLE, UNSETTLED, Body, Items, go_on

_START = 4
"""The messages by which a conversation is looked up. They hold the person's first words with every client that was seen."""
_SHORTEST = 12
"""Shorter ones are read whole: that costs less than finding out what is known of them, above all where messages are long."""
_MAX_BYTES = (1 << 26) // 4
"""Of all bodies that are kept. A byte takes four of memory with what it was parsed to, so this is 64 MB."""
_MARK_BYTES = 32
_LANDMARKS = tuple(top << bits for bits in range(3, LARGEST_BYTES.bit_length() - 3) for top in range(4, 8))
"""Places in a body by which it is found: four for each doubling of its length, so that one of them is in its last fifth."""
_MARKS = tuple(
    tuple(slice(place - _MARK_BYTES, place) for place in reversed(_LANDMARKS) if place < 1 << bits) for bits in range(64)
)
"""Which bytes to look at in a body whose length has so many bits: those before each landmark, the last one first. Many
conversations begin with the same instructions, but what comes late is their own."""
_MAX_STARTS = 2_048
_MAX_ALIKE = 4
"""Beginnings kept for one start: of a conversation as it grows, of its forks, and of others that begin alike."""

_write = msgspec.msgpack.Encoder(enc_hook=attrgetter("text")).encode  # a number with all its digits

_settled = attrgetter("settled")

_T = TypeVar("_T")
Reader = Callable[[_T, Conversation, int, int], _T]
"""Goes on from what was learned before, with the messages from one index to another.

What it learns must be a small frozen value that follows from the messages alone, and holds none of them.
"""


class Histories:
    """What is remembered for all callers, within one bound for all of them. If `remembers` is false, nothing is."""

    def __init__(self, *, remembers: bool = True) -> None:
        self.remembers = remembers
        self.bodies: dict[bytes, tuple[Body, ...]] = {}
        """By the bytes before one of the landmarks. What was used last is at the end, here and below."""
        self.kept_bytes = 0
        self.starts: dict[tuple[Caller, Callable[[Json], Message], int], list[Beginning]] = {}
        """By caller, dialect (the function that reads its messages) and first messages."""
        self.lock = threading.Lock()
        """Heavy requests are read in a thread."""

    def of(self, caller: Caller) -> "History | None":
        """Those of one caller; None where nothing is remembered."""
        return History(self, caller) if self.remembers else None

    def clear(self) -> None:
        """Forget everything: the next request of every conversation is read whole."""
        with self.lock:
            self.bodies.clear()
            self.starts.clear()
            self.kept_bytes = 0

    def forget(self, body: Body, mark: bytes) -> None:
        """Forget a body that was found by a mark, unless another thread was quicker. The lock is held."""
        alike = self.bodies.get(mark, ())
        if body in alike:
            self.kept_bytes -= body.size
            if others := tuple(each for each in alike if each is not body):
                self.bodies[mark] = others
            else:
                del self.bodies[mark]


NO_HISTORIES = Histories(remembers=False)


class History(Struct, frozen=True):
    """The part of the histories that belongs to one caller, which no other caller's request can find."""

    _all: Histories
    caller: Caller

    def parse_grown(self, raw: bytes, dialect: Dialect) -> "tuple[JsonObject, bool, History] | None":
        """A body that begins like one that is kept, and whether `model` is known to be in it once. None if it is another."""
        caller, bodies = self.caller, self._all.bodies
        for mark in filter(bodies.__contains__, map(raw.__getitem__, _MARKS[len(raw).bit_length()])):
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
        """Keep a body as the latest one, instead of the one that it grew from, which was found by a mark."""
        everyone = self._all
        bodies, fits = everyone.bodies, len(new.start) <= LARGEST_BYTES
        with everyone.lock:
            alike = bodies.get(mark, ())
            if fits and alike[-1:] == (old,):  # it was the first to be looked at, and will be again
                del bodies[mark]
                bodies[mark] = (*alike[:-1], new)
                everyone.kept_bytes += new.size - alike[-1].size
            else:
                if old is not None:
                    everyone.forget(old, mark)
                if fits:
                    landmark = _LANDMARKS[bisect(_LANDMARKS, new.cuts[1].offset) - 1]
                    mark = bytes(new.start[landmark - _MARK_BYTES : landmark])
                    bodies[mark] = (*bodies.pop(mark, ()), new)
                    everyone.kept_bytes += new.size
            while everyone.kept_bytes > _MAX_BYTES:
                oldest = next(iter(bodies))
                everyone.forget(bodies[oldest][0], oldest)

    def converse(self, items: list[Json], read: Callable[[Json], Message]) -> Conversation:
        """The conversation of a request, with what is known of its beginning."""
        conversation = Conversation(items, read)
        conversation.history = self
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
        """The beginning that was read before, and those that are new: the settled messages, and all of them."""
        count = len(items)
        try:
            written = tuple(map(_write, items))
        except RecursionError:  # nested too deeply to be marked
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
    """What a reader learns from a whole conversation. `name` distinguishes it from others, and `nothing` is where it begins."""
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
    """What was learned from the first `count` messages and no more. Where no known beginning ends there, nothing is kept."""
    before, new = known
    if before.count == count:
        return before.learned
    for beginning in new:
        if beginning.count == count:
            return beginning.learned
    return {}


def _is_of(beginning: Beginning, written: tuple[bytes, ...]) -> bool:
    return beginning.count <= len(written) and hash(written[: beginning.count]) == beginning.mark
