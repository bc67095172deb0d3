"""What a job keeps of a request with `background: true`, and how its response looks before and after its stream."""

import json

import pytest

from router.contract.errors import BadRequest, TiersBusy
from router.contract.exchange import Arrival
from router.contract.words import Dialect, Operation
from router.dialects.responses.background import (
    AskedBackground,
    is_busy,
    job_id_of,
    request_id_of,
    with_status,
    write_arrival,
)
from tests.tools.jobs import make_job


def asked(headers: dict | None = None, **body: object) -> AskedBackground:
    raw = json.dumps({"model": "auto", "input": "hi", "background": True, **body}).encode()
    return AskedBackground(Arrival("req_1", Dialect.RESPONSES, Operation.CREATE, headers or {}, raw))


def test_a_job_is_served_as_a_stream_and_its_target_never_hears_of_the_background():
    body = json.loads(asked(metadata={"a": "b"}).arrival.raw)

    assert body == {"model": "auto", "input": "hi", "metadata": {"a": "b"}, "stream": True}
    assert not asked().is_streaming
    assert asked(stream=True).is_streaming


@pytest.mark.parametrize(
    ("body", "param"),
    [({"store": False}, "store"), ({"n": 1}, "n"), ({"stream_options": {}}, "stream_options"), ({"stream": 1}, "stream")],
)
def test_what_cannot_be_combined_with_it_is_refused_by_name(body, param):
    with pytest.raises(BadRequest) as caught:
        asked(**body)

    assert caught.value.param == param


def test_a_queued_response_repeats_the_request_and_has_no_output():
    queued = asked(metadata={"a": "b"}, instructions="be brief").write_queued("resp_1", 7)

    assert (queued["id"], queued["status"], queued["background"], queued["output"]) == ("resp_1", "queued", True, [])
    assert (queued["metadata"], queued["instructions"], queued["created_at"]) == ({"a": "b"}, "be brief", 7)


def test_an_attempt_has_the_request_and_the_caller_of_its_job():
    job = make_job()

    arrival = write_arrival(job, "req_2")

    assert (arrival.id, arrival.job, arrival.raw, arrival.caller, arrival.key) == (
        "req_2",
        job.id,
        job.body,
        job.caller,
        job.key,
    )


def test_ids_of_requests_and_responses_lead_to_each_other():
    assert request_id_of(job_id_of("req_12")) == "req_12"


def test_a_response_is_shown_with_the_status_that_it_has_now():
    shown = with_status(b'{"id":"resp_1","status":"queued","big":12345678901234567890123}', "in_progress")

    assert json.loads(shown) == {"id": "resp_1", "status": "in_progress", "big": 12345678901234567890123}


@pytest.mark.parametrize(
    ("code", "is_so"), [(TiersBusy.code, True), ("rate_limited", True), ("store_unavailable", True), ("bad_knob", False)]
)
def test_only_what_passes_by_itself_is_waited_out(code, is_so):
    assert is_busy(json.dumps({"error": {"code": code}}).encode()) is is_so
    assert not is_busy(b"")
