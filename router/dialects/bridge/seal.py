"""Hidden reasoning, carried by the caller: a target's own state, wrapped so that only that target ever gets it back.

Encrypted content, thinking blocks and signatures belong to the target that made them. A caller of another dialect cannot hold
them as they are, but it returns what it got: so they travel inside the place that its own dialect has for such state.
"""

import base64
import binascii

import orjson

from router.contract.request import JsonObject

_MARK = "tandem~"


def seal(target: str, state: JsonObject) -> str:
    """Wrap a target's state."""
    return f"{_MARK}{target}~{base64.b64encode(orjson.dumps(state)).decode()}"


def is_sealed(text: str) -> bool:
    """Whether a text was wrapped here."""
    return text.startswith(_MARK)


def unseal(text: str, target: str) -> JsonObject | None:
    """The state inside, if it is this target's own."""
    if not text.startswith(f"{_MARK}{target}~"):
        return None
    try:
        state = orjson.loads(base64.b64decode(text[len(_MARK) + len(target) + 1 :], validate=True))
    except (binascii.Error, orjson.JSONDecodeError):
        return None
    return state if isinstance(state, dict) else None
