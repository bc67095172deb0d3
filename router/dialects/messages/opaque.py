"""The hidden state of Messages: thinking blocks with their signatures."""

from collections.abc import Callable, Iterator

from router.contract.request import Json, JsonObject
from router.dialects.fields import as_object, as_text, fingerprint
from router.dialects.translate.envelope import is_wrapped

_THINKING = frozenset({"thinking", "redacted_thinking"})


def opaque_keys(message: JsonObject) -> Iterator[str]:
    """The keys of the hidden state in one message."""
    if message.get("role") == "assistant" and isinstance(content := message.get("content"), list):
        yield from (_block_key(block) for block in map(as_object, content) if as_text(block.get("type")) in _THINKING)


def _block_key(block: JsonObject) -> str:
    return fingerprint(as_text(block.get("signature")) or as_text(block.get("data")) or as_text(block.get("thinking")))


def without_opaque(messages: list[Json], goes: Callable[[str], bool]) -> list[Json]:
    """The messages without the blocks whose key says so, and without those that held nothing else."""

    def stays(block: JsonObject) -> bool:
        return as_text(block.get("type")) not in _THINKING or not goes(_block_key(block))

    kept = (_with_blocks(item, stays) if as_object(item).get("role") == "assistant" else item for item in messages)
    return [item for item in kept if item is not None]


def without_wrapped(messages: list[Json]) -> list[Json]:
    """The messages without thinking that a bridge wrapped, and without those that held nothing else."""
    kept = (_with_blocks(item, lambda block: not is_wrapped(as_text(block.get("signature")))) for item in messages)
    return [item for item in kept if item is not None]


def _with_blocks(message: Json, stays: Callable[[JsonObject], bool]) -> Json:
    """A message with some of its blocks; None when none is left, since an empty one is refused."""
    content = as_object(message).get("content")
    if not isinstance(content, list):
        return message
    kept = [block for block in content if stays(as_object(block))]
    if len(kept) == len(content):
        return message
    return {**as_object(message), "content": kept} if kept else None
