"""The process that runs an agent for one job, in its own session to outlive the shell.

`python -m router.cli.agent.worker` reads its assignment from standard input: it has keys, and arguments are public.
"""

import codecs
import contextlib
import filecmp
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import IO

import msgspec

from router.cli.asking import Refused, Unreachable
from router.cli.background import Jobs
from router.cli.orphans import end_with_parent
from router.contract.job import JobState
from router.screen.figures import duration

MOST_CHANGE_BYTES = 2 << 20
_LOOK_SECONDS = 0.5
"""How often the job's lease is renewed, which also reports a cancellation."""
_PATIENCE_SECONDS, _PAUSE_SECONDS = 600.0, 2.0
"""How long and how often the result is offered."""
_GRACE_SECONDS, _GROUP_LOOK_SECONDS = 5.0, 0.02
"""A program's time to end after SIGTERM, and how often that is checked."""
_GONE, _UNAUTHORIZED = 404, 401
_RUNS_NOTHING = ("-c", "core.fsmonitor=false", "-c", "core.hooksPath=/dev/null", "-c", "core.safecrlf=false")
_SUBMODULE = b"160000 "
_MISLEADING = (
    "GIT_DIR",
    "GIT_WORK_TREE",
    "GIT_INDEX_FILE",
    "GIT_PREFIX",
    "GIT_COMMON_DIR",
    "GIT_OBJECT_DIRECTORY",
    "GIT_ALTERNATE_OBJECT_DIRECTORIES",
)
"""Set by git for hooks and commands. With them git would ignore the folder's own repository."""
_PIECE_BYTES = 128 << 10
MOST_BYTES = 2 << 20
"""Of a longer log, this much is sent as it comes, and its last lines at the end."""
_LAST_BYTES = 64 << 10


class Assignment(msgspec.Struct, frozen=True):
    url: str
    key: str
    job_id: str
    owner: str
    number: int
    """The first number of the job's log."""
    command: tuple[str, ...]
    """With its task."""
    variables: Mapping[str, str]
    """Point the agent at the router, in addition to the environment."""
    repository: str
    inside: str
    """The agent's folder in the repository; empty for its root."""
    commit: str
    folder: str
    deadline_seconds: float


def without_git(environment: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in environment.items() if name not in _MISLEADING}


def start_group(
    command: Sequence[str], folder: Path, environment: Mapping[str, str], log: IO[bytes]
) -> subprocess.Popen[bytes]:
    """Start a program in its own process group, without terminal or input. Raises `OSError`."""
    return subprocess.Popen(  # noqa: S603  from the config, without a shell
        command,
        cwd=folder,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=log,
        stderr=log,
        start_new_session=True,
        preexec_fn=end_with_parent,  # noqa: PLW1509  there are no threads
    )


def end_group(leader: subprocess.Popen[bytes], grace_seconds: float = _GRACE_SECONDS) -> None:
    """End a program and its children: SIGTERM, then SIGKILL."""
    until = time.monotonic() + grace_seconds
    is_left = _send(leader.pid, signal.SIGTERM)
    while is_left and time.monotonic() < until:
        time.sleep(_GROUP_LOOK_SECONDS)
        leader.poll()  # reap it, or it still counts
        is_left = _send(leader.pid, 0)
    if is_left:
        _send(leader.pid, signal.SIGKILL)
    leader.wait()


def _send(group: int, number: int) -> bool:
    """False for an empty group."""
    with contextlib.suppress(PermissionError):  # a member runs as another user
        try:
            os.killpg(group, number)
        except ProcessLookupError:
            return False
    return True


class NotKept(Exception):
    """A change cannot be kept as a job's result."""


