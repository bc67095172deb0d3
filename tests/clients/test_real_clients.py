"""Real clients against the simulated tiers, in a scratch home and repository. Skipped, loudly, where npm cannot install them."""

import asyncio
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from router.config.load import check_config
from router.lab.cases import cases_of
from router.lab.logs import find_logs, read_logs
from router.lab.logs.lines import Tally
from router.lab.replay import choose_again, quiet
from router.wiring import build_house, known_names
from tests.conftest import SIMULATED

CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "tandem-clients"
PACKAGES = {"codex": "@openai/codex@0.166.0", "claude": "@anthropic-ai/claude-code@2.1.325"}
PROMPT = "Fix the typo in calc.py"

pytestmark = [pytest.mark.clients, pytest.mark.timeout(300)]


def installed(name: str) -> Path:
    folder = CACHE / name
    binary = folder / "node_modules" / ".bin" / name
    if binary.exists():
        return binary
    if shutil.which("npm") is None:
        pytest.skip(f"npm is not here: {name} was not tried")
    command = ["npm", "install", "--no-audit", "--no-fund", "--prefix", str(folder), PACKAGES[name]]
    done = subprocess.run(command, capture_output=True, text=True, timeout=240)
    if done.returncode or not binary.exists():
        pytest.skip(f"{name} cannot be installed here and was not tried: {done.stderr[-200:]}")
    return binary


@pytest.fixture
def scratch(tmp_path) -> Path:
    (tmp_path / "home").mkdir()
    repository = tmp_path / "repo"
    repository.mkdir()
    (repository / "calc.py").write_text("def divide(a, b):\n    retrun a / b\n")
    subprocess.run(["git", "init", "-q", str(repository)], check=True)
    return tmp_path


async def run(command: list[str], scratch: Path, environment: dict[str, str]) -> str:
    base = {"PATH": os.environ["PATH"], "HOME": str(scratch / "home"), "NO_COLOR": "1"}
    process = await asyncio.create_subprocess_exec(
        *command,
        cwd=scratch / "repo",
        env={**base, **environment},
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    out, _ = await asyncio.wait_for(process.communicate(), 90)
    return out.decode("utf-8", "replace")


CONFIG = SIMULATED.replace('"gpt-*": auto', '"gpt-*": auto, "claude-*": auto')


@pytest.fixture
async def tandem(start):
    return await start(CONFIG)


async def test_codex_makes_a_tool_call_and_ends_its_turn(tandem, scratch):
    binary = installed("codex")
    command = [str(binary), "exec", "--skip-git-repo-check", "-m", "auto", "-c", f'openai_base_url="{tandem.url}/v1"', PROMPT]

    said = await run(command, scratch, {"CODEX_API_KEY": "any"})

    assert "simulated fast tier: no model was asked" in said
    entries = await tandem.entries(2)
    assert [(entry["turn_kind"], entry["tier"], entry["outcome"]) for entry in entries] == [
        ("ask", "fast", "SERVED"),
        ("tool_loop", "fast", "SERVED"),
    ]
    assert len({entry["session"] for entry in entries}) == 1


async def test_claude_code_makes_a_tool_call_and_ends_its_turn(tandem, scratch):
    binary = installed("claude")
    environment = {
        "ANTHROPIC_BASE_URL": tandem.url,
        "ANTHROPIC_API_KEY": "any",
        "ANTHROPIC_MODEL": "auto",
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
    }

    said = await run([str(binary), "-p", PROMPT], scratch, environment)

    assert "simulated fast tier: no model was asked" in said
    entries = await tandem.entries(2)
    assert {entry["outcome"] for entry in entries} == {"SERVED"}
    assert {entry["dialect"] for entry in entries} == {"messages"}


@pytest.mark.parametrize("name", ["codex", "claude"])
async def test_the_log_that_a_client_leaves_replays_to_the_score_that_was_served(tandem, scratch, name):
    commands = {
        "codex": ["exec", "--skip-git-repo-check", "-m", "auto", "-c", f'openai_base_url="{tandem.url}/v1"', PROMPT],
        "claude": ["-p", PROMPT],
    }
    environment = {
        "CODEX_API_KEY": "any",
        "ANTHROPIC_BASE_URL": tandem.url,
        "ANTHROPIC_API_KEY": "any",
        "ANTHROPIC_MODEL": "auto",
    }
    environment["CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC"] = "1"
    await run([str(installed(name)), *commands[name]], scratch, environment)
    served = (await tandem.entries(2))[0]

    tally = Tally()
    (case,) = cases_of(read_logs(find_logs([scratch / "home"], tally), tally))
    built = build_house(check_config(CONFIG, "test", scratch, known_names()), with_ledger=False)
    again = await choose_again(quiet(built.house), case)
    await built.close()

    assert case.words == PROMPT
    assert case.session == served["session"]
    assert again.score == pytest.approx(served["score"])
    assert tally.broken_lines == tally.unknown_files == 0
