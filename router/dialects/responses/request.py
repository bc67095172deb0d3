"""Responses API requests and their hidden state: reasoning and compaction items, mostly encrypted."""

from collections.abc import Callable, Iterator
from itertools import repeat

from msgspec.structs import replace

from router.contract.errors import BadRequest, InBackground
from router.contract.request import Conversation, History, Json, JsonObject, Message, ToolCall, ToolResult
from router.contract.words import Feature, Operation
from router.dialects.client_tools import CALL_ITEMS, read_shell_output
from router.dialects.fields import (
    A_FILE_BY_ID,
    AN_IMAGE_BY_ID,
    AUDIO,
    NOTHING_SEEN,
    Reading,
    Seen,
    as_list,
    as_object,
    as_text,
    check_flags,
    find_hosted,
    fingerprint,
    objects,
    parts_of,
    read_tools,
    texts_of,
)
from router.dialects.histories import learn
from router.dialects.translate.envelope import OUR_REASONING, is_wrapped

LIMIT_FIELDS = ("max_output_tokens",)
_TEXT_PARTS = frozenset({"input_text", "output_text", "text", "refusal"})
_CALLERS_TOOLS = (None, "function", "custom", "namespace", "shell", "local_shell", "apply_patch")
OPAQUE_ITEMS = frozenset({"reasoning", "compaction", "context_compaction"})
"""Items that only their maker can read; others ignore them at best, or refuse them."""
CALLS = frozenset({"function_call", "custom_tool_call", *CALL_ITEMS})
SILENT_ITEMS = ("reasoning", "function_call_output", "custom_tool_call_output")
_LINKED = CALLS | {"message"}
_FLAGS = ("background", "store")
_NO_MESSAGE = Message("")


def read(body: JsonObject, operation: Operation, history: History | None) -> Reading:
    """Read a create request. `input` is a string or a list; with a stored prompt it may be absent."""
    items = body.get("input")
    if isinstance(items, str):
        items = [{"type": "message", "role": "user", "content": items}]
    elif items is None and (body.get("prompt") or body.get("previous_response_id") or body.get("conversation")):
        items = []
    if not isinstance(items, list) or (not items and body.get("input") is None and not body.get("prompt")):
        raise BadRequest("input: missing. Send a string or a list of items", param="input")
    if not body.keys().isdisjoint(_FLAGS):
        check_flags(body, _FLAGS)
        if body.get("background"):
            raise InBackground
    conversation = history.converse(items, read_item) if history else Conversation(items, read_item)
    previous, system = as_text(body.get("previous_response_id")) or None, as_text(body.get("instructions"))
    seen = learn(conversation, "seen", NOTHING_SEEN, _look_through)
    if not system and seen.system_at is not None:
        system = _text_of(as_object(items[seen.system_at]))
    needs = {*seen.needs, *read_tools(body)}
    if as_object(as_object(body.get("text")).get("format")).get("type") == "json_schema":
        needs.add(Feature.JSON_SCHEMA)
    reasoning = as_object(body.get("reasoning"))
    if reasoning:
        needs.add(Feature.REASONING)
    hosted = find_hosted(as_list(body.get("tools")), _CALLERS_TOOLS)
    return Reading(conversation, system, as_text(reasoning.get("effort")) or None, frozenset(needs), seen, previous, hosted)


def _look_through(seen: Seen, conversation: Conversation, start: int, stop: int) -> Seen:
    items = objects(conversation.items[start:stop], "input", start)
    outputs = map(dict.get, items, repeat("output"))
    for part in parts_of(list(map(dict.get, items, repeat("content"), outputs))):
        seen = _note_part(seen, part)
    roles = list(map(dict.get, items, repeat("role")))
    if seen.system_at is None and ("developer" in roles or "system" in roles):
        own = (index for index, role in enumerate(roles) if role in ("developer", "system") and _text_of(items[index]))
        if (first := next(own, None)) is not None:
            seen = replace(seen, system_at=start + first)
    return seen


def _text_of(item: JsonObject) -> str:
    return "\n".join(texts_of(item.get("content"), _TEXT_PARTS))


