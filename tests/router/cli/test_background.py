"""Background work over a router's API, against a scripted one."""

import pytest

from router.cli.asking import Refused, Unreachable
from router.cli.background import (
    MOST_BYTES,
    MOST_FILE_BYTES,
    Jobs,
    TaskRefused,
    find_agent_session,
    is_end,
    is_over,
    read_file,
    text_of,
    why_it_ended,
    write_request,
)
from router.sessions.clients import CLAUDE_CODE, CODEX
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
        ({"error": {"code": "server_error", "message": "the router was killed"}}, "the router was killed"),
        ({"error": {"code": "server_error", "message": "", "reason": "interrupted"}}, "interrupted"),
        ({"incomplete_details": {"reason": "max_output_tokens"}}, "max_output_tokens"),
        ({}, ""),
    ],
)
def test_why_a_job_ended_is_read_from_its_response(more, why):
    assert why_it_ended(make_response(**more)) == why


CODEX_VARIABLE, CLAUDE_VARIABLE = "CODEX_THREAD_ID", "CLAUDE_CODE_SESSION_ID"


@pytest.mark.parametrize(
    ("variables", "sent", "session"),
    [
        ({}, None, ""),
        ({}, {"progress_token": 1}, ""),
        ({}, {"threadId": "t1"}, f"{CODEX.name}:t1"),
        ({}, {"threadId": 7}, ""),
        ({}, {"threadId": "t\n1"}, ""),
        ({}, {"threadId": "t" * 200}, ""),
        ({CODEX_VARIABLE: "t1"}, None, f"{CODEX.name}:t1"),
        ({CLAUDE_VARIABLE: "s1"}, {}, f"{CLAUDE_CODE.name}:s1"),
        ({CLAUDE_VARIABLE: "s1"}, {"threadId": "t1"}, f"{CODEX.name}:t1"),  # Codex, started by Claude Code
        ({CLAUDE_VARIABLE: "s1", CODEX_VARIABLE: "t1"}, None, ""),
    ],
)
def test_a_session_is_named_only_where_an_agent_says_it(monkeypatch, variables, sent, session):
    for name in (CODEX_VARIABLE, CLAUDE_VARIABLE):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)

    assert find_agent_session(sent) == session


def test_the_task_comes_first_and_each_file_is_quoted_with_its_name():
    body = write_request("  find the race\n", [("a.py", "x = 1\n"), ("b.py", "y = 2")], "deep")

    assert body["model"] == "deep"
    assert body["input"] == "find the race\n\na.py:\n```\nx = 1\n```\n\nb.py:\n```\ny = 2\n```"
    assert "no tools" in body["instructions"]


def test_a_file_cannot_end_its_own_quote():
    body = write_request("read", [("a.md", "````\ninner\n````\n``` outer")])

    assert body["model"] == "auto"
    assert body["input"].count("`````") == 2
    assert body["input"].endswith("`````\n````\ninner\n````\n``` outer\n`````")


@pytest.mark.parametrize("task", ["", " \n\t"])
def test_an_empty_task_is_refused(task):
    with pytest.raises(TaskRefused, match="empty"):
        write_request(task, [("a.py", "x")])


def test_what_is_too_long_in_all_is_refused_with_its_size():
    with pytest.raises(TaskRefused, match=r"at most 2,097,152 can be sent"):
        write_request("read", [("a", "x" * (MOST_BYTES // 2)), ("b", "x" * (MOST_BYTES // 2))])


def test_a_file_is_read_as_text(tmp_path):
    path = tmp_path / "a.py"
    path.write_bytes(b"\xef\xbb\xbfsch\xc3\xb6n\n")

    assert read_file(path) == (str(path), "schön\n")


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"x" * (MOST_FILE_BYTES + 1), "is too long: 524,289 bytes"),
        (b"\xff\xfe", "is not text in UTF-8"),
        (b"a\0b", "is not text"),
    ],
)
def test_a_file_that_cannot_be_sent_is_named_with_the_reason(tmp_path, content, words):
    path = tmp_path / "data"
    path.write_bytes(content)

    with pytest.raises(TaskRefused, match=words) as refused:
        read_file(path)

    assert str(path) in str(refused.value)


def test_a_file_that_is_not_there_and_a_folder_are_refused(tmp_path):
    for path, words in ((tmp_path / "gone", "No such file"), (tmp_path, "Is a directory")):
        with pytest.raises(TaskRefused, match=words):
            read_file(path)
