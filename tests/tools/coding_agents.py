"""Scripted coding agents, their repositories, and a router that records what it is sent."""

import shlex
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from router.cli.agent.worker import Assignment
from router.cli.asking import Refused, Unreachable

EDITS = """
import json, os, sys, urllib.request
print("task:", sys.argv[-1], flush=True)
headers = {"content-type": "application/json", "authorization": f"Bearer {os.environ['OPENAI_API_KEY']}"}
body = json.dumps({"model": "auto", "input": sys.argv[-1]}).encode()
asked = urllib.request.Request(f"{os.environ['OPENAI_BASE_URL']}/responses", body, headers)
print("heard:", json.load(urllib.request.urlopen(asked))["output"][-1]["content"][0]["text"], flush=True)
open("kept.txt", "a").write("edited\\n")
open("new.txt", "w").write("new\\n")
"""
"""Asks the router, changes a file and adds one."""
WAITS = """
import subprocess, sys
child = subprocess.Popen([sys.executable, "-c", "import signal; signal.pause()"])
open("new.txt", "w").write("new\\n")
print(f"child {child.pid}.", flush=True)
child.wait()
"""
"""Starts a program that never ends, and waits for it."""


def git(folder: Path, *arguments: str) -> str:
    identity = ("-c", "user.name=Ada", "-c", "user.email=ada@example.org")
    asked = subprocess.run(["git", "-C", str(folder), *identity, *arguments], capture_output=True, text=True, check=True)
    return asked.stdout.strip()


def apply_change(folder: Path, change: str) -> None:
    subprocess.run(["git", "-C", str(folder), "apply"], input=change.encode(), check=True)


def make_repository(folder: Path) -> Path:
    """A repository with one commit of `kept.txt` and `inside/deep.txt`."""
    (folder / "inside").mkdir(parents=True)
    (folder / "kept.txt").write_text("one\n")
    (folder / "inside" / "deep.txt").write_text("two\n")
    git(folder, "init", "--quiet")
    git(folder, "add", ".")
    git(folder, "commit", "--quiet", "-m", "one")
    return folder


def write_agent(folder: Path, script: str) -> str:
    path = folder / "agent.py"
    path.write_text(script)
    return shlex.join([sys.executable, str(path)])


def make_assignment(repository: Path, folder: Path, script: str, **more) -> Assignment:
    folder.mkdir()
    known = {
        "url": "http://127.0.0.1:9",
        "key": "",
        "job_id": "resp_1",
        "owner": "outside-1",
        "number": 5,
        "command": (sys.executable, "-c", script, "the task"),
        "variables": {"ASKED_AT": "here"},
        "repository": str(repository),
        "inside": "",
        "commit": git(repository, "rev-parse", "HEAD"),
        "folder": str(folder),
        "deadline_seconds": 60.0,
    }
    return Assignment(**{**known, **more})


class NotedJobs:
    def __init__(self) -> None:
        self.log = dict[int, str]()
        self.ends: list[dict] = []
        self.is_cancelled = False
        self.faults: list[Exception] = []
        """Raised by the next calls, one each."""
        self.end_fault: Exception | None = None
        self.on_log: Callable[[], object] = lambda: None

    @property
    def text(self) -> str:
        return "".join(self.log.values())

    def write_log(self, job_id: str, owner: str, number: int, text: str) -> dict:
        self._fail()
        assert (job_id, owner) == ("resp_1", "outside-1")
        self.on_log()
        if text:
            self.log[number] = text
        return {"number": number + bool(text), "is_cancelled": self.is_cancelled}

    def end_agent(self, job_id: str, body: dict) -> dict:
        self._fail()
        if self.end_fault is not None:
            raise self.end_fault
        self.ends.append(body)
        return {}

    def _fail(self) -> None:
        if self.faults:
            raise self.faults.pop(0)


AWAY = Unreachable("connection refused")
GONE = Refused(404, "no such job")
