"""Holds answers against the shapes in `shapes/`: what each API's documentation says, restated in a small language.

A shape maps names of fields to types; a field whose name ends in `~` may be absent, and fields that are not named are allowed.
A type is `text`, `json` (a text that is JSON), `plain` (a text of letters, digits, `_` and `-`), `whole`, `number`, `flag`,
`object`, `null`, `nothing`, the name of a shape, `=word`, a list of a type, a mapping, or several of these with `|` between.
"""

import json
import re
from functools import cache
from pathlib import Path

import yaml

_FOLDER = Path(__file__).parent / "shapes"
_PLAIN = re.compile(r"[a-zA-Z0-9_-]+").fullmatch


def _is_json(value: object) -> bool:
    try:
        json.loads(value)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        return False
    return True


_PLAIN_TYPES = {
    "text": lambda value: isinstance(value, str),
    "json": lambda value: isinstance(value, str) and _is_json(value),
    "plain": lambda value: isinstance(value, str) and _PLAIN(value) is not None,
    "whole": lambda value: isinstance(value, int) and not isinstance(value, bool) and value >= 0,
    "number": lambda value: isinstance(value, int | float) and not isinstance(value, bool),
    "flag": lambda value: isinstance(value, bool),
    "object": lambda value: isinstance(value, dict),
    "null": lambda value: value is None,
    "nothing": lambda value: False,
}


@cache
def shapes_of(dialect: str) -> dict:
    """The shapes of one dialect, by name."""
    return yaml.safe_load((_FOLDER / f"{dialect}.yaml").read_text())


def find_faults(dialect: str, shape: object, value: object, path: str = "$") -> list[str]:
    """Where a value differs from a shape; nothing where it fits."""
    shapes = shapes_of(dialect)
    match shape:
        case dict():
            return _find_in_object(dialect, shape, value, path)
        case [inner]:
            if not isinstance(value, list):
                return [f"{path}: not a list but {value!r:.80}"]
            return [
                fault for index, each in enumerate(value) for fault in find_faults(dialect, inner, each, f"{path}[{index}]")
            ]
        case str() if "|" in shape:
            return _find_in_any(dialect, [option.strip() for option in shape.split("|")], value, path)
        case str() if shape.startswith("="):
            return [] if value == shape[1:] else [f"{path}: {value!r:.80} is not {shape[1:]!r}"]
        case str() if shape in _PLAIN_TYPES:
            return [] if _PLAIN_TYPES[shape](value) else [f"{path}: {value!r:.80} is not {shape}"]
        case None:
            return find_faults(dialect, "null", value, path)
        case str() if shape in shapes:
            return find_faults(dialect, shapes[shape], value, path)
    raise ValueError(f"no shape {shape!r} in {dialect}")


def _find_in_object(dialect: str, fields: dict, value: object, path: str) -> list[str]:
    if not isinstance(value, dict):
        return [f"{path}: not an object but {value!r:.80}"]
    faults = []
    for name, shape in fields.items():
        field = name.removesuffix("~")
        if field in value:
            faults += find_faults(dialect, shape, value[field], f"{path}.{field}")
        elif not name.endswith("~"):
            faults.append(f"{path}.{field}: missing")
    return faults


def _find_in_any(dialect: str, options: list[str], value: object, path: str) -> list[str]:
    """The faults of the option that the value's own `type` names, or of all where it names none."""
    kind = value.get("type") if isinstance(value, dict) else None
    faults = []
    for option in options:
        found = find_faults(dialect, option, value, path)
        if not found:
            return []
        if kind is not None and not any(fault.startswith((f"{path}: ", f"{path}.type: ")) for fault in found):
            return found
        faults += found
    return faults
