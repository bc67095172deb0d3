"""Writing Chat Completions."""

from collections.abc import Mapping
from typing import ClassVar

from router.contract.request import Json, JsonObject
from router.contract.usage import Usage
from router.dialects.chat.answer import write_failure
from router.dialects.composer import Answer, Composer, Finish, cut_free_form, free_form, is_blank
from router.dialects.sse import data_frame


def chat_usage(usage: Usage) -> JsonObject:
    return {
        "prompt_tokens": usage.input_tokens,
        "completion_tokens": usage.output_tokens,
        "total_tokens": usage.input_tokens + usage.output_tokens,
        "prompt_tokens_details": {"cached_tokens": usage.cached_tokens, "cache_write_tokens": usage.cache_write_tokens},
        "completion_tokens_details": {"reasoning_tokens": usage.reasoning_tokens},
    }


class ChatComposer(Composer):
    """Identifies calls by index, and sends a free-form call in one piece.

    Envelopes are left out: this dialect's clients do not return what they do not understand.
    """

    finishes: ClassVar[Mapping[Finish, str]] = {
        Finish.STOP: "stop",
        Finish.LENGTH: "length",
        Finish.TOOLS: "tool_calls",
        Finish.FILTER: "content_filter",
    }

    def __init__(self, answer: Answer) -> None:
        self._answer = answer
        self._head: JsonObject = {"id": f"chatcmpl-{answer.id}", "created": answer.created, "model": answer.model}
        self._texts: list[str] = []
        self._refusals: list[str] = []
        self._thoughts: list[str] = []
        self._calls: list[Json] = []
        self._open: tuple[str, str] | None = None
        self._pieces: list[str] = []
        self._finish: str | None = None
        self._usage: Usage | None = None

    def _chunk(self, delta: JsonObject, finish: str | None = None) -> bytes:
        choice: JsonObject = {"index": 0, "delta": delta, "finish_reason": finish}
        return data_frame({**self._head, "object": "chat.completion.chunk", "choices": [choice]})

    def open(self) -> bytes:
        return self._chunk({"role": "assistant", "content": ""})

    def text(self, delta: str) -> bytes:
        self._texts.append(delta)
        return self._chunk({"content": delta})

    def refusal(self, delta: str) -> bytes:
        self._refusals.append(delta)
        return self._chunk({"refusal": delta})

    def reasoning(self, delta: str) -> bytes:
        self._thoughts.append(delta)
        return self._chunk({"reasoning_content": delta})

    def begin_call(self, call_id: str, name: str) -> bytes:
        self._open, self._pieces = (call_id, name), []
        shape = self._answer.shape(name)
        if shape.is_custom:
            return b""
        function: JsonObject = {"name": shape.name, "arguments": ""}
        call: JsonObject = {"index": len(self._calls), "id": call_id, "type": "function", "function": function}
        return self.call_chunk(call)

    def call_chunk(self, call: JsonObject) -> bytes:
        return self._chunk({"tool_calls": [call]})

    def arguments(self, delta: str) -> bytes:
        self._pieces.append(delta)
        if self._open is None or self._answer.shape(self._open[1]).is_custom:
            return b""
        return self.call_chunk({"index": len(self._calls), "function": {"arguments": delta}})

    def end_call(self, *, is_cut: bool = False) -> bytes:
        if self._open is None:
            return b""
        call_id, name = self._open
        arguments, shape, frames = "".join(self._pieces), self._answer.shape(name), b""
        if not shape.is_custom and not is_cut and is_blank(arguments):
            # Clients parse the arguments as JSON, which empty text is not.
            arguments, frames = "{}", self.arguments("{}")
        self._open = None
        if shape.is_custom:
            custom: JsonObject = {"name": shape.name, "input": cut_free_form(arguments) if is_cut else free_form(arguments)}
            call: JsonObject = {"id": call_id, "type": "custom", "custom": custom}
            frames = self._chunk({"tool_calls": [{"index": len(self._calls), **call}]})
        else:
            call = {"id": call_id, "type": "function", "function": {"name": shape.name, "arguments": arguments}}
        self._calls.append(call)
        return frames

    def close(self, finish: Finish, usage: Usage | None) -> bytes:
        frames = self.end_call()
        self._finish = self.finishes[Finish.TOOLS if self._calls and finish is Finish.STOP else finish]
        self._usage = usage
        frames += self._chunk({}, self._finish)
        if self._answer.sends_usage and usage is not None:
            frames += data_frame({**self._head, "object": "chat.completion.chunk", "choices": [], "usage": chat_usage(usage)})
        return frames + b"data: [DONE]\n\n"

    def fail(self, status: int, code: str, message: str) -> bytes:
        return write_failure(status, message, code, f"req_{self._answer.id}")

    def whole(self) -> JsonObject:
        message: JsonObject = {
            "role": "assistant",
            "content": "".join(self._texts) or None,
            "refusal": "".join(self._refusals) or None,
        }
        if self._thoughts:
            message["reasoning_content"] = "".join(self._thoughts)
        if self._calls:
            message["tool_calls"] = self._calls
        choice: JsonObject = {"index": 0, "message": message, "logprobs": None, "finish_reason": self._finish}
        body: JsonObject = {**self._head, "object": "chat.completion", "choices": [choice]}
        if self._usage is not None:
            body["usage"] = chat_usage(self._usage)
        return body
