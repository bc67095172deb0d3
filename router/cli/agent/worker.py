"""The process that runs an agent for one job. It has a session of its own, so that it outlives the shell that began it.

`python -m router.cli.agent.worker` reads its assignment from standard input: keys are in it, and arguments can be seen by all.
"""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from router.cli.agent.group import end_group, start_group
from router.cli.agent.log import AgentLog
from router.cli.agent.worktree import without_git
from router.cli.background import Jobs, Refused, Unreachable
from router.contract.job import JobState
from router.screen.figures import duration

MOST_CHANGE_BYTES = 2 << 20
_LOOK_SECONDS = 0.5
"""How often the router is told that the agent goes on, and says whether the job was cancelled."""
_PATIENCE_SECONDS, _PAUSE_SECONDS = 600.0, 2.0
"""How long the result is offered to a router that does not answer."""
_GONE = 404


@dataclass(frozen=True, slots=True)
class Assignment:
    """What is to be done, and for whom."""

    url: str
    key: str
    job_id: str
    owner: str
    number: int
    command: tuple[str, ...]
    """The agent's, with the task."""
    variables: Mapping[str, str]
    """In which the agent finds the router, in addition to the environment."""
    repository: str
    inside: str
    commit: str
    folder: str
    """For the worktree, the log, and the files that point the agent at the router."""
    deadline_seconds: float

    def write(self) -> bytes:
        return json.dumps(asdict(self)).encode()


def read_assignment(raw: bytes) -> Assignment:
    """What `Assignment.write` wrote."""
    given = json.loads(raw)
    return Assignment(**{**given, "command": tuple(given["command"])})


class NotKept(Exception):
    """A change that cannot be kept as the result of a job. The text says why."""


