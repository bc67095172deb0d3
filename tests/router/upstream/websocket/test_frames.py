"""What is said on a socket, as it would be said over HTTP."""

import json

import pytest

from router.upstream.websocket.frames import as_error_event, as_event, kind_of, read_refusal, read_response, whole_answer


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        (b'{"type":"response.created","a":1}', "response.created"),
        (b'{ "type" : "response.created"}', "response.created"),
        (b'{"a":{"type":"x"},"type":"response.completed"}', "response.completed"),
        (b'{"type":"a\\nb"}', ""),
        (b'{"type":7}', ""),
        (b'["type"]', ""),
        (b"no json", ""),
    ],
)
def test_the_kind_of_a_message_is_its_type_wherever_it_is(text, kind):
    assert kind_of(text) == kind


def test_a_message_becomes_an_event_with_the_same_bytes():
    text = b'{"type":"response.output_text.delta","delta":"a \\n b"}'

    assert as_event("response.output_text.delta", text) == b"event: response.output_text.delta\ndata: " + text + b"\n\n"


def test_a_message_of_several_lines_becomes_an_event_of_one():
    event = as_event("x", b'{\n  "type": "x",\r\n  "a": 1\n}')

    assert event.count(b"\n") == 3
    assert json.loads(event.removeprefix(b"event: x\ndata: ")) == {"type": "x", "a": 1}


def test_an_error_becomes_the_refusal_that_it_stands_for():
    error = {"type": "rate_limit_error", "code": "rate_limit_exceeded", "message": "slow down", "param": None}
    frame = {"type": "error", "status": 429, "error": {**error, "headers": {"X-A": "1"}}, "headers": {"Retry-After": "2"}}

    refusal = read_refusal(json.dumps(frame).encode())

    assert refusal.status == 429
    assert dict(refusal.headers) == {"content-type": "application/json", "x-a": "1", "retry-after": "2"}
    assert json.loads(refusal.body) == {"error": error}
    assert refusal.code == "rate_limit_exceeded"


@pytest.mark.parametrize("status", [None, 200, 99, "4290", "x", True, 700])
def test_an_error_without_a_status_is_the_targets_own(status):
    assert read_refusal(json.dumps({"type": "error", "status": status}).encode()).status == 502
    named = {"type": "error", "status": status, "error": {"code": "rate_limit_exceeded"}}
    assert read_refusal(json.dumps(named).encode()).status == 429


def test_headers_of_an_error_that_are_none_are_left_out():
    told = {"retry-after": 3, "bad name": "x", "x-long": "a\r\nb", "content-length": "7", "x-list": ["a"]}

    refusal = read_refusal(json.dumps({"type": "error", "status": 429, "headers": told}).encode())

    assert refusal.headers == (("content-type", "application/json"), ("retry-after", "3"))


def test_an_error_in_mid_answer_has_its_fields_at_the_top():
    frame = {"type": "error", "status": 500, "error": {"code": "server_error", "message": "it broke", "param": None}}

    event = as_error_event(json.dumps(frame).encode())

    name, _, data = event.decode().partition("\n")
    assert name == "event: error"
    assert json.loads(data.removeprefix("data: ")) == {
        "type": "error",
        "code": "server_error",
        "message": "it broke",
        "param": None,
    }


def test_a_caller_that_does_not_stream_gets_the_response_or_the_refusal_that_a_failed_one_stands_for():
    error = {"code": "rate_limit_exceeded", "message": "slow down"}
    whole = whole_answer("response.completed", b'{"type":"response.completed","response":{"id":"resp_1","output":[]}}')
    failed = whole_answer("response.failed", json.dumps({"type": "response.failed", "response": {"error": error}}).encode())

    assert (whole.status, json.loads(whole.body)) == (200, {"id": "resp_1", "output": []})
    assert (failed.status, json.loads(failed.body)["error"]["message"]) == (429, "slow down")


def test_the_response_of_a_message_that_has_none_is_empty():
    assert read_response(b'{"type":"response.completed"}') == {}


@pytest.mark.parametrize(
    "frame",
    [
        {"status_code": 429, "error": {"code": "x", "message": "later"}, "headers": {"retry-after": "60"}},
        {"status": "429", "error": {"message": "later"}, "headers": {"retry-after": 60}},
        {"error": {"status_code": 429, "message": "later", "headers": {"retry-after": "60"}}},
        {"code": "rate_limit_exceeded", "message": "later", "headers": {"retry-after": "60"}},
        {"status_code": 429, "error": "later", "headers": {"retry-after": "60"}},
        {"code": 429, "message": "later", "headers": {"retry-after": "60"}},
    ],
)
def test_an_error_may_have_its_status_and_its_words_in_other_places(frame):
    refusal = read_refusal(json.dumps({"type": "error", **frame}).encode())

    assert refusal.status == 429
    assert dict(refusal.headers)["retry-after"] == "60"
    assert json.loads(refusal.body)["error"]["message"] == "later"


def test_a_flat_error_in_mid_answer_keeps_its_reason():
    event = as_error_event(b'{"type":"error","code":"rate_limit_exceeded","message":"try again in 7s."}')

    told = json.loads(event.partition(b"data: ")[2])
    assert (told["code"], told["message"]) == ("rate_limit_exceeded", "try again in 7s.")


@pytest.mark.parametrize("deep", [b"[" * 300 + b"]" * 300, b"[" * 100_000])
def test_an_error_of_any_depth_is_a_refusal(deep):
    assert read_refusal(b'{"type":"error","error":{"code":"rate_limit_exceeded","x":%b}}' % deep).status in (429, 502)
    assert as_error_event(b'{"type":"error","message":%b}' % deep).startswith(b"event: error")
