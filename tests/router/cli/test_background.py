"""Background work over a router's API, against a scripted one."""

import pytest

from router.cli.asking import Refused, Unreachable
from router.cli.background import Jobs, is_end, is_over, text_of, why_it_ended
from tests.tools.jobs_server import JOB, RUNNING, make_job, make_response, serving_jobs


@pytest.fixture
def server(folder):
    with serving_jobs() as running:
        yield running


@pytest.fixture
def jobs(server):
    return Jobs(server.url, "tdm_1")


def test_a_task_is_started_in_the_background_with_the_callers_key(server, jobs):
    started = jobs.start({"model": "auto", "input": "think"})

    assert started["status"] == "queued"
    assert server.bodies == [{"model": "auto", "input": "think", "background": True}]
    assert server.asked == [("POST", "/v1/responses", "Bearer tdm_1")]


def test_an_id_cannot_name_another_path(server, jobs):
    with pytest.raises(Refused) as refused:
        jobs.read("../tandem/reload?x=1")

    assert refused.value.status == 404
    assert server.paths == ["GET /v1/responses/..%2Ftandem%2Freload%3Fx%3D1"]


@pytest.mark.parametrize(
    ("status", "body", "words", "may_pass"),
    [
        (429, {"error": {"code": "too_many_jobs", "message": "200 jobs are queued"}}, "200 jobs are queued", True),
        (403, {"error": {"message": "this key may not delegate"}}, "this key may not delegate", False),
        (500, b"<html>", "status 500", True),
        (500, {"error": "text"}, "status 500", True),
    ],
)
def test_a_refusal_carries_the_routers_own_words(server, jobs, status, body, words, may_pass):
    server.refusal = (status, body)

    with pytest.raises(Refused, match=words) as refused:
        jobs.start({})

    assert refused.value.status == status
    assert refused.value.may_pass is may_pass


def test_what_is_not_a_router_is_unreachable(server, jobs):
    server.refusal, server.is_router = (404, b"nothing here"), False

    with pytest.raises(Unreachable, match="is not a Tandem router"):
        jobs.read(JOB)


@pytest.mark.parametrize("body", [b"no json", b"[1]", b"\xff"])
def test_an_answer_that_is_not_an_object_is_unreachable(server, jobs, body):
    server.refusal = (200, body)

    with pytest.raises(Unreachable):
        jobs.read(JOB)


def test_the_end_of_a_job_is_known_by_state_status_and_event():
    assert is_over(make_job(state="failed"))
    assert not is_over(make_job(state="running"))
    assert not is_over(make_response(status=RUNNING))
    assert is_end("response.incomplete")
    assert not is_end("response.output_item.done")


def test_the_text_of_a_response_is_that_of_all_its_messages_and_nothing_else():
    part = {"type": "output_text", "text": "one "}
    strange = [{"type": "reasoning", "summary": []}, None, {"content": "no list"}, {"content": [part, {"refusal": "two"}, 3]}]

    assert text_of(make_response(output=strange)) == "one two"
    assert text_of({"output": None}) == ""


@pytest.mark.parametrize(
    ("more", "why"),
    [
        ({"error": {"code": "interrupted", "message": "the router was killed"}}, "the router was killed"),
        ({"error": {"code": "interrupted", "message": ""}}, "interrupted"),
        ({"incomplete_details": {"reason": "max_output_tokens"}}, "max_output_tokens"),
        ({}, ""),
    ],
)
def test_why_a_job_ended_is_read_from_its_response(more, why):
    assert why_it_ended(make_response(**more)) == why
