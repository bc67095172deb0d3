"""`tandem mcp`: the protocol on standard input and output."""

import importlib.util
import json
import subprocess
import sys

from router.cli import main
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


def test_without_the_package_it_says_how_to_install_it(monkeypatch, capsys, here):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)

    assert main(["mcp"]) == 1

    out, err = capsys.readouterr()
    assert out == ""
    assert "needs the package mcp, which is not installed\n  hint: pip install 'tandem-router[mcp]'" in err
