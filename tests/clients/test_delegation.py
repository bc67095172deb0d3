"""Real agents with `tandem mcp`: the model delegates a task, goes on, and collects the result, which reaches its conversation.

The router is real and so is the job; only the models are scripted. The delegated task is answered no sooner than the agent
has gone on, so that nothing could have waited for it.
"""

import asyncio
import json
import os
import re
import sys
from pathlib import Path

import pytest

from tests.tools.clients import folder_of_command, make_scratch, run_client
from tests.tools.running import Running, one_dialect
from tests.tools.speech import Speech, ToolCall, speak
from tests.tools.upstream import Seen, Upstream, Wire

pytestmark = [pytest.mark.clients, pytest.mark.timeout(300)]
PREFIX = "mcp__tandem__"
TASK = "Find the race in the queue"
PROMPT = "Have a look at the queue"
RESULT = "The race is between put and close, in line 4711."
CLIENTS = {
    "codex": ("codex", "codex", ["exec", "--skip-git-repo-check", "--dangerously-bypass-approvals-and-sandbox", PROMPT]),
    "claude-code": ("claude", "claude", ["-p", PROMPT, "--allowedTools", "mcp__tandem", "Bash"]),
}
GO_ON = {
    "Bash": {"command": "echo went on", "description": "go on"},
    "exec_command": {"cmd": "echo went on"},
}
"""By the name of a client's tool: how it runs a command."""
QUIET = {"CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1", "IS_SANDBOX": "1", "SHELL": "/bin/bash"}
SEARCH = "ToolSearch"
"""By which Claude Code holds tools back until the model asks for them."""


class Models:
    """The agent's model, and the one that works on the delegated task, which is known by having no tools."""

    def __init__(self) -> None:
        self.has_gone_on = asyncio.Event()
        self.steps: list[str] = []
        self.knew_at_once: bool | None = None
        """Whether the agent's first request names the tools."""
        self._calls = 0
        self.collected = ""
        """What the agent's model was given as the result of its last tool."""

    async def answer(self, wire: Wire, seen: Seen) -> None:
        names = {tool["function"]["name"] for tool in seen.json.get("tools", ())}
        if names:
            if self.knew_at_once is None:
                self.knew_at_once = f"{PREFIX}delegate" in seen.body.decode()
            speech = self._take_a_step(names, [message for message in seen.json["messages"] if message["role"] == "tool"])
        elif TASK in seen.body.decode():
            await self.has_gone_on.wait()
            self.steps.append("worked")
            speech = Speech(RESULT)
        else:
            speech = Speech("a title")
        await speak("chat", speech)(wire, seen)

    def _take_a_step(self, names: set[str], results: list[dict]) -> Speech:
        """Delegate, then run a command, then collect, then repeat what was collected. Tools may have to be searched for."""
        if "delegate" not in self.steps:
            if (name := f"{PREFIX}delegate") in names:
                return self._call("delegate", name, {"task": TASK, "context": "queue.py: def put(): ..."})
            wanted = f"select:{PREFIX}delegate,{PREFIX}collect"
            return self._call("", SEARCH, {"query": wanted, "max_results": 5})
        if "went on" not in self.steps:
            self.steps.append("went on")
            return self._run_a_command(names)
        self.has_gone_on.set()
        if "collect" not in self.steps:
            job_id = re.search(r"resp_[0-9a-f]+", json.dumps(results))[0]
            return self._call("collect", f"{PREFIX}collect", {"id": job_id, "wait_seconds": 40})
        self.collected = json.dumps(results[-1]["content"])
        return Speech(f"It says: {self.collected}")

    def _run_a_command(self, names: set[str]) -> Speech:
        name = next(name for name in GO_ON if name in names)
        return self._call("", name, GO_ON[name])

    def _call(self, step: str, name: str, arguments: dict) -> Speech:
        self.steps += [step] if step else []
        self._calls += 1
        return Speech(calls=(ToolCall(f"call_{self._calls}", name, json.dumps(arguments)),))


@pytest.mark.parametrize("client", CLIENTS)
async def test_a_result_that_the_model_delegated_reaches_its_conversation(start, upstream, tmp_path, client):
    package, command, arguments = CLIENTS[client]
    models = Models()
    upstream.scripts = [models.answer]
    tandem = await start(one_dialect("chat", upstream.base_url))
    scratch = make_scratch(tmp_path)
    environment = {**QUIET, "PATH": f"{folder_of_command(package)}:{os.environ['PATH']}"}
    connect = [sys.executable, "-m", "router.cli", "connect", "--mcp", client, "--yes"]
    await run_client([*connect, "--config", str(write_config(tmp_path, tandem, upstream))], scratch, environment)

    said = await run_client([command, *arguments], scratch, environment, seconds=200)

    assert models.knew_at_once, said[-2_000:]
    assert models.steps == ["delegate", "went on", "collect", "worked"], said[-2_000:]
    assert RESULT in models.collected
    assert RESULT in " ".join(said.split())


def write_config(folder: Path, tandem: Running, upstream: Upstream) -> Path:
    """The router's config with its port, as `tandem connect` finds it where the router runs."""
    file = folder / "connected.yaml"
    file.write_text(one_dialect("chat", upstream.base_url, extra=f"server: {{port: {tandem.port}}}"))
    return file
