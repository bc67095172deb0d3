"""Real clients over one WebSocket: twenty turns in one process, with the tier that each turn's words ask for."""

import asyncio
import contextlib
import itertools
import json
import os
import signal
from collections.abc import AsyncIterator, Mapping
from pathlib import Path

import pytest

from router.edge.admission import Admission, Slot
from tests.conftest import SIMULATED
from tests.tools.clients import CODEX_KEY, command_of, make_scratch, run_client, socket_sdk

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
            for turn in self._completed():
                if turn["id"] == begun["turn"]["id"]:
                    return turn
            await self._read()

    async def compact(self) -> dict:
        """Compact the thread, which is a turn of its own."""
        before = {turn["id"] for turn in self._completed()}
        await self._call("thread/compact/start", {"threadId": self._thread})
        while not (new := [turn for turn in self._completed() if turn["id"] not in before]):
            await self._read()
        return new[0]

    async def hear(self, method: str, count: int = 1) -> list[dict]:
        """What it says of one kind, once it has been said so often."""
        while len(heard := [told["params"] for told in self.told if told["method"] == method]) < count:
            await self._read()
        return heard

    def _completed(self) -> list[dict]:
        """The ended turns of its thread: a subagent has another."""
        ended = [told["params"] for told in self.told if told["method"] == "turn/completed"]
        return [params["turn"] for params in ended if params["threadId"] == self._thread]

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
async def codex_app(
    url: str, scratch: Path, config: str, environment: Mapping[str, str] = CODEX_KEY
) -> AsyncIterator[CodexApp]:
    """Codex with a config of its own, which knows the router's address."""
    command, home = command_of("codex"), scratch / "home"
    (home / ".codex").mkdir(exist_ok=True)
    (home / ".codex" / "config.toml").write_text(config.format(url=url))
    process = await asyncio.create_subprocess_exec(
        command,
        "app-server",
        cwd=scratch / "repo",
        env={"PATH": os.environ["PATH"], "HOME": str(home), **environment},
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


pytestmark = [pytest.mark.clients, pytest.mark.timeout(300)]

SMALL, LARGE = "Fix the typo in calc.py", "Migrate the whole codebase to async, with tests and docs"
ASKED = [LARGE if number % 4 == 2 else SMALL for number in range(20)]
SLOW_DEEP = SIMULATED.replace("0.02, tokens_per_second: 20000", "0.4, tokens_per_second: 300") + "decision: {hop_seconds: 0}\n"
SDK_SCRIPT = """
from openai import OpenAI

with OpenAI().responses.connect() as socket:
    previous = None
    for words in ("Fix the typo in calc.py", "Thanks", "Now rename the function"):
        more = {"previous_response_id": previous} if previous else {}
        socket.response.create(model="auto", input=words, store=False, **more)
        for event in socket:
            if event.type == "response.completed":
                previous = event.response.id
                print("said", event.response.output_text.replace("\\n", " "))
                break
            assert event.type != "error", event
"""


@pytest.fixture
def handshakes(monkeypatch) -> list[str]:
    """The clients that opened a socket, one for each handshake."""
    seen, admit = [], Admission.admit

    def count(self, head, takes=Slot.REQUEST):
        if takes is Slot.SOCKET:
            seen.append(head.headers.get("user-agent", ""))
        return admit(self, head, takes)

    monkeypatch.setattr(Admission, "admit", count)
    return seen


@pytest.mark.parametrize("config", [PROVIDER, BUILT_IN], ids=["a provider of its own", "the built-in one"])
async def test_codex_takes_twenty_turns_on_one_socket_and_each_has_its_tier(start, tmp_path, handshakes, config):
    tandem = await start(SLOW_DEEP)  # beside which fast is sooner on any machine

    async with codex_app(tandem.url, make_scratch(tmp_path), config) as codex:
        turns = [await codex.turn(words) for words in ASKED]
        problems = [told for told in codex.told if told["method"] == "error"]

    assert [turn["status"] for turn in turns] == ["completed"] * 20
    assert problems == []
    assert len(handshakes) == 1  # as many as a server needs that answers from a script
    entries = await tandem.entries(41)
    asks = [entry for entry in entries if entry["turn_kind"] == "ask"]
    assert [entry["tier"] for entry in asks] == ["deep" if words == LARGE else "fast" for words in ASKED]
    assert {entry["outcome"] for entry in entries} == {"SERVED"}


async def test_the_python_sdk_talks_over_one_socket(start, tmp_path, handshakes):
    tandem = await start(SIMULATED)
    script = tmp_path / "talk.py"
    script.write_text(SDK_SCRIPT)
    environment = {"OPENAI_BASE_URL": f"{tandem.url}/v1", "OPENAI_API_KEY": "any"}

    said = await run_client([str(socket_sdk()), str(script)], make_scratch(tmp_path), environment)

    assert said.count("no model was asked") == 3, said
    assert len(handshakes) == 1
    entries = await tandem.entries(3)
    assert [entry["outcome"] for entry in entries] == ["SERVED"] * 3
    assert len({entry["session"] for entry in entries}) == 1
