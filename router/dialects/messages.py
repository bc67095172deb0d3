"""Anthropic Messages: requests in, stream ends and errors out."""

from dataclasses import replace

from router.contract.entry import Usage
from router.contract.errors import BadRequest
from router.contract.request import Conversation, Json, JsonObject, Message, Peek, ToolCall, ToolResult
from router.contract.words import Feature, Operation
from router.dialects.fields import Reading, as_count, as_list, as_object, as_text, objects, read_list, texts_of
from router.dialects.sse import Frame, StreamEnd

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


def read_end(frames: list[Frame]) -> StreamEnd:
    """How a stream ended, from its first and last frames: the first one holds the input tokens, the last ones the rest."""
    end = StreamEnd()
    for frame in frames:
        kind = frame.kind
        if kind == "message_stop":
            end.is_complete = True
        elif kind == "error":
            end.has_failed = True
        elif kind == "message_delta":
            end.usage = later_usage(end.usage, read_usage(frame.json().get("usage")))
        elif kind == "message_start":
            end.usage = read_usage(as_object(frame.json().get("message")).get("usage")) or end.usage
    return end


def later_usage(first: Usage | None, last: Usage | None) -> Usage | None:
    """The last frame's usage is the sum so far, but often of the output alone."""
    if first is None or last is None or last.input_tokens:
        return last or first
    return replace(first, output_tokens=last.output_tokens, reasoning_tokens=last.reasoning_tokens)


def read_answer(body: JsonObject) -> Usage | None:
    """The usage of a whole answer; raises ValueError when it is no answer of this dialect."""
    if "input_tokens" in body:
        return Usage(input_tokens=as_count(body.get("input_tokens")), output_tokens=0)
    if not isinstance(body.get("content"), list):
        raise ValueError("an answer without content")
    return read_usage(body.get("usage"))


def read_usage(value: Json) -> Usage | None:
    """Usage as this dialect gives it: `input_tokens` leaves the cached ones out, so the three are added."""
    usage = as_object(value)
    if "output_tokens" not in usage and "input_tokens" not in usage:
        return None
    cached = as_count(usage.get("cache_read_input_tokens"))
    written = as_count(usage.get("cache_creation_input_tokens"))
    return Usage(
        input_tokens=as_count(usage.get("input_tokens")) + cached + written,
        output_tokens=as_count(usage.get("output_tokens")),
        cached_tokens=cached,
        cache_write_tokens=written,
        reasoning_tokens=as_count(as_object(usage.get("output_tokens_details")).get("thinking_tokens")),
    )
