"""Responses answers as they are written here must satisfy the SDK's own types."""

from dataclasses import replace

import pytest
from openai.types.responses import Response, ResponseStreamEvent
from pydantic import TypeAdapter

from router.dialects.composer import Finish
from router.dialects.responses.compose import ResponsesComposer
from tests.tools.answers import ANSWER, written
from tests.tools.bridging import CHAT, RESPONSES, chunk, heard


def test_a_failure_goes_on_with_the_streams_own_id_and_numbers():
    events = heard(RESPONSES, CHAT, chunk({"content": "one"}), {"error": {"message": "boom", "code": 500}})

    assert [event["sequence_number"] for event in events] == list(range(len(events)))
    assert events[-1]["response"]["id"] == events[0]["response"]["id"]
    assert events[-1]["response"]["error"] == {"code": "500", "message": "boom"}


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
def test_every_event_fits_the_sdks_type(finish):
    adapter = TypeAdapter(ResponseStreamEvent)
    events, _ = written(ResponsesComposer, finish)

    assert len(events) >= 4
    for event in events:
        adapter.validate_python(event)


def test_a_whole_answer_fits_the_sdks_type():
    whole = Response.model_validate(written(ResponsesComposer)[1])

    assert whole.output_text == "ab"
    assert whole.output[0].encrypted_content == "wrapped"


def test_an_answer_cut_by_its_limit_says_so():
    events, whole = written(ResponsesComposer, Finish.LENGTH)

    assert events[-1]["type"] == "response.incomplete"
    assert whole["status"] == "incomplete"
    assert whole["incomplete_details"] == {"reason": "max_output_tokens"}


def test_a_caller_that_did_not_ask_for_hidden_reasoning_gets_its_summary_alone():
    _, whole = written(ResponsesComposer, answer=replace(ANSWER, sends_envelopes=False))

    assert whole["output"][0]["summary"] == [{"type": "summary_text", "text": "hmm"}]
    assert "encrypted_content" not in whole["output"][0]
