"""State that only its maker can read: reasoning items, encrypted content, thinking blocks with their signatures.

Every such piece has a key, so that somebody who remembers can say whose it is. Going to another target it is left out, whole
and in place; the caller still holds it, and sends it again when the turn returns to its maker.
"""

from collections.abc import Callable, Iterator
from hashlib import blake2b

from router.contract.request import Json, JsonObject, RequestView
from router.contract.words import Dialect
from router.dialects.fields import as_list, as_object, as_text

_OPAQUE_ITEMS = frozenset({"reasoning", "compaction", "context_compaction"})
_THINKING = frozenset({"thinking", "redacted_thinking"})
_CHAT_FIELDS = ("reasoning_content", "reasoning", "reasoning_details")
_LINKED = frozenset({"function_call", "custom_tool_call", "message"})
LISTS = {Dialect.CHAT: "messages", Dialect.RESPONSES: "input", Dialect.MESSAGES: "messages"}


def keys_of(dialect: Dialect, item: Json) -> Iterator[str]:
    """The keys of the opaque state in one message or item."""
    entry = as_object(item)
    match dialect:
        case Dialect.RESPONSES:
            if as_text(entry.get("type")) in _OPAQUE_ITEMS:
                yield _key(as_text(entry.get("encrypted_content")) or as_text(entry.get("id")))
        case Dialect.MESSAGES:
            if entry.get("role") == "assistant" and isinstance(content := entry.get("content"), list):
                yield from (_block_key(block) for block in map(as_object, content) if as_text(block.get("type")) in _THINKING)
        case Dialect.CHAT:
            if entry.get("role") == "assistant":
                yield from (_key(str(entry[name])) for name in _CHAT_FIELDS if entry.get(name))


def _block_key(block: JsonObject) -> str:
    return _key(as_text(block.get("signature")) or as_text(block.get("data")) or as_text(block.get("thinking")))


def _key(state: str) -> str:
    return blake2b(state.encode("utf-8", "replace"), digest_size=8).hexdigest()


def all_keys(view: RequestView) -> tuple[str, ...]:
    """Every key in a request."""
    items = as_list(view.body.get(LISTS.get(view.dialect, "")))
    return tuple(key for item in items for key in keys_of(view.dialect, item))


def without_foreign(view: RequestView, target: str) -> list[Json] | None:
    """The conversation without state that others made; None when there is none. What has no known maker stays."""
    makers = view.makers
    if all(maker == target for maker in makers.values()):
        return None

    def is_foreign(key: str) -> bool:
        return makers.get(key, target) != target

    items = as_list(view.body.get(LISTS[view.dialect]))
    kept = list(_strip(view.dialect, items, is_foreign))
    return kept if kept != items else None


def _strip(dialect: Dialect, items: list[Json], is_foreign: Callable[[str], bool]) -> Iterator[Json]:
    is_unlinked = False
    for item in items:
        if not any(is_foreign(key) for key in keys_of(dialect, item)):
            entry = as_object(item)
            if is_unlinked and as_text(entry.get("type")) in _LINKED and entry.get("role") != "user" and "id" in entry:
                # A host that knows the id looks for the reasoning that stood before it, and refuses the item without.
                yield {name: value for name, value in entry.items() if name != "id"}
            else:
                is_unlinked = is_unlinked and entry.get("role") != "user"
                yield item
        elif dialect is Dialect.RESPONSES:
            is_unlinked = True
        elif dialect is Dialect.MESSAGES:
            yield from _without_blocks(as_object(item), is_foreign)
        else:
            yield {name: value for name, value in as_object(item).items() if name not in _CHAT_FIELDS}


def _without_blocks(message: JsonObject, is_foreign: Callable[[str], bool]) -> Iterator[Json]:
    """A message without foreign thinking; nothing at all when it was nothing else."""
    blocks = [
        block
        for block in as_list(message.get("content"))
        if as_text(as_object(block).get("type")) not in _THINKING or not is_foreign(_block_key(as_object(block)))
    ]
    if blocks:
        yield {**message, "content": blocks}
