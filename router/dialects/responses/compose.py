"""Writing the Responses API: each item has its `added` and `done`, and sequence numbers have no gap."""

import time

from router.contract.request import Json, JsonObject
from router.contract.usage import Usage
from router.dialects.client_tools import CallItem
from router.dialects.composer import Answer, Composer, Finish, Shape, cut_free_form, free_form, is_blank
from router.dialects.fields import as_list
from router.dialects.responses.answer import write_usage
from router.dialects.responses.failures import write_stream_error
from router.dialects.responses.said_back import say_back
from router.dialects.sse import named_frame
from router.dialects.translate.envelope import OUR_REASONING


class ResponsesComposer(Composer):
    def __init__(self, answer: Answer) -> None:
        self._answer = answer
        self._said_back = say_back(answer.asked)
        self._completed_at: int | None = None
        self._sequence = 0
        self._output: list[Json] = []
        self._kind = ""
        self._pieces: list[str] = []
        self._call_id, self._shape = "", Shape("")
        self._place: JsonObject = {}
        self._has_cut_call = False
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
            "completed_at": self._completed_at,
            "model": self._answer.model,
            "status": status,
            "output": list(self._output),
            "error": None,
            "incomplete_details": {"reason": reason} if status == "incomplete" else None,
            **self._said_back,
            "usage": write_usage(self._usage) if self._usage is not None else None,
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

    def _end(self, *, is_cut: bool = False) -> bytes:
        kind, self._kind = self._kind, ""
        match kind:
            case "output_text" | "refusal":
                return self._end_message(kind, "incomplete" if is_cut else "completed")
            case "reasoning":
                return self._end_reasoning(None)
            case "call":
                return self._end_call()
        return b""

    def _message(self, status: str, content: list[Json]) -> JsonObject:
        identity = f"msg_{self._answer.id}_{len(self._output)}"
        return {"id": identity, "type": "message", "role": "assistant", "status": status, "content": content}

    @staticmethod
    def _part(kind: str, text: str) -> JsonObject:
        if kind == "refusal":
            return {"type": kind, "refusal": text}
        return {"type": kind, "text": text, "annotations": [], "logprobs": []}

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

    def _end_message(self, kind: str, status: str) -> bytes:
        text = "".join(self._pieces)
        part = self._part(kind, text)
        if kind == "refusal":
            frames = self._event("response.refusal.done", {**self._place, "refusal": text})
        else:
            frames = self._event("response.output_text.done", {**self._place, "text": text, "logprobs": []})
        frames += self._event("response.content_part.done", {**self._place, "part": part})
        return frames + self._done(self._message(status, [part]))

    # Reasoning is sent as a summary: its hidden part is the target's.

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

    def _call_item(self, status: str, arguments: str) -> JsonObject:
        shape = self._shape
        item: JsonObject = {"call_id": self._call_id, "name": shape.name}
        if shape.is_custom:
            item |= {"id": self._call_item_id("ctc"), "type": "custom_tool_call", "input": arguments}
            if status == "incomplete":
                item["status"] = status
        else:
            item |= {"id": self._call_item_id("fc"), "type": "function_call", "arguments": arguments, "status": status}
        if shape.namespace is not None:
            item["namespace"] = shape.namespace
        return item

    def _call_item_id(self, prefix: str) -> str:
        """Unique per answer: hosts repeat call ids, and clients identify an item by its id alone."""
        return f"{prefix}_{self._answer.id}_{len(self._output)}"

    def begin_call(self, call_id: str, name: str) -> bytes:
        frames = self._end()
        self._call_id, self._shape = call_id, self._answer.shape(name)
        if self._shape.item is not None:
            self._kind, self._pieces = "call", []
            return frames  # its item needs complete arguments
        return frames + self._begin("call", self._call_item("in_progress", ""))

    def arguments(self, delta: str) -> bytes:
        self._pieces.append(delta)
        if self._shape.is_custom or self._shape.item is not None:
            return b""  # free-form input is wrapped in JSON until complete
        return self._event("response.function_call_arguments.delta", {**self._place, "delta": delta})

    def end_call(self, *, is_cut: bool = False) -> bytes:
        if not is_cut or self._kind != "call":
            return self._end()
        self._kind, self._has_cut_call = "", True
        return self._cut_call()

    def _end_call(self) -> bytes:
        arguments, item, frames = "".join(self._pieces), self._shape.item, b""
        if item is not None:
            held = item.parse(arguments)
            if held is not None:
                return self._client_call(item, held)
            frames = self._begin_as_function(arguments)
        shape = self._shape
        if shape.is_custom:
            arguments = free_form(arguments)
            frames = self._event("response.custom_tool_call_input.delta", {**self._place, "delta": arguments})
            frames += self._event("response.custom_tool_call_input.done", {**self._place, "input": arguments})
        else:
            if is_blank(arguments):
                arguments = "{}"
                frames += self.arguments(arguments)
            done: JsonObject = {**self._place, "name": shape.name, "arguments": arguments}
            frames += self._event("response.function_call_arguments.done", done)
        return frames + self._done(self._call_item("completed", arguments))

    def _cut_call(self) -> bytes:
        """Write a truncated call without a `done` for its arguments: clients run what is done."""
        arguments, frames = "".join(self._pieces), b""
        if self._shape.item is not None:
            frames = self._begin_as_function(arguments)
        if self._shape.is_custom:
            arguments = cut_free_form(arguments)
            frames = self._event("response.custom_tool_call_input.delta", {**self._place, "delta": arguments})
        return frames + self._done(self._call_item("incomplete", arguments))

    def _begin_as_function(self, arguments: str) -> bytes:
        """Write a call with truncated or unfitting arguments as a function's, which can hold any."""
        self._shape = Shape(self._shape.name)
        frames = self._begin("call", self._call_item("in_progress", ""))
        self._kind = ""
        return frames + self.arguments(arguments) if arguments else frames

    def _client_call(self, item: CallItem, held: JsonObject) -> bytes:
        whole: JsonObject = {
            "id": self._call_item_id(item.id_prefix),
            "type": item.type,
            "call_id": self._call_id,
            "status": "completed",
            item.field: held,
        }
        commands = as_list(held.get("commands"))
        begun = {**held, "commands": []} if commands else held
        frames = self._begin("call", {**whole, "status": "in_progress", item.field: begun})
        self._kind = ""
        for index, command in enumerate(commands):
            indexes: JsonObject = {"output_index": len(self._output), "command_index": index}
            frames += self._event("response.shell_call_command.added", {**indexes, "command": ""})
            frames += self._event("response.shell_call_command.delta", {**indexes, "delta": command})
            frames += self._event("response.shell_call_command.done", {**indexes, "command": command})
        return frames + self._done(whole)

    def close(self, finish: Finish, usage: Usage | None) -> bytes:
        frames = self._end(is_cut=finish is Finish.LENGTH)
        self._finish, self._usage = finish, usage
        status = self._status()
        if status == "completed":
            self._completed_at = max(self._answer.created, int(time.time()))
        return frames + self._event(f"response.{status}", {"response": self._response(status)})

    def beat(self) -> bytes:
        return self._event("response.in_progress", {"response": {**self._response("in_progress"), "output": []}})

    def fail(self, status: int, code: str, message: str) -> bytes:
        failed: JsonObject = {**self._response("failed"), "error": write_stream_error(code, message)}
        return self._event("response.failed", {"response": failed})

    def _status(self) -> str:
        """Filtered answers with output are complete: clients retry incomplete ones."""
        is_cut = self._finish is Finish.LENGTH or (self._finish is Finish.FILTER and not self._output) or self._has_cut_call
        return "incomplete" if is_cut else "completed"

    def whole(self) -> JsonObject:
        return self._response(self._status())
