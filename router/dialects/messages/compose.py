"""Writing Anthropic Messages: blocks in sequence, usage at both ends."""

import orjson

from router.contract.digits import parse_exactly
from router.contract.request import Json, JsonObject
from router.contract.usage import Usage
from router.dialects.composer import Answer, Composer, Finish, is_blank, parse_cut, plain_id
from router.dialects.messages.answer import write_failure
from router.dialects.sse import named_frame

_STOPS = {
    Finish.STOP: "end_turn",
    Finish.LENGTH: "max_tokens",
    Finish.TOOLS: "tool_use",
    Finish.FILTER: "refusal",
}
_DELTAS = {"text": ("text_delta", "text"), "thinking": ("thinking_delta", "thinking")}


def messages_usage(usage: Usage | None) -> JsonObject:
    """Usage in Messages' terms: cached tokens are separate."""
    if usage is None:
        return {"input_tokens": 0, "output_tokens": 0}
    return {
        "input_tokens": max(0, usage.input_tokens - usage.cached_tokens - usage.cache_write_tokens),
        "cache_read_input_tokens": usage.cached_tokens,
        "cache_creation_input_tokens": usage.cache_write_tokens,
        "output_tokens": usage.output_tokens,
        "output_tokens_details": {"thinking_tokens": usage.reasoning_tokens},
    }


class MessagesComposer(Composer):
    def __init__(self, answer: Answer) -> None:
        self._answer = answer
        self._blocks: list[JsonObject] = []
        self._kind = ""
        self._pieces: list[str] = []
        self._has_calls = False
        self._stop: str | None = None
        self._usage: Usage | None = None

    def _event(self, kind: str, fields: JsonObject) -> bytes:
        return named_frame(kind, {"type": kind, **fields})

    def _message(self, content: list[Json]) -> JsonObject:
        return {
            "id": f"msg_{self._answer.id}",
            "type": "message",
            "role": "assistant",
            "model": self._answer.model,
            "content": content,
            "stop_reason": self._stop,
            "stop_sequence": None,
            "usage": messages_usage(self._usage),
        }

    def _begin(self, block: JsonObject) -> bytes:
        frames = self._end()
        self._kind, self._pieces = str(block["type"]), []
        frames += self._event("content_block_start", {"index": len(self._blocks), "content_block": block})
        self._blocks.append(dict(block))
        return frames

    def _delta(self, delta: JsonObject) -> bytes:
        return self._event("content_block_delta", {"index": len(self._blocks) - 1, "delta": delta})

    def _end(self, *, is_cut: bool = False) -> bytes:
        if not self._kind:
            return b""
        kind, self._kind, block = self._kind, "", self._blocks[-1]
        written = "".join(self._pieces)
        if kind == "tool_use":
            block["input"] = parse_input(written, is_cut=is_cut)
        else:
            block[_DELTAS[kind][1]] = written
        return self._event("content_block_stop", {"index": len(self._blocks) - 1})

    def _prose(self, kind: str, empty: JsonObject, delta: str) -> bytes:
        frames = b"" if self._kind == kind else self._begin({"type": kind, **empty})
        self._pieces.append(delta)
        name, field = _DELTAS[kind]
        return frames + self._delta({"type": name, field: delta})

    def open(self) -> bytes:
        return self._event("message_start", {"message": self._message([])})

    def text(self, delta: str) -> bytes:
        return self._prose("text", {"text": ""}, delta)

    def refusal(self, delta: str) -> bytes:
        return self.text(delta)

    def reasoning(self, delta: str) -> bytes:
        if not self._answer.sends_thoughts:
            return b""
        return self._prose("thinking", {"thinking": "", "signature": ""}, delta)

    def envelope(self, envelope: str) -> bytes:
        if not self._answer.sends_thoughts:
            return b""
        frames = b"" if self._kind == "thinking" else self._begin({"type": "thinking", "thinking": "", "signature": ""})
        self._blocks[-1]["signature"] = envelope
        return frames + self._delta({"type": "signature_delta", "signature": envelope}) + self._end()

    def begin_call(self, call_id: str, name: str) -> bytes:
        self._has_calls = True
        return self._begin({"type": "tool_use", "id": plain_id(call_id), "name": self._answer.shape(name).name, "input": {}})

    def arguments(self, delta: str) -> bytes:
        self._pieces.append(delta)
        return self._delta({"type": "input_json_delta", "partial_json": delta})

    def end_call(self, *, is_cut: bool = False) -> bytes:
        return self._end(is_cut=is_cut)

    def close(self, finish: Finish, usage: Usage | None) -> bytes:
        frames = self._end()
        self._stop = _STOPS[Finish.TOOLS if self._has_calls and finish is Finish.STOP else finish]
        self._usage = usage
        stop: JsonObject = {"stop_reason": self._stop, "stop_sequence": None}
        frames += self._event("message_delta", {"delta": stop, "usage": messages_usage(usage)})
        return frames + self._event("message_stop", {})

    def fail(self, status: int, code: str, message: str) -> bytes:
        return write_failure(status, message, code, f"req_{self._answer.id}")

    def whole(self) -> JsonObject:
        return self._message([dict(block) for block in self._blocks])


def parse_input(arguments: str, *, is_cut: bool = False) -> Json:
    """A call's input, which must be an object; other values are wrapped in one.

    With `is_cut`, what arrived: the stop reason says that it is incomplete.
    """
    if is_blank(arguments):
        return {}
    if is_cut and isinstance(begun := parse_cut(arguments), dict):
        return begun
    try:
        value = parse_exactly(arguments.encode())
    except orjson.JSONDecodeError:
        return {"unparsed": arguments}
    return value if isinstance(value, dict) else {"value": value}
