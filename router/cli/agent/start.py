"""Begins the work of an agent: looks whether it can be done here, makes a job of it, and leaves it to a process of its own."""

import argparse
import shlex
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from router.cli import Ended
from router.cli.agent.worker import Assignment
from router.cli.agent.worktree import GitRefused, Repository, find_repository
from router.cli.background import Jobs, Refused
from router.cli.common import command_name, load_or_end, say
from router.cli.pointed import KEY_VARIABLE, point_command
from router.cli.routers import find_at
from router.cli.setup.reach import ClientKey, read_key
from router.config.folders import NoHome, state_folder
from router.config.load import LoadedConfig
from router.contract.request import JsonObject
from router.screen.figures import plural

_FOLDER = "agents"
_MOST_TASK_BYTES = 100_000
"""A program's argument can hold at most 128 KiB on Linux."""


def start(jobs: Jobs, task: str, arguments: argparse.Namespace) -> JsonObject:
    """Have the agent of the config work on a task; returns the job. Raises `Ended`, `Refused` and `Unreachable`."""
    _check_task(task)
    loaded = _load_config(jobs.url, arguments.config)
    command = _read_runner(loaded)
    repository = _find_repository()
    key = _find_key(loaded, jobs.url, arguments.key_env)
    folder = _make_folder()
    is_left_to_worker = False
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
        is_left_to_worker = True
    finally:
        if not is_left_to_worker:
            shutil.rmtree(folder, ignore_errors=True)
    if repository.uncommitted:
        say(_describe_uncommitted(repository))
    return {"id": str(begun["id"])}


def _check_task(task: str) -> None:
    """Refuse a task that cannot be an argument of a program, or would be taken for an option of it."""
    if not task.strip():
        raise Ended(2, "the task is empty")
    if task.startswith("-"):
        raise Ended(2, "the task begins with a dash, so the agent would take it for an option\n  hint: begin it with a word")
    if "\0" in task or (size := len(task.encode("utf-8", "replace"))) > _MOST_TASK_BYTES:
        why = "contains a zero byte" if "\0" in task else f"is too long: {size:,} bytes, and at most {_MOST_TASK_BYTES:,} fit"
        raise Ended(2, f"the task {why}\n  hint: put what is long into a file, commit it, and name the file in the task")


def _load_config(url: str, named: str | None) -> LoadedConfig:
    """The config that `--config` names, else that of the router, which this user has started.

    Never one of the current folder: that may belong to a repository of somebody else, and its command would be run.
    """
    if named is None:
        router = find_at(url)
        if router is None or router.config is None:
            why = "no config is known for it" if router is None else "it runs without a config file"
            hint = "--config FILE names the config whose delegation.runner is to be run here"
            raise Ended(2, f"--with-hands: the router at {url} was not started here from a config: {why}\n  hint: {hint}")
        named = str(router.config)
    return load_or_end(named)


def _read_runner(loaded: LoadedConfig) -> list[str]:
    """The agent's command, with the path of its program."""
    runner = loaded.config.delegation.runner
    if runner is None:
        hint = 'in it, for example delegation: {runner: "codex exec --sandbox workspace-write"}'
        raise Ended(2, f"--with-hands: delegation.runner is not set in {loaded.source}\n  hint: set it {hint}")
    name, *rest = shlex.split(runner)
    program = shutil.which(name)
    if program is None:
        raise Ended(2, f"--with-hands: {name} is not installed, which delegation.runner names\n  hint: or write its whole path")
    return [str(Path(program).absolute()), *rest]


def _find_repository() -> Repository:
    try:
        return find_repository(Path.cwd())
    except GitRefused as error:
        raise Ended(2, f"--with-hands: {error}\n  hint: run it in a git repository") from error


def _find_key(loaded: LoadedConfig, url: str, variable: str | None) -> ClientKey | None:
    """The key that the agent sends: the person's own, or the one that the router made for its user's commands."""
    if variable is not None or loaded.keys is None:
        return read_key(variable)
    router = find_at(url)
    return ClientKey(KEY_VARIABLE, router.key) if router is not None and router.key else None


def _make_folder() -> Path:
    """A new folder that nobody else can read, for the worktree and the log."""
    try:
        above = state_folder() / _FOLDER
        above.mkdir(mode=0o700, parents=True, exist_ok=True)
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
    """Start the process that runs the agent. It has no terminal, and goes on when this one is closed."""
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
        worker.stdin.write(assignment.write())
    worker.wait()


def _describe_uncommitted(repository: Repository) -> str:
    changes = plural(repository.uncommitted, "uncommitted change")
    return f"the agent begins at commit {repository.commit[:12]}, without {changes} in {repository.root}"
