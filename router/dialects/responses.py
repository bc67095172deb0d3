"""The Responses API over HTTP: requests in, stream ends and errors out."""

from router.contract.entry import Usage
from router.contract.errors import BadRequest
from router.contract.request import Conversation, Json, JsonObject, Message, Peek, ToolCall, ToolResult
from router.contract.words import Feature
from router.dialects.fields import Reading, as_count, as_object, as_text, objects, read_list, texts_of
from router.dialects.sse import Frame, StreamEnd

_TEXT_PARTS = frozenset({"input_text", "output_text", "text", "refusal"})
_CALLS = frozenset({"function_call", "custom_tool_call", "local_shell_call", "shell_call", "apply_patch_call"})
_TERMINAL = frozenset({"response.completed", "response.incomplete"})


def read(body: JsonObject) -> Reading:
    """Read a create request. `input` is a string or a list of items; with a stored prompt it may be absent."""
    items = body.get("input")
    if isinstance(items, str):
        items = [{"type": "message", "role": "user", "content": items}]
    elif items is None and (body.get("prompt") or body.get("previous_response_id") or body.get("conversation")):
        items = []
    if not isinstance(items, list) or (not items and body.get("input") is None and not body.get("prompt")):
        raise BadRequest("input: missing. Send a string or a list of items", param="input")
    if body.get("background") is True:
        raise BadRequest("background: not served. Send the request without it and keep the connection", param="background")
    reading = Reading(Conversation(items, read_item, peek), system=as_text(body.get("instructions")))
    for item in objects(items, "input"):
        content = item.get("content", item.get("output"))
        if isinstance(content, list):
            for part in content:
                _note_part(reading, as_object(part))
        if not reading.system and item.get("role") in ("developer", "system"):
            reading.system = "\n".join(texts_of(item.get("content"), _TEXT_PARTS))
    for tool in objects(read_list(body, "tools"), "tools"):
        reading.needs.add(Feature.CUSTOM_TOOLS if tool.get("type") == "custom" else Feature.TOOLS)
    if as_object(as_object(body.get("text")).get("format")).get("type") == "json_schema":
        reading.needs.add(Feature.JSON_SCHEMA)
    reasoning = as_object(body.get("reasoning"))
    if reasoning:
        reading.effort = as_text(reasoning.get("effort")) or None
        reading.needs.add(Feature.REASONING)
    return reading


def _note_part(reading: Reading, part: JsonObject) -> None:
    match part.get("type"):
        case "input_image":
            reading.add_image(len(as_text(part.get("image_url"))))
        case "input_file" | "input_audio":
            reading.add_file(len(as_text(part.get("file_data"))))


def read_item(value: Json) -> Message:
    """One input item, as a message: calls belong to the assistant, their outputs to the tool."""
    item = as_object(value)
    kind = as_text(item.get("type")) or "message"
    if kind in _CALLS:
        arguments = item.get("arguments") or item.get("input") or item.get("action")
        return Message(
            "assistant", calls=(ToolCall(as_text(item.get("call_id")), as_text(item.get("name")) or kind, arguments),)
        )
    if kind.endswith("_output"):
        output = item.get("output")
        text = output if isinstance(output, str) else "\n".join(texts_of(output, _TEXT_PARTS))
        return Message("tool", results=(ToolResult(as_text(item.get("call_id")), text),))
    if kind == "message":
        return Message(as_text(item.get("role")), texts_of(item.get("content"), _TEXT_PARTS))
    return Message(kind)


def peek(value: Json) -> Peek:
    """One item in passing."""
    item = as_object(value)
    kind = as_text(item.get("type")) or "message"
    if kind == "message":
        return Peek(as_text(item.get("role")))
    if kind in _CALLS:
        return Peek("assistant", (as_text(item.get("name")) or kind,))
    return Peek("tool" if kind.endswith("_output") else kind)


def read_end(frames: list[Frame]) -> StreamEnd:
    """How a stream ended, from its last frames."""
    end = StreamEnd()
    for frame in frames:
        kind = frame.kind
        if kind in _TERMINAL or kind == "response.failed":
            end.is_complete = kind in _TERMINAL
            end.has_failed = kind == "response.failed"
            end.usage = read_usage(as_object(frame.json().get("response")).get("usage"))
        elif kind == "error":
            end.has_failed = True
    return end


def read_answer(body: JsonObject) -> Usage | None:
    """The usage of a whole answer; raises ValueError when it is no answer of this dialect."""
    if not isinstance(body.get("output"), list) and body.get("object") != "response":
        raise ValueError("an answer without output")
    return read_usage(body.get("usage"))


def read_usage(value: Json) -> Usage | None:
    """Usage as this dialect gives it: `input_tokens` includes the cached ones."""
    usage = as_object(value)
    if "input_tokens" not in usage:
        return None
    details = as_object(usage.get("input_tokens_details"))
    return Usage(
        input_tokens=as_count(usage.get("input_tokens")),
        output_tokens=as_count(usage.get("output_tokens")),
        cached_tokens=as_count(details.get("cached_tokens")),
        cache_write_tokens=as_count(details.get("cache_write_tokens")),
        reasoning_tokens=as_count(as_object(usage.get("output_tokens_details")).get("reasoning_tokens")),
    )
