"""A tier asked for in a message, for clients that cannot set headers: a first line `tier: fast`, `deep` or `auto`.

Only a line the person wrote counts (`tier_line.py`). Lines are removed identically from every request that repeats them, so
that prefixes, caches and signatures hold. The router itself answers a message that is only such a line, and leaves that
exchange out of later requests.
"""

from collections.abc import Iterator
from functools import partial
from itertools import compress, repeat
from operator import eq

from msgspec.structs import replace

from router.contract.errors import UnknownOverride
from router.contract.request import Conversation, InBand, Json, JsonObject, RequestView
from router.contract.words import PERSONS_KINDS, Dialect, Feature, Operation, TurnKind
from router.dialects.fields import as_list, as_object, as_text
from router.dialects.histories import learn
from router.dialects.requests import rewrite
from router.dialects.table import SPECS
from router.sessions.clients import Client
from router.sessions.tier_line import TIERS, Line, may_have_line, own_texts, read_line, say_tier, texts_of, without_lines
from router.sessions.turns import read_kind
from router.sessions.words import strip_harness

_NOTHING_ELSE = "continue"
"""Replaces a line-only message: hosts reject an empty one."""
_SMALL_BYTES = 4_096
"""A body that is searched faster than walked."""
_MAX_INDEXES = 50
"""Remembered messages with a possible line."""
_NO_INDEXES: tuple[int, ...] = ()
_CLIENTS_OWN = ("system", "developer")
_PLAIN = frozenset({"text", "input_text", "tool_result"})
_FREE_CHOICES = (None, "auto", "none")
_FREE_FORMATS = (None, "text")
_APPLIED_KINDS = (*PERSONS_KINDS, TurnKind.COMPACTION)


def may_hold_lines(view: RequestView) -> bool:
    """A small body without the word or an escape has no lines."""
    raw = view.raw
    return len(raw) > _SMALL_BYTES or raw.lower().rfind(b"tier") >= 0 or raw.rfind(b"\\u") >= 0


def apply_tier_lines(view: RequestView) -> RequestView:
    """The request without tier lines, the newest of them among its overrides.

    Raises `UnknownOverride` where the newest message is only a line with an unknown tier.
    """
    if not may_hold_lines(view) or not SPECS[view.dialect].is_conversation:
        return view
    indexes = _find_indexes(view)
    if not indexes:
        return view
    client, kind = read_kind(view)
    if kind is TurnKind.SUBAGENT:
        return view  # a model wrote its words
    told = _Reading(_items_of(view.body, view.dialect), indexes, client)
    is_persons = kind in PERSONS_KINDS and view.operation is Operation.CREATE
    if is_persons and told.unknown is not None:
        raise UnknownOverride(f'tier: unknown tier "{told.unknown}". Known: {", ".join(TIERS)}')
    if told.line is None:
        return view
    stripped = rewrite(view, told.changes(view.body, view.dialect))
    if view.continued is not None:
        stripped = replace(stripped, continued=view.continued.changed(partial(_strip, client)))
    if kind not in _APPLIED_KINDS:
        return stripped
    line = told.line
    if line.is_alone and not (is_persons and _may_be_answered_here(view, client)):
        line = replace(line, is_alone=False)
    return replace(stripped, overrides=replace(view.overrides, line=line))


def _may_be_answered_here(view: RequestView, client: Client) -> bool:
    """Whether a sentence will do: no tool call or schema is demanded, and no history is known to a target alone."""
    if client.needs_calls or view.previous_response_id or view.overrides.for_session:
        return False
    body, choice = view.body, view.body.get("tool_choice")
    if isinstance(choice, dict):
        choice = choice.get("mode") if choice.get("type") == "allowed_tools" else choice.get("type")
    formats = (body.get("response_format"), as_object(body.get("text")).get("format"), body.get("output_format"))
    return (
        choice in _FREE_CHOICES
        and Feature.JSON_SCHEMA not in view.needs
        and all(as_object(given).get("type") in _FREE_FORMATS for given in formats)
    )


def _find_indexes(view: RequestView) -> "tuple[int, ...] | range":
    given = view.body.get(SPECS[view.dialect].list_field)
    if isinstance(given, str):
        return (0,) if may_have_line(as_text(given)) else ()
    indexes = learn(view.conversation, "lines", _NO_INDEXES, _learn_indexes)
    return indexes if len(indexes) <= _MAX_INDEXES else range(len(view.conversation.items))


