"""The legacy text completions endpoint. Everything not defined here is chat's."""

from collections.abc import Callable, Iterator

from msgspec.structs import replace

from router.contract.errors import BadRequest
from router.contract.request import Conversation, History, Json, JsonObject, Message
from router.contract.words import Dialect, Feature, Operation
from router.dialects.chat.spec import CHAT
from router.dialects.fields import Reading, as_text
from router.dialects.spec import NOTHING_SILENT, later

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
    composer=later("router.dialects.completions_answer", "CompletionsComposer"),
    closing=None,
    translation=None,
)
