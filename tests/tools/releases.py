"""Older releases of Tandem from the repository's history, and routers of any release as processes."""

import asyncio
import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from tests.tools.waiting import until

ROOT = Path(__file__).resolve().parents[2]
CONFIG = """
server: {host: 127.0.0.1, port: 0}
tiers:
  fast: {targets: [{name: quick, adapter: simulated, options: {ttft_seconds: 0, tokens_per_second: 20000, answer_tokens: 20}}]}
  deep: {targets: [{name: sage, adapter: simulated, options: {ttft_seconds: 0, tokens_per_second: 20000, answer_tokens: 20}}]}
ledger: {path: tandem.db}
store: {path: responses.db}
"""
"""Any release accepts it."""
_START_SECONDS = 120.0
_ADDRESS = re.compile(r"http://127\.0\.0\.1:(\d+)")


def check_out(commit: str, folder: Path) -> Path:
    """Extract a commit. Skips the test where the history does not reach that far."""
    archive = subprocess.run(["git", "archive", commit], cwd=ROOT, capture_output=True)
    if archive.returncode:
        pytest.skip(
            f"NOT RUN: the commit {commit} is not in this checkout (a shallow clone, or no git): no older release to try"
        )
    subprocess.run(["tar", "-x", "-C", str(folder)], input=archive.stdout, check=True)
    return folder


class Router:
    """A process of `tandem serve`, alive during the block of `running`."""

    def __init__(self, process: subprocess.Popen[bytes], log: Path) -> None:
        self.process, self._log, self.port = process, log, 0

    @property
    def said(self) -> str:
        return self._log.read_text(errors="replace")

    def wait_for_start(self) -> bool:
        """False where it ended instead."""
        asyncio.run(until(lambda: "server.started" in self.said or self.process.poll() is not None, _START_SECONDS))
        if "server.started" not in self.said:
            return False
        self.port = int(_ADDRESS.findall(self.said)[-1])
        return True

    def ask(self, path: str, body: Mapping[str, object] | None = None) -> tuple[int, dict]:
        data = json.dumps(body).encode() if body is not None else None
        request = urllib.request.Request(
            f"http://127.0.0.1:{self.port}{path}", data=data, headers={"content-type": "application/json"}
        )
        try:
            with urllib.request.urlopen(request, timeout=60) as answer:
                return answer.status, json.load(answer)
        except urllib.error.HTTPError as error:
            return error.code, json.load(error)

    def stop(self, number: int = signal.SIGTERM) -> int:
        self.process.send_signal(number)
        return self.process.wait()


@contextlib.contextmanager
def running(folder: Path, checkout: Path = ROOT, code: str = "", **variables: str) -> Iterator[Router]:
    """`code` runs in the process before the router does."""
    start = f"import sys\n{code}\nfrom router.cli import main\nsys.exit(main(sys.argv[1:]))"
    command = [sys.executable, "-c", start, "serve", "--config", str(folder / "config.yaml")]
    home = {"HOME": str(folder), "XDG_STATE_HOME": str(folder / "state"), "XDG_CONFIG_HOME": str(folder / "settings")}
    log = Path(f"{folder}.log")
    with log.open("wb") as file:
        environment = {**os.environ, **home, "PYTHONPATH": str(checkout), **variables}
        process = subprocess.Popen(command, stdout=file, stderr=file, cwd=checkout, env=environment)
    try:
        yield Router(process, log)
    finally:
        if process.poll() is None:
            process.kill()
        process.wait()
