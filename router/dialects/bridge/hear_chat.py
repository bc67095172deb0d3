"""A target's chat answer → composer."""

from router.contract.request import JsonObject
from router.dialects.bridge.hearing import CallBook, End, Failure, read_failure
from router.dialects.bridge.seal import seal
from router.dialects.chat import read_usage
from router.dialects.compose.parts import Composer, Finish
from router.dialects.fields import as_list, as_object, as_text

_FINISHES = {
    "length": Finish.LENGTH,
    "tool_calls": Finish.TOOLS,
    "function_call": Finish.TOOLS,
    "content_filter": Finish.FILTER,
}


class ChatHearing:
    """Calls are told apart by their index. Reasoning has two spellings, and is nobody's state here."""

    def __init__(self, composer: Composer, target: str) -> None:
        self._composer, self._target = composer, target
        self._calls = CallBook(composer)
        self._end = End()
        self._thoughts: list[str] = []
        self._next_call = 0
        self._keys: dict[int, tuple[int, str]] = {}
        self.is_complete = False
        self.failure: Failure | None = None

    def hear(self, event: JsonObject) -> bytes:
        if event.get("error"):
            self.failure = read_failure(event["error"])
            return b""
        usage = event.get("usage")
        if usage:
            self._end.usage = read_usage(usage)
        choices = event.get("choices")
        if not isinstance(choices, list) or not choices:
            return b""
        choice = choices[0]
        if not isinstance(choice, dict):
            return b""
        frames = self._hear_message(as_object(choice.get("delta")))
        finish = choice.get("finish_reason")
        if finish == "error":
            self.failure = read_failure(event.get("error") or choice.get("error"))
        elif isinstance(finish, str):
            self._end.finish = _FINISHES.get(finish, Finish.STOP)
        return frames

    def _hear_message(self, message: JsonObject) -> bytes:
        """A delta, or a whole message: they have the same fields."""
        content = message.get("content")
        frames = b""
        thought = message.get("reasoning_content") or message.get("reasoning")
        if isinstance(thought, str) and thought:
            self._thoughts.append(thought)
            frames += self._composer.reasoning(thought)
        if content and isinstance(content, str):
            frames += self._end_thought() + self._composer.text(content)
        refusal = message.get("refusal")
        if isinstance(refusal, str) and refusal:
            frames += self._end_thought() + self._composer.refusal(refusal)
        calls = message.get("tool_calls")
        if calls:
            frames += self._end_thought()
            for call in as_list(calls):
                frames += self._hear_call(as_object(call))
        return frames

    def _end_thought(self) -> bytes:
        if not self._thoughts:
            return b""
        text, self._thoughts = "".join(self._thoughts), []
        return self._composer.seal(seal(self._target, {"reasoning_content": text}))

    def _hear_call(self, call: JsonObject) -> bytes:
        function = as_object(call.get("function"))
        name, call_id = as_text(function.get("name")), as_text(call.get("id"))
        given = call.get("index")
        index = given if isinstance(given, int) else self._next_call - (0 if name else 1)
        frames = b""
        if name and self._is_new(index, call_id):
            self._next_call += 1
            call_id = call_id or f"call_{self._target}_{self._next_call}"
            self._keys[index] = (self._next_call, call_id)
            frames = self._calls.begin(self._next_call, call_id, name)
        if index not in self._keys:
            return frames
        return frames + self._calls.arguments(self._keys[index][0], as_text(function.get("arguments")))

    def _is_new(self, index: int, call_id: str) -> bool:
        """Whether a named piece begins a call: some hosts give all calls one index, others each piece of one a new id."""
        if index not in self._keys:
            return True
        key, known = self._keys[index]
        return bool(call_id) and call_id != known and self._calls.knows(key) and self._calls.is_whole(key)

    def finish(self) -> bytes:
        if self._end.finish is None or self.failure is not None:
            return b""
        self.is_complete = True
        return self._end_thought() + self._calls.end() + self._composer.close(self._end.finish, self._end.usage)

    def hear_whole(self, body: JsonObject) -> None:
        choices = as_list(body.get("choices"))
        if not choices:
            raise ValueError("an answer without choices")
        choice = as_object(choices[0])
        self._hear_message(as_object(choice.get("message")))
        self._end.finish = _FINISHES.get(as_text(choice.get("finish_reason")), Finish.STOP)
        self._end.usage = read_usage(body.get("usage"))
        self.finish()
