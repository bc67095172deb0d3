"""Writing an answer in a dialect, piece by piece or whole. Used where an answer is made here rather than relayed."""

from dataclasses import dataclass
from typing import Protocol

import orjson

from router.contract.entry import Usage
from router.contract.request import Json, JsonObject
from router.contract.words import Dialect


@dataclass(frozen=True, slots=True)
class ComposedCall:
    """A tool call to be written."""

    id: str
    name: str
    arguments: str


class Composer(Protocol):
    """One answer under way: `open`, then text or calls in order, then `close`. Each returns the frames to send."""

    def open(self) -> bytes: ...
    def text(self, delta: str) -> bytes: ...
    def call(self, call: ComposedCall) -> bytes: ...
    def close(self, usage: Usage) -> bytes: ...
    def whole(self, text: str, calls: list[ComposedCall], usage: Usage) -> JsonObject: ...


def compose(dialect: Dialect, answer_id: str, model: str, created: int, *, sends_usage: bool = True) -> Composer:
    """The composer of a dialect."""
    match dialect:
        case Dialect.RESPONSES:
            return ResponsesComposer(answer_id, model, created)
        case Dialect.MESSAGES:
            return MessagesComposer(answer_id, model)
        case Dialect.COMPLETIONS:
            return CompletionsComposer(answer_id, model, created, sends_usage)
        case Dialect.CHAT:
            return ChatComposer(answer_id, model, created, sends_usage)


def _data(body: JsonObject) -> bytes:
    return b"data: " + orjson.dumps(body) + b"\n\n"


def _chat_usage(usage: Usage) -> JsonObject:
    return {
        "prompt_tokens": usage.input_tokens,
        "completion_tokens": usage.output_tokens,
        "total_tokens": usage.input_tokens + usage.output_tokens,
        "prompt_tokens_details": {"cached_tokens": usage.cached_tokens},
        "completion_tokens_details": {"reasoning_tokens": usage.reasoning_tokens},
    }


class ChatComposer:
    """Chat Completions."""

    def __init__(self, answer_id: str, model: str, created: int, sends_usage: bool) -> None:
        self._head: JsonObject = {"id": f"chatcmpl-{answer_id}", "created": created, "model": model}
        self._sends_usage = sends_usage
        self._calls = 0

    def _chunk(self, delta: JsonObject, finish: str | None = None) -> bytes:
        choice: JsonObject = {"index": 0, "delta": delta, "finish_reason": finish}
        return _data({**self._head, "object": "chat.completion.chunk", "choices": [choice]})

    def open(self) -> bytes:
        return self._chunk({"role": "assistant", "content": ""})

    def text(self, delta: str) -> bytes:
        return self._chunk({"content": delta})

    def call(self, call: ComposedCall) -> bytes:
        index, self._calls = self._calls, self._calls + 1
        opening: JsonObject = {
            "index": index,
            "id": call.id,
            "type": "function",
            "function": {"name": call.name, "arguments": ""},
        }
        rest: JsonObject = {"index": index, "function": {"arguments": call.arguments}}
        return self._chunk({"tool_calls": [opening]}) + self._chunk({"tool_calls": [rest]})

    def close(self, usage: Usage) -> bytes:
        frames = self._chunk({}, "tool_calls" if self._calls else "stop")
        if self._sends_usage:
            frames += _data({**self._head, "object": "chat.completion.chunk", "choices": [], "usage": _chat_usage(usage)})
        return frames + b"data: [DONE]\n\n"

    def whole(self, text: str, calls: list[ComposedCall], usage: Usage) -> JsonObject:
        message: JsonObject = {"role": "assistant", "content": text or None, "refusal": None}
        if calls:
            message["tool_calls"] = [
                {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}
                for call in calls
            ]
        choice: JsonObject = {
            "index": 0,
            "message": message,
            "logprobs": None,
            "finish_reason": "tool_calls" if calls else "stop",
        }
        return {**self._head, "object": "chat.completion", "choices": [choice], "usage": _chat_usage(usage)}


