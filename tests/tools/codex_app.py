"""Codex as editors run it: one process that takes many turns, told by JSON-RPC on its standard streams."""

import asyncio
import contextlib
import itertools
import json
import os
import signal
from collections.abc import AsyncIterator
from pathlib import Path

from tests.tools.clients import CODEX_KEY, command_of

PROVIDER = """
model = "auto"
model_provider = "router"
[model_providers.router]
name = "router"
base_url = "{url}/v1"
env_key = "CODEX_API_KEY"
wire_api = "responses"
supports_websockets = true
"""
BUILT_IN = """
model = "auto"
openai_base_url = "{url}/v1"
"""


class CodexApp:
    """A running Codex, and one thread in it."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process
        self._ids = itertools.count(1)
        self._thread = ""
        self.told: list[dict] = []
        """All that it said without being asked."""

    async def begin(self, folder: Path) -> None:
        await self._call("initialize", {"clientInfo": {"name": "editor", "version": "1"}})
        self._send({"method": "initialized"})
        started = await self._call("thread/start", {"cwd": str(folder), "approvalPolicy": "never", "sandbox": "read-only"})
        self._thread = started["thread"]["id"]

    async def turn(self, words: str) -> dict:
        """One turn, to its end."""
        begun = await self._call("turn/start", {"threadId": self._thread, "input": [{"type": "text", "text": words}]})
        while True:
            for told in self.told:
                if told["method"] == "turn/completed" and told["params"]["turn"]["id"] == begun["turn"]["id"]:
                    return told["params"]["turn"]
            await self._read()

    async def _call(self, method: str, params: dict) -> dict:
        number = next(self._ids)
        self._send({"id": number, "method": method, "params": params})
        while True:
            answer = await self._read()
            if answer.get("id") == number and "method" not in answer:
                assert "result" in answer, answer
                return answer["result"]

    def _send(self, message: dict) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(message).encode() + b"\n")

    async def _read(self) -> dict:
        assert self._process.stdout is not None
        line = await asyncio.wait_for(self._process.stdout.readline(), 60)
        assert line, "codex ended"
        message = json.loads(line)
        if "method" in message:
            self.told.append(message)
        return message


@contextlib.asynccontextmanager
async def codex_app(url: str, scratch: Path, config: str) -> AsyncIterator[CodexApp]:
    """Codex with a config of its own, which knows the router's address."""
    command, home = command_of("codex"), scratch / "home"
    (home / ".codex").mkdir()
    (home / ".codex" / "config.toml").write_text(config.format(url=url))
    process = await asyncio.create_subprocess_exec(
        command,
        "app-server",
        cwd=scratch / "repo",
        env={"PATH": os.environ["PATH"], "HOME": str(home), **CODEX_KEY},
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
        limit=1 << 24,
        start_new_session=True,
    )
    try:
        app = CodexApp(process)
        await app.begin(scratch / "repo")
        yield app
    finally:
        assert process.stdin is not None
        process.stdin.close()  # on which it ends
        try:
            await asyncio.wait_for(process.communicate(), 30)
        except TimeoutError:
            os.killpg(process.pid, signal.SIGKILL)  # its command is a script, which would leave the program itself running
            await process.communicate()
