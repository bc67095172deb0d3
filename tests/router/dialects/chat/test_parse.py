"""How chat hosts really answer: calls announced early or under one number, parts for texts, ends that are none."""

import json
import re

import orjson
import pytest

from tests.tools.bridging import CALLERS_OF_CHAT, CHAT, MESSAGES, RESPONSES, answer_to, call, calls_of, chunk, heard


@pytest.mark.parametrize("caller", CALLERS_OF_CHAT)
@pytest.mark.parametrize("index", [0, None])
def test_calls_that_all_carry_the_same_index_are_told_apart_by_their_ids(caller, index):
    events = heard(
        caller,
        CHAT,
        call(index, "a", "f", '{"x":1}'),
        call(index, "b", "g", "{"),
        call(index, arguments="}"),
        chunk(finish="stop"),
    )

    assert calls_of(events) == [("a", "f", '{"x":1}'), ("b", "g", "{}")]


def test_a_name_that_is_repeated_with_every_piece_is_one_call():
    events = heard(MESSAGES, CHAT, call(0, "a", "f", '{"x"'), call(0, "a", "f", ":1}"), call(0, "a", "f"), chunk(finish="stop"))

    assert calls_of(events) == [("a", "f", '{"x":1}')]


@pytest.mark.parametrize("reason", ["error", "abort", "insufficient_system_resource"])
def test_an_end_that_means_failure_is_one_streamed_or_whole(reason):
    events = heard(RESPONSES, CHAT, chunk({"content": "half"}), chunk(finish=reason), b"data: [DONE]\n\n")

    assert events[-1]["type"] == "response.failed"
    with pytest.raises(ValueError, match="failed"):
        answer_to(RESPONSES, CHAT).whole(
            json.dumps({"choices": [{"message": {"content": "half"}, "finish_reason": reason}]}).encode()
        )


def test_an_empty_finish_reason_is_no_end():
    events = heard(RESPONSES, CHAT, chunk({"content": "half"}, finish=""))

    assert events[-1]["type"] == "response.output_text.delta"


def test_a_chat_answer_in_parts_and_with_arguments_as_an_object_is_read():
    message = {
        "content": [{"type": "text", "text": "hi"}],
        "tool_calls": [{"id": "a", "function": {"name": "f", "arguments": {"x": 1}}}],
    }

    told = json.loads(
        answer_to(MESSAGES, CHAT).whole(orjson.dumps({"choices": [{"message": message, "finish_reason": "tool_calls"}]}))
    )

    assert told["content"] == [{"type": "text", "text": "hi"}, {"type": "tool_use", "id": "a", "name": "f", "input": {"x": 1}}]


def test_made_up_ids_differ_between_answers_and_odd_ids_become_plain():
    nameless = {"choices": [{"message": {"tool_calls": [{"function": {"name": "f"}}]}, "finish_reason": "tool_calls"}]}
    odd = {"choices": [{"message": {"tool_calls": [{"id": "functions.f:0", "function": {"name": "f"}}]}}]}

    made = json.loads(answer_to(RESPONSES, CHAT).whole(orjson.dumps(nameless)))
    plain = json.loads(answer_to(MESSAGES, CHAT).whole(orjson.dumps(odd)))

    assert made["id"].removeprefix("resp_") in made["output"][0]["call_id"]
    assert re.fullmatch("functions_f_0_[0-9a-f]{16}", plain["content"][0]["id"])
