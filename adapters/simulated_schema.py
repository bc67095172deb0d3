"""Small values that fit a JSON schema, for simulated calls and JSON answers."""

import math
from collections.abc import Iterator

from adapters.simulated_pattern import ANY_TEXT, text_for
from router.contract.request import Json, JsonObject
from router.dialects.fields import as_list, as_object, as_text

_DEEPEST = 8
_MAX_VALUES = 5_000
_MAX_CHARS = 10_000
_LARGEST = 2**53
"""Bounds for hostile schemas, beyond which the value need not fit."""
_HARMLESS_TEXTS = {"command": "ls", "cmd": "ls", "path": ".", "directory": ".", "pattern": "*", "title": "Simulated title"}
_FORMATS = {
    "date-time": "2026-01-01T00:00:00Z",
    "date": "2026-01-01",
    "time": "00:00:00Z",
    "duration": "PT1S",
    "email": "simulated@example.com",
    "hostname": "example.com",
    "ipv4": "127.0.0.1",
    "ipv6": "::1",
    "uri": "https://example.com/",
    "uri-reference": "https://example.com/",
    "uuid": "00000000-0000-4000-8000-000000000000",
}
_HINTS = {
    "object": ("properties", "required", "additionalProperties", "minProperties"),
    "array": ("items", "prefixItems", "minItems"),
    "number": ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"),
}


def fitting_value(schema: JsonObject) -> Json:
    """A small value with the schema's types, required fields and bounds."""
    return _Writer(schema).write(schema, "", 0)


class _Writer:
    def __init__(self, root: JsonObject) -> None:
        self._root = root
        self._left = _MAX_VALUES

    def write(self, given: Json, name: str, depth: int) -> Json:
        self._left -= 1
        schema = self._unfold(as_object(given), depth)
        if "const" in schema:
            return schema["const"]
        if options := as_list(schema.get("enum")):
            return options[0]
        match _type_of(schema):
            case "object":
                return self._write_object(schema, depth)
            case "array":
                return self._write_array(schema, name, depth)
            case "integer" | "number" as kind:
                return _write_number(schema, whole=kind == "integer")
            case "boolean":
                return False
            case "null":
                return None
            case _:
                return _write_text(schema, name)

    def _unfold(self, schema: JsonObject, depth: int) -> JsonObject:
        """The schema with its references and `allOf` merged, and one of its alternatives."""
        for _ in range(_DEEPEST):
            parts: list[JsonObject] = []
            if "$ref" in schema:
                parts.append(self._find(as_text(schema["$ref"])))
            parts += [as_object(part) for part in as_list(schema.get("allOf"))]
            parts += [_pick(as_list(schema.get(key)), depth) for key in ("anyOf", "oneOf") if as_list(schema.get(key))]
            if not parts:
                break
            schema = {key: value for key, value in schema.items() if key not in ("$ref", "allOf", "anyOf", "oneOf")}
            for part in parts:
                schema = _join(schema, part)
        return schema

    def _find(self, reference: str) -> JsonObject:
        found: Json = self._root
        for step in reference.removeprefix("#").split("/")[1:]:
            found = as_object(found).get(step.replace("~1", "/").replace("~0", "~"))
        return as_object(found)

    def _write_object(self, schema: JsonObject, depth: int) -> Json:
        if depth >= _DEEPEST or self._left <= 0:
            return {}
        properties = as_object(schema.get("properties"))
        names = [as_text(entry) for entry in as_list(schema["required"])] if "required" in schema else list(properties)
        least = _count(schema.get("minProperties"))
        names += [name for name in properties if name not in names][: max(0, least - len(names))]
        others = schema.get("additionalProperties")
        names += [f"property_{number}" for number in range(len(names), least)]
        return {name: self.write(properties.get(name, others), name, depth + 1) for name in names if self._left > 0}

    def _write_array(self, schema: JsonObject, name: str, depth: int) -> Json:
        first, rest = as_list(schema.get("prefixItems")), as_object(schema.get("items"))
        if name in ("command", "cmd") and _type_of(rest) == "string":
            return ["ls"]
        size = max(_count(schema.get("minItems")), 1 if "contains" in schema else 0, len(first))
        rest = rest or as_object(schema.get("contains"))
        values: list[Json] = []
        for place in range(size if depth < _DEEPEST else 0):
            if self._left <= 0:
                break
            inner = as_object(first[place]) if place < len(first) else rest
            value = self.write(inner, name, depth + 1)
            values.append(_other_than(value, inner, values) if schema.get("uniqueItems") is True else value)
        return values


