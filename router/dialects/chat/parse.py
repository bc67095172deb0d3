"""A target's chat answer → composer."""

import orjson

from router.contract.digits import as_written
from router.contract.request import Json, JsonObject
from router.dialects.chat.answer import read_usage
from router.dialects.composer import Composer, Finish
from router.dialects.failures import Failure, read_failure
from router.dialects.fields import as_list, as_object, as_text
from router.dialects.timings import read_timings
from router.dialects.translate.envelope import wrap
from router.dialects.translate.parser import AnswerParser, NotAnAnswer

_FINISHES = {
    "length": Finish.LENGTH,
    "max_tokens": Finish.LENGTH,
    "model_length": Finish.LENGTH,
    "tool_calls": Finish.TOOLS,
    "function_call": Finish.TOOLS,
    "content_filter": Finish.FILTER,
}
_FAILURES = frozenset({"error", "abort", "insufficient_system_resource"})
"""Finish reasons that mean the model or its machine failed."""


class ChatParser(AnswerParser):
    """Identifies calls by index. Reasoning has two spellings."""

    def __init__(self, composer: Composer, target: str, answer_id: str) -> None:
        super().__init__(composer, target, answer_id)
        self._thoughts: list[str] = []
        self._blocks: list[Json] = []
        self._keys: dict[int | None, int] = {}
        self._ids: list[str] = []

    def parse(self, event: JsonObject) -> bytes:
        if event.get("error"):
            self.failure = read_failure(event["error"])
            return b""
        usage = event.get("usage")
        if usage:
            self._read_usage(event)
        choices = event.get("choices")
        if not isinstance(choices, list) or not choices:
            return b""
        choice = choices[0]
        if not isinstance(choice, dict):
            return b""
        frames = self._parse_message(as_object(choice.get("delta")))
        reason = choice.get("finish_reason")
        if reason:
            self._conclude(as_text(reason), choice)
            self._read_usage(event)
        return frames

    def _read_usage(self, event: JsonObject) -> None:
        end = self.end
        end.timings = read_timings(event.get("timings")) or end.timings
        end.usage = read_usage(event.get("usage")) or end.usage or (end.timings.usage if end.timings is not None else None)

    def _conclude(self, reason: str, choice: JsonObject) -> None:
        if reason not in _FAILURES:
            self.end.finish = _FINISHES.get(reason, Finish.STOP)
        elif choice.get("error"):
            self.failure = read_failure(choice["error"])
        else:
            self.failure = Failure("upstream_error", f"the target ended its answer with finish_reason {reason}")

    def _parse_message(self, message: JsonObject, *, is_whole: bool = False) -> bytes:
        frames = b""
        thought = message.get("reasoning_content") or message.get("reasoning")
        if isinstance(thought, str) and thought:
            self._thoughts.append(thought)
            frames += self._sequencer.reasoning(thought)
        if blocks := message.get("thinking_blocks"):
            self._keep_blocks(as_list(blocks))
        content = message.get("content")
        if content:
            text = content if isinstance(content, str) else _text_of(content)
            if text:
                frames += self._end_thought() + self._sequencer.text(text)
        refusal = message.get("refusal")
        if isinstance(refusal, str) and refusal:
            frames += self._end_thought() + self._sequencer.refusal(refusal)
        calls = message.get("tool_calls")
        if calls:
            frames += self._end_thought()
            for place, call in enumerate(as_list(calls)):
                frames += self._parse_call(as_object(call), place if is_whole else None)
        return frames

    def _keep_blocks(self, blocks: list[Json]) -> None:
        """Claude's thinking as litellm writes it into chat: text in pieces, a block's signature after its last."""
        for block in map(as_object, blocks):
            last = as_object(self._blocks[-1]) if self._blocks else {}
            if block.get("type") == "thinking" and last.get("type") == "thinking" and not last.get("signature"):
                last["thinking"] = as_text(last.get("thinking")) + as_text(block.get("thinking"))
                last.update({"signature": block["signature"]} if block.get("signature") else {})
            elif block:
                self._blocks.append(dict(block))

    def _end_thought(self) -> bytes:
        if not self._thoughts and not self._blocks:
            return b""
        # Blocks include the text, and the signature without which it is useless.
        text: JsonObject = {"reasoning_content": "".join(self._thoughts)}
        state: JsonObject = {"thinking_blocks": self._blocks} if self._blocks else text
        self._thoughts, self._blocks = [], []
        return self._sequencer.envelope(wrap(self._target, state))

    def _held_back(self) -> bytes:
        return self._end_thought()

    def _parse_call(self, call: JsonObject, place: int | None) -> bytes:
        function = as_object(call.get("function"))
        name, arguments = as_text(function.get("name")), _arguments_of(function.get("arguments"))
        index = call.get("index") if place is None else place
        slot = index if isinstance(index, int) else None
        call_id = as_text(call.get("id"))
        frames = b""
        if name and self._is_new(slot, call_id, arguments):
            self._keys[slot] = key = len(self._ids)
            self._ids.append(call_id)
            frames = self._sequencer.begin(key, call_id or f"call_{self._answer_id}_{key + 1}", name)
        return frames + self._sequencer.arguments(self._keys.get(slot), arguments)

    def _is_new(self, slot: int | None, call_id: str, arguments: str) -> bool:
        """Whether a fragment with a name begins a call. Some hosts repeat the name, others give every call index 0."""
        key = self._keys.get(slot)
        if key is None:
            return True
        if call_id and call_id == self._ids[key]:
            return False
        if slot is None and call_id:
            return True
        return self._sequencer.is_whole(key) and bool(call_id or arguments)

    def parse_whole(self, body: JsonObject) -> None:
        choices = as_list(body.get("choices"))
        choice = choices[0] if choices else None
        if not isinstance(choice, dict):
            raise NotAnAnswer("an answer without choices")
        self._parse_message(as_object(choice.get("message")), is_whole=True)
        self._read_usage(body)
        self._conclude(as_text(choice.get("finish_reason")), choice)
        self.finish()


def _text_of(content: Json) -> str:
    return "".join(as_text(as_object(part).get("text")) for part in as_list(content))


def _arguments_of(value: Json) -> str:
    return orjson.dumps(value, default=as_written).decode() if isinstance(value, dict) else as_text(value)
