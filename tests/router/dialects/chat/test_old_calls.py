"""`functions` and `function_call` over bridges, in both directions."""

import json

import pytest

from router.contract.errors import BadRequest, Misfit
from router.contract.words import Feature
from tests.tools.bridging import ASK, CHAT, MESSAGES, RESPONSES, SCHEMA, answer_to, crossed, heard
from tests.tools.speech import Speech, ToolCall, write_stream, write_whole
from tests.tools.values import make_view

FUNCTION = {"name": "look", "description": "Looks.", "parameters": SCHEMA}
OTHERS = pytest.mark.parametrize("target", [RESPONSES, MESSAGES])


def asked(**more) -> dict:
    return {"messages": ASK, "functions": [FUNCTION], **more}


@OTHERS
def test_functions_are_offered_as_tools_and_one_call_is_asked_for(target):
    body, dropped = crossed(CHAT, target, asked(function_call={"name": "look"}))

    (tool,) = body["tools"]
    assert (tool["name"], tool["description"]) == ("look", "Looks.")
    assert (tool.get("parameters") or tool["input_schema"]) == SCHEMA
    assert body["tool_choice"]["name"] == "look"
    assert body.get("parallel_tool_calls") is False or body["tool_choice"]["disable_parallel_tool_use"]
    assert dropped == ()
    assert Feature.TOOLS in make_view(asked()).needs


@OTHERS
@pytest.mark.parametrize(("given", "mode"), [("auto", "auto"), ("none", "none")])
def test_whether_a_function_is_called_at_all_is_passed_on(target, given, mode):
    body, _ = crossed(CHAT, target, asked(function_call=given))

    choice = body["tool_choice"]
    assert (choice if target is RESPONSES else choice["type"]) == mode


@pytest.mark.parametrize(
    ("choice", "error"), [("sometimes", BadRequest), (7, BadRequest), ({"name": "other"}, Misfit), ({}, BadRequest)]
)
def test_a_choice_of_nothing_that_is_known_is_refused(choice, error):
    with pytest.raises(error):
        crossed(CHAT, MESSAGES, asked(function_call=choice))


CALLED = Speech(calls=(ToolCall("call_1", "look", '{"a": "b"}'), ToolCall("call_2", "look", "{}")))


@OTHERS
def test_a_call_comes_back_in_the_old_form_and_no_second_one(target):
    answer = answer_to(CHAT, target, functions=[FUNCTION])

    body = json.loads(answer.whole(json.dumps(write_whole(target, CALLED)).encode()))

    (choice,) = body["choices"]
    assert choice["finish_reason"] == "function_call"
    assert choice["message"]["function_call"]["name"] == "look"
    assert json.loads(choice["message"]["function_call"]["arguments"]) == {"a": "b"}
    assert "tool_calls" not in choice["message"]


@OTHERS
def test_a_streamed_call_comes_back_in_the_old_form(target):
    chunks = heard(CHAT, target, *write_stream(target, CALLED), functions=[FUNCTION])

    choices = [choice for chunk in chunks for choice in chunk["choices"]]
    pieces = [choice["delta"]["function_call"] for choice in choices if "function_call" in choice["delta"]]
    assert [piece["name"] for piece in pieces if "name" in piece] == ["look"]
    assert json.loads("".join(piece["arguments"] for piece in pieces)) == {"a": "b"}
    assert choices[-1]["finish_reason"] == "function_call"
    assert not any("tool_calls" in choice["delta"] for choice in choices)


@OTHERS
def test_words_without_a_call_end_as_they_always_do(target):
    answer = answer_to(CHAT, target, functions=[FUNCTION])

    (choice,) = json.loads(answer.whole(json.dumps(write_whole(target, Speech("words"))).encode()))["choices"]

    assert (choice["finish_reason"], choice["message"]["content"]) == ("stop", "words")
    assert "function_call" not in choice["message"]


def test_a_caller_who_offers_tools_as_well_gets_the_newer_form():
    tools = [{"type": "function", "function": FUNCTION}]
    answer = answer_to(CHAT, RESPONSES, functions=[{**FUNCTION, "name": "old"}], tools=tools)

    (choice,) = json.loads(answer.whole(json.dumps(write_whole(RESPONSES, CALLED)).encode()))["choices"]

    assert choice["finish_reason"] == "tool_calls"
    assert len(choice["message"]["tool_calls"]) == 2
