"""What a simulated model says to a request."""

import json

import pytest

from adapters.simulated_answer import SimulatedAnswer, write_answer
from router.contract.words import Dialect, Tier
from router.dialects.composer import Finish
from tests.tools.values import ask, make_view

SCHEMA = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
AS_SCHEMA = {"type": "json_schema", "json_schema": {"name": "x", "schema": SCHEMA}}


def tool(name: str, **fields: object) -> dict:
    return {"type": "function", "function": {"name": name, **fields}}


def answer_to(words: str = "hello", **body: object) -> SimulatedAnswer:
    return write_answer(ask(words, **body), Tier.FAST, 40)


def called(answer: SimulatedAnswer) -> list[str]:
    return [call.name for call in answer.calls]


def test_the_pieces_are_the_text_however_it_ends():
    text = "".join(answer_to(stop="no model").pieces)

    assert text.endswith("simulated fast tier: ")


def test_words_are_as_long_as_they_are_told_to_be():
    assert 40 <= answer_to().tokens <= 60


def test_json_is_given_where_it_is_wanted_and_fits_the_schema_if_there_is_one():
    anything = json.loads("".join(answer_to(response_format={"type": "json_object"}).pieces))

    assert "simulated" in anything["answer"]
    assert json.loads("".join(answer_to(response_format=AS_SCHEMA).pieces)) == {"n": 1}


def test_a_command_that_is_called_unasked_is_a_harmless_one():
    parameters = {"type": "object", "properties": {"command": {"type": "string"}}, "required": ["command"]}

    (call,) = answer_to(tools=[tool("delete_all"), tool("bash", parameters=parameters)]).calls
    (plain,) = answer_to(tools=[tool("get_time")]).calls

    assert (call.name, call.arguments) == ("bash", '{"command":"ls"}')
    assert (plain.name, plain.arguments) == ("get_time", "{}")


@pytest.mark.parametrize(
    ("words", "is_called"),
    [
        ("Use the code_exec tool to print hello", True),
        ("call code_exec", True),
        ("please run code_exec for me", True),
        ("what does the code_exec function do", True),
        ("code_exec", False),
        ("use code_exec_2", False),
        ("hello", False),
    ],
)
def test_a_tool_is_called_when_it_is_asked_for_by_name(words, is_called):
    assert called(answer_to(words, tools=[tool("code_exec")])) == (["code_exec"] if is_called else [])


def test_an_everyday_word_is_no_wish_for_the_tool_of_that_name():
    assert called(answer_to("write a test and edit the docs", tools=[tool("write"), tool("edit"), tool("delete_all")])) == []


@pytest.mark.parametrize("choice", ["required", {"type": "function", "function": {"name": "delete_all"}}])
def test_a_forced_tool_is_called_without_a_word(choice):
    answer = answer_to(tools=[tool("delete_all")], tool_choice=choice)

    assert (called(answer), answer.pieces) == (["delete_all"], [])


def test_a_tool_that_is_forced_is_called_again_after_a_result_and_others_are_not():
    messages = [
        {"role": "user", "content": "x"},
        {"role": "assistant", "tool_calls": [{"id": "c", "type": "function", "function": {"name": "ls", "arguments": "{}"}}]},
        {"role": "tool", "tool_call_id": "c", "content": "README"},
    ]

    def after_result(**body: object) -> list[str]:
        return called(write_answer(make_view({"messages": messages, "tools": [tool("ls")], **body}), Tier.FAST, 40))

    assert after_result() == []
    assert after_result(tool_choice="required") == ["ls"]


def test_a_forced_tool_that_is_not_there_is_not_called():
    assert called(answer_to(tools=[tool("ls")], tool_choice={"type": "function", "function": {"name": "nobody"}})) == []


@pytest.mark.parametrize("choice", ["auto", "required"])
def test_a_tool_beside_a_schema_is_called_first_and_then_the_schema_is_fitted(choice):
    first = answer_to(tools=[tool("get_n")], response_format=AS_SCHEMA, tool_choice=choice)
    without = answer_to(tools=[tool("delete_all")], response_format=AS_SCHEMA)

    assert (called(first), first.pieces) == (["get_n"], [])
    assert json.loads("".join(without.pieces)) == {"n": 1}


def test_a_free_form_tool_is_called_unasked_only_where_no_other_kind_is_offered():
    patch = {"type": "custom", "custom": {"name": "apply_patch"}}

    assert called(answer_to("change the greeting", tools=[patch])) == ["apply_patch"]
    assert called(answer_to("change the greeting", tools=[patch, tool("delete_all")])) == []


def test_a_free_form_tool_gets_a_text_that_matches_its_pattern():
    grammar = {"type": "grammar", "syntax": "regex", "definition": "^[0-9]{3}$"}
    view = make_view(
        {"input": "x", "tools": [{"type": "custom", "name": "dial", "format": grammar}], "tool_choice": "required"},
        Dialect.RESPONSES,
    )

    answer = write_answer(view, Tier.FAST, 40)

    assert [call.arguments for call in answer.calls] == ["000"]
    assert answer.shapes["dial"].is_custom


@pytest.mark.parametrize("limit", [1, 8, 17])
def test_an_answer_is_no_longer_than_the_request_allows(limit):
    answer = answer_to(max_tokens=limit)

    assert (answer.tokens, len(answer.pieces), answer.finish) == (limit, limit, Finish.LENGTH)


def test_a_call_that_does_not_fit_is_not_made():
    answer = answer_to(tools=[tool("get_time")], tool_choice="required", max_tokens=5)

    assert (answer.calls, answer.finish) == ([], Finish.LENGTH)


def test_an_answer_that_fits_ends_by_itself():
    assert answer_to(max_tokens=5_000).finish is Finish.STOP


def test_the_first_stop_in_the_text_ends_it_before_any_call():
    answer = answer_to(stop=["first", "simulated", "nowhere"], tools=[tool("get_time")])

    assert "".join(answer.pieces) == "This is Tandem's "
    assert (answer.calls, answer.stopped_by, answer.finish) == ([], "simulated", Finish.STOP)


def test_a_system_message_behind_all_others_neither_asks_for_a_tool_nor_hides_a_result():
    listing = {"role": "system", "content": "Agent types for the Agent tool: use the Agent tool for research."}
    asked = {"role": "user", "content": "hello"}
    result = [
        {"role": "assistant", "tool_calls": [{"id": "c", "type": "function", "function": {"name": "now", "arguments": "{}"}}]},
        {"role": "tool", "tool_call_id": "c", "content": "noon"},
    ]
    tools = [tool("Agent", parameters={"type": "object", "properties": {"prompt": {"type": "string"}}, "required": ["prompt"]})]

    first = write_answer(make_view({"messages": [asked, listing], "tools": tools}), Tier.FAST, 40)
    again = write_answer(make_view({"messages": [asked, *result, listing], "tools": [*tools, tool("now")]}), Tier.FAST, 40)

    assert (called(first), called(again)) == ([], [])
