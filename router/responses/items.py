"""The input of a Responses request as items, and pages of such lists."""

import hashlib

from router.contract.errors import BadRequest
from router.contract.request import Json, JsonObject
from router.contract.stores import StoredResponse
from router.dialects.client_tools import CALL_ITEMS
from router.dialects.fields import as_list, as_object, as_text

_PREFIXES = {"function_call": "fc", "custom_tool_call": "ctc", "reasoning": "rs", "message": "msg"} | {
    kind: call.id_prefix for kind, (_, call) in CALL_ITEMS.items()
}


def input_items(body: JsonObject) -> list[Json]:
    given = body.get("input")
    if isinstance(given, str):
        return [{"type": "message", "role": "user", "content": [{"type": "input_text", "text": given}]}]
    return as_list(given)


def read_ids(*lists: list[Json]) -> frozenset[str]:
    return frozenset(name for items in lists for item in items if (name := as_text(as_object(item).get("id"))))


def derive_id(prefix: str, seed: str, index: int) -> str:
    """A stable id, so that a target's prompt cache still matches."""
    digest = hashlib.blake2b(f"{seed}\0{index}".encode("utf-8", "replace"), digest_size=12)
    return f"{prefix}_{digest.hexdigest()}"


def list_items(stored: StoredResponse, after: str | None, limit: int, *, newest_first: bool) -> JsonObject:
    """A page in the shape of OpenAI's lists. Missing and duplicate ids are replaced, since a page begins after one."""
    history, _ = stored.read()
    items: list[JsonObject] = []
    known: set[str] = set()
    for index, value in enumerate(history.items):
        item = as_object(value)
        kind, given = as_text(item.get("type")) or "message", as_text(item.get("id"))
        if not given or given in known:
            given = derive_id(_PREFIXES.get(kind, "item"), stored.id, index)
        known.add(given)
        items.append({**item, "type": kind, "id": given})
    if newest_first:
        items.reverse()
    if after is not None:
        start = next((index for index, item in enumerate(items) if item["id"] == after), None)
        if start is None:
            raise BadRequest("after: no input item of this response has that id", param="after")
        items = items[start + 1 :]
    page = items[:limit]
    return {
        "object": "list",
        "data": list(page),
        "first_id": page[0]["id"] if page else None,
        "last_id": page[-1]["id"] if page else None,
        "has_more": len(items) > len(page),
    }
