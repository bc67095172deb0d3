"""What llama.cpp says of an answer by itself."""

import json

import pytest

from router.contract.usage import Usage
from router.contract.words import Dialect
from router.dialects.sse import data_frame, split_frames
from router.dialects.table import SPECS
from router.dialects.timings import read_timings
from tests.tools.bridging import CHAT, MESSAGES, RESPONSES, answer_to, chunk

TIMINGS = {
    "cache_n": 31, "prompt_n": 601, "prompt_ms": 1400.0, "prompt_per_token_ms": 2.33, "prompt_per_second": 429.2857142857143,
    "predicted_n": 300, "predicted_ms": 450.0, "predicted_per_second": 664.4444444444445,
}  # fmt: skip


def test_the_engines_tokens_and_speeds_are_read():
    told = read_timings(TIMINGS)

    assert told.usage == Usage(632, 300, cached_tokens=31)
    assert (round(told.tokens_per_second, 1), round(told.prefill_tokens_per_second, 1)) == (664.4, 429.3)


def test_of_a_few_tokens_no_speed_is_read():
    told = read_timings({**TIMINGS, "predicted_n": 4, "prompt_n": 499})

    assert (told.usage, told.tokens_per_second, told.prefill_tokens_per_second) == (Usage(530, 4, 31), None, None)


@pytest.mark.parametrize("told", [None, 0, "fast", True])
def test_a_speed_that_is_not_told_comes_from_the_time(told):
    found = read_timings({**TIMINGS, "predicted_per_second": told if told is not True else None})

    assert round(found.tokens_per_second) == 667


@pytest.mark.parametrize("value", [None, [], "x", {}, {"prompt_n": 5}])
def test_what_is_something_else_is_not_read(value):
    assert read_timings(value) is None


@pytest.mark.parametrize("milliseconds", [None, 0, "x", -3])
def test_without_a_time_there_is_no_speed(milliseconds):
    assert read_timings({"predicted_n": 30, "predicted_ms": milliseconds}).tokens_per_second is None


@pytest.mark.parametrize(
    ("dialect", "last"),
    [
        (Dialect.CHAT, {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}], "timings": TIMINGS}),
        (Dialect.COMPLETIONS, {"choices": [{"index": 0, "text": "", "finish_reason": "stop"}], "timings": TIMINGS}),
        (Dialect.RESPONSES, {"type": "response.completed", "response": {"output": []}, "timings": TIMINGS}),
    ],
)
def test_they_are_found_at_the_end_of_a_stream_of_every_dialect_that_has_them(dialect, last):
    end = SPECS[dialect].read_end(split_frames(b"data: " + json.dumps(last).encode() + b"\n\n"))

    assert end.is_complete
    assert end.timings.usage.output_tokens == 300


@pytest.mark.parametrize("caller", [RESPONSES, MESSAGES])
def test_over_a_bridge_they_stand_in_for_usage_that_is_missing(caller):
    streamed, whole = answer_to(caller, CHAT), answer_to(caller, CHAT)
    streamed.feed(data_frame(chunk({"content": "hi"})) + data_frame({**chunk(finish="stop"), "timings": TIMINGS}))
    body = {"choices": [{"message": {"content": "hi"}, "finish_reason": "stop"}], "timings": TIMINGS}

    shown = json.loads(whole.whole(json.dumps(body).encode()))

    assert streamed.usage == whole.usage == Usage(632, 300, 31)
    assert streamed.timings == whole.timings
    assert shown["usage"]["output_tokens"] == 300


def test_over_a_bridge_usage_counts_before_them():
    answer = answer_to(RESPONSES, CHAT)
    usage = {"prompt_tokens": 40, "completion_tokens": 8}
    for body in (chunk({"content": "hi"}), chunk(finish="stop"), {"choices": [], "usage": usage, "timings": TIMINGS}):
        answer.feed(data_frame(body))

    assert answer.usage == Usage(40, 8)
    assert round(answer.timings.tokens_per_second) == 664
