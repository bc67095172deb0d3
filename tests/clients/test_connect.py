"""`tandem connect` with the real clients: pointed here by one command, they answer, and an undo leaves nothing of ours."""

import base64
import os
import re
import shlex
import sys
from pathlib import Path

import pytest

from router.connect.recipe import load_recipe
from tests.conftest import SIMULATED
from tests.tools.clients import folder_of_command, make_scratch, run_client

pytestmark = [pytest.mark.clients, pytest.mark.timeout(300)]
ROOT = Path(__file__).resolve().parents[2]
TASK = "Fix the typo in calc.py"
FAST, DEEP = "simulated fast tier: no model was asked", "simulated deep tier: no model was asked"
AIDER = ["--no-check-update", "--analytics-disable", "--yes-always", "--no-gitignore", "--message", TASK, "calc.py"]
QUIET = {
    "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
    "OPENCODE_DISABLE_MODELS_FETCH": "1",
    "OPENCODE_DISABLE_AUTOUPDATE": "1",
    "CONTINUE_TELEMETRY_ENABLED": "0",
    "CLINE_NO_AUTO_UPDATE": "1",
    "CLINE_TELEMETRY_DISABLED": "1",
    "SHELL": "/bin/bash",
}
CLIENTS = {
    "codex": ("codex", "codex", ["exec", "--skip-git-repo-check", TASK]),
    "claude-code": ("claude", "claude", ["-p", TASK]),
    "opencode": ("opencode", "opencode", ["run", TASK]),
    "qwen-code": ("qwen", "qwen", ["-p", TASK]),
    "continue": ("continue", "cn", ["-p", "--auto", TASK]),
    "cline": ("cline", "cline", ["--yolo", "--json", TASK]),
    "aider": ("aider", "aider", AIDER),
    "llm": ("llm", "llm", ["-m", "tandem", TASK]),
    "copilot": ("copilot", "copilot", ["--allow-all-tools", "-p", TASK]),
}
TIERS = {
    "codex": ["exec", "--skip-git-repo-check", "-m", "deep", TASK],
    "claude-code": ["-p", "--model", "deep", TASK],
    "opencode": ["run", "-m", "tandem/deep", TASK],
    "qwen-code": ["-m", "deep", "-p", TASK],
    "cline": ["-m", "deep", "--yolo", "--json", TASK],
    "aider": ["--model", "openai/deep", *AIDER],
    "llm": ["-m", "tandem-deep", TASK],
}
"""What a person types for the deep tier. Continue has no flag for it: there `/model` does, or the tier line."""
DOT = base64.b64decode("iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==")
COMPLAINTS = (
    "Missing environment variable",
    "Model metadata",
    "isn't recognized",
    "unknown context window",
    "Unknown context window",
)


@pytest.fixture
async def tandem(start):
    return await start(SIMULATED)


class Place:
    """A scratch home with one client on the PATH, and the `tandem` command."""

    def __init__(self, folder: Path, url: str, client: str) -> None:
        self.scratch, self.url = make_scratch(folder), url
        self.client, (package, self.command, self.task) = client, CLIENTS[client]
        path = f"{folder_of_command(package)}:{os.environ['PATH']}"
        self.environment = {**QUIET, "PATH": path, "PYTHONPATH": str(ROOT), "PYTHONDONTWRITEBYTECODE": "1"}

    async def tandem(self, *arguments: str) -> str:
        command = [sys.executable, "-m", "router.cli", "connect", *arguments]
        return await run_client(command, self.scratch, self.environment, seconds=200)

    async def connect(self) -> str:
        return await self.tandem(self.client, "--yes", "--url", self.url)

    async def run(self, *arguments: str) -> str:
        return await run_client([self.command, *arguments], self.scratch, self.environment, seconds=200)

    async def run_connected(self, *arguments: str) -> str:
        """As a person runs it after connecting; what is set by the shell's start-up file counts too."""
        command = [self.command, *(arguments or self.task)]
        script = f'[ -f "$HOME/.bashrc" ] && . "$HOME/.bashrc"; exec {shlex.join(command)}'
        return await run_client(["bash", "--norc", "-c", script], self.scratch, self.environment, seconds=200)

    def mentions(self) -> list[str]:
        """The files of the home that speak of the router, but for logs and what clients remember of a conversation."""
        files = [path for path in (self.scratch / "home").rglob("*") if path.is_file() and path.stat().st_size < 1 << 20]
        found = [path for path in files if self.url.encode() in path.read_bytes()]
        kept = re.compile(
            r"\.(log|jsonl|db|db-wal|sqlite|sqlite-wal)$|sessions|logs?/|tasks/|backups/|telemetry|/state/opencode"
        )
        return [str(path) for path in found if not kept.search(str(path))]