def _type_of(schema: JsonObject) -> str:
    kind = schema.get("type")
    if isinstance(kind, list):
        return next((as_text(entry) for entry in kind if entry != "null"), "null")
    return as_text(kind) or next((kind for kind, hints in _HINTS.items() if any(hint in schema for hint in hints)), "string")


def _pick(branches: list[Json], depth: int) -> JsonObject:
    """The first alternative that is not null; deep down null, to end recursive schemas."""
    by_null = sorted(map(as_object, branches), key=lambda branch: (branch.get("type") == "null") is (depth < _DEEPEST - 1))
    return by_null[0]


def _join(one: JsonObject, other: JsonObject) -> JsonObject:
    joined = {**one, **other}
    for key in ("properties", "$defs"):
        if key in one and key in other:
            joined[key] = {**as_object(one[key]), **as_object(other[key])}
    if "required" in one and "required" in other:
        joined["required"] = list(
            dict.fromkeys([*map(as_text, as_list(one["required"])), *map(as_text, as_list(other["required"]))])
        )
    return joined


def _other_than(value: Json, schema: JsonObject, taken: list[Json]) -> Json:
    for number in range(1, len(taken) + 2):
        if value not in taken:
            return value
        options = as_list(schema.get("enum"))
        if number < len(options):
            value = options[number]
        elif isinstance(value, bool):
            value = not value
        elif isinstance(value, (int, float)):
            value += _number(schema.get("multipleOf")) or 1
        elif isinstance(value, str):
            value = f"{value.rstrip('0123456789')}{number}"
    return value


def _write_number(schema: JsonObject, *, whole: bool) -> Json:
    """The first likely number that fits: 1, or one near a bound."""
    for value in _likely_numbers(schema):
        if _fits(value, schema, whole=whole):
            return int(value) if value == int(value) else value
    return 1


def _likely_numbers(schema: JsonObject) -> Iterator[float]:
    keys = ("minimum", "exclusiveMinimum", "maximum", "exclusiveMaximum")
    bounds = [bound for key in keys if (bound := _number(schema.get(key))) is not None]
    step = _number(schema.get("multipleOf")) or 1
    yield 1
    for bound in (0, *bounds):
        nearest = math.floor(bound / step) * step
        yield from (bound, nearest, nearest + step, nearest - step)
    yield sum(bounds) / max(1, len(bounds))


def _fits(value: float, schema: JsonObject, *, whole: bool) -> bool:
    low, high, step = (_number(schema.get(key)) for key in ("minimum", "maximum", "multipleOf"))
    over, under = _number(schema.get("exclusiveMinimum")), _number(schema.get("exclusiveMaximum"))
    return (
        (low is None or value >= low)
        and (high is None or value <= high)
        and (over is None or value > over)
        and (under is None or value < under)
        and (not step or value % step == 0)
        and (not whole or value == int(value))
    )


def _write_text(schema: JsonObject, name: str) -> str:
    least, most = _count(schema.get("minLength")), _count(schema.get("maxLength"), _MAX_CHARS)
    if pattern := as_text(schema.get("pattern")):
        return text_for(pattern, least)
    text = _FORMATS.get(as_text(schema.get("format"))) or _HARMLESS_TEXTS.get(name.lower(), ANY_TEXT)
    return (text + "." * (min(least, _MAX_CHARS) - len(text)))[:most]


def _number(value: Json) -> float | None:
    return value if isinstance(value, (int, float)) and not isinstance(value, bool) and abs(value) <= _LARGEST else None


def _count(value: Json, otherwise: int = 0) -> int:
    return min(value, _MAX_CHARS) if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else otherwise
