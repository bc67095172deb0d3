"""Chat answers as they are written here must satisfy the SDK's own types."""

from dataclasses import replace

import pytest

from router.contract.words import Dialect
from router.dialects.chat.compose import ChatComposer
from router.dialects.composer import Finish
from tests.router.dialects.answers import ANSWER, written


def calls_of(chunk: dict) -> list[dict]:
    return [call for choice in chunk["choices"] for call in choice["delta"].get("tool_calls", [])]


@pytest.mark.parametrize("finish", list(Finish))
def test_every_event_fits_the_sdks_type(sdk, finish):
    events, _ = written(ChatComposer, finish)

    assert len(events) >= 4
    for event in events:
        if not any(call.get("type") == "custom" for call in calls_of(event)):  # for which a stream of the SDK has no type
            sdk.events[Dialect.CHAT].validate_python(event)


def test_a_whole_answer_fits_the_sdks_type(sdk):
    whole = sdk.whole[Dialect.CHAT].validate_python(written(ChatComposer)[1])

    message = whole.choices[0].message
    assert message.content == "ab"
    assert [call.id for call in message.tool_calls] == ["call_1", "call_2", "call_3"]
    assert message.tool_calls[1].custom.input == "*** Begin"


def test_a_free_form_call_leaves_in_one_piece_and_others_as_they_come():
    pieces = [call for event in written(ChatComposer)[0] for call in calls_of(event)]

    assert [call["index"] for call in pieces] == [0, 0, 1, 2, 2]
    assert pieces[2]["custom"] == {"name": "patch", "input": "*** Begin"}


@pytest.mark.parametrize(("finish", "reason"), [(Finish.STOP, "tool_calls"), (Finish.LENGTH, "length")])
def test_an_answer_says_why_it_ended_and_one_that_calls_tools_ended_for_them(finish, reason):
    events, whole = written(ChatComposer, finish)

    assert whole["choices"][0]["finish_reason"] == reason
    assert [event["choices"][0]["finish_reason"] for event in events if event["choices"]][-1] == reason


def test_usage_is_streamed_only_where_it_was_asked_for():
    asked, _ = written(ChatComposer)
    unasked, whole = written(ChatComposer, answer=replace(ANSWER, sends_usage=False))

    assert [event["usage"]["prompt_tokens"] for event in asked if "usage" in event] == [11]
    assert not any("usage" in event for event in unasked)
    assert whole["usage"]["total_tokens"] == 16
