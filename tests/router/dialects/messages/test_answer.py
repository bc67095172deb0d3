"""What a Messages answer says of itself."""

import pytest

from router.contract.errors import ThreadForgotten
from router.contract.words import Dialect
from router.dialects.answers import TELLING
from router.dialects.messages.answer import word_too_long, write_failure, write_refusal
from router.dialects.sse import Tail
from router.dialects.table import SPECS

START = (
    b'event: message_start\ndata: {"type":"message_start","message":{"usage":'
    b'{"input_tokens":7,"output_tokens":1,"cache_read_input_tokens":90}}}\n\n'
)
MIDDLE = b'event: content_block_delta\ndata: {"type":"content_block_delta"}\n\n'
END = (
    b'event: message_delta\ndata: {"type":"message_delta","usage":{"output_tokens":40}}\n\n'
    b'event: message_stop\ndata: {"type":"message_stop"}\n\n'
)


def usage_of(*pieces):
    tail = Tail(TELLING[Dialect.MESSAGES])
    for piece in pieces:
        tail.add(piece)
    return SPECS[Dialect.MESSAGES].read_end(tail.frames()).usage


def test_messages_usage_joins_the_first_frame_and_the_last():
    usage = usage_of(START, *[MIDDLE] * 50, END)

    assert (usage.input_tokens, usage.cached_tokens, usage.output_tokens) == (97, 90, 40)


@pytest.mark.parametrize("before", [b"", b": wait\n\n" * 50])
@pytest.mark.parametrize("size", [1, 2, 3, 7])
def test_the_first_frame_is_found_however_small_its_pieces_are(before, size):
    stream = before + START + MIDDLE * 50 + END
    usage = usage_of(*(stream[place : place + size] for place in range(0, len(stream), size)))

    assert (usage.input_tokens, usage.output_tokens) == (97, 40)


def test_comments_by_the_hundred_before_the_first_frame_do_not_hide_it():
    assert usage_of(*[b": wait\n\n"] * 200, START, *[MIDDLE] * 50, END).input_tokens == 97


def test_what_the_first_frame_says_of_the_output_is_no_count_of_a_stream_that_was_cut():
    usage = usage_of(START, *[MIDDLE] * 5)

    assert (usage.input_tokens, usage.output_tokens) == (97, 0)


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


def test_that_no_thread_is_kept_is_told_where_clients_look_for_it():
    body = write_refusal(ThreadForgotten.status, "no", ThreadForgotten.code, "thread", "req_1")

    assert body["error"]["details"] == {"error_code": "thread_not_found"}
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
