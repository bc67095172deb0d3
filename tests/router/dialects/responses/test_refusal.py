"""The end of a Responses stream that failed."""

import json

from openai.types.responses import ResponseFailedEvent

from router.contract.errors import UpstreamMalformed
from router.contract.words import Dialect
from router.dialects.refusals import failure_event
from router.dialects.responses.refusal import write_failure


def test_a_failed_response_has_every_field_that_its_type_asks_for():
    frame = failure_event(UpstreamMalformed("t", "x"), Dialect.RESPONSES, "req_1")
    event = json.loads(frame.split(b"data: ")[1])
    # The type lists the vendor's own codes; ours say more, and clients that do not know one try again.
    event["response"]["error"]["code"] = "server_error"

    failed = ResponseFailedEvent.model_validate(event)

    assert failed.response.id == "resp_1"
    assert failed.response.status == "failed"


def test_the_event_carries_the_code_and_the_words():
    event = json.loads(write_failure(502, "it broke", "upstream_malformed", "req_1").split(b"data: ")[1])

    assert event["type"] == "response.failed"
    assert event["response"]["error"] == {"code": "upstream_malformed", "message": "it broke"}


def test_the_failed_response_is_whole():
    event = json.loads(write_failure(502, "it broke", "upstream_malformed", "req_1").split(b"data: ")[1])

    assert event["response"].keys() >= {"completed_at", "text", "temperature", "store", "previous_response_id", "usage"}
