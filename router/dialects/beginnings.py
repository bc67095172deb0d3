"""A history is read once: what the beginning of a conversation told is kept, and only what is new is read.

Every call of a tool loop repeats the whole conversation and adds a message or two. Whoever walks through a history therefore
does it by `learn`, with a function that goes on from what it learned before. What it learns must be a small frozen value that
follows from the messages alone, and holds none of them.

A beginning is known by a mark of everything in its messages. So what was learned from it is true for whoever sends it again, in
whatever order: a history that was edited anywhere, cut, compacted or forked, and one that only begins alike, has another mark,
and is read from where it is known, or whole. The count and the last message would not be enough: clients shorten old tool
results in place. The mark costs no bytecodes; C writes and hashes the messages in less than half the time of their parsing. The
hash has a secret key in every process: nobody can make two histories with the same mark. What `grown.py` knows by its bytes
needs no mark.
"""

import contextlib
from collections.abc import Callable
from operator import attrgetter
from typing import Any, TypeVar

import msgspec

from router.contract.request import Beginning, Conversation, Message
from router.dialects.grown import Items

_UNSETTLED = 2
"""The last messages. Clients change these still (notes, cache marks), so what was known before them is kept as well."""
_START = 4
"""The messages by which a conversation is looked up. They hold the person's first words with every client that was seen."""
_SHORTEST = 12
"""Shorter ones are read whole: that costs less than finding out what is known of them, above all where messages are long."""
_MAX_ALIKE = 4
"""Beginnings kept for one start: of a conversation as it grows, of its forks, and of others that begin alike."""
_MAX_STARTS = 2_048

_write = msgspec.msgpack.Encoder(enc_hook=attrgetter("text")).encode  # a number with all its digits
_known: dict[tuple[Callable[..., Message], int], list[Beginning]] = {}
"""By dialect (the function that reads its messages) and start. The start that was used last is at the end."""

_T = TypeVar("_T")
Reader = Callable[[_T, Conversation, int, int], _T]
"""Goes on from what was learned before, with the messages from one place to another."""


def learn(conversation: Conversation, name: str, nothing: _T, read: Reader[_T]) -> _T:
    """What a reader learns from a whole conversation. `name` tells it from others, and `nothing` is where it begins."""
    items = conversation.items
    count = len(items)
    if count < _SHORTEST and type(items) is not Items:
        return read(nothing, conversation, 0, count)
    before, new = conversation.known or _find(conversation)
    place = before.count
    learned: _T | None = before.learned.get(name)
    if learned is None:
        learned = before.learned[name] = read(nothing, conversation, 0, place)
    for beginning in new:
        learned = beginning.learned[name] = read(learned, conversation, place, beginning.count)
        place = beginning.count
    return learned


def clear() -> None:
    """Forget everything: the next request of every conversation is read whole."""
    _known.clear()


def learned_at(known: tuple[Beginning, list[Beginning]], count: int) -> dict[str, Any]:
    """What was learned from so many messages and no more. Where no known beginning ends there: nothing, and none is kept."""
    before, new = known
    if before.count == count:
        return before.learned
    for beginning in new:
        if beginning.count == count:
            return beginning.learned
    return {}


def _find(conversation: Conversation) -> tuple[Beginning, list[Beginning]]:
    """The beginning that was read before, and those that are new: the settled messages, and all of them."""
    items = conversation.items
    count = len(items)
    before, kept = items.known if type(items) is Items else (None, [])
    if before is not None or count < _SHORTEST:
        conversation.known = known = before or Beginning(0, 0), kept
        return known
    try:
        written = tuple(map(_write, items))
    except RecursionError:  # nested too deeply to be marked
        conversation.known = known = Beginning(0, 0), kept or [Beginning(count, 0)]
        return known
    start = (conversation.read, hash(written[:_START]))
    alike = _known.pop(start, None) or []
    _known[start] = alike
    for before in reversed(alike):
        if before.count <= count and hash(written[: before.count]) == before.mark:
            break
    else:
        before = Beginning(0, 0)
    for beginning in kept or (kept := [Beginning(count - _UNSETTLED, 0), Beginning(count, 0)]):
        beginning.mark = hash(written[: beginning.count])
        if beginning.count == before.count:
            beginning.learned = before.learned
    new = [beginning for beginning in kept if beginning.count > before.count]
    conversation.known = known = before, new
    alike += new
    if len(alike) > _MAX_ALIKE:
        del alike[:-_MAX_ALIKE]
    if len(_known) > _MAX_STARTS:
        with contextlib.suppress(KeyError, RuntimeError):  # heavy requests are read in a thread, which may do the same
            del _known[next(iter(_known))]
    return known
