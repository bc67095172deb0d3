"""What a request asks of a simulated model, in every dialect."""

import pytest

from adapters.simulated_request import (
    OfferedTool,
    find_orphan,
    lacks,
    offered_tools,
    read_choice,
    read_stops,
    wanted_schema,
    wants_json,
)
from router.dialects.composer import Shape

SCHEMA = {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]}
LS = {"type": "function", "name": "ls", "parameters": SCHEMA}
PING = {"type": "function", "name": "ping"}
EXEC = OfferedTool("exec", is_custom=True)


@pytest.mark.parametrize(("tool", "found"), [
    ({"type": "function", "function": {"name": "ls", "parameters": SCHEMA}}, OfferedTool("ls", SCHEMA)),
    (LS, OfferedTool("ls", SCHEMA)),
    ({"name": "ls", "input_schema": SCHEMA}, OfferedTool("ls", SCHEMA)),
    ({"type": "custom", "name": "ls", "input_schema": SCHEMA}, OfferedTool("ls", SCHEMA)),
    ({"type": "function", "function": {"name": "ping"}}, OfferedTool("ping")),
    ({"type": "function", "name": "ping", "parameters": None}, OfferedTool("ping")),
    ({"name": "ping", "input_schema": {}}, OfferedTool("ping")),
    ({"type": "custom", "custom": {"name": "exec", "format": {"type": "text"}}}, EXEC),
    ({"type": "custom", "name": "exec"}, EXEC),
    ({"type": "custom", "name": "exec", "format": {"type": "grammar", "syntax": "lark", "definition": "start: A"}}, EXEC),
])  # fmt: skip
def test_a_function_or_a_free_form_tool_is_found_however_its_dialect_writes_it(tool, found):
    assert offered_tools({"tools": [tool]}) == [found]


def test_a_free_form_tool_is_told_as_one():
    assert EXEC.shape == Shape("exec", is_custom=True)


@pytest.mark.parametrize(
    "given",
    [
        {"type": "custom", "name": "exec", "format": {"type": "grammar", "syntax": "regex", "definition": "^a+$"}},
        {"type": "custom", "custom": {"name": "exec", "format": {"grammar": {"syntax": "regex", "definition": "^a+$"}}}},
    ],
)
def test_a_free_form_tool_may_have_a_pattern(given):
    assert offered_tools({"tools": [given]})[0].input_pattern == "^a+$"


def test_tools_within_a_namespace_are_offered_with_it():
    (found,) = offered_tools({"tools": [{"type": "namespace", "name": "files", "tools": [LS]}]})

    assert (found.name, found.shape.namespace) == ("ls", "files")


@pytest.mark.parametrize(
    "tool", [{"type": "web_search", "name": "w", "parameters": {}}, {"name": "x"}, {"parameters": SCHEMA}, 7]
)
def test_what_cannot_be_called_as_a_function_is_not_offered(tool):
    assert offered_tools({"tools": [tool]}) == []


def test_a_choice_leaves_some_tools_and_may_force_one(subtests):
    for choice, names, is_forced in [
        (None, ["ls", "ping"], False),
        ("auto", ["ls", "ping"], False),
        ({"type": "auto"}, ["ls", "ping"], False),
        ("none", [], False),
        ({"type": "none"}, [], False),
        ("required", ["ls", "ping"], True),
        ({"type": "any"}, ["ls", "ping"], True),
        ({"type": "function", "function": {"name": "ping"}}, ["ping"], True),
        ({"type": "function", "name": "ping"}, ["ping"], True),
        ({"type": "custom", "custom": {"name": "ping"}}, ["ping"], True),
        ({"type": "tool", "name": "ping"}, ["ping"], True),
        ({"type": "tool", "name": "nobody"}, [], True),
        ({"type": "allowed_tools", "mode": "auto", "tools": [{"name": "ping"}]}, ["ping"], False),
        ({"type": "allowed_tools", "allowed_tools": {"mode": "required", "tools": [PING]}}, ["ping"], True),
        ("nonsense", ["ls", "ping"], False),
    ]:
        with subtests.test(choice=choice, names=names, is_forced=is_forced):
            found = read_choice({"tools": [LS, PING], "tool_choice": choice})

            assert ([tool.name for tool in found.tools], found.is_forced) == (names, is_forced)


@pytest.mark.parametrize(
    "body",
    [
        {"response_format": {"type": "json_schema", "json_schema": {"schema": SCHEMA}}},
        {"text": {"format": {"type": "json_schema", "schema": SCHEMA}}},
        {"output_config": {"format": {"type": "json_schema", "schema": SCHEMA}}},
        {"output_format": {"type": "json_schema", "schema": SCHEMA}},
    ],
)
def test_the_schema_of_an_answer_is_found_in_every_dialect(body):
    assert wanted_schema(body) == SCHEMA


@pytest.mark.parametrize("body", [{"response_format": {"type": "json_object"}}, {"text": {"format": {"type": "json_object"}}}])
def test_json_may_be_wanted_without_a_schema(body):
    assert wanted_schema(body) is None
    assert wants_json(body)


def test_words_are_wanted_by_default():
    assert not wants_json({"text": {"format": {"type": "text"}}, "response_format": {"type": "text"}})


@pytest.mark.parametrize(
    ("body", "stops"),
    [
        ({"stop": "a"}, ("a",)),
        ({"stop": ["a", "", 5, "b"]}, ("a", "b")),
        ({"stop_sequences": ["a"]}, ("a",)),
        ({"stop": None}, ()),
        ({}, ()),
    ],
)
def test_stops_are_read_in_every_dialect(body, stops):
    assert read_stops(body) == stops


@pytest.mark.parametrize(
    ("body", "named"),
    [
        ({"n": 2}, "n"),
        ({"logprobs": True}, "logprobs"),
        ({"top_logprobs": 3}, "logprobs"),
        ({"include": ["message.output_text.logprobs"]}, "logprobs"),
    ],
)
def test_what_only_a_model_has_is_named(body, named):
    assert lacks(body).startswith(f"{named}: ")


@pytest.mark.parametrize("body", [{}, {"n": 1}, {"logprobs": False}, {"include": ["reasoning.encrypted_content"]}])
def test_what_a_client_sends_by_default_lacks_nothing(body):
    assert lacks(body) is None


def test_an_output_without_its_call_is_found():
    call, output = {"type": "function_call", "call_id": "call_1"}, {"type": "function_call_output", "call_id": "call_1"}

    assert find_orphan({"input": [call, output, output]}) == ""
    assert find_orphan({"input": [output, call]}) == "call_1"
    assert find_orphan({"input": "words"}) == ""