class CompletionsComposer:
    """The old text endpoint. It has no tools."""

    def __init__(self, answer_id: str, model: str, created: int, sends_usage: bool) -> None:
        self._head: JsonObject = {
            "id": f"cmpl-{answer_id}",
            "object": "text_completion",
            "created": created,
            "model": model,
        }
        self._sends_usage = sends_usage

    def _choice(self, text: str, finish: str | None) -> Json:
        return [{"index": 0, "text": text, "logprobs": None, "finish_reason": finish}]

    def open(self) -> bytes:
        return b""

    def text(self, delta: str) -> bytes:
        return _data({**self._head, "choices": self._choice(delta, None)})

    def call(self, call: ComposedCall) -> bytes:
        return b""

    def close(self, usage: Usage) -> bytes:
        frames = _data({**self._head, "choices": self._choice("", "stop")})
        if self._sends_usage:
            frames += _data({**self._head, "choices": [], "usage": _chat_usage(usage)})
        return frames + b"data: [DONE]\n\n"

    def whole(self, text: str, calls: list[ComposedCall], usage: Usage) -> JsonObject:
        return {**self._head, "choices": self._choice(text, "stop"), "usage": _chat_usage(usage)}


class ResponsesComposer:
    """The Responses API: every item has its `added` and its `done`, and sequence numbers have no gap."""

    def __init__(self, answer_id: str, model: str, created: int) -> None:
        self._id, self._model, self._created = answer_id, model, created
        self._sequence = 0
        self._output: list[Json] = []
        self._text: list[str] | None = None

    def _event(self, kind: str, fields: JsonObject) -> bytes:
        body: JsonObject = {"type": kind, "sequence_number": self._sequence, **fields}
        self._sequence += 1
        return b"event: " + kind.encode() + b"\ndata: " + orjson.dumps(body) + b"\n\n"

    def _response(self, status: str, usage: JsonObject | None) -> JsonObject:
        return {
            "id": f"resp_{self._id}",
            "object": "response",
            "created_at": self._created,
            "model": self._model,
            "status": status,
            "output": list(self._output),
            "parallel_tool_calls": True,
            "tool_choice": "auto",
            "tools": [],
            "error": None,
            "incomplete_details": None,
            "instructions": None,
            "metadata": {},
            "usage": usage,
        }

    def open(self) -> bytes:
        response: JsonObject = {"response": self._response("in_progress", None)}
        return self._event("response.created", response) + self._event("response.in_progress", response)

    def _place(self) -> JsonObject:
        index = len(self._output)
        return {"item_id": f"msg_{self._id}_{index}", "output_index": index, "content_index": 0}

    def _message(self, text: str, status: str) -> JsonObject:
        content: list[Json] = [{"type": "output_text", "text": text, "annotations": []}] if status == "completed" else []
        return {
            "id": f"msg_{self._id}_{len(self._output)}",
            "type": "message",
            "role": "assistant",
            "status": status,
            "content": content,
        }

    def text(self, delta: str) -> bytes:
        frames = b""
        if self._text is None:
            self._text = []
            added: JsonObject = {"output_index": len(self._output), "item": self._message("", "in_progress")}
            part: JsonObject = {"type": "output_text", "text": "", "annotations": []}
            frames = self._event("response.output_item.added", added)
            frames += self._event("response.content_part.added", {**self._place(), "part": part})
        self._text.append(delta)
        return frames + self._event("response.output_text.delta", {**self._place(), "delta": delta, "logprobs": []})

    def _end_text(self) -> bytes:
        if self._text is None:
            return b""
        text, self._text = "".join(self._text), None
        part: JsonObject = {"type": "output_text", "text": text, "annotations": []}
        item = self._message(text, "completed")
        frames = self._event("response.output_text.done", {**self._place(), "text": text, "logprobs": []})
        frames += self._event("response.content_part.done", {**self._place(), "part": part})
        frames += self._event("response.output_item.done", {"output_index": len(self._output), "item": item})
        self._output.append(item)
        return frames

    def _call_item(self, call: ComposedCall, status: str) -> JsonObject:
        return {
            "id": f"fc_{call.id}",
            "type": "function_call",
            "call_id": call.id,
            "name": call.name,
            "arguments": call.arguments if status == "completed" else "",
            "status": status,
        }

    def call(self, call: ComposedCall) -> bytes:
        frames = self._end_text()
        index = len(self._output)
        place: JsonObject = {"item_id": f"fc_{call.id}", "output_index": index}
        item = self._call_item(call, "completed")
        frames += self._event(
            "response.output_item.added", {"output_index": index, "item": self._call_item(call, "in_progress")}
        )
        frames += self._event("response.function_call_arguments.delta", {**place, "delta": call.arguments})
        frames += self._event(
            "response.function_call_arguments.done", {**place, "name": call.name, "arguments": call.arguments}
        )
        frames += self._event("response.output_item.done", {"output_index": index, "item": item})
        self._output.append(item)
        return frames

    def close(self, usage: Usage) -> bytes:
        frames = self._end_text()
        return frames + self._event("response.completed", {"response": self._response("completed", _responses_usage(usage))})

    def whole(self, text: str, calls: list[ComposedCall], usage: Usage) -> JsonObject:
        if text:
            self._output.append(self._message(text, "completed"))
        self._output.extend(self._call_item(call, "completed") for call in calls)
        return self._response("completed", _responses_usage(usage))


