"""Starts an agent: checks the folder, creates a job, and spawns a worker process."""

import argparse
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

import msgspec

from router.cli import Ended
from router.cli.agent.worker import Assignment, without_git
from router.cli.asking import Refused
from router.cli.background import Jobs
from router.cli.common import KEY_VARIABLE, command_name, load_in_use, say
from router.cli.routers import find_at
from router.cli.setup.facts import point_command
from router.cli.setup.reach import ClientKey, read_key
from router.config.folders import NoHome, state_folder
from router.config.load import LoadedConfig
from router.contract.request import JsonObject
from router.screen.figures import plural
from router.stores.folders import make_folders

_FOLDER = "agents"
_MOST_TASK_BYTES = 100_000
"""Linux limits an argument to 128 KiB."""


class Repository(NamedTuple):
    root: Path
    inside: str
    """The folder's path in it; empty at its root."""
    commit: str
    uncommitted: int
    """Files that differ from the commit or are not in it."""


def start(jobs: Jobs, task: str, arguments: argparse.Namespace) -> JsonObject:
    """Run the configured agent on a task and return its job. Raises `Ended`, `Refused` and `Unreachable`."""
    _check_task(task)
    loaded = _load_config(jobs.url, arguments.config)
    command = _read_runner(loaded)
    repository = find_repository(Path.cwd())
    key = _find_key(loaded, jobs.url, arguments.key_env)
    folder = _make_folder()
    try:
        pointed, variables = point_command(loaded, jobs.url, [*command, task], key, folder)
        begun = _begin(jobs, task)
        _leave_to_worker(
            Assignment(
                url=jobs.url,
                key=key.value if key is not None and arguments.key_env else "",
                job_id=str(begun["id"]),
                owner=str(begun["owner"]),
                number=int(str(begun["number"])),
                command=tuple(pointed),
                variables=variables,
                repository=str(repository.root),
                inside=repository.inside,
                commit=repository.commit,
                folder=str(folder),
                deadline_seconds=loaded.config.jobs.deadline_seconds,
            )
        )
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    if repository.uncommitted:
        changes = plural(repository.uncommitted, "uncommitted change")
        say(f"the agent begins at commit {repository.commit[:12]}, without {changes} in {repository.root}")
    return {"id": str(begun["id"])}


def find_repository(folder: Path) -> Repository:
    """Raises `Ended` if an agent cannot work in this folder."""
    root = _ask_git(folder, "rev-parse", "--show-toplevel")
    if not root:
        raise _refuse(f"{folder} has no files of a git repository: an agent works in a worktree of one")
    try:
        commit = _ask_git(folder, "rev-parse", "--verify", "--quiet", "HEAD^{commit}")
    except Ended as error:
        raise _refuse(f"{root} has no commit yet, and an agent begins at the newest one") from error
    inside = _ask_git(folder, "rev-parse", "--show-prefix")
    changed = _ask_git(folder, "status", "--porcelain").splitlines()
    return Repository(Path(root), inside.rstrip("/"), commit, len(changed))


def _ask_git(folder: Path, *arguments: str) -> str:
    """Raises `Ended`."""
    command, environment = ["git", "-C", str(folder), *arguments], without_git(os.environ)
    try:
        asked = subprocess.run(command, env=environment, stdin=subprocess.DEVNULL, capture_output=True, check=False)  # noqa: S603
    except FileNotFoundError as error:
        raise _refuse("git is not installed") from error
    if asked.returncode:
        why = asked.stderr.decode("utf-8", "replace").strip().removeprefix("fatal: ")
        raise _refuse(f"{folder}: {why.splitlines()[0] if why else 'git failed'}")
    return os.fsdecode(asked.stdout).removesuffix("\n")


def _refuse(why: str) -> Ended:
    return Ended(2, f"--agent: {why}\n  hint: run it in a git repository")


def _check_task(task: str) -> None:
    if not task.strip():
        raise Ended(2, "the task is empty")
    if task.startswith("-"):
        raise Ended(2, "the task begins with a dash, so the agent would take it for an option\n  hint: begin it with a word")
    if "\0" in task or (size := len(task.encode("utf-8", "replace"))) > _MOST_TASK_BYTES:
        why = "contains a zero byte" if "\0" in task else f"is too long: {size:,} bytes, and at most {_MOST_TASK_BYTES:,} fit"
        raise Ended(2, f"the task {why}\n  hint: put what is long into a file, commit it, and name the file in the task")


def _load_config(url: str, named: str | None) -> LoadedConfig:
    """The config of `--config` or of this user's router, never of the current folder: it would bring a foreign command."""
    if named is None:
        router = find_at(url)
        if router is None or router.config is None:
            why = "no config is known for it" if router is None else "it runs without a config file"
            hint = "--config FILE names the config whose delegation.runner is to be run here"
            raise Ended(2, f"--agent: the router at {url} was not started here from a config: {why}\n  hint: {hint}")
        named = str(router.config)
    return load_in_use(named, needs_keys=False)


def _read_runner(loaded: LoadedConfig) -> list[str]:
    runner = loaded.config.delegation.runner
    if runner is None:
        hint = 'in it, for example delegation: {runner: "codex exec --sandbox workspace-write"}'
        raise Ended(2, f"--agent: delegation.runner is not set in {loaded.source}\n  hint: set it {hint}")
    name, *rest = shlex.split(runner)
    program = shutil.which(name)
    if program is None:
        raise Ended(2, f"--agent: {name} is not installed, which delegation.runner names\n  hint: or write its whole path")
    return [str(Path(program).absolute()), *rest]


def _find_key(loaded: LoadedConfig, url: str, variable: str | None) -> ClientKey | None:
    """The user's own key, or the one that the router made for local commands."""
    if variable is not None or loaded.keys is None:
        return read_key(variable)
    router = find_at(url)
    return ClientKey(KEY_VARIABLE, router.key) if router is not None and router.key else None


def _make_folder() -> Path:
    try:
        above = state_folder() / _FOLDER
        make_folders(above)
        return Path(tempfile.mkdtemp(dir=above))
    except NoHome as error:
        raise Ended(2, f"no home folder, so there is no place for a worktree\n  hint: set HOME or {error}") from error
    except OSError as error:
        raise Ended(1, f"{error.filename} cannot be written: {error.strerror or error}") from error


def _begin(jobs: Jobs, task: str) -> JsonObject:
    try:
        return jobs.begin_agent(task[:200])
    except Refused as error:
        if error.status != 403:
            raise
        hint = f"an admin's key: --key-env NAME; {command_name()} reload after a change of the config"
        raise Ended(1, f"the router at {jobs.url} refused: {error}\n  hint: {hint}") from error


def _leave_to_worker(assignment: Assignment) -> None:
    """Start the agent's process, which outlives this terminal."""
    folder = Path(assignment.folder)
    with (folder / "worker.log").open("ab") as output:
        worker = subprocess.Popen(
            [sys.executable, "-P", "-m", "router.cli.agent.worker"],
            cwd=folder,
            stdin=subprocess.PIPE,
            stdout=output,
            stderr=output,
            start_new_session=True,
        )
    assert worker.stdin is not None
    with worker.stdin:
        worker.stdin.write(msgspec.json.encode(assignment))
    worker.wait()