def _learn_indexes(indexes: tuple[int, ...], conversation: Conversation, start: int, stop: int) -> tuple[int, ...]:
    """By any author; one too many where all must be searched."""
    items = conversation.items[start:stop]
    roles = list(map(dict.get, items, repeat("role")))  # type: ignore[arg-type]  # each is an object, or was refused
    if "user" not in roles:
        return indexes
    users = compress(enumerate(items, start), map(eq, roles, repeat("user")))
    found = [index for index, item in users if any(map(may_have_line, texts_of(item)))]
    return (*indexes, *found)[: _MAX_INDEXES + 1]


def _items_of(body: JsonObject, dialect: Dialect) -> list[Json]:
    given = body.get(SPECS[dialect].list_field)
    return [{"role": "user", "content": given}] if isinstance(given, str) else as_list(given)


class _Reading:
    """The conversation without its lines. `line` is the newest; `unknown` an unknown tier, asked for alone."""

    def __init__(self, items: list[Json], indexes: "tuple[int, ...] | range", client: Client) -> None:
        self._items, self._client = items, client
        self._kept: dict[int, Json] = {}
        self._dropped: set[int] = set()
        self.line: InBand | None = None
        self.unknown: str | None = None
        lines = 0
        for index in indexes:
            found = dict(_lines_of(items[index], client))
            if not found:
                continue
            known = {part: line for part, line in found.items() if line.is_known}
            lines += len(known)
            last_index, *_ = [part for part, _ in reversed(own_texts(items[index], client))]
            self._take(index, known, found.get(last_index), lines)

    def _take(self, index: int, known: dict[int, Line], last: Line | None, count: int) -> None:
        """`last` is the line of the message's newest text."""
        next_index = self._next_said(index)
        is_newest = next_index is None
        if last is not None and not last.is_known:
            self.unknown = last.word if last.is_alone and is_newest else None
        if not known:
            return
        is_alone = last is not None and last.is_known and last.is_alone
        needs_words, is_ours = is_alone and is_newest, False
        if is_alone and next_index is not None:
            is_ours = self._is_our_answer(next_index, last.word)  # type: ignore[union-attr]  # alone, so it is there
            needs_words = not is_ours and as_object(self._items[next_index]).get("role") != "user"
        item = without_lines(self._items[index], known, filler=_NOTHING_ELSE if needs_words else "")
        goes = [gone for gone, is_gone in ((index, item is None), (next_index, is_ours)) if is_gone and gone is not None]
        if len(self._items) - len(self._dropped) > len(goes):  # hosts reject an empty conversation
            self._dropped.update(goes)
        if item is not None:
            self._kept[index] = item
        newest = list(known.values())[-1]
        before = index - sum(gone < index for gone in self._dropped)
        is_at = before - 1 if is_alone and not needs_words else before
        self.line = InBand(TIERS[newest.word], is_at, is_newest, is_alone and is_newest, newest.mark(count))

    def _next_said(self, index: int) -> int | None:
        for later in range(index + 1, len(self._items)):
            item = as_object(self._items[later])
            role = item.get("role")
            if role in _CLIENTS_OWN or (role == "user" and not _says_anything(item, self._client)):
                continue
            return later
        return None

    def _is_our_answer(self, index: int, word: str) -> bool:
        item = as_object(self._items[index])
        if item.get("role") != "assistant" or item.get("tool_calls"):
            return False
        content = item.get("content")
        texts = [content] if isinstance(content, str) else [as_text(as_object(part).get("text")) for part in as_list(content)]
        return "".join(map(as_text, texts)).strip() == say_tier(TIERS[word])

    def items(self) -> list[Json]:
        return [self._kept.get(index, item) for index, item in enumerate(self._items) if index not in self._dropped]

    def changes(self, body: JsonObject, dialect: Dialect) -> JsonObject:
        name = SPECS[dialect].list_field
        items = self.items()
        return {name: as_object(items[0]).get("content") if isinstance(body.get(name), str) else items}


def _strip(client: Client, items: list[Json]) -> list[Json]:
    return _Reading(items, range(len(items)), client).items()


def _lines_of(message: Json, client: Client) -> Iterator[tuple[int, Line]]:
    """By the index of their text. Next to an image or file, which a model must see, none is alone."""
    types = {as_text(as_object(part).get("type")) for part in as_list(as_object(message).get("content"))}
    for index, text in own_texts(message, client):
        line = read_line(text, client)
        if line is not None:
            yield index, line if types <= _PLAIN else line._replace(is_alone=False)


def _says_anything(message: JsonObject, client: Client) -> bool:
    content = message.get("content")
    if isinstance(content, str):
        return bool(strip_harness(content, client))
    return any(
        as_object(part).get("type") not in ("text", "input_text") or strip_harness(as_text(as_object(part).get("text")), client)
        for part in as_list(content)
    )
