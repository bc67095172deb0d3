"""Writing the Responses API: every item has its `added` and its `done`, and sequence numbers have no gap."""

from router.contract.request import Json, JsonObject
from router.contract.usage import Usage
from router.dialects.composer import Answer, Finish, free_form, named_frame
from router.dialects.translate.envelope import OUR_REASONING


def responses_usage(usage: Usage) -> JsonObject:
    """Usage in this dialect's words. Every counter must be there."""
    return {
        "input_tokens": usage.input_tokens,
        "input_tokens_details": {"cached_tokens": usage.cached_tokens, "cache_write_tokens": usage.cache_write_tokens},
        "output_tokens": usage.output_tokens,
        "output_tokens_details": {"reasoning_tokens": usage.reasoning_tokens},
        "total_tokens": usage.input_tokens + usage.output_tokens,
    }


class ResponsesComposer:
    """One item is open at a time: a message, reasoning, or a call."""

    def __init__(self, answer: Answer) -> None:
        self._answer = answer
        self._sequence = 0
        self._output: list[Json] = []
        self._kind = ""
        self._pieces: list[str] = []
        self._call = ("", "")
        self._place: JsonObject = {}
        self._finish = Finish.STOP
        self._usage: Usage | None = None

    def _event(self, kind: str, fields: JsonObject) -> bytes:
        body: JsonObject = {"type": kind, "sequence_number": self._sequence, **fields}
        self._sequence += 1
        return named_frame(kind, body)

    def _response(self, status: str) -> JsonObject:
        reason = {Finish.LENGTH: "max_output_tokens", Finish.FILTER: "content_filter"}.get(self._finish)
        return {
            "id": f"resp_{self._answer.id}",
            "object": "response",
            "created_at": self._answer.created,
            "model": self._answer.model,
            "status": status,
            "output": list(self._output),
            "parallel_tool_calls": True,
            "tool_choice": "auto",
            "tools": [],
            "error": None,
            "incomplete_details": {"reason": reason} if status == "incomplete" else None,
            "instructions": None,
            "metadata": {},
            "usage": responses_usage(self._usage) if self._usage is not None else None,
        }

    def open(self) -> bytes:
        response: JsonObject = {"response": self._response("in_progress")}
        return self._event("response.created", response) + self._event("response.in_progress", response)

    def _begin(self, kind: str, item: JsonObject) -> bytes:
        frames = self._end()
        self._kind, self._pieces = kind, []
        index = len(self._output)
        self._place = {"item_id": item["id"], "output_index": index}
        return frames + self._event("response.output_item.added", {"output_index": index, "item": item})

    def _done(self, item: JsonObject) -> bytes:
        index = len(self._output)
        self._output.append(item)
        return self._event("response.output_item.done", {"output_index": index, "item": item})

    def _end(self) -> bytes:
        kind, self._kind = self._kind, ""
        match kind:
            case "output_text" | "refusal":
                return self._end_message(kind)
            case "reasoning":
                return self._end_reasoning(None)
            case "call":
                return self._end_call()
        return b""

    # Messages.

    def _message(self, status: str, content: list[Json]) -> JsonObject:
        identity = f"msg_{self._answer.id}_{len(self._output)}"
        return {"id": identity, "type": "message", "role": "assistant", "status": status, "content": content}

    @staticmethod
    def _part(kind: str, text: str) -> JsonObject:
        return {"type": kind, "text": text, "annotations": []} if kind == "output_text" else {"type": kind, "refusal": text}

    def _prose(self, kind: str, delta: str) -> bytes:
        frames = b""
        if self._kind != kind:
            frames = self._begin(kind, self._message("in_progress", []))
            self._place["content_index"] = 0
            frames += self._event("response.content_part.added", {**self._place, "part": self._part(kind, "")})
        self._pieces.append(delta)
        if kind == "refusal":
            return frames + self._event("response.refusal.delta", {**self._place, "delta": delta})
        return frames + self._event("response.output_text.delta", {**self._place, "delta": delta, "logprobs": []})

    def text(self, delta: str) -> bytes:
        return self._prose("output_text", delta)

    def refusal(self, delta: str) -> bytes:
        return self._prose("refusal", delta)

    def _end_message(self, kind: str) -> bytes:
        text = "".join(self._pieces)
        part = self._part(kind, text)
        if kind == "refusal":
            frames = self._event("response.refusal.done", {**self._place, "refusal": text})
        else:
            frames = self._event("response.output_text.done", {**self._place, "text": text, "logprobs": []})
        frames += self._event("response.content_part.done", {**self._place, "part": part})
        return frames + self._done(self._message("completed", [part]))

    # Reasoning, as a summary: its hidden part is the target's own.

    def _reasoning(self, summary: list[Json]) -> JsonObject:
        return {"id": f"{OUR_REASONING}_{self._answer.id}_{len(self._output)}", "type": "reasoning", "summary": summary}

    def reasoning(self, delta: str) -> bytes:
        frames = b""
        if self._kind != "reasoning":
            frames = self._begin("reasoning", self._reasoning([]))
            self._place["summary_index"] = 0
            part: JsonObject = {"type": "summary_text", "text": ""}
            frames += self._event("response.reasoning_summary_part.added", {**self._place, "part": part})
        self._pieces.append(delta)
        return frames + self._event("response.reasoning_summary_text.delta", {**self._place, "delta": delta})

    def envelope(self, envelope: str) -> bytes:
        if not self._answer.sends_envelopes:
            return self._end() if self._kind == "reasoning" else b""
        frames = b"" if self._kind == "reasoning" else self._begin("reasoning", self._reasoning([]))
        self._kind = ""
        return frames + self._end_reasoning(envelope)

    def _end_reasoning(self, envelope: str | None) -> bytes:
        frames, summary = b"", list[Json]()
        if self._pieces:
            text = "".join(self._pieces)
            part: JsonObject = {"type": "summary_text", "text": text}
            frames = self._event("response.reasoning_summary_text.done", {**self._place, "text": text})
            frames += self._event("response.reasoning_summary_part.done", {**self._place, "part": part})
            summary = [part]
        item = self._reasoning(summary)
        if envelope is not None:
            item["encrypted_content"] = envelope
        return frames + self._done(item)

    # Calls.

    def _call_item(self, status: str, arguments: str) -> JsonObject:
        call_id, name = self._call
        shape = self._answer.shape(name)
        item: JsonObject = {"call_id": call_id, "name": shape.name}
        if shape.is_custom:
            item |= {"id": f"ctc_{call_id}", "type": "custom_tool_call", "input": arguments}
        else:
            item |= {"id": f"fc_{call_id}", "type": "function_call", "arguments": arguments, "status": status}
        if shape.namespace is not None:
            item["namespace"] = shape.namespace
        return item

    def begin_call(self, call_id: str, name: str) -> bytes:
        frames = self._end()
        self._call = (call_id, name)
        return frames + self._begin("call", self._call_item("in_progress", ""))

    def arguments(self, delta: str) -> bytes:
        self._pieces.append(delta)
        if self._answer.shape(self._call[1]).is_custom:
            return b""  # free-form input is wrapped in JSON until it is whole
        return self._event("response.function_call_arguments.delta", {**self._place, "delta": delta})

    def end_call(self) -> bytes:
        return self._end()

    def _end_call(self) -> bytes:
        arguments, shape = "".join(self._pieces), self._answer.shape(self._call[1])
        if shape.is_custom:
            arguments = free_form(arguments)
            frames = self._event("response.custom_tool_call_input.delta", {**self._place, "delta": arguments})
            frames += self._event("response.custom_tool_call_input.done", {**self._place, "input": arguments})
        else:
            arguments = arguments or "{}"
            done: JsonObject = {**self._place, "name": shape.name, "arguments": arguments}
            frames = self._event("response.function_call_arguments.done", done)
        return frames + self._done(self._call_item("completed", arguments))

    def close(self, finish: Finish, usage: Usage | None) -> bytes:
        frames = self._end()
        self._finish, self._usage = finish, usage
        status = self._status()
        return frames + self._event(f"response.{status}", {"response": self._response(status)})

    def beat(self) -> bytes:
        return self._event("response.in_progress", {"response": {**self._response("in_progress"), "output": []}})

    def fail(self, status: int, code: str, message: str) -> bytes:
        failed: JsonObject = {**self._response("failed"), "error": {"code": code, "message": message}}
        return self._event("response.failed", {"response": failed})

    def _status(self) -> str:
        """An answer that was held back is still an answer if it says so: clients ask again for what is incomplete."""
        is_cut = self._finish is Finish.LENGTH or (self._finish is Finish.FILTER and not self._output)
        return "incomplete" if is_cut else "completed"

    def whole(self) -> JsonObject:
        return self._response(self._status())
