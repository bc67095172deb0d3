"""Tools on offer, and the smallest values that fit a schema."""

import pytest

from router.dialects.tools import OfferedTool, minimal_instance, offered_tools, wanted_schema

SCHEMA = {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]}


@pytest.mark.parametrize(
    "tool",
    [
        {"type": "function", "function": {"name": "ls", "parameters": SCHEMA}},
        {"type": "function", "name": "ls", "parameters": SCHEMA},
        {"name": "ls", "input_schema": SCHEMA},
    ],
)
def test_a_function_is_found_however_its_dialect_writes_it(tool):
    assert offered_tools({"tools": [tool]}) == [OfferedTool("ls", SCHEMA)]


@pytest.mark.parametrize(
    "tool", [{"type": "web_search", "name": "w", "parameters": {}}, {"name": "x"}, {"parameters": SCHEMA}, 7]
)
def test_what_cannot_be_called_as_a_function_is_not_offered(tool):
    assert offered_tools({"tools": [tool]}) == []


@pytest.mark.parametrize(
    "body",
    [
        {"response_format": {"type": "json_schema", "json_schema": {"schema": SCHEMA}}},
        {"text": {"format": {"type": "json_schema", "schema": SCHEMA}}},
        {"output_config": {"format": {"type": "json_schema", "schema": SCHEMA}}},
    ],
)
def test_the_schema_of_an_answer_is_found_in_every_dialect(body):
    assert wanted_schema(body) == SCHEMA


def test_a_request_without_a_schema_wants_none():
    assert wanted_schema({"response_format": {"type": "json_object"}}) is None


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        (SCHEMA, {"path": "."}),
        ({"const": 5}, 5),
        ({"enum": ["a", "b"]}, "a"),
        ({"anyOf": [{"type": "integer", "minimum": 3}, {"type": "string"}]}, 3),
        ({"type": ["null", "boolean"]}, False),
        ({"type": "array", "items": {"type": "number"}, "minItems": 1}, [1]),
        ({"type": "array"}, []),
        ({"type": "null"}, None),
        ({"properties": {"a": {}}, "required": ["a"]}, {"a": "simulated"}),
    ],
)
def test_a_value_is_the_smallest_that_fits(schema, value):
    assert minimal_instance(schema) == value


def test_a_schema_that_nests_without_end_comes_to_one():
    schema: dict = {"type": "object", "required": ["a"]}
    schema["properties"] = {"a": schema}

    assert "'a': {}" in str(minimal_instance(schema))
