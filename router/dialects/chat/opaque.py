"""Chat's hidden state: reasoning that some hosts write into the assistant's messages, and read again."""

from collections.abc import Callable, Iterator

from router.contract.request import Json, JsonObject
from router.dialects.fields import as_object, fingerprint

_FIELDS = ("reasoning_content", "reasoning", "reasoning_details", "thinking_blocks")
_HIDDEN = frozenset(_FIELDS)


def opaque_keys(message: JsonObject) -> Iterator[str]:
    """The keys of the hidden state in one message."""
    if message.get("role") == "assistant" and not _HIDDEN.isdisjoint(message):
        yield from (fingerprint(str(message[name])) for name in _FIELDS if message.get(name))


def without_opaque(messages: list[Json], goes: Callable[[str], bool]) -> list[Json]:
    """The messages without the state whose key says so."""
    return [_without(item) if any(map(goes, opaque_keys(as_object(item)))) else item for item in messages]


def _without(message: Json) -> Json:
    return {name: value for name, value in as_object(message).items() if name not in _FIELDS}