def _responses_usage(usage: Usage) -> JsonObject:
    return {
        "input_tokens": usage.input_tokens,
        "input_tokens_details": {"cached_tokens": usage.cached_tokens, "cache_write_tokens": usage.cache_write_tokens},
        "output_tokens": usage.output_tokens,
        "output_tokens_details": {"reasoning_tokens": usage.reasoning_tokens},
        "total_tokens": usage.input_tokens + usage.output_tokens,
    }


class MessagesComposer:
    """Anthropic Messages: blocks one after another, usage at both ends."""

    def __init__(self, answer_id: str, model: str) -> None:
        self._id, self._model = answer_id, model
        self._blocks = 0
        self._in_text = False
        self._has_calls = False

    def _event(self, kind: str, fields: JsonObject) -> bytes:
        return b"event: " + kind.encode() + b"\n" + _data({"type": kind, **fields})

    def _message(self, content: list[Json], stop: str | None, usage: JsonObject) -> JsonObject:
        return {
            "id": f"msg_{self._id}",
            "type": "message",
            "role": "assistant",
            "model": self._model,
            "content": content,
            "stop_reason": stop,
            "stop_sequence": None,
            "usage": usage,
        }

    def open(self) -> bytes:
        usage: JsonObject = {"input_tokens": 0, "output_tokens": 0}
        return self._event("message_start", {"message": self._message([], None, usage)})

    def text(self, delta: str) -> bytes:
        frames = b""
        if not self._in_text:
            self._in_text = True
            block: JsonObject = {"type": "text", "text": ""}
            frames = self._event("content_block_start", {"index": self._blocks, "content_block": block})
        return frames + self._event(
            "content_block_delta", {"index": self._blocks, "delta": {"type": "text_delta", "text": delta}}
        )

    def _end_text(self) -> bytes:
        if not self._in_text:
            return b""
        self._in_text = False
        index, self._blocks = self._blocks, self._blocks + 1
        return self._event("content_block_stop", {"index": index})

    def call(self, call: ComposedCall) -> bytes:
        frames = self._end_text()
        self._has_calls = True
        index, self._blocks = self._blocks, self._blocks + 1
        block: JsonObject = {"type": "tool_use", "id": call.id, "name": call.name, "input": {}}
        delta: JsonObject = {"type": "input_json_delta", "partial_json": call.arguments}
        frames += self._event("content_block_start", {"index": index, "content_block": block})
        frames += self._event("content_block_delta", {"index": index, "delta": delta})
        return frames + self._event("content_block_stop", {"index": index})

    def close(self, usage: Usage) -> bytes:
        stop: JsonObject = {"stop_reason": "tool_use" if self._has_calls else "end_turn", "stop_sequence": None}
        counts: JsonObject = {"input_tokens": usage.input_tokens, "output_tokens": usage.output_tokens}
        frames = self._end_text() + self._event("message_delta", {"delta": stop, "usage": counts})
        return frames + self._event("message_stop", {})

    def whole(self, text: str, calls: list[ComposedCall], usage: Usage) -> JsonObject:
        content: list[Json] = [{"type": "text", "text": text}] if text else []
        content.extend(
            {"type": "tool_use", "id": call.id, "name": call.name, "input": orjson.loads(call.arguments)} for call in calls
        )
        counts: JsonObject = {"input_tokens": usage.input_tokens, "output_tokens": usage.output_tokens}
        return self._message(content, "tool_use" if calls else "end_turn", counts)
