"""Putting the target's model name into a body as it came, and taking out only what the target is known to refuse."""

import re

import orjson

from router.contract.request import JsonObject, RequestView
from router.contract.target import Target
from router.contract.words import Dialect, Feature

_ENCRYPTED = "reasoning.encrypted_content"
_REASONING_FIELDS: dict[Dialect, tuple[str, ...]] = {
    Dialect.CHAT: ("reasoning_effort", "reasoning"),
    Dialect.COMPLETIONS: (),
    Dialect.RESPONSES: ("reasoning",),
    Dialect.MESSAGES: ("thinking", "context_management"),
}
_MODEL = re.compile(rb'(?<!\\)"model"[ \t\r\n]*:[ \t\r\n]*("(?:[^"\\]|\\.)*")')


def replace_model(raw: bytes, body: JsonObject, model: str, changes: JsonObject) -> bytes:
    """The body with another model name, and with `changes` made (None takes a field out).

    A quote inside a JSON string is escaped, so `"model":` is always a key. If it stands there once, it is the top-level
    key that the parse has seen, and only its value is exchanged; else (a nested one, an escaped one, fields to change)
    the parsed body is written anew.
    """
    if not changes:
        found = _MODEL.finditer(raw)
        first, second = next(found, None), next(found, None)
        if first is not None and second is None:
            return raw[: first.start(1)] + orjson.dumps(model) + raw[first.end(1) :]
    merged = {**body, **changes, "model": model}
    return orjson.dumps({key: value for key, value in merged.items() if value is not None or key not in changes})


def fields_to_change(view: RequestView, target: Target) -> JsonObject:
    """Fields that this target is known to refuse, each with what it becomes; None means that it goes."""
    if Feature.REASONING not in view.needs or Feature.REASONING in target.accepts:
        return {}
    changes: JsonObject = {}
    for name in _REASONING_FIELDS[view.dialect]:
        if name in view.body:
            changes[name] = None
    output = view.body.get("output_config")
    if isinstance(output, dict) and "effort" in output:
        changes["output_config"] = {key: value for key, value in output.items() if key != "effort"} or None
    include = view.body.get("include")
    if isinstance(include, list) and _ENCRYPTED in include:
        changes["include"] = [value for value in include if value != _ENCRYPTED] or None
    return changes
