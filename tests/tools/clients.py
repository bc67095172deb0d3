"""Real clients, installed once by npm or pip and run in a scratch home and repository. Skipped if that fails."""

import asyncio
import contextlib
import fcntl
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "tandem-clients"
PACKAGES = {
    "codex": "@openai/codex@0.166.0",
    "claude": "@anthropic-ai/claude-code@2.1.325",
    "openai": "openai@7.53.0",
    "opencode": "opencode-ai@1.18.18",
    "qwen": "@qwen-code/qwen-code@0.24.4",
    "continue": "@continuedev/cli@1.5.47",
    "cline": "cline@2.18.0",
    "copilot": "@github/copilot@1.0.102",
    "codex-sdk": "@openai/codex-sdk@0.163.0",
    "claude-agent-sdk": "@anthropic-ai/claude-agent-sdk@0.3.325",
}
PYTHON_PACKAGES = {"aider": ("aider", "aider-chat==0.86.2"), "llm": ("sdk", "llm==0.36")}
"""By command: its environment and packages."""
SOCKET_SDK = "openai[realtime]>=3.8,<4"


@contextlib.contextmanager
def installing_alone(name: str) -> Iterator[None]:
    """Only one process may install a client at a time."""
    CACHE.mkdir(parents=True, exist_ok=True)
    with (CACHE / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def installed(name: str) -> Path:
    folder = CACHE / name
    modules, package = folder / "node_modules", PACKAGES[name].rpartition("@")[0]
    with installing_alone(name):
        if (modules / package / "package.json").exists():
            return modules
        if shutil.which("npm") is None:
            pytest.skip(f"npm is not here: {name} was not tried")
        command = ["npm", "install", "--no-audit", "--no-fund", "--prefix", str(folder), PACKAGES[name]]
        done = subprocess.run(command, capture_output=True, text=True, timeout=240)
        if done.returncode or not (modules / package).exists():
            pytest.skip(f"{name} cannot be installed here and was not tried: {done.stderr[-200:]}")
        return modules


def command_of(name: str) -> str:
    return str(installed(name) / ".bin" / name)


def folder_of_command(name: str) -> Path:
    if name not in PYTHON_PACKAGES:
        return installed(name) / ".bin"
    place, package = PYTHON_PACKAGES[name]
    folder = CACHE / f"venv-{place}"
    with installing_alone(place):
        if not (folder / "bin" / name).exists():
            subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
            pip = [str(folder / "bin" / "pip"), "install", "--quiet", package]
            done = subprocess.run(pip, capture_output=True, text=True, timeout=280)
            if done.returncode:
                pytest.skip(f"{name} cannot be installed here and was not tried: {done.stderr[-200:]}")
    return folder / "bin"


def socket_sdk() -> Path:
    """An environment with a version of OpenAI's SDK that has sockets, unlike this project's."""
    folder = CACHE / "venv-socket-sdk"
    python = folder / "bin" / "python"
    with installing_alone("socket-sdk"):
        if not python.exists():
            subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
        if subprocess.run([str(python), "-c", "import openai, websockets"], capture_output=True).returncode:
            pip = [str(python), "-m", "pip", "install", "--quiet", SOCKET_SDK]
            done = subprocess.run(pip, capture_output=True, text=True, timeout=240)
            if done.returncode:
                pytest.skip(f"the SDK cannot be installed here and was not tried: {done.stderr[-200:]}")
    return python


def make_scratch(folder: Path) -> Path:
    """A home without settings, and a repository with one typo."""
    (folder / "home").mkdir()
    repository = folder / "repo"
    repository.mkdir()
    (repository / "calc.py").write_text("def divide(a, b):\n    retrun a / b\n")
    subprocess.run(["git", "init", "-q", str(repository)], check=True)
    return folder


async def run_client(command: list[str], scratch: Path, environment: dict[str, str], seconds: float = 200) -> str:
    """All that a client printed. A hung one is killed, or it would outlive the test."""
    base = {"PATH": os.environ["PATH"], "HOME": str(scratch / "home"), "NO_COLOR": "1"}
    process = await asyncio.create_subprocess_exec(
        *command,
        cwd=scratch / "repo",
        env={**base, **environment},
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    try:
        out, _ = await asyncio.wait_for(process.communicate(), seconds)
    except TimeoutError:
        process.kill()
        await process.wait()
        raise
    return out.decode("utf-8", "replace")


def codex(url: str, *more: str, model: str = "auto", prompt: str = "Fix the typo in calc.py") -> list[str]:
    """Codex with its built-in provider and only the address changed, for the environment `CODEX_KEY`."""
    address = f'openai_base_url="{url}/v1"'
    return [command_of("codex"), "exec", "--skip-git-repo-check", "-m", model, "-c", address, *more, prompt]


CODEX_KEY = {"CODEX_API_KEY": "any"}


def claude(*more: str, prompt: str = "Fix the typo in calc.py") -> list[str]:
    return [command_of("claude"), "-p", *more, prompt]


def claude_environment(url: str) -> dict[str, str]:
    return {
        "ANTHROPIC_BASE_URL": url,
        "ANTHROPIC_API_KEY": "any",
        "ANTHROPIC_MODEL": "auto",
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
    }
