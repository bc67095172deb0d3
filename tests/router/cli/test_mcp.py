"""`tandem mcp`: the protocol on standard input and output."""

import importlib.util
import json
import subprocess
import sys

import pytest
from mcp import Client, MCPError

from router.cli import main
from router.cli.background import Jobs
from router.cli.mcp import build_server
from router.cli.mcp_tools import Delegation
from tests.tools.jobs_server import JOB, RUNNING, make_response, serving_jobs

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


async def test_a_client_is_sent_progress_where_it_asked_for_it_and_an_error_for_a_tool_that_is_not_listed(folder):
    now, heard = [0.0], []

    async def sleep(seconds: float) -> None:
        now[0] += seconds

    async def hear(progress: float, total: float | None, said: str | None) -> None:
        heard.append((progress, total, said))

    with serving_jobs() as server:
        server.responses = [make_response(status=RUNNING)] * 8 + [make_response()] * 2
        async with Client(build_server(Delegation(Jobs(server.url), sleep, lambda: now[0]))) as client:
            answer = await client.call_tool("collect", {"id": JOB}, progress_callback=hear)
            again = await client.call_tool("collect", {"id": JOB})
            with pytest.raises(MCPError) as refused:
                await client.call_tool("shout", {})

    assert [content.text for content in (*answer.content, *again.content)] == ["all is well"] * 2
    assert [(progress, total) for progress, total, _ in heard] == [(3.0, None), (6.0, None)]
    assert heard[0][2].startswith(f"{JOB}: running, on deep, for ")
    assert (refused.value.code, refused.value.message) == (-32602, "unknown tool: shout")


def test_without_the_package_it_says_how_to_install_it(monkeypatch, capsys, here):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)

    assert main(["mcp"]) == 1

    out, err = capsys.readouterr()
    assert out == ""
    assert "needs the package mcp, which is not installed\n  hint: pip install 'tandem-router[mcp]'" in err
