"""`tandem delegate`."""

import io
import json
import signal
import subprocess
import sys

import pytest

from router.cli import main
from tests.tools.jobs_server import JOB, delta, end, event, make_response, serving_jobs


@pytest.fixture
def server(here):
    with serving_jobs() as running:
        yield running


@pytest.fixture
def delegate(server):
    return lambda *arguments: main(["delegate", *arguments, "--url", server.url])


def test_the_id_alone_goes_to_standard_output(server, delegate, capsys):
    assert delegate("find the race") == 0

    out, err = capsys.readouterr()
    assert out == f"{JOB}\n"
    assert f"jobs result {JOB}" in err
    assert server.bodies[0]["input"] == "find the race"


@pytest.mark.parametrize("command", [["delegate", "x"], ["keys", "add", "ann"]])
def test_an_unknown_tier_is_refused_with_the_known_ones_in_plain_words(command, capsys, here):
    with pytest.raises(SystemExit):
        main([*command, "--tier", "medium"])

    assert "<Tier" not in capsys.readouterr().err


def test_a_job_is_given_for_the_session_of_the_agent_that_runs_the_command(server, delegate, monkeypatch):
    monkeypatch.delenv("CLAUDE_CODE_SESSION_ID", raising=False)
    monkeypatch.setenv("CODEX_THREAD_ID", "t1")

    assert delegate("find the race") == 0
    assert server.sessions == ["codex:t1"]


def test_files_are_quoted_by_the_names_that_were_typed(server, delegate, here):
    (here / "a.py").write_text("x = 1\n")

    assert delegate("read", "--file", "a.py", "--tier", "deep") == 0
    assert server.bodies[0]["input"] == "read\n\na.py:\n```\nx = 1\n```"
    assert server.bodies[0]["model"] == "deep"


def test_a_task_is_read_from_standard_input(server, delegate, monkeypatch):
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO("größer\n".encode())))

    assert delegate("-") == 0
    assert server.bodies[0]["input"] == "größer"


@pytest.mark.parametrize(
    ("raw", "words"),
    [
        (b"\xff", "not text in UTF-8"),
        (b"", "the task is empty"),
        (b"x" * 3_000_000, "standard input is too long: at most 2,097,152 bytes can be sent\n  hint: send less"),
    ],
)
def test_standard_input_that_cannot_be_sent_is_refused(server, delegate, monkeypatch, capsys, raw, words):
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(raw)))

    assert delegate("-") == 2
    assert words in capsys.readouterr().err
    assert server.asked == []


def test_a_file_that_cannot_be_read_is_reported_before_anything_is_sent(server, delegate, capsys):
    assert delegate("read", "--file", "gone.py") == 2
    assert capsys.readouterr().err == "gone.py cannot be read: No such file or directory\n"
    assert server.asked == []


def test_waiting_prints_the_answer_as_it_comes_and_how_it_ended(server, delegate, capsys):
    began = [event("response.queued", 0), event("response.in_progress", 1)]
    server.streams = [[*began, delta("all is ", 2), delta("well", 3), end(4)]]

    assert delegate("think", "--wait") == 0

    out, err = capsys.readouterr()
    assert out == "all is well\n"
    assert err.splitlines() == [f"{JOB} at {server.url}", "queued", "running", "completed after 41s, 1.2k tokens"]


def test_an_answer_that_comes_only_at_its_end_is_printed_too(server, delegate, capsys):
    server.streams = [[end(1, text="at once")]]

    assert delegate("think", "--wait") == 0
    assert capsys.readouterr().out == "at once\n"


def test_json_prints_the_response_or_each_event(server, delegate, capsys):
    assert delegate("think", "--json") == 0
    assert json.loads(capsys.readouterr().out)["status"] == "queued"

    server.streams = [[delta("a", 1), end(2)]]
    assert delegate("think", "--wait", "--json") == 0
    assert [json.loads(line)["sequence_number"] for line in capsys.readouterr().out.splitlines()] == [1, 2]


@pytest.mark.parametrize(
    ("status", "words"),
    [(401, "--key-env"), (429, "200 jobs are queued"), (503, "200 jobs are queued"), (404, "200 jobs are queued")],
)
def test_a_router_that_refuses_is_quoted(server, delegate, capsys, status, words):
    server.refusal = (status, {"error": {"code": "x", "message": "200 jobs are queued"}})

    assert delegate("think") == 1
    assert words in capsys.readouterr().err


def test_where_no_router_answers_it_says_how_to_start_one(here, capsys):
    assert main(["delegate", "think", "--url", "http://127.0.0.1:9"]) == 1
    assert "tandem serve starts one" in capsys.readouterr().err


def test_ctrl_c_leaves_the_job_running_and_says_so(heard_signals, tmp_path):
    with serving_jobs() as server:
        server.streams = [[delta("begun", 1)], [], []]
        server.responses = [make_response(status="in_progress")]
        command = [sys.executable, "-m", "router.cli", "delegate", "think", "--wait", "--url", server.url]
        process = subprocess.Popen(
            command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env={"HOME": str(tmp_path)}
        )
        while "trying again" not in process.stderr.readline():
            pass
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=30)

    assert process.returncode == 130
    assert out == "begun"
    assert f"{JOB} goes on without this command" in err
    assert "cancel" not in " ".join(server.paths)
