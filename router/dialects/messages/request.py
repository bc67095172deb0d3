"""Requests of Anthropic Messages."""

from router.contract.errors import BadRequest
from router.contract.request import Conversation, Json, JsonObject, Message, Peek, ToolCall, ToolResult
from router.contract.words import Feature, Operation
from router.dialects.fields import Reading, as_list, as_object, as_text, objects, read_list, texts_of

_TEXT_PARTS = frozenset({"text"})


def read(body: JsonObject, operation: Operation) -> Reading:
    """Read a messages request, or one that only counts its tokens (which needs no `max_tokens`)."""
    messages = body.get("messages")
    if not isinstance(messages, list) or not messages:
        raise BadRequest(
            'messages: missing. Send a non-empty list such as [{"role": "user", "content": "…"}]', param="messages"
        )
    limit = body.get("max_tokens")
    if operation is Operation.CREATE and (not isinstance(limit, int) or isinstance(limit, bool) or limit < 1):
        raise BadRequest("max_tokens: missing. Send a whole number above 0", param="max_tokens")
    reading = Reading(Conversation(messages, read_message, peek))
    reading.system = "\n".join(texts_of(body.get("system"), _TEXT_PARTS))
    for message in objects(messages, "messages"):
        _note_content(reading, message.get("content"))
    for _ in objects(read_list(body, "tools"), "tools"):
        reading.needs.add(Feature.TOOLS)
    output = as_object(body.get("output_config"))
    if as_object(output.get("format")).get("type") == "json_schema":
        reading.needs.add(Feature.JSON_SCHEMA)
    reading.effort = as_text(output.get("effort")) or None
    if reading.effort or as_object(body.get("thinking")).get("type") not in (None, "disabled"):
        reading.needs.add(Feature.REASONING)
    return reading


def _note_content(reading: Reading, content: Json) -> None:
    if not isinstance(content, list):
        return
    for value in content:
        part = as_object(value)
        match part.get("type"):
            case "image":
                reading.add_image(len(as_text(as_object(part.get("source")).get("data"))))
            case "document":
                reading.add_file(len(as_text(as_object(part.get("source")).get("data"))))
            case "tool_result":
                _note_content(reading, part.get("content"))


def read_message(item: Json) -> Message:
    """One message. A user message may hold tool results, text, or both."""
    message = as_object(item)
    role, content = as_text(message.get("role")), message.get("content")
    if isinstance(content, str):
        return Message(role, (content,))
    calls: list[ToolCall] = []
    results: list[ToolResult] = []
    for value in as_list(content):
        part = as_object(value)
        if part.get("type") == "tool_use":
            calls.append(ToolCall(as_text(part.get("id")), as_text(part.get("name")), part.get("input")))
        elif part.get("type") == "tool_result":
            text = "\n".join(texts_of(part.get("content"), _TEXT_PARTS))
            results.append(ToolResult(as_text(part.get("tool_use_id")), text, part.get("is_error") is True))
    return Message(role, texts_of(content, _TEXT_PARTS), tuple(calls), tuple(results))


def peek(item: Json) -> Peek:
    """One message in passing. A user's message that holds only results is a tool's."""
    message = as_object(item)
    role, content = as_text(message.get("role")), message.get("content")
    if not isinstance(content, list):
        return Peek(role)
    kinds = [(as_object(part).get("type"), as_object(part).get("name")) for part in content]
    if role == "assistant":
        return Peek(role, tuple(as_text(name) for kind, name in kinds if kind == "tool_use"))
    return Peek("tool" if kinds and all(kind == "tool_result" for kind, _ in kinds) else role)


def recognise(body: JsonObject) -> bool:
    """Whether a body is of this dialect, by its fields: its conversation alone looks like that of chat."""
    if "system" in body or "anthropic_version" in body or "thinking" in body:
        return True
    tools = as_list(body.get("tools"))
    return bool(tools) and "input_schema" in as_object(tools[0])


def write_example(words: str) -> JsonObject:
    """A small request."""
    return {"model": "auto", "messages": [{"role": "user", "content": words}], "max_tokens": 1024}


def add_instructions(body: JsonObject, text: str, changes: JsonObject) -> None:
    """Put a text at the end of the system prompt, as a block of its own."""
    system = body.get("system")
    blocks: list[Json] = [{"type": "text", "text": system}] if isinstance(system, str) else list(as_list(system))
    changes["system"] = [*blocks, {"type": "text", "text": text}]
