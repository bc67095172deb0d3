"""Hidden reasoning, carried by the caller: a target's own state, wrapped so that only that target ever gets it back.

Encrypted content, thinking blocks and signatures belong to the target that made them. A caller of another dialect cannot hold
them as they are, but it returns what it got: so they travel inside the place that its own dialect has for such state.
"""

import base64

import orjson

from router.contract.request import JsonObject
from router.dialects.fields import as_list, as_object

_MARK = "tandem~"
OUR_REASONING = "rs_tandem"
"""How the id of a reasoning item begins that was written here: no target knows such an item."""
MARK = b"tandem"
"""Bytes without which a body holds no envelope, reasoning item or summary of ours."""
REASONING_ITEM, THINKING_BLOCK, REASONING_CONTENT = "reasoning", "thinking", "reasoning_content"
"""What an envelope may hold, one for each dialect of a target."""
_TYPES = {
    REASONING_ITEM: ("reasoning",),
    THINKING_BLOCK: ("thinking", "redacted_thinking"),
    REASONING_CONTENT: ("reasoning_content",),
}
_FIELDS: dict[str, dict[str, type | tuple[type, ...]]] = {
    REASONING_ITEM: {
        "type": str,
        "id": str,
        "summary": list,
        "content": (list, type(None)),
        "encrypted_content": str,
        "status": (str, type(None)),
    },
    THINKING_BLOCK: {"type": str, "thinking": str, "signature": str, "data": str},
    REASONING_CONTENT: {"reasoning_content": str, "thinking_blocks": list},
}
SUMMARY_MARK = f"{_MARK}~"
"""How a summary begins that was written here: an envelope that belongs to no target, since all may read it."""


def wrap(target: str, state: JsonObject) -> str:
    return f"{_MARK}{target}~{base64.b64encode(orjson.dumps(state)).decode()}"


def wrap_summary(summary: str) -> str:
    """Wrap a summary of ours, for the item that clients keep unread and send back."""
    return SUMMARY_MARK + base64.b64encode(summary.encode("utf-8", "replace")).decode()


def unwrap_summary(text: str) -> str | None:
    """The summary inside, if the text was wrapped here and is whole."""
    if not text.startswith(SUMMARY_MARK):
        return None
    try:
        return base64.b64decode(text[len(SUMMARY_MARK) :], validate=True).decode() or None
    except ValueError:
        return None


def is_wrapped(text: str) -> bool:
    return text.startswith(_MARK)


def unwrap(text: str, target: str, kind: str) -> JsonObject | None:
    """The state inside, if it is this target's own and of this kind. Empty when there was nothing to keep.

    A caller can write an envelope itself, so nothing but reasoning ever leaves one.
    """
    if not text.startswith(f"{_MARK}{target}~"):
        return None
    try:
        state = orjson.loads(base64.b64decode(text[len(_MARK) + len(target) + 1 :], validate=True))
    except ValueError:
        return None
    return _known_of(state, kind) if isinstance(state, dict) else None


def _known_of(state: JsonObject, kind: str) -> JsonObject | None:
    if not state:
        return {}
    known = {name: value for name, value in state.items() if isinstance(value, _FIELDS[kind].get(name, ()))}
    if "thinking_blocks" in known:
        blocks = (_known_of(block, THINKING_BLOCK) for block in map(as_object, as_list(known["thinking_blocks"])))
        known["thinking_blocks"] = [block for block in blocks if block]
    return known if known.get("type", kind) in _TYPES[kind] and known else None