class Worker:
    def __init__(self, assignment: Assignment, jobs: Jobs, pause: Callable[[float], object] = time.sleep) -> None:
        self._given, self._jobs, self._pause = assignment, jobs, pause
        self._folder = Path(assignment.folder)
        self._tree, self._log_file = self._folder / "tree", self._folder / "log"
        self._log = AgentLog(jobs, assignment.job_id, assignment.owner, assignment.number, self._log_file)
        self._environment = without_git(os.environ)
        self._git_folder: Path | None = None
        """Git's folder for the worktree, read before the agent can change the file that names it."""
        self._own_git, self._config = self._folder / "git", Path()
        self._until = time.monotonic() + assignment.deadline_seconds
        self._is_lost = False
        """The job was deleted, has another owner, or its key was revoked."""
        self.is_stopped = False

    def run(self) -> None:
        self._log.note(f"the agent works in {self._tree}, a worktree at {self._given.commit[:12]}")
        state, error = self._work()
        change: str | None = None
        self._warn_of_config()
        try:
            change = self._read_change() if self._git_folder is not None and self._tree.is_dir() else ""
        except NotKept as reason:
            state, error = JobState.FAILED, f"{reason}. It is in {self._tree}"
        is_handed_in = self._hand_in(state, error, change or "")
        if change == "" or (is_handed_in and change is not None):
            self._clear_up()
        else:
            self._log.note(f"the change is not in the job's result, so {self._tree} is left as it is")

    def _work(self) -> tuple[JobState, str]:
        """Run the agent. Returns its final state and the reason for a failure."""
        given = self._given
        add = ("git", "-C", given.repository, "worktree", "add", "--detach", str(self._tree), given.commit)
        try:
            if code := self._run(add, self._folder):
                return JobState.FAILED, "git could not make a worktree; the log says why"
            if code is not None:
                self._prepare_git()
                begin = self._tree / given.inside
                code = self._run(given.command, begin if begin.is_dir() else self._tree, given.variables)
        except OSError as error:
            return JobState.FAILED, f"{error.filename or given.command[0]} could not be started: {error.strerror or error}"
        if code is None:
            return self._explain_stop()
        if code:
            how = f"signal {-code}" if code < 0 else f"exit status {code}"
            return JobState.FAILED, f"{os.path.basename(given.command[0])} ended with {how}"
        return JobState.COMPLETED, ""

    def _explain_stop(self) -> tuple[JobState, str]:
        if self._log.is_cancelled:
            return JobState.CANCELLED, ""
        if self.is_stopped:
            return JobState.FAILED, "the process that ran the agent was stopped"
        if self._is_lost:
            return JobState.FAILED, "the job was deleted, or taken for lost, or its key was revoked"
        return JobState.FAILED, f"the agent did not end within {duration(self._given.deadline_seconds)} (jobs.deadline_seconds)"

    def _run(self, command: Sequence[str], folder: Path, variables: Mapping[str, str] | None = None) -> int | None:
        """Run a program and send its log meanwhile. None if it was stopped. Raises `OSError`."""
        with self._log_file.open("ab") as log:
            process = start_group(command, folder, {**self._environment, **(variables or {})}, log)
        try:
            while True:
                with contextlib.suppress(subprocess.TimeoutExpired):
                    return process.wait(_LOOK_SECONDS)
                self._report()
                if self._log.is_cancelled or self.is_stopped or self._is_lost or time.monotonic() > self._until:
                    return None
        finally:
            end_group(process)

    def _report(self) -> None:
        try:
            self._log.send()
        except Unreachable:
            return
        except Refused as error:
            # A router that was restarted has another key for its user's commands, but callers keep theirs.
            is_revoked = error.status == _UNAUTHORIZED and bool(self._given.key)
            self._is_lost = self._is_lost or error.status == _GONE or is_revoked

    def _prepare_git(self) -> None:
        """Copy git's folder for the worktree, without its hooks, for the commands after the agent.

        The agent can write to the config that all worktrees share, and programs that it names there must not be run.
        """
        asked = self._git("-C", str(self._tree), "rev-parse", "--path-format=absolute", "--git-dir", "--git-common-dir")
        self._git_folder, common = (Path(os.fsdecode(line)) for line in asked.splitlines())
        self._config = common / "config"
        (self._own_git / "refs").mkdir(parents=True)
        (self._own_git / "objects" / "info").mkdir(parents=True)
        (self._own_git / "objects" / "info" / "alternates").write_bytes(os.fsencode(common / "objects") + b"\n")
        for file in (self._config, *(self._git_folder / name for name in ("HEAD", "config.worktree", "index"))):
            if file.exists():
                shutil.copy2(file, self._own_git)
        for file in self._git_folder.glob("sharedindex.*"):
            shutil.copy2(file, self._own_git)
        for folder in (common / "info", self._git_folder / "info"):
            if folder.is_dir():
                shutil.copytree(folder, self._own_git / "info", dirs_exist_ok=True)

    def _warn_of_config(self) -> None:
        """Note that the agent changed the config of the person's repository."""
        if self._git_folder is None:
            return
        with contextlib.suppress(OSError):  # one of the two is gone
            if filecmp.cmp(self._config, self._own_git / "config", shallow=False):
                return
        self._log.note(f"the agent changed {self._config}: read it before your next git command, which may run what it names")

    def _read_change(self) -> str:
        """The diff since the commit, with new files and the agent's commits. Raises `NotKept`."""
        git = (f"--git-dir={self._own_git}", f"--work-tree={self._tree}", *_RUNS_NOTHING)
        try:
            # Git would run another git in each submodule, with a config that the agent can write.
            listed = self._git(*git, "ls-files", "--stage", "-z").split(b"\0")
            submodules = [os.fsdecode(line.partition(b"\t")[2]) for line in listed if line.startswith(_SUBMODULE)]
            self._git(*git, "add", "--all", "--", ".", *(f":(exclude,literal){path}" for path in submodules))
            self._report()  # staging a large tree may outlast the lease
            patch = self._folder / "change.diff"
            shown = ("--cached", "--binary", "--no-ext-diff", "--no-textconv", "-p", f"--output={patch}")
            self._git(*git, "diff-index", *shown, self._given.commit)
            if (size := patch.stat().st_size) > MOST_CHANGE_BYTES:
                raise NotKept(f"the change is too large to be kept: {size:,} bytes, and at most {MOST_CHANGE_BYTES:,} are kept")
            return patch.read_bytes().decode()
        except subprocess.CalledProcessError as error:
            raise NotKept("git could not read the change; the log says why") from error
        except UnicodeDecodeError as error:
            raise NotKept("the change is not text in UTF-8, so it cannot be kept") from error

    def _git(self, *arguments: str) -> bytes:
        """Git's output; errors go to the log. Raises `CalledProcessError`."""
        with self._log_file.open("ab") as log:
            asked = subprocess.run(  # noqa: S603  fixed arguments
                ["git", *arguments],  # noqa: S607  the user's git
                cwd=self._folder,
                env=self._environment,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=log,
                check=True,
            )
        return asked.stdout

    def _hand_in(self, state: JobState, error: str, change: str) -> bool:
        """End the job, with retries. Returns whether the router accepted it."""
        until = time.monotonic() + _PATIENCE_SECONDS
        body = {"owner": self._given.owner, "state": str(state), "change": change, "error": error}
        while not self._is_lost:
            try:
                self._log.finish()
                self._jobs.end_agent(self._given.job_id, {**body, "number": self._log.number})
                return True
            except Unreachable:
                may_pass = True
            except Refused as refused:
                may_pass = refused.may_pass
            if not may_pass or self.is_stopped or time.monotonic() > until:
                break
            self._pause(_PAUSE_SECONDS)
        return False

    def _clear_up(self) -> None:
        """Without git, which cannot remove a worktree whose file `.git` the agent has changed."""
        shutil.rmtree(self._folder, ignore_errors=True)
        if self._git_folder is not None and self._git_folder.parent.name == "worktrees":
            shutil.rmtree(self._git_folder, ignore_errors=True)


