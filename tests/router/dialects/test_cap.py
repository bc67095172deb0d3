"""The cap of an answer, in the target's own field, and the end of a stream that is cut."""

import json

import pytest

from router.contract.usage import Usage
from router.contract.words import Dialect
from router.dialects.cap import Cap, state_cap
from router.dialects.hosts import ORDINARY, quirks_of
from router.dialects.sse import named_frame, split_frames
from router.dialects.table import SPECS
from tests.tools.upstream import chat_frame

OPENAI = quirks_of("https://api.openai.com/v1")
REST = Cap(900, "by what is left of your budget")
USAGE = Usage(10, 700, is_estimated=True)


def changes_of(body: dict, cap: Cap, dialect=Dialect.CHAT, quirks=ORDINARY) -> tuple[dict, tuple[str, ...]]:
    changes: dict = {}
    return changes, state_cap(body, dialect, SPECS[dialect].limit_fields, quirks, cap, changes)


@pytest.mark.parametrize(
    ("dialect", "quirks", "name"),
    [
        (Dialect.CHAT, ORDINARY, "max_tokens"),
        (Dialect.CHAT, OPENAI, "max_completion_tokens"),
        (Dialect.COMPLETIONS, OPENAI, "max_tokens"),
        (Dialect.RESPONSES, OPENAI, "max_output_tokens"),
        (Dialect.MESSAGES, ORDINARY, "max_tokens"),
    ],
)
def test_a_cap_has_the_field_that_the_target_takes(dialect, quirks, name):
    changes, told = changes_of({}, REST, dialect, quirks)

    assert changes == {name: 900}
    assert told == ("capped at 900 tokens by what is left of your budget",)


@pytest.mark.parametrize("given", [{"max_tokens": 300}, {"max_tokens": 300, "max_completion_tokens": None}])
def test_a_limit_of_the_caller_stays_as_it_came(given):
    assert changes_of(given, Cap(300)) == ({}, ())


@pytest.mark.parametrize(
    ("given", "changed"),
    [
        ({"max_tokens": 300.0}, {"max_tokens": 300}),
        ({"max_completion_tokens": 300}, {"max_completion_tokens": None, "max_tokens": 300}),
        ({"max_completion_tokens": 300, "max_tokens": 50_000}, {"max_completion_tokens": None, "max_tokens": 300}),
        ({"max_tokens": -1}, {"max_tokens": 300}),
    ],
)
def test_the_cap_is_the_only_limit_and_a_whole_number(given, changed):
    changes, _ = changes_of(given, Cap(300))

    assert changes == changed
    assert all(value is None or type(value) is int for value in changes.values())


def test_a_budget_for_thinking_is_lowered_to_fit_under_the_cap():
    thinking = {"type": "enabled", "budget_tokens": 16_000}

    changes, told = changes_of({"thinking": thinking}, Cap(5_000, REST.because), Dialect.MESSAGES)
    least, _ = changes_of({"thinking": thinking}, Cap(1_280, REST.because), Dialect.MESSAGES)

    assert changes == {"max_tokens": 5_000, "thinking": {"type": "enabled", "budget_tokens": 2_500}}
    assert told[-1] == "thinking.budget_tokens lowered to 2500"
    assert least["thinking"]["budget_tokens"] == 1_024


def test_a_budget_for_thinking_that_fits_stays():
    body = {"thinking": {"type": "enabled", "budget_tokens": 2_000}}

    assert changes_of(body, Cap(5_000, REST.because), Dialect.MESSAGES)[0] == {"max_tokens": 5_000}


def cut(dialect: Dialect, *frames: bytes) -> list[dict]:
    sent = b"".join(frames)
    end = SPECS[dialect].write_cut(sent, USAGE)
    assert SPECS[dialect].read_end(split_frames(sent + end)).is_complete
    return [frame.json() for frame in split_frames(end) if frame.data != b"[DONE]"]


def test_a_chat_stream_that_is_cut_ends_for_its_length_in_every_choice_that_is_open():
    frames = [
        b'data: {"id":"c","model":"m","choices":[{"index":%d,"delta":{"content":"a"},"finish_reason":%s}]}\n\n' % pair
        for pair in ((0, b"null"), (1, b"null"), (1, b'"stop"'))
    ]

    (end,) = cut(Dialect.CHAT, *frames)

    assert end == {"id": "c", "model": "m", "choices": [{"index": 0, "delta": {}, "finish_reason": "length"}]}


def test_a_completion_that_is_cut_has_a_text():
    frame = b'data: {"id":"c","choices":[{"index":0,"text":"a","finish_reason":null}]}\n\n'

    (end,) = cut(Dialect.COMPLETIONS, frame)

    assert end["choices"] == [{"index": 0, "text": "", "finish_reason": "length"}]


@pytest.mark.parametrize("is_open", [True, False])
def test_a_message_that_is_cut_closes_its_block_and_says_max_tokens(is_open):
    frames = [
        named_frame("content_block_delta", {"type": "content_block_delta", "index": 3, "delta": {"text": "a"}}),
        b"" if is_open else named_frame("content_block_stop", {"type": "content_block_stop", "index": 3}),
    ]

    *stops, end, last = cut(Dialect.MESSAGES, *frames)

    assert stops == ([{"type": "content_block_stop", "index": 3}] if is_open else [])
    assert (end["delta"]["stop_reason"], end["usage"]) == ("max_tokens", {"output_tokens": 700})
    assert last == {"type": "message_stop"}


def test_a_response_that_is_cut_is_incomplete_and_has_what_was_written():
    events = [
        {"type": "response.created", "sequence_number": 0, "response": {"id": "resp_1", "model": "m", "output": []}},
        {"type": "response.output_item.added", "sequence_number": 1, "output_index": 0, "item": {"type": "message", "id": "a"}},
        {"type": "response.output_text.delta", "sequence_number": 2, "output_index": 0, "delta": "so far"},
    ]

    (end,) = cut(Dialect.RESPONSES, *(named_frame(event["type"], event) for event in events))
    response = end["response"]

    assert (end["type"], end["sequence_number"]) == ("response.incomplete", 3)
    assert (response["id"], response["status"]) == ("resp_1", "incomplete")
    assert response["incomplete_details"] == {"reason": "max_output_tokens"}
    assert response["output"][0]["content"][0]["text"] == "so far"
    assert response["usage"]["output_tokens"] == 700


def test_what_was_sent_of_a_chat_stream_may_be_its_newest_frames():
    assert json.dumps(cut(Dialect.CHAT, chat_frame("late"))[0]).count('"length"') == 1
