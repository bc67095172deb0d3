"""What newer versions of the Messages API refuse. It is refused here too, whoever serves: its caller's own host would."""

from router.contract.errors import BadRequest
from router.contract.request import Json, JsonObject
from router.dialects.fields import as_list, as_object

VERSION = "anthropic-version"
_STRICTER = "2026-10-21"
_GONE_FIELDS = ("temperature", "top_p", "top_k")


def refuse_dated(body: JsonObject, raw: bytes, version: str) -> None:
    """Refuse what the API version that the caller names no longer has. `raw` is the body's bytes.

    Versions are dates. What is no date (a cloud's own name for a version) is for the target to judge.
    """
    if version < _STRICTER or not version[:1].isdigit():
        return
    for name in _GONE_FIELDS:
        if body.get(name) is not None:
            raise _refusal(name, version)
    if b"document" in raw or b"citations" in raw:
        for index, message in enumerate(map(as_object, as_list(body.get("messages")))):
            _refuse_blocks(message, f"messages[{index}].content", version)


def _refuse_blocks(message: JsonObject, where: str, version: str) -> None:
    """No document directly in the assistant's messages, and no citations in texts of the user's."""
    for index, block in enumerate(map(as_object, as_list(message.get("content")))):
        place = f"{where}[{index}]"
        if message.get("role") == "assistant":
            if block.get("type") == "document":
                raise _refusal(place, version, 'a block of type "document" is ')
            continue
        _refuse_citations(block, place, version)
        if block.get("type") == "search_result":
            for inner, part in enumerate(as_list(block.get("content"))):
                _refuse_citations(part, f"{place}.content[{inner}]", version)


def _refuse_citations(block: Json, where: str, version: str) -> None:
    text = as_object(block)
    if text.get("type") == "text" and text.get("citations"):
        raise _refusal(f"{where}.citations", version)


def _refusal(where: str, version: str, what: str = "") -> BadRequest:
    words = f"{where}: {what}not permitted in {VERSION} {version[:40]}. Leave it out, or send an older version"
    return BadRequest(words, param=where)
