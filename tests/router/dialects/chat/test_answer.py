"""What a chat answer says of itself."""

import json

import pytest

from router.contract.usage import Usage
from router.dialects.chat.answer import read_answer, read_end, read_usage, word_too_long, write_failure, write_refusal
from router.dialects.sse import split_frames


@pytest.mark.parametrize(
    ("stream", "is_complete"),
    [
        (b'data: {"choices": [{"delta": {}, "finish_reason": "stop"}]}\n\n', True),
        (b"data: [DONE]\n\n", True),
        (b'data: {"choices": [{"delta": {"content": "x"}, "finish_reason": null}]}\n\n', False),
        (b'data: {"choices": [null]}\n\n', False),
        (b": comment\n\n", False),
    ],
)
def test_a_finish_reason_ends_a_stream_even_without_the_last_line(stream, is_complete):
    assert read_end(split_frames(stream)).is_complete is is_complete


def test_usage_counts_cached_tokens_among_the_prompts():
    counts = {
        "prompt_tokens": 10,
        "completion_tokens": 4,
        "prompt_tokens_details": {"cached_tokens": 6, "cache_write_tokens": 1},
        "completion_tokens_details": {"reasoning_tokens": 3},
    }

    assert read_usage(counts) == Usage(10, 4, cached_tokens=6, cache_write_tokens=1, reasoning_tokens=3)
    assert read_answer({"choices": [], "usage": counts}) == read_usage(counts)


@pytest.mark.parametrize("value", [None, {}, [], "x", {"completion_tokens": 4}])
def test_usage_that_tells_nothing_of_the_prompt_is_none(value):
    assert read_usage(value) is None


def test_a_count_that_is_not_a_number_counts_nothing():
    assert read_usage({"prompt_tokens": "many", "completion_tokens": True}) == Usage(0, 0)


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (400, "invalid_request_error"),
        (401, "authentication_error"),
        (404, "not_found_error"),
        (429, "rate_limit_error"),
        (502, "server_error"),
    ],
)
def test_the_type_follows_the_status(status, kind):
    assert write_refusal(status, "no", "a_code", None, "req_1")["error"]["type"] == kind


def test_a_refusal_names_the_parameter_the_code_and_the_request():
    error = write_refusal(400, "model: missing", "invalid_request", "model", "req_1")["error"]

    assert (error["param"], error["code"], error["request_id"]) == ("model", "invalid_request", "req_1")


def test_the_last_event_of_a_stream_is_the_refusal_as_data():
    event = write_failure(502, "it broke", "upstream_malformed", "req_1")

    assert event.startswith(b"data: ")
    assert event.endswith(b"\n\n")
    assert json.loads(event[6:]) == write_refusal(502, "it broke", "upstream_malformed", None, "req_1")


def test_words_for_length_stay_as_the_host_wrote_them():
    assert word_too_long("maximum context length is 8192 tokens") == "maximum context length is 8192 tokens"