def usual_files(client: str) -> list[Path]:
    """The client's files in the home of whoever runs these tests, which nobody must touch."""
    return [file.find() for file in load_recipe(client).files_here("bash")]


@pytest.mark.parametrize("client", CLIENTS)
async def test_a_tier_is_chosen_from_inside_a_connected_client_and_an_undo_leaves_nothing_of_ours(tandem, tmp_path, client):
    """That a connected client is served by what `auto` chooses is seen with a key: `test_keys`."""
    place = Place(tmp_path, tandem.url, client)
    outside = {path: path.stat().st_mtime_ns for path in usual_files(client) if path.exists()}
    await place.connect()
    await place.tandem(client, "--undo", "--yes")
    assert list((tmp_path / "home").iterdir()) == []

    await place.connect()
    said = await place.run_connected(*TIERS.get(client, ()))

    assert (DEEP if client in TIERS else FAST) in " ".join(said.split()), said[-800:]
    assert [complaint for complaint in COMPLAINTS if complaint in said] == []
    assert "is already connected" in await place.connect()
    assert "is no longer connected" in await place.tandem(client, "--undo", "--yes")
    assert place.mentions() == []
    assert {path: path.stat().st_mtime_ns for path in usual_files(client) if path.exists()} == outside


CODEX_EXEC = ["exec", "--skip-git-repo-check"]
WAYS = {
    "a profile of Codex": ("codex", [*CODEX_EXEC, "-p", "deep", TASK], {}),
    "a variable that Codex sends as a header": ("codex", [*CODEX_EXEC, TASK], {"TANDEM_TIER": "deep"}),
    "the line in Codex": ("codex", [*CODEX_EXEC, f"tier: deep\n{TASK}"], {}),
    "a header of Claude Code": ("claude-code", ["-p", TASK], {"ANTHROPIC_CUSTOM_HEADERS": "x-tandem-tier: deep"}),
    "the model's variable of Claude Code": ("claude-code", ["-p", TASK], {"ANTHROPIC_MODEL": "deep"}),
    "the line in Claude Code": ("claude-code", ["-p", f"tier: deep\n{TASK}"], {}),
    "the line in Continue": ("continue", ["-p", "--auto", f"tier: deep\n{TASK}"], {}),
}


@pytest.mark.parametrize("way", WAYS)
async def test_another_way_to_choose_a_tier_works_as_documented(tandem, tmp_path, way):
    client, arguments, environment = WAYS[way]
    place = Place(tmp_path, tandem.url, client)
    await place.connect()
    if client == "codex":
        (tmp_path / "home" / ".codex" / "deep.config.toml").write_text('model = "deep"\n')
    place.environment |= environment

    said = await place.run(*arguments)

    assert DEEP in " ".join(said.split()), said[-800:]


async def test_claude_codes_own_small_model_is_fast(tandem, tmp_path):
    place = Place(tmp_path, tandem.url, "claude-code")
    await place.connect()

    said = await place.run("-p", "--model", "haiku", "Refactor the whole project, step by step, with tests")

    assert FAST in said, said[-800:]


async def test_a_misfit_tells_its_way_out_inside_the_client(tandem, tmp_path):
    place = Place(tmp_path, tandem.url, "codex")
    await place.connect()
    (tmp_path / "repo" / "dot.png").write_bytes(DOT)

    said = await place.run(*CODEX_EXEC, "-m", "fast", "-i", "dot.png", "--", "What is this?")

    assert "Ask for deep or auto, or send x-tandem-on-misfit: other" in said, said[-800:]


@pytest.mark.parametrize("client", CLIENTS)
async def test_a_run_points_a_client_here_and_changes_no_file_of_the_person(tandem, tmp_path, client):
    place = Place(tmp_path, tandem.url, client)

    said = await place.tandem("--url", tandem.url, "--run", client, "--", *place.task)

    assert FAST in " ".join(said.split()), said[-800:]
    assert [complaint for complaint in COMPLAINTS if complaint in said] == []
    assert place.mentions() == []
    assert not (tmp_path / "home" / ".local" / "state" / "tandem").exists()
