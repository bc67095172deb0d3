"""The README's road, with keys in the checkout's `.env`; then every command from a folder that has nothing to do with it."""

import asyncio
import io
import json
import re
import sys
import time

import pytest

from router.cli import GROUPS, main
from router.cli.common import load_in_use
from router.config.load import default_text
from router.config.reading import BUILT_IN
from tests.tools.http import call
from tests.tools.serve import serving
from tests.tools.speech import Speech, speak
from tests.tools.waiting import later

ANSWER = Speech("Renamed.")
OWN_ROUTER = {"serve", "demo"}
"""Start a router of their own, and look for none."""
ASKING = """
import os, urllib.request as web
body = b'{"model": "auto", "input": "rename a to b"}'
asked = web.Request(os.environ["OPENAI_BASE_URL"] + "/responses", body, {"content-type": "application/json"})
print(web.urlopen(asked).read().decode())
"""


async def answer(wire, seen) -> None:
    await speak("messages" if "messages" in seen.path else "responses", ANSWER)(wire, seen)


@pytest.fixture
async def road(tmp_path, monkeypatch, upstream):
    """A router of a checkout, configured by `init` after its start. Gives its address and config; we stand elsewhere."""
    upstream.scripts = [answer]
    checkout, project = tmp_path / "checkout", tmp_path / "project"
    checkout.mkdir()
    project.mkdir()
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "settings"))
    for name in ("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "CODEX_HOME", "TANDEM_CONFIG"):
        monkeypatch.delenv(name, raising=False)
    config = checkout / "config.yaml"
    config.write_text(default_text())
    with serving(checkout) as url:
        monkeypatch.chdir(checkout)
        (checkout / ".env").write_text("OPENAI_API_KEY=sk-one\nANTHROPIC_API_KEY=sk-two\n")
        assert await asyncio.to_thread(main, ["init", "--force", "--yes", "--offline"]) == 0
        text = config.read_text()
        assert {"env:OPENAI_API_KEY", "env:ANTHROPIC_API_KEY"} <= set(re.findall(r"env:\w+", text))
        config.write_text(re.sub(r"base_url: \S+", f"base_url: {upstream.base_url}", text))
        assert await asyncio.to_thread(main, ["reload"]) == 0
        monkeypatch.chdir(project)
        yield url, config


@pytest.fixture
def tandem(capsys, monkeypatch):
    monkeypatch.setattr(sys, "stdin", io.StringIO())

    async def run(*arguments: str, code: int = 0) -> str:
        """Run a command in a thread, since the upstream has the test's loop. Gives what it printed."""
        capsys.readouterr()
        ended = await asyncio.to_thread(main, list(arguments))
        out, err = capsys.readouterr()
        assert ended == code, (arguments, out, err)
        assert "is not set" not in out + err, arguments
        assert BUILT_IN not in out + err, arguments
        return out or err

    return run


async def ask(url: str, text: str) -> None:
    port, body = int(url.rpartition(":")[2]), {"model": "auto", "input": text}
    reply = await call(port, "/v1/responses", body, {"authorization": "Bearer whatever"})
    assert reply.status == 200, reply


async def follow(url: str, *options: str) -> dict:
    """The first turn since now that `tandem log --follow` shows. It runs until it is stopped, so it is a process."""
    command, since = [sys.executable, "-m", "router.cli", "log", "--follow", "--json", *options], time.time()
    log = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE)
    assert log.stdout is not None
    shown = {"at": 0.0}
    while shown["at"] < since:  # turns that have just ended are shown too
        reading = later(log.stdout.readline())
        while not reading.done():
            await ask(url, "rename a to b")
            await asyncio.wait([reading], timeout=0.2)
        shown = json.loads(reading.result())
    log.terminate()
    await log.communicate()
    return shown


async def test_every_command_works_from_another_folder(road, tandem, tmp_path):
    url, config = road
    await ask(url, "rename a to b")
    done: set[str] = set()

    async def both(*arguments: str, code: int = 0) -> str:
        """Without `--url` and with it."""
        done.add(arguments[0])
        await tandem(*arguments, "--url", url, code=code)
        return await tandem(*arguments, code=code)

    async def alone(*arguments: str, code: int = 0) -> str:
        done.add(arguments[0])
        return await tandem(*arguments, code=code)

    assert "simulated" in await alone("init", "--print", "--offline")
    assert "codex" in await both("connect")
    assert f"{url}/v1" in await both("connect", "codex", "--print")
    await both("connect", "codex", "--yes")
    await both("connect", "codex", "--undo", "--yes")
    assert str(config) in await alone("check")
    assert "OPENAI_API_KEY, from .env" in await alone("check")
    assert "openai" in await alone("explain", "fix", "the", "typo")
    assert "all on deep" in await both("stats")
    assert await both("log")
    assert "fast" in await both("why")
    await both("wrong")
    await alone("wrong", "deep", "--rule", "security scan")
    assert "security scan" in config.read_text()
    await alone("replay", "--ledger")
    assert ANSWER.text in await both("delegate", "rename it", "--wait")
    job, *_ = json.loads(await tandem("jobs", "list", "--json"))
    await both("jobs", "list")
    assert ANSWER.text in await both("jobs", "result", job["id"])
    assert str(config) in await both("status")
    await both("reload")
    assert f"answers at {url}" in await alone("service", "status", code=1)  # which is not installed
    assert str(config.with_name("tandem.db")) in await alone("ledger", "status")
    assert str(config.with_name("keys.yaml")) in await alone("keys", "list")
    assert "running" in await both("statusline")
    assert {(await follow(url, *at))["tier"] for at in ((), ("--url", url))} == {"fast"}
    config.with_name(".env").rename(config.with_name("away"))  # as if its keys were exported in the router's shell alone
    assert url in await both("connect", "codex", "--print")
    assert "openai" in await alone("explain", "fix", "the", "typo")
    await alone("stop")

    assert done | OWN_ROUTER | {"run"} == {name for group in GROUPS.values() for name in group} | {"statusline"}


async def test_a_command_with_its_own_router_has_the_models_of_the_one_that_runs(road):
    command = [sys.executable, "-m", "router.cli", "run", "--", sys.executable, "-c", ASKING]
    run = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE)
    out, _ = await run.communicate()

    assert (run.returncode, json.loads(out)["output"][-1]["content"][0]["text"]) == (0, ANSWER.text)


def test_the_built_in_default_is_simulated_whatever_init_wrote_elsewhere(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)

    loaded = load_in_use(None)

    assert (loaded.source, loaded.is_simulated) == (BUILT_IN, True)
