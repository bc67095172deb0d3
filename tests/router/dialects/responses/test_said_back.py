"""What a response repeats of its request."""

import orjson
import pytest

from router.dialects.responses.said_back import say_back
from tests.conformance.measure import find_faults

HEAD = {
    "id": "resp_1", "object": "response", "created_at": 1, "completed_at": 2, "model": "m", "status": "completed",
    "output": [], "error": None, "incomplete_details": None, "usage": None,
}  # fmt: skip
ASKED = {
    "instructions": "Be brief.", "tool_choice": {"type": "function", "name": "look"}, "parallel_tool_calls": False,
    "metadata": {"team": "blue"}, "previous_response_id": "resp_0", "temperature": 0.2, "top_p": 0.9,
    "max_output_tokens": 64, "max_tool_calls": 3, "top_logprobs": 2, "truncation": "auto", "store": False,
    "service_tier": "flex", "user": "u1", "safety_identifier": "s1", "prompt_cache_key": "k1",
}  # fmt: skip


def test_the_requests_own_values_are_said_back():
    said = say_back(ASKED)

    assert {name: said[name] for name in ASKED} == ASKED


def test_what_was_not_asked_for_has_the_apis_default():
    said = say_back({})

    assert said == {
        "background": False,
        "frequency_penalty": 0.0,
        "instructions": None,
        "max_output_tokens": None,
        "max_tool_calls": None,
        "metadata": {},
        "parallel_tool_calls": True,
        "presence_penalty": 0.0,
        "previous_response_id": None,
        "prompt_cache_key": None,
        "reasoning": {"effort": None, "summary": None},
        "safety_identifier": None,
        "service_tier": "default",
        "store": True,
        "temperature": 1.0,
        "text": {"format": {"type": "text"}, "verbosity": "medium"},
        "tool_choice": "auto",
        "tools": [],
        "top_logprobs": 0,
        "top_p": 1.0,
        "truncation": "disabled",
    }


def test_a_function_and_a_schema_have_every_field_of_their_own():
    form = {"type": "json_schema", "name": "out", "schema": {"type": "object"}}
    said = say_back({"tools": [{"type": "function", "name": "ping"}, {"type": "web_search"}], "text": {"format": form}})

    ping = {"type": "function", "name": "ping", "description": None, "parameters": None, "strict": None}
    assert said["tools"] == [ping, {"type": "web_search"}]
    assert said["text"]["format"] == {**form, "description": None, "strict": False}


def test_effort_and_its_neighbours_are_said_back():
    said = say_back({"reasoning": {"effort": "high", "context": "all_turns"}, "text": {"verbosity": "low"}})

    assert said["reasoning"] == {"effort": "high", "summary": None, "context": "all_turns"}
    assert said["text"] == {"format": {"type": "text"}, "verbosity": "low"}


def test_metadata_is_said_back_as_far_as_it_is_text():
    assert say_back({"metadata": {"team": "blue", "type": None, "size": 7}})["metadata"] == {"team": "blue"}


ODD = [7, True, "x", [], {}, [1], {"a": 1}, {"type": None}, {"type": "function"}, [{"type": "function", "name": 5}], None]


@pytest.mark.parametrize("odd", ODD)
def test_values_of_the_wrong_type_never_break_the_shape_of_a_response(odd):
    asked = {**dict.fromkeys(say_back(ASKED), odd), "text": {"format": odd}}

    assert find_faults("responses", "Answer", {**HEAD, **say_back(asked)}) == []


def test_what_cannot_be_written_is_not_said_back_and_costs_no_answer():
    deep: dict = {}
    for _ in range(253):
        deep = {"a": deep}

    said = say_back({"tools": [{"type": "web_search", "a": deep}], "instructions": "Be brief."})

    assert said == say_back({})
    assert orjson.dumps([[said]])


def test_a_tier_of_service_that_was_left_open_is_the_default_one():
    assert say_back({"service_tier": "auto"})["service_tier"] == "default"
