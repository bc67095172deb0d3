"""The input of a Responses request as items, and pages of such lists."""

import hashlib

from router.contract.errors import BadRequest
from router.contract.request import Json, JsonObject
from router.dialects.client_tools import CALL_ITEMS
from router.dialects.fields import as_list, as_object, as_text
from router.dialects.responses.request import CALLS

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


def list_items(response_id: str, given: list[Json], after: str | None, limit: int, *, newest_first: bool) -> JsonObject:
    """A page in the shape of OpenAI's lists. Missing and duplicate ids are replaced, since a page begins after one."""
    items: list[JsonObject] = []
    known: set[str] = set()
    for index, value in enumerate(given):
        item = _whole_item(as_object(value))
        kind, name = as_text(item.get("type")), as_text(item.get("id"))
        if not name or name in known:
            name = derive_id(_PREFIXES.get(kind, "item"), response_id, index)
        known.add(name)
        items.append({**item, "id": name})
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


def _whole_item(item: JsonObject) -> JsonObject:
    """An item with what requests may leave out and answers of the API have: a type, a status, parts instead of plain text."""
    kind = as_text(item.get("type")) or "message"
    whole: JsonObject = {**item, "type": kind}
    if kind == "message":
        is_answer, content = item.get("role") == "assistant", item.get("content")
        parts: list[Json] = [{"type": "text", "text": content}] if isinstance(content, str) else as_list(content)
        whole["content"] = [_whole_part(as_object(part), is_answer=is_answer) for part in parts]
        return {"status": "completed", **whole} if is_answer else whole
    if kind == "reasoning":
        return {"summary": [], **whole}
    return {"status": "completed", **whole} if kind in CALLS or kind.endswith("_output") else whole


def _whole_part(part: JsonObject, *, is_answer: bool) -> JsonObject:
    match part.get("type"):
        case "text" | "input_text" | "output_text" if is_answer:
            return {"annotations": [], **part, "type": "output_text"}
        case "text" | "output_text":
            return {**part, "type": "input_text"}
        case "input_image":
            return {"detail": "auto", **part}
    return part
