"""Values that fit a JSON schema."""

import pytest

from adapters.simulated_schema import fitting_value
from tests.tools.work import count_calls

jsonschema = pytest.importorskip("jsonschema", reason="comes with the extra litellm")
Draft202012Validator = jsonschema.Draft202012Validator
PATH = {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]}


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        (PATH, {"path": "."}),
        ({"const": 5}, 5),
        ({"enum": ["a", "b"]}, "a"),
        ({"anyOf": [{"type": "integer", "minimum": 3}, {"type": "string"}]}, 3),
        ({"type": ["null", "boolean"]}, False),
        ({"type": "array", "items": {"type": "number"}, "minItems": 1}, [1]),
        ({"type": "array"}, []),
        ({"type": "null"}, None),
        ({"properties": {"a": {}}, "required": ["a"]}, {"a": "simulated"}),
        ({"properties": {"a": {"type": "integer"}}}, {"a": 1}),
    ],
)
def test_a_value_is_a_small_one(schema, value):
    assert fitting_value(schema) == value


NODE = {
    "type": "object",
    "properties": {"value": {"type": "integer"}, "next": {"anyOf": [{"$ref": "#/$defs/node"}, {"type": "null"}]}},
    "required": ["value", "next"],
    "additionalProperties": False,
}


def test_a_value_fits_its_schema(subtests):
    for schema in [
        {"$ref": "#/$defs/p", "$defs": {"p": PATH}},
        {"$ref": "#/definitions/a~1b", "definitions": {"a/b": PATH}},
        {"$ref": "#/$defs/node", "$defs": {"node": NODE}},
        {"allOf": [PATH, {"required": ["size"], "properties": {"size": {"type": "integer", "minimum": 7}}}]},
        {"oneOf": [{"type": "null"}, {"type": "string", "minLength": 20}]},
        {"type": "object", "anyOf": [{"required": ["a"]}], "properties": {"a": {"type": "boolean"}}},
        {"type": "integer", "minimum": 10, "maximum": 10},
        {"type": "integer", "exclusiveMinimum": 10, "multipleOf": 4},
        {"type": "integer", "maximum": -3},
        {"type": "number", "exclusiveMinimum": 0, "exclusiveMaximum": 1},
        {"type": "number", "minimum": 0.25, "maximum": 0.5},
        {"type": "number", "multipleOf": 0.5, "minimum": 1.2},
        {"type": "string", "maxLength": 3},
        {"type": "string", "minLength": 30, "maxLength": 40},
        {"type": "string", "pattern": "^[A-Z]{2}[0-9]+$"},
        {"type": "array", "minItems": 3, "uniqueItems": True, "items": {"type": "string"}},
        {"type": "array", "minItems": 3, "uniqueItems": True, "items": {"enum": ["x", "y", "z"]}},
        {"type": "array", "minItems": 4, "uniqueItems": True, "items": {"type": "integer", "multipleOf": 5}},
        {"type": "array", "prefixItems": [{"type": "string"}, {"type": "integer"}], "items": False, "minItems": 2},
        {"type": "array", "contains": {"const": 4}},
        {"type": "object", "minProperties": 2, "additionalProperties": {"type": "integer"}},
        {"minimum": 3},
        {"items": {"type": "string"}, "minItems": 1},
        {
            "type": "object",
            "properties": {"tags": {"type": "array", "items": {"$ref": "#/$defs/t"}, "minItems": 2}},
            "required": ["tags"],
            "$defs": {"t": {"type": "string", "enum": ["p", "q"]}},
        },
        True,
        {},
    ]:
        with subtests.test(schema=schema):
            Draft202012Validator(schema).validate(fitting_value(schema))


@pytest.mark.parametrize(
    "text", ["date-time", "date", "time", "email", "hostname", "ipv4", "ipv6", "uri", "uuid", "duration", "unheard-of"]
)
def test_a_text_has_the_format_that_is_wanted(text):
    value = fitting_value({"type": "string", "format": text})

    Draft202012Validator({"format": text}, format_checker=Draft202012Validator.FORMAT_CHECKER).validate(value)


def endless() -> dict:
    schema: dict = {"type": "object", "required": ["a"]}
    schema["properties"] = {"a": schema}
    return schema


WIDE = [f"name{number}" for number in range(1_000)]


@pytest.mark.parametrize("schema", [
    endless(),
    {"$ref": "#"},
    {"type": "object", "required": WIDE, "additionalProperties": {"$ref": "#"}},
    {"type": "array", "minItems": 10**9, "items": {"$ref": "#"}},
    {"type": "string", "minLength": 10**12},
    {"type": "integer", "minimum": 10**400},
    {"type": "number", "minimum": float("inf"), "multipleOf": 1e-300},
    {"$ref": 7, "allOf": "x", "properties": [], "required": {}, "type": 5},
    {"anyOf": [5, None], "enum": {}},
], ids=lambda schema: repr(schema)[:40])  # fmt: skip
def test_a_hostile_schema_costs_little(schema):
    assert count_calls(lambda: fitting_value(schema)) < 1_000_000