class Worker:
    """Makes the worktree, runs the agent in it, hands in its log and its change, and clears up."""

    def __init__(self, assignment: Assignment, jobs: Jobs, pause: Callable[[float], object] = time.sleep) -> None:
        self._given, self._jobs, self._pause = assignment, jobs, pause
        self._folder = Path(assignment.folder)
        self._tree, self._log_file = self._folder / "tree", self._folder / "log"
        self._log = AgentLog(jobs, assignment.job_id, assignment.owner, assignment.number, self._log_file)
        self._environment = without_git(os.environ)
        self._git_folder = ""
        self._until = time.monotonic() + assignment.deadline_seconds
        self._is_lost = False
        """Whether the job is no longer ours: deleted, or taken for lost."""
        self.is_stopped = False
        """Whether this process was asked to end."""

    def run(self) -> None:
        """Do all of it."""
        self._log.note(f"the agent works in {self._tree}, a worktree at {self._given.commit[:12]}")
        state, error = self._work()
        change: str | None = None
        try:
            change = self._read_change() if self._git_folder else ""
        except NotKept as reason:
            state, error = JobState.FAILED, f"{reason}. It is in {self._tree}"
        is_handed_in = self._hand_in(state, error, change or "")
        if change == "" or (is_handed_in and change is not None):
            self._clear_up()
        else:
            self._log.note(f"the change is not in the job's result, so {self._tree} is left as it is")

    def _work(self) -> tuple[JobState, str]:
        """Run the agent: how it ended, and why it did not complete."""
        given = self._given
        add = ("git", "-C", given.repository, "worktree", "add", "--detach", str(self._tree), given.commit)
        try:
            code = self._run(add, self._folder)
            if code:
                return JobState.FAILED, "git could not make a worktree; the log says why"
            if code is None:
                return self._explain_stop()
            self._git_folder = self._ask_git_folder()
            begin = self._tree / given.inside
            code = self._run(given.command, begin if begin.is_dir() else self._tree, given.variables)
        except OSError as error:
            return JobState.FAILED, f"{error.filename or given.command[0]} could not be started: {error.strerror or error}"
        if code is None:
            return self._explain_stop()
        name = os.path.basename(given.command[0])
        if code:
            return JobState.FAILED, f"{name} ended with {f'signal {-code}' if code < 0 else f'exit status {code}'}"
        return JobState.COMPLETED, ""

    def _explain_stop(self) -> tuple[JobState, str]:
        if self._log.is_cancelled:
            return JobState.CANCELLED, ""
        if self.is_stopped:
            return JobState.FAILED, "the process that ran the agent was stopped"
        if self._is_lost:
            return JobState.FAILED, "the job was deleted, or taken for lost"
        return JobState.FAILED, f"the agent did not end within {duration(self._given.deadline_seconds)} (jobs.deadline_seconds)"

    def _run(
        self,
        command: Sequence[str],
        folder: Path,
        variables: Mapping[str, str] | None = None,
        *,
        output: Path | None = None,
        is_urgent: bool = False,
    ) -> int | None:
        """Run a program to its end, and report on it meanwhile. None: it was ended before. Raises `OSError`.

        What is urgent is done also for a job that was cancelled.
        """
        with (output or self._log_file).open("ab") as out, self._log_file.open("ab") as errors:
            process = start_group(command, folder, {**self._environment, **(variables or {})}, out, errors)
        try:
            while True:
                try:
                    return process.wait(_LOOK_SECONDS)
                except subprocess.TimeoutExpired:
                    self._report()
                if not is_urgent and self._must_stop():
                    return None
        finally:
            end_group(process)

    def _must_stop(self) -> bool:
        return self._log.is_cancelled or self.is_stopped or self._is_lost or time.monotonic() > self._until

    def _report(self) -> None:
        """Send the log. A router that does not answer now may do so later."""
        try:
            self._log.send()
        except Unreachable:
            return
        except Refused as error:
            self._is_lost = self._is_lost or error.status == _GONE

    def _ask_git_folder(self) -> str:
        """Where git keeps the worktree's own files: the agent may do anything to the file that says so."""
        command = ["git", "-C", str(self._tree), "rev-parse", "--absolute-git-dir"]
        asked = subprocess.run(command, env=self._environment, capture_output=True, check=True)  # noqa: S603  fixed arguments
        return os.fsdecode(asked.stdout).removesuffix("\n")

    def _read_change(self) -> str:
        """All that the agent has changed since the commit, with new files and its own commits. Raises `NotKept`."""
        if not self._tree.is_dir():
            return ""
        git = ("git", f"--git-dir={self._git_folder}", f"--work-tree={self._tree}", "-c", "core.safecrlf=false")
        patch = self._folder / "change.diff"
        difference = (*git, "diff-index", "--cached", "--binary", "-p", self._given.commit)
        for command, output in (((*git, "add", "--all"), None), (difference, patch)):
            if self._run(command, self._tree, output=output, is_urgent=True):
                raise NotKept("git could not read the change; the log says why")
        if (size := patch.stat().st_size) > MOST_CHANGE_BYTES:
            raise NotKept(f"the change is too large to be kept: {size:,} bytes, and at most {MOST_CHANGE_BYTES:,} are kept")
        try:
            return patch.read_bytes().decode()
        except UnicodeDecodeError as error:
            raise NotKept("the change is not text in UTF-8, so it cannot be kept") from error

    def _hand_in(self, state: JobState, error: str, change: str) -> bool:
        """End the job. A router that does not answer is asked again for a while. Returns whether it took the end."""
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
        """Remove the worktree and all that was written for the agent."""
        command = ["git", "-C", self._given.repository, "worktree", "remove", "--force", "--force", str(self._tree)]
        subprocess.run(command, env=self._environment, capture_output=True, check=False)  # noqa: S603  fixed arguments
        shutil.rmtree(self._folder, ignore_errors=True)


def main() -> None:
    """Run the agent of the assignment on standard input."""
    given = read_assignment(sys.stdin.buffer.read())
    worker = Worker(given, Jobs(given.url, given.key))

    def stop(*_: object) -> None:
        worker.is_stopped = True

    signal.signal(signal.SIGTERM, stop)
    worker.run()


if __name__ == "__main__" and os.fork() == 0:  # who started this waits for the first process, and the second is nobody's child
    main()