def main() -> None:
    given = msgspec.json.decode(sys.stdin.buffer.read(), type=Assignment)
    worker = Worker(given, Jobs(given.url, given.key))

    def stop(*_: object) -> None:
        worker.is_stopped = True

    signal.signal(signal.SIGTERM, stop)
    worker.run()


class AgentLog:
    """Sends what is new in a file. A failed piece is sent again under its number."""

    def __init__(self, jobs: Jobs, job_id: str, owner: str, number: int, path: Path, most_bytes: int = MOST_BYTES) -> None:
        self._jobs, self._job_id, self._owner, self._path, self._most = jobs, job_id, owner, path, most_bytes
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._waiting = ""
        self._read_bytes = 0
        self.number = number
        self.is_cancelled = False

    def note(self, line: str) -> None:
        with self._path.open("a", encoding="utf-8") as file:
            file.write(f"tandem: {line}\n")

    def send(self) -> None:
        """Send what is new, and renew the lease. Raises `Refused` and `Unreachable`."""
        while True:
            has_more = self._read()
            told = self._jobs.write_log(self._job_id, self._owner, self.number, self._waiting)
            number = told.get("number")
            self.number = number if isinstance(number, int) else self.number
            self.is_cancelled = told.get("is_cancelled") is True
            self._waiting = ""
            if not has_more:
                return

    def finish(self) -> None:
        """Send the rest, or of a long log its last lines. Raises as `send` does."""
        self.send()
        size = self._path.stat().st_size
        if size > self._read_bytes:
            start = max(self._read_bytes, size - _LAST_BYTES)
            if start > self._read_bytes:
                self._waiting += f"\ntandem: {start - self._read_bytes:,} bytes of the log are left out here\n"
            self._read_bytes, self._most = start, size
            self.send()

    def _read(self) -> bool:
        """Returns whether there is more."""
        end = min(self._path.stat().st_size, self._most)
        if not self._waiting:
            with self._path.open("rb") as file:
                file.seek(self._read_bytes)
                raw = file.read(min(end - self._read_bytes, _PIECE_BYTES))
            self._read_bytes += len(raw)
            self._waiting = self._decoder.decode(raw)
        return end > self._read_bytes


if __name__ == "__main__" and os.fork() == 0:  # the starting command waits for the first process alone
    main()
