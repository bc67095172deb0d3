"""The legacy text completions endpoint. Everything not defined here is chat's."""

from collections.abc import Callable, Iterator
from dataclasses import replace

from router.contract.errors import BadRequest
from router.contract.request import Conversation, History, Json, JsonObject, Message
from router.contract.usage import Usage
from router.contract.words import Dialect, Feature, Operation
from router.dialects.chat.answer import write_failure
from router.dialects.chat.compose import chat_usage
from router.dialects.chat.spec import CHAT
from router.dialects.composer import Answer, Composer, Finish, data_frame
from router.dialects.fields import Reading, as_text
from router.dialects.spec import NOTHING_SILENT

LIMIT_FIELDS = ("max_tokens",)
_NEEDS = frozenset({Feature.TEXT, Feature.COMPLETIONS})


def read(body: JsonObject, operation: Operation, history: History | None) -> Reading:
    """The prompt is code before a cursor, not a person's words."""
    prompt = body.get("prompt")
    if not isinstance(prompt, (str, list)) or not prompt:
        raise BadRequest("prompt: missing. Send the text before the cursor", param="prompt")
    items: list[Json] = [prompt] if isinstance(prompt, str) else list(prompt)
    return Reading(Conversation(items, _read_prompt), needs=_NEEDS)


def _read_prompt(item: Json) -> Message:
    return Message("code", (as_text(item),))


def recognise(body: JsonObject) -> bool:
    return "prompt" in body and "messages" not in body


def write_example(words: str) -> JsonObject:
    return {"model": "auto", "prompt": words}


def add_instructions(body: JsonObject, text: str, changes: JsonObject) -> None:
    """Nothing to do: there is no system prompt."""


def opaque_keys(item: JsonObject) -> Iterator[str]:
    """A prompt holds no hidden state."""
    return iter(())


def without_opaque(items: list[Json], goes: Callable[[str], bool]) -> list[Json]:
    return items


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


COMPLETIONS = replace(
    CHAT,
    name=Dialect.COMPLETIONS,
    paths={Operation.CREATE: "/completions"},
    list_field="prompt",
    is_conversation=False,
    recognise=recognise,
    write_example=write_example,
    stream_fields={"stream": True},
    read=read,
    silent=NOTHING_SILENT,
    add_instructions=add_instructions,
    limit_fields=LIMIT_FIELDS,
    reasoning_fields=(),
    opaque_keys=opaque_keys,
    without_opaque=without_opaque,
    first_token_mark=b'"text"',
    composer=CompletionsComposer,
    closing=None,
    translation=None,
)
