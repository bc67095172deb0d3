"""A target's Messages answer → composer."""

import orjson

from router.contract.digits import as_written
from router.contract.request import Json, JsonObject
from router.dialects.composer import Composer, Finish
from router.dialects.failures import read_failure
from router.dialects.fields import as_list, as_object, as_text
from router.dialects.messages.answer import first_usage, later_usage, read_usage
from router.dialects.translate.envelope import wrap
from router.dialects.translate.parser import AnswerParser, NotAnAnswer

_FINISHES = {
    "max_tokens": Finish.LENGTH,
    "model_context_window_exceeded": Finish.LENGTH,
    "tool_use": Finish.TOOLS,
    "refusal": Finish.FILTER,
}


class MessagesParser(AnswerParser):
    """Blocks never interleave, and each is ended explicitly."""

    def __init__(self, composer: Composer, target: str, answer_id: str) -> None:
        super().__init__(composer, target, answer_id)
        self._block: JsonObject = {}
        self._key: Json = None
        self._thoughts: list[str] = []
        self._reason = ""

    def parse(self, event: JsonObject) -> bytes:
        match event.get("type"):
            case "content_block_delta":
                return self._parse_delta(event.get("index"), as_object(event.get("delta")))
            case "content_block_start":
                return self._begin(event.get("index"), as_object(event.get("content_block")))
            case "content_block_stop":
                return self._stop()
            case "message_start":
                self.end.usage = first_usage(event)
            case "message_delta":
                self._reason = as_text(as_object(event.get("delta")).get("stop_reason")) or self._reason
                self.end.usage = later_usage(self.end.usage, read_usage(as_object(event.get("usage"))))
            case "message_stop":
                # Not at the stop reason: without its last event a stream was cut, as on the untranslated path.
                self._finish_with(self._reason)
                self.has_last_event = True
            case "error":
                self.failure = read_failure(event.get("error"))
        return b""

    def _parse_delta(self, index: object, delta: JsonObject) -> bytes:
        match delta.get("type"):
            case "text_delta":
                text = as_text(delta.get("text"))
                return self._sequencer.text(text) if text else b""
            case "input_json_delta":
                return self._sequencer.arguments(index if isinstance(index, int) else None, as_text(delta.get("partial_json")))
            case "thinking_delta":
                thought = as_text(delta.get("thinking"))
                self._thoughts.append(thought)
                return self._sequencer.reasoning(thought) if thought else b""
            case "signature_delta":
                self._block["signature"] = as_text(self._block.get("signature")) + as_text(delta.get("signature"))
        return b""

    def _begin(self, index: object, block: JsonObject) -> bytes:
        self._block, self._thoughts = dict(block), []
        frames = b""
        match block.get("type"):
            case "tool_use":
                self._key = key = index if isinstance(index, int) else None
                call_id = as_text(block.get("id")) or f"call_{self._answer_id}_{key or 0}"
                frames = self._sequencer.begin(key, call_id, as_text(block.get("name")))
                if block.get("input"):
                    frames += self._sequencer.arguments(key, orjson.dumps(block["input"], default=as_written).decode())
            case "text":
                text = as_text(block.get("text"))
                frames = self._sequencer.text(text) if text else b""
            case "thinking":
                thought = as_text(block.get("thinking"))
                if thought:
                    self._thoughts.append(thought)
                    frames = self._sequencer.reasoning(thought)
        return frames

    def _stop(self) -> bytes:
        block, self._block = self._block, {}
        match block.get("type"):
            case "thinking":
                thought = "".join(self._thoughts)
                if not thought and not block.get("signature"):
                    return b""
                state: JsonObject = {**block, "thinking": thought}
                return self._sequencer.envelope(wrap(self._target, state if block.get("signature") else {}))
            case "redacted_thinking":
                return self._sequencer.envelope(wrap(self._target, block))
            case "tool_use":
                return self._sequencer.end(self._key, may_be_cut=True)
        return b""

    def _finish_with(self, reason: str) -> None:
        self.end.finish = _FINISHES.get(reason, Finish.STOP)

    def parse_whole(self, body: JsonObject) -> None:
        if not isinstance(body.get("content"), list):
            raise NotAnAnswer("an answer without content")
        for index, value in enumerate(as_list(body.get("content"))):
            self._begin(index, as_object(value))
            self._stop()
        self._finish_with(as_text(body.get("stop_reason")))
        self.end.usage = read_usage(body.get("usage"))
        content = as_list(body.get("content"))
        if self.end.finish is Finish.LENGTH and content and as_object(content[-1]).get("type") == "tool_use":
            # The host closed its input, so only its position shows that it is incomplete.
            self._sequencer.cut(len(content) - 1)
        self.finish()
