"""Requests of Chat Completions."""

from router.contract.errors import BadRequest
from router.contract.request import Conversation, Json, JsonObject, Message, Peek, ToolCall, ToolResult
from router.contract.words import Feature, Operation
from router.dialects.fields import Reading, as_list, as_object, as_text, objects, read_list, texts_of

_TEXT_PARTS = frozenset({"text", "refusal"})
_NOTHING = Peek("")
_GLANCES = {role: Peek(role) for role in ("system", "developer", "user", "assistant", "tool")}


def read(body: JsonObject, operation: Operation) -> Reading:
    """Read a chat request. The messages themselves are only looked at one by one, when asked for."""
    messages = body.get("messages")
    if not isinstance(messages, list) or not messages:
        raise BadRequest(
            'messages: missing. Send a non-empty list such as [{"role": "user", "content": "…"}]', param="messages"
        )
    reading = Reading(Conversation(messages, read_message, peek))
    for message in objects(messages, "messages"):
        content = message.get("content")
        if isinstance(content, list):
            for part in content:
                _note_part(reading, as_object(part))
    first = as_object(messages[0])
    if first.get("role") in ("system", "developer"):
        reading.system = "\n".join(texts_of(first.get("content"), _TEXT_PARTS))
    for tool in objects(read_list(body, "tools"), "tools"):
        reading.needs.add(Feature.CUSTOM_TOOLS if tool.get("type") == "custom" else Feature.TOOLS)
    if as_object(body.get("response_format")).get("type") == "json_schema":
        reading.needs.add(Feature.JSON_SCHEMA)
    effort = as_text(body.get("reasoning_effort")) or as_text(as_object(body.get("reasoning")).get("effort"))
    if effort:
        reading.effort = effort
        reading.needs.add(Feature.REASONING)
    return reading


def _note_part(reading: Reading, part: JsonObject) -> None:
    match part.get("type"):
        case "image_url":
            url = part.get("image_url")
            reading.add_image(len(as_text(as_object(url).get("url")) or as_text(url)))
        case "file" | "input_audio":
            source = as_object(part.get("file") or part.get("input_audio"))
            reading.add_file(len(as_text(source.get("file_data")) or as_text(source.get("data"))))


def read_message(item: Json) -> Message:
    """One message of a chat request."""
    message = as_object(item)
    role = as_text(message.get("role"))
    texts = texts_of(message.get("content"), _TEXT_PARTS)
    if role in ("tool", "function"):
        result = ToolResult(as_text(message.get("tool_call_id")), "\n".join(texts))
        return Message("tool", results=(result,))
    calls = tuple(_read_call(call) for call in as_list(message.get("tool_calls")) if isinstance(call, dict))
    return Message(role, texts, calls)


def _read_call(call: JsonObject) -> ToolCall:
    called = as_object(call.get("function") or call.get("custom"))
    return ToolCall(as_text(call.get("id")), as_text(called.get("name")), called.get("arguments") or called.get("input"))


def peek(item: Json) -> Peek:
    """One message in passing."""
    if not isinstance(item, dict):
        return _NOTHING
    role, calls = item.get("role"), item.get("tool_calls")
    if not calls:
        return _GLANCES.get(role) or Peek(as_text(role)) if isinstance(role, str) else _NOTHING
    return Peek("assistant", tuple([_call_name(as_object(call)) for call in as_list(calls)]))


def _call_name(call: JsonObject) -> str:
    called = call.get("function") or call.get("custom")
    name = called.get("name") if isinstance(called, dict) else None
    return name if isinstance(name, str) else ""


def recognise(body: JsonObject) -> bool:
    """Whether a body is of this dialect: the one that is meant when nothing tells."""
    return True


def write_example(words: str) -> JsonObject:
    """A small request."""
    return {"model": "auto", "messages": [{"role": "user", "content": words}]}


def add_instructions(body: JsonObject, text: str, changes: JsonObject) -> None:
    """Put a text behind the system message: always the same place, so that prefixes stay equal."""
    messages = list(as_list(changes.get("messages") or body.get("messages")))
    place = 1 if messages and as_object(messages[0]).get("role") in ("system", "developer") else 0
    role = as_object(messages[0]).get("role") if place else "system"
    changes["messages"] = [*messages[:place], {"role": role, "content": text}, *messages[place:]]
