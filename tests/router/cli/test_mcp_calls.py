"""The tools that an agent is offered, against a scripted router."""

import pytest

from router.cli.background import Jobs
from router.cli.mcp_calls import Answer, Delegation
from router.cli.mcp_tools import MOST_WAIT_SECONDS, TOOLS
from tests.tools.jobs_server import JOB, RUNNING, make_job, make_response, serving_jobs


@pytest.fixture
def server(folder):
    with serving_jobs() as running:
        yield running


BY_NAME = {tool.name: tool for tool in TOOLS}


class Tools:
    """Calls by name, with a clock that moves only while a call waits."""

    def __init__(self, url: str) -> None:
        self.now, self.heard = 0.0, []
        self._delegation = Delegation(Jobs(url), lambda: self.now)

    def call(self, name: str, given: dict) -> Answer:
        return self._delegation.call(BY_NAME[name], given, {}, lambda *said: self.heard.append(said), self._wait)

    def _wait(self, seconds: float) -> None:
        self.now += seconds


@pytest.fixture
def tools(server):
    return Tools(server.url)


def test_a_schema_names_what_is_required_and_allows_nothing_else():
    schemas = {tool.name: tool.describe()["inputSchema"] for tool in TOOLS}

    assert schemas["delegate"]["required"] == ["task"]
    assert set(schemas["collect"]["properties"]) == {"id", "wait_seconds"}
    assert all(schema["additionalProperties"] is False for schema in schemas.values())


def test_a_task_is_delegated_with_its_context_quoted(server, tools):
    answer = tools.call("delegate", {"task": "find the race", "context": "queue.py: x = 1"})

    assert not answer.is_error
    assert f'collect with id "{JOB}"' in answer.text
    assert server.bodies[0]["input"] == "find the race\n\nContext:\n```\nqueue.py: x = 1\n```"
    assert server.bodies[0]["background"] is True


def test_a_check_reads_nothing_of_the_answer(server, tools):
    server.responses = [make_response(status=RUNNING)]

    answer = tools.call("check", {"id": JOB})

    assert answer.text.startswith(f"{JOB}: running, on deep, for ")
    assert server.paths == [f"GET /tandem/jobs/{JOB}"]


def test_collecting_waits_until_the_result_is_there(server, tools):
    server.responses = [make_response(status=RUNNING)] * 3 + [make_response("the race is in line 7")]

    answer = tools.call("collect", {"id": JOB, "wait_seconds": 30})

    assert answer == ("the race is in line 7", False)
    assert tools.now == 3.0


def test_a_client_that_waits_hears_of_the_task_every_three_seconds(server, tools):
    server.responses = [make_response(status=RUNNING)] * 8 + [make_response("the race is in line 7")]

    tools.call("collect", {"id": JOB, "wait_seconds": 30})

    assert [(progress, state.partition(",")[0]) for progress, state in tools.heard] == [
        (3.0, f"{JOB}: running"),
        (6.0, f"{JOB}: running"),
    ]


@pytest.mark.parametrize(("given", "waited"), [(0, 0.0), (2, 2.0), (1e9, float(MOST_WAIT_SECONDS)), (-1, 0.0)])
def test_collecting_waits_no_longer_than_it_was_told_or_a_client_allows(server, tools, given, waited):
    server.responses = [make_response(status=RUNNING)]

    answer = tools.call("collect", {"id": JOB, "wait_seconds": given})

    assert "It is not finished" in answer.text
    assert tools.now == waited
    assert not any("/v1/responses" in path for path in server.paths)


@pytest.mark.parametrize(
    ("response", "words"),
    [
        (
            make_response("half", "failed", error={"message": "interrupted"}),
            "ended as failed: interrupted. What it had written",
        ),
        (make_response("", "cancelled"), "ended as cancelled. It had written nothing."),
        (make_response("", "completed"), "completed with an empty answer"),
    ],
)
def test_a_result_that_is_not_whole_says_so_first(server, tools, response, words):
    server.responses = [response]

    answer = tools.call("collect", {"id": JOB})

    assert words in answer.text


def test_tasks_are_listed_and_cancelled(server, tools):
    server.jobs = [make_job("resp_2", "running", title="a\nb"), make_job()]

    listed = tools.call("list", {})
    cancelled = tools.call("cancel", {"id": JOB})

    assert [line.partition(",")[0] for line in listed.text.splitlines()] == ["resp_2: running", f"{JOB}: completed"]
    assert listed.text.splitlines()[0].endswith("Task: a b")
    assert cancelled.text == f"{JOB} is cancelled."

    server.jobs = []
    assert tools.call("list", {}).text == "There are no delegated tasks."


@pytest.mark.parametrize(
    ("name", "given", "words"),
    [
        ("delegate", {}, "delegate needs task"),
        ("delegate", {"task": " "}, "delegate needs task"),
        ("delegate", {"task": ["a"]}, "delegate needs task"),
        ("delegate", {"task": "a", "file": "b"}, "delegate has no argument file. It takes: task, context"),
        ("delegate", {"task": "x" * 3_000_000}, "too long"),
        ("list", {"id": "x"}, "list has no argument id. It takes: no arguments"),
        ("check", {"id": "resp_9"}, "there is no delegated task resp_9"),
    ],
)
def test_a_wrong_call_is_an_answer_that_says_what_would_be_right(tools, name, given, words):
    answer = tools.call(name, given)

    assert answer.is_error
    assert words in answer.text


@pytest.mark.parametrize(("status", "words"), [(401, "--key-env"), (429, "the queue is full")])
def test_a_refusal_of_the_router_reaches_the_model(server, tools, status, words):
    server.refusal = (status, {"error": {"code": "x", "message": "the queue is full"}})

    answer = tools.call("delegate", {"task": "think"})

    assert answer.is_error
    assert words in answer.text


def test_a_router_that_does_not_run_is_an_answer_too(folder):
    answer = Tools("http://127.0.0.1:9").call("list", {})

    assert answer.is_error
    assert "Is `tandem serve` running?" in answer.text
