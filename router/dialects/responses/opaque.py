"""The hidden state of Responses: reasoning and compaction items, most of them encrypted."""

from collections.abc import Callable, Iterator

from router.contract.request import Json, JsonObject
from router.dialects.client_tools import CALL_ITEMS
from router.dialects.fields import as_object, as_text, fingerprint
from router.dialects.translate.envelope import OUR_REASONING, is_wrapped

OPAQUE_ITEMS = frozenset({"reasoning", "compaction", "context_compaction"})
"""Items that only their maker can read: to any other target they are noise at best, a 400 at worst."""
CALLS = frozenset({"function_call", "custom_tool_call", *CALL_ITEMS})
"""Items by which a model calls a tool that the client runs."""
_LINKED = CALLS | {"message"}


def opaque_keys(item: JsonObject) -> Iterator[str]:
    """The keys of the hidden state in one item."""
    if as_text(item.get("type")) in OPAQUE_ITEMS:
        yield fingerprint(as_text(item.get("encrypted_content")) or as_text(item.get("id")))


def without_opaque(items: list[Json], goes: Callable[[str], bool]) -> list[Json]:
    """The items without those whose key says so. What followed one of them loses the id that would lead to it."""
    kept: list[Json] = []
    is_unlinked = False
    for value in items:
        item = as_object(value)
        keys = list(opaque_keys(item))
        if any(map(goes, keys)):
            is_unlinked = True
        elif is_unlinked and as_text(item.get("type")) in _LINKED and item.get("role") != "user" and "id" in item:
            # A host that knows the id looks for the reasoning that stood before it, and refuses the item without.
            kept.append(without_link(item))
        else:
            is_unlinked = is_unlinked and item.get("role") != "user" and not keys
            kept.append(value)
    return kept


def without_link(item: JsonObject) -> JsonObject:
    """The item without the id that its host gave it. The oldest kind of call must have one, so it gets one of ours."""
    kept: JsonObject = {name: field for name, field in item.items() if name != "id"}
    return {**kept, "id": f"lsh_{as_text(item.get('call_id'))}"} if item.get("type") == "local_shell_call" else kept


def without_wrapped(items: list[Json]) -> list[Json]:
    """The items without reasoning that was written here, for targets that were reached over a bridge."""
    return [item for item in items if not _is_ours(as_object(item))]


def _is_ours(item: JsonObject) -> bool:
    return item.get("type") == "reasoning" and (
        as_text(item.get("id")).startswith(OUR_REASONING) or is_wrapped(as_text(item.get("encrypted_content")))
    )
