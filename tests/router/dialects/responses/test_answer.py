"""What a Responses answer says of itself."""

import json

import pytest

from router.contract.errors import UpstreamMalformed
from router.contract.usage import Usage
from router.contract.words import Dialect
from router.dialects.refusals import failure_event
from router.dialects.responses.answer import read_answer, read_end, read_usage, write_failure
from router.dialects.sse import split_frames


def event(kind: str, response: str = "{}") -> bytes:
    return f'event: {kind}\ndata: {{"type": "{kind}", "response": {response}}}\n\n'.encode()


@pytest.mark.parametrize(
    ("kind", "is_complete", "has_failed"),
    [
        ("response.completed", True, False),
        ("response.incomplete", True, False),
        ("response.failed", False, True),
        ("error", False, True),
        ("response.in_progress", False, False),
    ],
)
def test_a_stream_ends_with_its_terminal_event(kind, is_complete, has_failed):
    end = read_end(split_frames(event("response.created") + event(kind)))

    assert (end.is_complete, end.has_failed) == (is_complete, has_failed)


def test_the_terminal_event_tells_the_usage():
    usage = '{"usage": {"input_tokens": 9, "input_tokens_details": {"cached_tokens": 4}, "output_tokens": 2}}'

    assert read_end(split_frames(event("response.completed", usage))).usage == Usage(9, 2, cached_tokens=4)
    assert read_usage({"output_tokens": 2}) is None


def test_an_answer_has_an_output_or_says_that_it_is_a_response():
    assert read_answer({"output": [], "usage": {"input_tokens": 1, "output_tokens": 2}}) == Usage(1, 2)
    assert read_answer({"object": "response"}) is None
    with pytest.raises(ValueError, match="without output"):
        read_answer({"choices": []})


def test_a_failed_response_has_every_field_that_its_type_asks_for(sdk):
    frame = failure_event(UpstreamMalformed("t", "x"), Dialect.RESPONSES, "req_1")
    event = json.loads(frame.split(b"data: ")[1])
    # The type lists the vendor's own codes; ours say more, and clients that do not know one try again.
    event["response"]["error"]["code"] = "server_error"

    failed = sdk.responses.ResponseFailedEvent.model_validate(event)

    assert failed.response.id == "resp_1"
    assert failed.response.status == "failed"


def test_the_event_carries_a_code_of_openais_list_and_the_words_and_our_own_as_its_reason():
    event = json.loads(write_failure(502, "it broke", "upstream_malformed", "req_1").split(b"data: ")[1])

    assert event["type"] == "response.failed"
    assert event["response"]["error"] == {"code": "server_error", "message": "it broke", "reason": "upstream_malformed"}


@pytest.mark.parametrize("code", ["context_length_exceeded", "insufficient_quota", "server_is_overloaded"])
def test_a_code_on_which_codex_acts_stays_in_a_stream(code):
    event = json.loads(write_failure(400, "no", code, "req_1").split(b"data: ")[1])

    assert event["response"]["error"] == {"code": code, "message": "no"}