def _note_part(seen: Seen, part: JsonObject) -> Seen:
    match part.get("type"):
        case "input_image":
            url = as_text(part.get("image_url"))
            return seen.with_image(len(url), AN_IMAGE_BY_ID if part.get("file_id") and not url else "")
        case "input_file":
            data = as_text(part.get("file_data"))
            is_bound = part.get("file_id") and not data and not part.get("file_url")
            return seen.with_file(len(data), A_FILE_BY_ID if is_bound else "")
        case "input_audio":
            return seen.with_file(len(as_text(as_object(part.get("input_audio")).get("data"))), AUDIO)
    return seen


def read_item(value: Json) -> Message:
    """One input item as a message: calls are the assistant's, their outputs the tool's."""
    if not isinstance(value, dict):
        return _NO_MESSAGE
    kind = value.get("type") or "message"
    if not isinstance(kind, str):
        kind = "message"
    if kind in CALLS:
        arguments = value.get("arguments") or value.get("input") or value.get("action") or value.get("operation")
        call = ToolCall(as_text(value.get("call_id")), as_text(value.get("name")) or kind, arguments)
        return Message("assistant", (), (call,))
    if kind.endswith("_output"):
        return Message("tool", (), (), (_read_result(value),))
    if kind == "message":
        return Message(as_text(value.get("role")), texts_of(value.get("content"), _TEXT_PARTS))
    return Message(kind)


def _read_result(item: JsonObject) -> ToolResult:
    """A call's result. The oldest kind of output has the call's id as its own."""
    call_id, output = as_text(item.get("call_id")) or as_text(item.get("id")), item.get("output")
    has_failed = item.get("status") == "failed"
    if isinstance(output, str):
        return ToolResult(call_id, output, has_failed)
    if item.get("type") == "shell_call_output":
        return ToolResult(call_id, *read_shell_output(as_list(output)))
    return ToolResult(call_id, "\n".join(texts_of(output, _TEXT_PARTS)), has_failed)


def recognise(body: JsonObject) -> bool:
    return "input" in body or body.get("type") == "response.create"


def write_example(words: str) -> JsonObject:
    return {"model": "auto", "input": words}


def add_instructions(body: JsonObject, text: str, changes: JsonObject) -> None:
    given = as_text(body.get("instructions"))
    changes["instructions"] = f"{given}\n\n{text}" if given else text


def opaque_keys(item: JsonObject) -> Iterator[str]:
    if as_text(item.get("type")) in OPAQUE_ITEMS:
        yield fingerprint(as_text(item.get("encrypted_content")) or as_text(item.get("id")))


def without_opaque(items: list[Json], goes: Callable[[str], bool]) -> list[Json]:
    """The items without those whose key `goes` accepts. Followers lose the id that links to them."""
    kept: list[Json] = []
    is_unlinked = False
    for value in items:
        item = as_object(value)
        keys = list(opaque_keys(item))
        if any(map(goes, keys)):
            is_unlinked = True
        elif is_unlinked and as_text(item.get("type")) in _LINKED and item.get("role") != "user" and "id" in item:
            # A host that knows the id expects the reasoning before it, and refuses the item without.
            kept.append(without_link(item))
        else:
            is_unlinked = is_unlinked and item.get("role") != "user" and not keys
            kept.append(value)
    return kept


def without_link(item: JsonObject) -> JsonObject:
    """The item without its host's id. The oldest kind of call needs one, so it gets ours."""
    kept: JsonObject = {name: field for name, field in item.items() if name != "id"}
    return {**kept, "id": f"lsh_{as_text(item.get('call_id'))}"} if item.get("type") == "local_shell_call" else kept


def without_wrapped(items: list[Json]) -> list[Json]:
    return [item for item in items if not _is_ours(as_object(item))]


def _is_ours(item: JsonObject) -> bool:
    return item.get("type") == "reasoning" and (
        as_text(item.get("id")).startswith(OUR_REASONING) or is_wrapped(as_text(item.get("encrypted_content")))
    )
