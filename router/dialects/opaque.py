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
    """A fingerprint of the ends and the length: the middle of a long blob tells nothing more, and costs."""
    ends = state if len(state) <= 256 else f"{state[:128]}{state[-128:]}{len(state)}"
    return blake2b(ends.encode("utf-8", "replace"), digest_size=8).hexdigest()


def refused_by(target: str) -> str:
    """The maker of a piece that nobody remembers and that this target would not take."""
    return f"!{target}"


def is_foreign(origin: str | None, target: str) -> bool:
    """Whether a piece must be kept from a target. One whose maker nobody knows may be its own."""
    if origin is None or origin == target:
        return False
    return origin == refused_by(target) if origin.startswith("!") else True


def all_keys(view: RequestView) -> tuple[str, ...]:
    """Every key in a request."""
    items = as_list(view.body.get(LISTS.get(view.dialect, "")))
    return tuple(key for item in items for key in keys_of(view.dialect, item))


def keys_for(view: RequestView, target: str) -> tuple[str, ...]:
    """The keys of what this target would be sent."""
    return tuple(key for key in all_keys(view) if not is_foreign(view.origins.get(key), target))


def without_foreign(view: RequestView, target: str) -> list[Json] | None:
    """The conversation without state that others made; None when there is none."""
    origins = view.origins
    if not any(is_foreign(origin, target) for origin in origins.values()):
        return None
    items = as_list(view.body.get(LISTS[view.dialect]))
    kept = list(_strip(view.dialect, items, lambda key: is_foreign(origins.get(key), target)))
    return kept if len(kept) < len(items) or kept != items else None


def _strip(dialect: Dialect, items: list[Json], goes: Callable[[str], bool]) -> Iterator[Json]:
    is_unlinked = False
    for item in items:
        keys = list(keys_of(dialect, item))
        if not any(goes(key) for key in keys):
            entry = as_object(item)
            if is_unlinked and as_text(entry.get("type")) in _LINKED and entry.get("role") != "user" and "id" in entry:
                # A host that knows the id looks for the reasoning that stood before it, and refuses the item without.
                yield {name: value for name, value in entry.items() if name != "id"}
            else:
                is_unlinked = is_unlinked and entry.get("role") != "user" and not keys
                yield item
        elif dialect is Dialect.RESPONSES:
            is_unlinked = True
        elif dialect is Dialect.MESSAGES:
            yield from _without_blocks(as_object(item), goes)
        else:
            yield {name: value for name, value in as_object(item).items() if name not in _CHAT_FIELDS}


def _without_blocks(message: JsonObject, goes: Callable[[str], bool]) -> Iterator[Json]:
    """A message without foreign thinking; nothing at all when it was nothing else."""
    blocks = [
        block
        for block in as_list(message.get("content"))
        if as_text(as_object(block).get("type")) not in _THINKING or not goes(_block_key(as_object(block)))
    ]
    if blocks:
        yield {**message, "content": blocks}
