"""Errors as Anthropic's clients read them."""

import pytest

from router.contract.errors import ThreadForgotten, ThreadMismatch, ThreadUnsupported
from router.dialects.messages.refusal import word_too_long, write_failure, write_refusal


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (400, "invalid_request_error"),
        (413, "request_too_large"),
        (429, "rate_limit_error"),
        (502, "api_error"),
        (504, "timeout_error"),
        (529, "overloaded_error"),
    ],
)
def test_the_type_follows_the_status(status, kind):
    body = write_refusal(status, "no", "a_code", None, "req_1")

    assert body["error"]["type"] == kind
    assert (body["type"], body["request_id"]) == ("error", "req_1")


@pytest.mark.parametrize("error", [ThreadForgotten, ThreadMismatch, ThreadUnsupported])
def test_what_went_wrong_with_a_thread_is_told_where_clients_look_for_it(error):
    body = write_refusal(error.status, "no", error.code, "thread", "req_1")

    assert body["error"]["details"] == {"error_code": error.code}
    assert "details" not in write_refusal(400, "no", "a_code", None, "req_1")["error"]


def test_the_last_event_of_a_stream_is_named():
    assert write_failure(502, "it broke", "upstream_malformed", "req_1").startswith(b"event: error\ndata: {")


@pytest.mark.parametrize(
    ("message", "worded"),
    [
        ("prompt is too long: 9 tokens > 8 maximum", "prompt is too long: 9 tokens > 8 maximum"),
        (
            "maximum context length is 8,192 tokens, you sent 9,000",
            "prompt is too long: 9000 tokens > 8192 maximum. maximum context length is 8,192 tokens, you sent 9,000",
        ),
        ("it does not fit", "prompt is too long: the target's window is smaller. it does not fit"),
        (
            "the limit is 8192 tokens, you sent 12",
            "prompt is too long: the target's window is smaller. the limit is 8192 tokens, you sent 12",
        ),
    ],
)
def test_a_refusal_for_length_begins_with_the_words_on_which_clients_compact(message, worded):
    assert word_too_long(message) == worded
