"""What a client says on a socket, and what it is told when that is wrong."""

import json

import pytest

from router.contract.errors import BadRequest, BudgetSpent, InvalidStreamId, Unavailable
from router.contract.keys import make_key
from router.edge.websocket.messages import Create, Steer, decision_frame, error_frame, headers_of, read_message, refusal_frame


def message(**fields) -> bytes:
    return json.dumps({"type": "response.create", "model": "auto", "input": "hi", **fields}).encode()


def test_a_create_is_the_body_that_would_be_posted():
    create = read_message(message(stream_id="a", generate=True, temperature=0.5))

    assert isinstance(create, Create)
    assert create.lane == "a"
    assert json.loads(create.raw) == {"model": "auto", "input": "hi", "temperature": 0.5, "stream": True}


@pytest.mark.parametrize("kind", ["response.create", "response.steer"])
def test_a_message_of_too_many_values_is_refused_unread(kind):
    crowded = b'{"type":"%s","input":[%s]}' % (kind.encode(), b",".join([b'{"role":"user","content":"a"}'] * 200_000))

    with pytest.raises(BadRequest, match="too many values"):
        read_message(crowded)


def test_digits_of_a_create_stay_what_they_were():
    raw = b'{"type":"response.create","input":"hi","metadata":{"n":123456789012345678901234567890}}'

    assert b"123456789012345678901234567890" in read_message(raw).raw


def test_a_prewarm_says_so_to_the_house():
    assert json.loads(read_message(message(generate=False)).raw)["generate"] is False


def test_metadata_may_ask_to_interrupt():
    assert read_message(message(client_metadata={"x-tandem-busy": "interrupt"})).interrupts
    assert not read_message(message(client_metadata={"x-tandem-busy": "wait"})).interrupts
    assert not read_message(message(client_metadata="interrupt")).interrupts


def test_a_create_can_go_on_from_another_response():
    create = read_message(message(previous_response_id="resp_1")).after("resp_2")

    assert create.previous == "resp_2"
    assert json.loads(create.raw)["previous_response_id"] == "resp_2"


def test_a_steer_names_the_response_and_the_words():
    steer = read_message(b'{"type":"response.steer","previous_response_id":"resp_1","input":"stop"}')

    assert steer == Steer("resp_1", "stop")


@pytest.mark.parametrize("name", ["", "a b", "ä", "x" * 257, 5, None])
def test_a_lane_has_a_plain_name(name):
    with pytest.raises(InvalidStreamId):
        read_message(message(stream_id=name))


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"nope",
        b"[]",
        b'{"type":7}',
        b'{"type":"response.cancel"}',
        message(background=True),
        message(generate="no"),
        message(generate=0),
        b'{"type":' + b"[" * 5_000,
    ],
)
def test_what_is_no_message_is_refused(raw):
    with pytest.raises(BadRequest):
        read_message(raw)


def test_headers_are_those_of_the_handshake_and_of_the_metadata():
    handshake = {"host": "x", "upgrade": "websocket", "sec-websocket-key": "k", "session-id": "s", "x-tandem-tier": "deep"}
    metadata = {"X-Tandem-Tier": "fast", "turn": "7", "x-odd": "a\r\nb", "x-number": 5, "x-tandem-busy": "interrupt"}

    headers = headers_of(handshake, metadata)

    assert headers == {"session-id": "s", "x-tandem-tier": "fast", "content-type": "application/json"}


def test_metadata_that_stands_for_a_header_becomes_it_and_what_only_metadata_has_does_not():
    metadata = {
        "ws_request_header_x_openai_internal_codex_responses_lite": "true",
        "ws_request_header_authorization": "Bearer other",
        "x-codex-installation-id": "machine-1",
        "x-codex-ws-stream-request-start-ms": "1794998787765",
        "x-codex-window-id": "w:1",
    }

    headers = headers_of({"x-codex-window-id": "w:0"}, metadata)

    assert headers == {
        "x-openai-internal-codex-responses-lite": "true",
        "x-codex-window-id": "w:1",
        "content-type": "application/json",
    }


def test_an_error_keeps_the_figures_of_a_plan():
    told = json.loads(error_frame(429, {"code": None}, {"x-codex-primary-used-percent": "100", "server": "x"}))

    assert told["headers"] == told["error"]["headers"] == {"x-codex-primary-used-percent": "100"}


def test_an_error_tells_its_status_and_where_to_find_the_wait():
    told = json.loads(error_frame(429, {"code": "busy"}, {"retry-after": "2", "server": "x"}, "a"))

    assert told == {
        "type": "error",
        "status": 429,
        "stream_id": "a",
        "error": {"code": "busy", "headers": {"retry-after": "2"}},
        "headers": {"retry-after": "2"},
    }


def test_a_refusal_of_ours_says_when_to_come_again():
    told = json.loads(refusal_frame(Unavailable("full", retry_after_seconds=3), "req_1"))

    assert (told["status"], told["headers"]["retry-after"], told["error"]["type"]) == (503, "3", "server_error")
    assert "stream_id" not in told


def test_a_decision_is_told_in_plain_fields():
    headers = (("x-tandem-tier", "fast"), ("x-tandem-overhead-ms", "0.50"), ("content-type", "text/event-stream"))

    assert json.loads(decision_frame(headers, "a")) == {
        "type": "tandem.decision",
        "stream_id": "a",
        "tier": "fast",
        "overhead_ms": "0.50",
    }


def test_a_spent_budget_is_told_as_a_usage_limit():
    frame = json.loads(refusal_frame(BudgetSpent("spent", retry_after_seconds=7200), "req_1"))

    assert (frame["status"], frame["error"]["type"], frame["error"]["code"]) == (429, "usage_limit_reached", "budget_spent")
    assert frame["error"]["resets_at"] > 7200


def test_a_key_in_the_metadata_of_a_request_is_masked():
    key = make_key()

    assert headers_of({}, {"x-tandem-session": key.text})["x-tandem-session"] == f"tdm_{key.id}_***"
