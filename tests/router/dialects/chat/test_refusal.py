"""Errors as OpenAI's clients read them."""

import json

import pytest

from router.dialects.chat.refusal import word_too_long, write_failure, write_refusal


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
