"""`tandem mcp`: the protocol on standard input and output."""

import io
import json
import resource
import subprocess
import sys
import threading

import pytest
from mcp import Client, MCPError, StdioServerParameters

from router.cli import Ended
from router.cli.mcp import VERSIONS, Session
from router.cli.mcp_calls import Answer
from tests.tools.jobs_server import JOB, serving_jobs

MCP = [sys.executable, "-m", "router.cli", "mcp"]
HELLO = {
    "protocolVersion": "2025-06-18",
    "capabilities": {},
    "clientInfo": {"name": "test", "version": "1"},
}


def message(method: str, number: int | None = None, **params: object) -> dict:
    own = {} if number is None else {"id": number}
    return {"jsonrpc": "2.0", "method": method, **own, "params": params}


def test_an_agent_delegates_and_collects_and_nothing_but_protocol_is_printed(tmp_path):
    spoken = [
        message("initialize", 1, **HELLO),
        message("notifications/initialized"),
        message("tools/list", 2),
        message("tools/call", 3, name="delegate", arguments={"task": "think"}, _meta={"threadId": "t1"}),
        message("tools/call", 4, name="collect", arguments={"id": JOB, "wait_seconds": 5}),
        message("tools/call", 5, name="check", arguments={}),
    ]
    with serving_jobs() as server:
        process = subprocess.Popen(
            [*MCP, "--url", server.url], cwd=tmp_path, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        answers = {}
        for sent in spoken:
            process.stdin.write(json.dumps(sent) + "\n")
            process.stdin.flush()
            if "id" in sent:
                answer = json.loads(process.stdout.readline())
                answers[answer["id"]] = answer["result"]
        rest, _ = process.communicate(timeout=30)

    assert rest == ""
    assert server.sessions == ["codex:t1"]
    assert process.returncode == 0
    assert answers[1]["serverInfo"]["name"] == "tandem"
    assert "has no hands" in answers[1]["instructions"]
    assert [tool["name"] for tool in answers[2]["tools"]] == ["delegate", "check", "collect", "cancel", "list"]
    assert "has no hands" in answers[2]["tools"][0]["description"]
    assert answers[2]["tools"][1]["annotations"]["readOnlyHint"] is True
    assert answers[3]["content"][0]["text"].startswith(f"Started {JOB}.")
    assert answers[4]["content"] == [{"type": "text", "text": "all is well"}]
    assert answers[5]["isError"] is True


@pytest.mark.starts
def test_tools_are_listed_with_little_cpu_for_clients_that_do_not_wait():
    spoken = "".join(f"{json.dumps(sent)}\n" for sent in (message("initialize", 1, **HELLO), message("tools/list", 2)))
    costs = []
    for _ in range(3):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        done = subprocess.run(MCP, input=spoken, capture_output=True, text=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        assert len(done.stdout.splitlines()) == 2, done.stderr
        costs.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)

    assert min(costs) < 0.3, "0.09 s on the machine where this was written: was a package imported?"


@pytest.mark.starts
async def test_the_official_client_lists_and_calls_the_tools(folder):
    with serving_jobs() as server:
        command = StdioServerParameters(command=MCP[0], args=[*MCP[1:], "--url", server.url], cwd=folder)
        async with Client(command) as client:
            tools = (await client.list_tools()).tools
            answer = await client.call_tool("collect", {"id": JOB})
            with pytest.raises(MCPError) as refused:
                await client.call_tool("shout", {})
            said, named = client.instructions, client.server_info

    assert [tool.name for tool in tools] == ["delegate", "check", "collect", "cancel", "list"]
    assert tools[1].annotations.read_only_hint is True
    assert [content.text for content in answer.content] == ["all is well"]
    assert (refused.value.code, refused.value.message) == (-32602, "unknown tool: shout")
    assert "has no hands" in said
    assert (named.name, named.title) == ("tandem", "Tandem")


class Spoken:
    """A session in this process, whose tools do what a test says."""

    def __init__(self, call=lambda *_: Answer("done")) -> None:
        self.opened, self.call = 0, call
        self._output = io.BytesIO()
        self.session = Session(self._output, self._open)

    def _open(self):
        self.opened += 1
        return self

    def hear(self, *messages: object) -> list[dict]:
        """What was answered once every call is over."""
        for sent in messages:
            self.session.hear(sent if isinstance(sent, bytes) else json.dumps(sent).encode())
        return self.told()

    def told(self) -> list[dict]:
        for thread in [thread for thread in threading.enumerate() if thread.name.endswith("(_call)")]:
            thread.join()
        return [json.loads(line) for line in self._output.getvalue().splitlines()]


def calling(number: int, name: object = "list", **more: object) -> dict:
    return message("tools/call", number, name=name, **more)


@pytest.mark.parametrize(("asked", "agreed"), [*((one, one) for one in VERSIONS), ("2019-01-01", VERSIONS[0])])
def test_a_client_gets_its_version_of_the_protocol_or_the_newest(asked, agreed):
    (told,) = Spoken().hear(message("initialize", 1, protocolVersion=asked))

    assert told["result"]["protocolVersion"] == agreed


@pytest.mark.parametrize(
    ("sent", "code"),
    [
        (b"{", -32700),
        (b"\xff", -32700),
        (b'"hello"', -32600),
        ({"id": 1, "method": "ping", "params": []}, -32600),
        (message("server/discover", 1), -32601),
        (calling(1, "shout"), -32602),
        (calling(1, ["list"]), -32602),
        (calling(1, arguments=["x"]), -32602),
        (calling(1, _meta="x"), -32602),
    ],
)
def test_what_cannot_be_understood_is_an_error_and_the_session_goes_on(sent, code):
    refused, alive = Spoken().hear(sent, message("ping", 2))

    assert refused["error"]["code"] == code
    assert alive == {"jsonrpc": "2.0", "id": 2, "result": {}}


def test_a_batch_is_answered_and_what_needs_no_answer_gets_none():
    spoken = Spoken()

    told = spoken.hear([message("ping", 1), message("notifications/initialized"), {"id": 7, "result": {}}, message("ping", 2)])

    assert [answer["id"] for answer in told] == [1, 2]


def test_the_rest_is_loaded_once_with_the_first_call():
    spoken = Spoken()
    spoken.hear(message("initialize", 1), message("tools/list", 2))
    assert spoken.opened == 0

    spoken.hear(calling(3), calling(4))

    assert spoken.opened == 1


def test_a_call_that_waits_delays_no_other_and_ends_without_an_answer_when_it_is_cancelled():
    def call(tool, given, sent, report, pause):
        if tool.name == "collect":
            pause(100)
        return Answer("done")

    spoken = Spoken(call)
    spoken.session.hear(json.dumps(calling(1, "collect")).encode())

    told = spoken.hear(message("ping", 2), message("notifications/cancelled", requestId=1), calling(3))

    assert sorted(answer["id"] for answer in told) == [2, 3]


def test_a_call_that_waits_ends_with_the_session():
    spoken = Spoken(lambda tool, given, sent, report, pause: pause(100))
    spoken.session.hear(json.dumps(calling(1)).encode())

    spoken.session.close()

    assert spoken.told() == []


@pytest.mark.parametrize(("meta", "heard"), [({"progressToken": "p"}, 1), ({}, 0)])
def test_progress_is_sent_where_it_was_asked_for(meta, heard):
    def call(tool, given, sent, report, pause):
        report(3.0, "running")
        return Answer("done")

    told = Spoken(call).hear(calling(1, _meta=meta))

    progress = {"progressToken": "p", "progress": 3.0, "message": "running"}
    assert told[:-1] == [{"jsonrpc": "2.0", "method": "notifications/progress", "params": progress}] * heard
    assert told[-1]["result"] == {"content": [{"type": "text", "text": "done"}], "isError": False}


def test_a_key_that_is_not_set_is_an_answer_that_the_model_reads():
    def refuse(*_):
        raise Ended(2, "--key-env: MY_KEY is not set")

    (told,) = Spoken(refuse).hear(calling(1))

    assert told["result"] == {"content": [{"type": "text", "text": "--key-env: MY_KEY is not set"}], "isError": True}


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_tool_that_breaks_is_an_error_and_not_a_silence():
    def crash(*_):
        raise RuntimeError("broken")

    (told,) = Spoken(crash).hear(calling(1))

    assert told["error"]["code"] == -32603
