"""Responses answers as they are written here must satisfy the SDK's own types."""

import re
from dataclasses import replace

import orjson
import pytest

from router.contract.words import Dialect
from router.dialects.composer import Finish
from router.dialects.responses.answer import is_our_id
from router.dialects.responses.compose import ResponsesComposer
from router.edge.routes import new_request_id
from tests.router.dialects.answers import ANSWER, written
from tests.tools.bridging import CHAT, RESPONSES, chunk, heard

REQUIRED = set(
    """
    id object created_at completed_at status incomplete_details model previous_response_id instructions output error tools
    tool_choice truncation parallel_tool_calls text top_p presence_penalty frequency_penalty top_logprobs temperature reasoning
    usage max_output_tokens max_tool_calls store background service_tier metadata safety_identifier prompt_cache_key
    """.split()
)
ASKED = replace(ANSWER, asked={"metadata": {"team": "blue"}, "instructions": "Be brief.", "parallel_tool_calls": False})


def test_a_failure_goes_on_with_the_streams_own_id_and_numbers():
    events = heard(RESPONSES, CHAT, chunk({"content": "one"}), {"error": {"message": "boom", "code": 500}})

    assert [event["sequence_number"] for event in events] == list(range(len(events)))
    assert events[-1]["response"]["id"] == events[0]["response"]["id"]
    assert events[-1]["response"]["error"] == {"code": "server_error", "message": "boom", "reason": "500"}


def test_events_number_without_a_gap_and_finish_every_item():
    events, _ = written(ResponsesComposer)

    assert [event["sequence_number"] for event in events] == list(range(len(events)))
    kinds = [event["type"] for event in events]
    assert kinds.count("response.output_item.added") == kinds.count("response.output_item.done") == 5
    assert kinds[-1] == "response.completed"
    output = events[-1]["response"]["output"]
    assert [item["type"] for item in output] == ["reasoning", "message", "function_call", "custom_tool_call", "function_call"]
    assert output[3]["input"] == "*** Begin"
    assert (output[4]["namespace"], output[4]["name"]) == ("ns", "f")


@pytest.mark.parametrize("finish", list(Finish))
def test_every_event_fits_the_sdks_type(sdk, finish):
    adapter = sdk.events[Dialect.RESPONSES]
    events, _ = written(ResponsesComposer, finish)

    assert len(events) >= 4
    for event in events:
        adapter.validate_python(event)


def test_a_whole_answer_fits_the_sdks_type(sdk):
    whole = sdk.whole[Dialect.RESPONSES].validate_python(written(ResponsesComposer)[1])

    assert whole.output_text == "ab"
    assert whole.output[0].encrypted_content == "wrapped"


def test_a_text_that_the_limit_cut_says_so_and_one_that_was_done_before_does_not():
    composer = ResponsesComposer(ANSWER)
    frames = composer.open() + composer.text("I look.") + composer.begin_call("c", "f") + composer.arguments("{}")
    frames += composer.end_call() + composer.text("It is") + composer.close(Finish.LENGTH, None)
    whole = composer.whole()

    done = [
        event["item"]["status"]
        for event in map(orjson.loads, re.findall(rb"data: (.*)", frames))
        if event["type"] == "response.output_item.done"
    ]
    assert done == [item["status"] for item in whole["output"]] == ["completed", "completed", "incomplete"]
    assert (whole["status"], whole["output"][2]["content"][0]["text"]) == ("incomplete", "It is")


def test_a_caller_that_did_not_ask_for_hidden_reasoning_gets_its_summary_alone():
    _, whole = written(ResponsesComposer, answer=replace(ANSWER, sends_envelopes=False))

    assert whole["output"][0]["summary"] == [{"type": "summary_text", "text": "hmm"}]
    assert "encrypted_content" not in whole["output"][0]


@pytest.mark.parametrize("finish", [Finish.STOP, Finish.LENGTH])
def test_every_response_object_of_a_stream_is_whole_and_says_the_request_back(finish):
    events, whole = written(ResponsesComposer, finish, ASKED)

    found = [event["response"] for event in events if "response" in event]
    assert len(found) == 3
    for response in (*found, whole):
        assert response.keys() >= REQUIRED
        assert (response["metadata"], response["instructions"]) == ({"team": "blue"}, "Be brief.")
        assert response["parallel_tool_calls"] is False


def test_a_failed_response_and_a_sign_of_life_are_whole_too():
    composer = ResponsesComposer(ASKED)
    composer.open()

    for frame in (composer.beat(), composer.fail(502, "upstream_cut", "boom")):
        response = orjson.loads(frame.split(b"data: ")[1])["response"]
        assert response.keys() >= REQUIRED
        assert (response["metadata"], response["completed_at"]) == ({"team": "blue"}, None)


def test_only_a_completed_response_says_when_it_was():
    done, cut = written(ResponsesComposer), written(ResponsesComposer, Finish.LENGTH)

    assert done[0][0]["response"]["completed_at"] is None
    assert done[1]["completed_at"] >= done[1]["created_at"]
    assert cut[1]["completed_at"] is None


def test_every_text_part_has_a_list_of_logprobs():
    events, whole = written(ResponsesComposer)

    parts = [event["part"] for event in events if event["type"].startswith("response.content_part")]
    parts += [part for item in whole["output"] if item["type"] == "message" for part in item["content"]]
    assert len(parts) == 3
    assert all(part["logprobs"] == [] for part in parts)


def test_a_response_that_was_written_here_is_known_by_its_id():
    assert is_our_id("resp_" + new_request_id().removeprefix("req_"))
    assert not is_our_id("resp_0969b02502f499e700697055b59cbc8190b9667eefb50289c3")
