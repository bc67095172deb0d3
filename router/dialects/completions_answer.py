"""Writes answers of the legacy text completions endpoint."""

from router.contract.request import Json, JsonObject
from router.contract.usage import Usage
from router.dialects.chat.answer import write_failure
from router.dialects.chat.compose import chat_usage
from router.dialects.composer import Answer, Composer, Finish
from router.dialects.sse import data_frame


class CompletionsComposer(Composer):
    def __init__(self, answer: Answer) -> None:
        self._head: JsonObject = {
            "id": f"cmpl-{answer.id}",
            "object": "text_completion",
            "created": answer.created,
            "model": answer.model,
        }
        self._request_id = f"req_{answer.id}"
        self._sends_usage = answer.sends_usage
        self._texts: list[str] = []
        self._finish = "stop"
        self._usage: Usage | None = None

    def _choice(self, text: str, finish: str | None) -> Json:
        return [{"index": 0, "text": text, "logprobs": None, "finish_reason": finish}]

    def text(self, delta: str) -> bytes:
        self._texts.append(delta)
        return data_frame({**self._head, "choices": self._choice(delta, None)})

    def close(self, finish: Finish, usage: Usage | None) -> bytes:
        self._finish, self._usage = "length" if finish is Finish.LENGTH else "stop", usage
        frames = data_frame({**self._head, "choices": self._choice("", self._finish)})
        if self._sends_usage and usage is not None:
            frames += data_frame({**self._head, "choices": [], "usage": chat_usage(usage)})
        return frames + b"data: [DONE]\n\n"

    def fail(self, status: int, code: str, message: str) -> bytes:
        return write_failure(status, message, code, self._request_id)

    def whole(self) -> JsonObject:
        body: JsonObject = {**self._head, "choices": self._choice("".join(self._texts), self._finish)}
        if self._usage is not None:
            body["usage"] = chat_usage(self._usage)
        return body
