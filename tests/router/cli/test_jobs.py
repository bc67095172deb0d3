"""`tandem jobs`."""

import json
import time

import pytest

from router.cli import main
from tests.tools.jobs_server import JOB, RUNNING, make_job, make_response, serving_jobs


@pytest.fixture
def server(here):
    with serving_jobs() as running:
        yield running


@pytest.fixture
def jobs(server):
    return lambda *arguments: main(["jobs", *arguments, "--url", server.url])


def test_a_list_has_a_line_for_each_job(server, jobs, capsys):
    server.jobs = [make_job("resp_2", "queued", tier=None), make_job(title="find\nthe \x1b[31mrace")]

    assert jobs("list") == 0

    head, first, second = capsys.readouterr().out.splitlines()
    assert head.split() == ["id", "state", "tier", "began", "took", "task"]
    assert first.split()[:3] == ["resp_2", "queued", "-"]
    assert second.split()[:3] == [JOB, "completed", "deep"]
    assert second.split()[-4:] == ["41s", "find", "the", "?[31mrace"]


def test_a_list_names_callers_where_there_are_several(server, jobs, capsys):
    server.jobs = [make_job("resp_2", caller="ann", title=""), make_job()]

    assert jobs("list") == 0

    head, first, second = capsys.readouterr().out.splitlines()
    assert head.split() == ["id", "state", "tier", "began", "took", "caller", "task"]
    assert first.split()[-1] == "ann"
    assert second.split()[-4:] == ["local", "find", "the", "race"]


def test_a_moment_of_today_is_listed_without_its_day(server, jobs, capsys):
    server.jobs = [make_job(created_at=time.time(), ended_at=None), make_job()]

    assert jobs("list") == 0

    today, before = (line.split()[3:5] for line in capsys.readouterr().out.splitlines()[1:])
    assert ":" in today[0]
    assert "-" in before[0]
    assert ":" in before[1]


def test_a_list_goes_through_pages_up_to_the_number_that_is_wanted(server, jobs, capsys):
    server.jobs = [make_job(f"resp_{number}") for number in range(7)]
    server.most_listed = 3

    assert jobs("list", "-n", "5", "--json") == 0

    assert [job["id"] for job in json.loads(capsys.readouterr().out)] == [f"resp_{number}" for number in range(5)]
    assert len(server.asked) == 2


def test_a_state_is_asked_for_and_an_empty_list_says_so(server, jobs, capsys):
    assert jobs("list", "--state", "failed") == 0

    out, err = capsys.readouterr()
    assert out == ""
    assert "there are no failed jobs" in err
    assert server.paths == ["GET /tandem/jobs?state=failed&limit=20"]


def test_a_job_is_shown_without_reading_its_answer(server, jobs, capsys):
    server.responses = [make_response(status=RUNNING)]

    assert jobs("show", JOB) == 0

    out, err = capsys.readouterr()
    assert ["state", "running"] in [line.split() for line in out.splitlines()]
    assert f"jobs watch {JOB}" in err
    assert server.paths == [f"GET /tandem/jobs/{JOB}"]


def test_a_result_goes_to_standard_output_alone(server, jobs, capsys):
    assert jobs("result", JOB) == 0

    out, err = capsys.readouterr()
    assert out == "all is well\n"
    assert err == "completed after 41s, 1.2k tokens\n"


def test_the_result_of_a_job_that_still_runs_is_not_read(server, jobs, capsys):
    server.responses = [make_response(status=RUNNING)]

    assert jobs("result", JOB) == 1

    out, err = capsys.readouterr()
    assert out == ""
    assert f"{JOB} is not finished: running\n  hint: tandem jobs watch {JOB}" in err
    assert server.paths == [f"GET /tandem/jobs/{JOB}"] * 2  # again after a moment, and never the response


@pytest.mark.parametrize("state", ["incomplete", "failed", "cancelled"])
def test_the_result_of_a_job_that_is_not_complete_is_printed_with_status_1(server, jobs, capsys, state):
    server.responses = [make_response("half", state)]

    assert jobs("result", JOB) == 1
    assert capsys.readouterr() == ("half\n", f"{state}\n")


def test_json_prints_what_the_router_answered(server, jobs, capsys):
    for action, key in (("show", "state"), ("result", "status"), ("cancel", "status")):
        assert jobs(action, JOB, "--json") == 0
        assert json.loads(capsys.readouterr().out)[key] in ("completed", "cancelled")


@pytest.mark.parametrize(
    ("response", "words"),
    [
        (make_response("", "cancelled"), f"{JOB} is cancelled"),
        (make_response(), f"{JOB} was over before: completed after 41s"),
        (make_response(status=RUNNING), f"{JOB} is being cancelled"),
    ],
)
def test_a_cancellation_says_what_became_of_the_job(server, jobs, capsys, response, words):
    server.refusal = (200, response)

    assert jobs("cancel", JOB) == 0
    assert words in capsys.readouterr().err


def test_an_admin_learns_that_a_job_is_another_callers(server, jobs, capsys):
    server.owner = "ann"

    for action in ("watch", "result", "cancel"):
        assert jobs(action, JOB) == 1
        printed = capsys.readouterr()
        assert printed.out == ""
        assert f"{JOB} is a job of the caller ann, who alone can read" in printed.err


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["list", "resp_1"], "jobs list takes no id"),
        (["show"], "jobs show needs the id of a job"),
        (["watch", "resp_1", "--state", "failed"], "--state is an option of tandem jobs list"),
        (["cancel", "resp_1", "-n", "3"], "-n is an option of tandem jobs list"),
    ],
)
def test_wrong_arguments_are_refused_before_a_router_is_asked(server, jobs, capsys, arguments, words):
    assert jobs(*arguments) == 2
    assert words in capsys.readouterr().err
    assert server.asked == []


def test_a_job_of_which_no_webhook_was_told_is_marked_and_explained(server, jobs, capsys):
    server.jobs = [make_job("resp_2", undelivered=["response.completed"]), make_job()]

    assert jobs("list") == 0

    out, err = capsys.readouterr()
    assert [line.split()[1] for line in out.splitlines()[1:]] == ["completed*", "completed"]
    assert "* 1 job: no webhook took the event of its end" in err
