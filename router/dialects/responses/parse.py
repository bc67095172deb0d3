"""A target's Responses answer → composer."""

from collections.abc import Callable

from router.contract.request import Json, JsonObject
from router.dialects.client_tools import CALL_ITEMS
from router.dialects.composer import Composer, Finish
from router.dialects.failures import read_failure
from router.dialects.fields import as_list, as_object, as_text
from router.dialects.responses.answer import read_usage
from router.dialects.translate.envelope import wrap
from router.dialects.translate.parser import AnswerParser, NotAnAnswer

_CALLS = ("function_call", "custom_tool_call")


class ResponsesParser(AnswerParser):
    """Reads deltas; items without any are read when done."""

    def __init__(self, composer: Composer, target: str, answer_id: str) -> None:
        super().__init__(composer, target, answer_id)
        self._told: set[Json] = set()

    def parse(self, event: JsonObject) -> bytes:
        kind = event.get("type")
        match kind:
            case "response.output_text.delta":
                return self._prose(event, self._sequencer.text)
            case "response.reasoning_summary_text.delta" | "response.reasoning_text.delta":
                return self._prose(event, self._sequencer.reasoning)
            case "response.function_call_arguments.delta":
                return self._sequencer.arguments(_key_of(event), self._tell(event))
            case "response.refusal.delta":
                return self._prose(event, self._sequencer.refusal)
            case "response.reasoning_summary_part.added":
                return self._sequencer.reasoning("\n\n") if event.get("summary_index") else b""
            case "response.output_item.added":
                item = as_object(event.get("item"))
                return self._begin_call(_key_of(event), item) if item.get("type") == "function_call" else b""
            case "response.output_item.done":
                return self._end_item(event, as_object(event.get("item")))
            case "response.completed" | "response.incomplete":
                self._conclude(as_object(event.get("response")))
                self.has_last_event = True
            case "response.failed":
                self.failure = read_failure(as_object(event.get("response")).get("error"))
            case "error":
                self.failure = read_failure(event.get("error") or event)
        return b""

    def _tell(self, event: JsonObject) -> str:
        delta = as_text(event.get("delta"))
        if delta:
            self._told.add(_key_of(event))
        return delta

    def _prose(self, event: JsonObject, write: Callable[[str], bytes]) -> bytes:
        delta = self._tell(event)
        return write(delta) if delta else b""

    def _begin_call(self, key: Json, item: JsonObject) -> bytes:
        call_id = as_text(item.get("call_id")) or as_text(item.get("id")) or f"call_{self._answer_id}_{key}"
        return self._sequencer.begin(key, call_id, as_text(item.get("name")))

    def _end_item(self, event: JsonObject, item: JsonObject) -> bytes:
        kind, key = item.get("type"), _key_of(event)
        was_told = key in self._told
        if kind == "reasoning":
            state = _state(item)
            frames = b"" if was_told else self._reasoning_of(item)
            return frames + self._sequencer.envelope(wrap(self._target, state)) if state or was_told or frames else b""
        if kind in CALL_ITEMS:
            return self._client_call(key, item)
        if kind in _CALLS:
            frames = b""
            if not self._sequencer.knows(key):
                frames = self._begin_call(key, item)
            if not was_told:
                frames += self._sequencer.arguments(key, as_text(item.get("arguments")) or as_text(item.get("input")))
            if item.get("status") == "incomplete":
                self._sequencer.cut(key)
                return frames
            return frames + self._sequencer.end(key)
        return b"" if was_told else self._message_of(item)

    def _client_call(self, key: Json, item: JsonObject) -> bytes:
        name, call = CALL_ITEMS[as_text(item.get("type"))]
        frames = self._begin_call(key, {**item, "name": name})
        frames += self._sequencer.arguments(key, call.arguments(as_object(item.get(call.field))))
        return frames + self._sequencer.end(key)

    def _reasoning_of(self, item: JsonObject) -> bytes:
        parts = [*as_list(item.get("summary")), *as_list(item.get("content"))]
        text = "\n\n".join(as_text(as_object(part).get("text")) for part in parts)
        return self._sequencer.reasoning(text) if text else b""

    def _message_of(self, item: JsonObject) -> bytes:
        frames = b""
        for value in as_list(item.get("content")):
            part = as_object(value)
            if as_text(part.get("text")):
                frames += self._sequencer.text(as_text(part.get("text")))
            elif as_text(part.get("refusal")):
                frames += self._sequencer.refusal(as_text(part.get("refusal")))
        return frames

    def _conclude(self, response: JsonObject) -> None:
        self.end.usage = read_usage(response.get("usage"))
        reason = as_object(response.get("incomplete_details")).get("reason")
        if response.get("status") == "incomplete" or reason:
            self.end.finish = Finish.FILTER if reason == "content_filter" else Finish.LENGTH
        else:
            self.end.finish = Finish.TOOLS if self._sequencer.has_calls else Finish.STOP

    def parse_whole(self, body: JsonObject) -> None:
        if not isinstance(body.get("output"), list):
            raise NotAnAnswer("an answer without output")
        if body.get("status") not in (None, "completed", "incomplete"):
            raise NotAnAnswer("an answer that is not finished")
        for index, item in enumerate(as_list(body.get("output"))):
            self._end_item({"output_index": index}, as_object(item))
        self._conclude(body)
        self.finish()


def _key_of(event: JsonObject) -> Json:
    """The item of an event: its index, or its id where a host omits the index."""
    index = event.get("output_index")
    if isinstance(index, int):
        return index
    return as_text(event.get("item_id")) or as_text(as_object(event.get("item")).get("id"))


def _state(item: JsonObject) -> JsonObject:
    """What the target wants back: the item without its status; empty if nothing is hidden."""
    return {name: value for name, value in item.items() if name != "status"} if item.get("encrypted_content") else {}
