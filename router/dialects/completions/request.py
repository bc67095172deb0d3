"""Requests of the old text endpoint: code before a cursor. Nothing in them is a conversation, or hidden."""

from collections.abc import Callable, Iterator

from router.contract.errors import BadRequest
from router.contract.request import Conversation, History, Json, JsonObject, Message
from router.contract.words import Feature, Operation
from router.dialects.fields import Reading, as_text

LIMIT_FIELDS = ("max_tokens",)
_NEEDS = frozenset({Feature.TEXT, Feature.COMPLETIONS})


def read(body: JsonObject, operation: Operation, history: History | None) -> Reading:
    """Read a completion request. Its prompt is code before a cursor, not words of a person."""
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
    """Do nothing: code before a cursor has no system prompt."""


def opaque_keys(item: JsonObject) -> Iterator[str]:
    """No keys: a prompt holds no hidden state."""
    return iter(())


def without_opaque(items: list[Json], goes: Callable[[str], bool]) -> list[Json]:
    """The prompt as it is."""
    return items
