"""Hidden reasoning carried by the caller, wrapped so that only its target gets it back.

Callers of another dialect cannot hold it as it is, but return what they got: it travels in their dialect's field for such
state.
"""

import base64

import orjson

from router.contract.request import JsonObject
from router.dialects.fields import as_list, as_object

_MARK = "tandem~"
OUR_REASONING = "rs_tandem"
"""Id prefix of reasoning items that Tandem wrote: no target knows them."""
MARK = b"tandem"
"""In every body that holds an envelope, reasoning item or summary of ours."""
REASONING_ITEM, THINKING_BLOCK, REASONING_CONTENT = "reasoning", "thinking", "reasoning_content"
"""Kinds of state, one per target dialect."""
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
"""Prefix of our summaries: an envelope without a target, readable for all."""


def wrap(target: str, state: JsonObject) -> str:
    return f"{_MARK}{target}~{base64.b64encode(orjson.dumps(state)).decode()}"


def wrap_summary(summary: str) -> str:
    return SUMMARY_MARK + base64.b64encode(summary.encode("utf-8", "replace")).decode()


def unwrap_summary(text: str) -> str | None:
    """The summary inside; None if it was not wrapped here or is damaged."""
    if not text.startswith(SUMMARY_MARK):
        return None
    try:
        return base64.b64decode(text[len(SUMMARY_MARK) :], validate=True).decode() or None
    except ValueError:
        return None


def is_wrapped(text: str) -> bool:
    return text.startswith(_MARK)


def unwrap(text: str, target: str, kind: str) -> JsonObject | None:
    """The state inside, if it is this target's and of this kind; empty if there was none.

    Callers can forge an envelope, so only reasoning is taken from it.
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
