"""Requests of Chat Completions."""

from collections.abc import Callable, Iterator
from itertools import repeat

from router.contract.errors import BadRequest
from router.contract.request import Conversation, History, Json, JsonObject, Message, ToolCall, ToolResult
from router.contract.words import Feature, Operation
from router.dialects.fields import (
    A_FILE_BY_ID,
    AUDIO,
    NOTHING_SEEN,
    Reading,
    Seen,
    as_list,
    as_object,
    as_text,
    fingerprint,
    objects,
    parts_of,
    read_tools,
    texts_of,
)
from router.dialects.histories import learn

LIMIT_FIELDS = ("max_completion_tokens", "max_tokens")
_TEXT_PARTS = frozenset({"text", "refusal"})
_SEARCH = "web_search_options"
_SHAPING = frozenset({"response_format", "reasoning_effort", "reasoning"})
_NEEDING = _SHAPING | {"tools", "functions", _SEARCH}
"""Fields that need more of a target than text."""
THOUGHTS = ("reasoning_content", "reasoning", "reasoning_details", "thinking_blocks")
_HIDDEN = frozenset(THOUGHTS)
"""Reasoning that some hosts write into assistant messages and read back."""
_SYSTEM = ("system", "developer")
TOOL_ROLES = ("tool", "function")
_NO_MESSAGE = Message("")


def read(body: JsonObject, operation: Operation, history: History | None) -> Reading:
    messages = body.get("messages")
    if not isinstance(messages, list) or not messages:
        raise BadRequest(
            'messages: missing. Send a non-empty list such as [{"role": "user", "content": "…"}]', param="messages"
        )
    conversation = history.converse(messages, read_message) if history else Conversation(messages, read_message)
    seen = learn(conversation, "seen", NOTHING_SEEN, _look_through)
    first, system = messages[0], ""
    if isinstance(first, dict) and first.get("role") in _SYSTEM:
        content = first.get("content")
        system = content if isinstance(content, str) else "\n".join(texts_of(content, _TEXT_PARTS))
    if seen is NOTHING_SEEN and _NEEDING.isdisjoint(body):
        return Reading(conversation, system)
    needs, effort = seen.needs | read_tools(body), ""
    if body.get("functions"):
        needs |= {Feature.TOOLS}
    if not _SHAPING.isdisjoint(body):
        if as_object(body.get("response_format")).get("type") == "json_schema":
            needs |= {Feature.JSON_SCHEMA}
        effort = as_text(body.get("reasoning_effort")) or as_text(as_object(body.get("reasoning")).get("effort"))
        if effort:
            needs |= {Feature.REASONING}
    return Reading(conversation, system, effort or None, needs, seen, hosted=_SEARCH if _SEARCH in body else "")


def _look_through(seen: Seen, conversation: Conversation, start: int, stop: int) -> Seen:
    messages = objects(conversation.items[start:stop], "messages", start)
    contents = list(map(dict.get, messages, repeat("content")))
    if list in map(type, contents):
        for part in parts_of(contents):
            seen = _note_part(seen, part)
    return seen


def _note_part(seen: Seen, part: JsonObject) -> Seen:
    match part.get("type"):
        case "image_url":
            url = part.get("image_url")
            return seen.with_image(len(as_text(as_object(url).get("url")) or as_text(url)))
        case "file":
            file = as_object(part.get("file"))
            is_bound = file.get("file_id") and not file.get("file_data")
            return seen.with_file(len(as_text(file.get("file_data"))), A_FILE_BY_ID if is_bound else "")
        case "input_audio":
            return seen.with_file(len(as_text(as_object(part.get("input_audio")).get("data"))), AUDIO)
    return seen


def read_message(item: Json) -> Message:
    if not isinstance(item, dict):
        return _NO_MESSAGE
    role, content = item.get("role"), item.get("content")
    texts = (content,) if isinstance(content, str) else texts_of(content, _TEXT_PARTS)
    if role in TOOL_ROLES:
        return Message("tool", results=(ToolResult(as_text(item.get("tool_call_id")), "\n".join(texts)),))
    said_by = role if isinstance(role, str) else ""
    calls = item.get("tool_calls")
    if not calls:
        return Message(said_by, texts)
    return Message(said_by, texts, tuple([_read_call(call) for call in as_list(calls) if isinstance(call, dict)]))


def _read_call(call: JsonObject) -> ToolCall:
    called, call_id = call.get("function") or call.get("custom"), call.get("id")
    if not isinstance(called, dict):
        return ToolCall(as_text(call_id), "")
    name, arguments = called.get("name"), called.get("arguments") or called.get("input")
    return ToolCall(call_id if isinstance(call_id, str) else "", name if isinstance(name, str) else "", arguments)


def recognise(body: JsonObject) -> bool:
    """Always: chat is the fallback."""
    return True


def write_example(words: str) -> JsonObject:
    return {"model": "auto", "messages": [{"role": "user", "content": words}]}


def add_instructions(body: JsonObject, text: str, changes: JsonObject) -> None:
    """Add a text after the system message, always in one place so that prefixes stay equal."""
    messages = list(as_list(changes.get("messages") or body.get("messages")))
    index = 1 if messages and as_object(messages[0]).get("role") in _SYSTEM else 0
    role = as_object(messages[0]).get("role") if index else "system"
    changes["messages"] = [*messages[:index], {"role": role, "content": text}, *messages[index:]]


def opaque_keys(message: JsonObject) -> Iterator[str]:
    if message.get("role") == "assistant" and not _HIDDEN.isdisjoint(message):
        yield from (fingerprint(str(message[name])) for name in THOUGHTS if message.get(name))


def without_opaque(messages: list[Json], goes: Callable[[str], bool]) -> list[Json]:
    return [
        {name: value for name, value in as_object(item).items() if name not in THOUGHTS}
        if any(map(goes, opaque_keys(as_object(item))))
        else item
        for item in messages
    ]
