"""Routers for the demo: `tandem serve` as processes of their own, each on a free port, with a ledger in a temporary folder."""

import asyncio
import contextlib
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import orjson

from router.cli.demo.afternoon import LEDGER
from router.dialects.fields import as_object

_START_SECONDS = 30.0
_STOP_SECONDS = 5.0
_LOOK_SECONDS = 0.02


class CannotStart(Exception):
    """A router did not start. The message is what it printed."""


@dataclass(frozen=True, slots=True)
class RunningRouter:
    """Where a router listens, and where it keeps its ledger."""

    url: str
    ledger: Path


@contextlib.asynccontextmanager
async def run_routers(folder: Path, config: str, names: Sequence[str]) -> AsyncIterator[dict[str, RunningRouter]]:
    """Start a router for each name, below the folder, and always stop them all. Raises `CannotStart`."""
    processes: list[subprocess.Popen[bytes]] = []
    try:
        for name in names:
            processes += [_start(folder / name, config)]
        running = [await _wait_for(folder / name, process) for name, process in zip(names, processes, strict=True)]
        yield dict(zip(names, running, strict=True))
    finally:
        _stop(processes)


def _start(folder: Path, config: str) -> "subprocess.Popen[bytes]":
    folder.mkdir()
    (folder / "config.yaml").write_text(config, encoding="utf-8")
    serve = ("serve", "--log", "json", "--port", "0", "--config", str(folder / "config.yaml"))
    with _log_of(folder).open("wb") as log:
        command = [sys.executable, "-m", "router.cli", *serve]
        return subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)  # noqa: S603  our own command


def _log_of(folder: Path) -> Path:
    return folder / "router.log"


async def _wait_for(folder: Path, process: "subprocess.Popen[bytes]") -> RunningRouter:
    """The address is the first thing that a router says."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + _START_SECONDS
    while loop.time() < deadline:
        line, is_whole, _ = _log_of(folder).read_bytes().partition(b"\n")
        if is_whole and (url := _read_url(line)):
            return RunningRouter(url, folder / LEDGER)
        if process.poll() is not None:
            break
        await asyncio.sleep(_LOOK_SECONDS)
    raise CannotStart(f"the demo's router did not start: {_log_of(folder).read_text(errors='replace').strip() or 'no output'}")


def _read_url(line: bytes) -> str:
    with contextlib.suppress(orjson.JSONDecodeError):
        return str(as_object(orjson.loads(line)).get("url") or "")
    return ""


def _stop(processes: "list[subprocess.Popen[bytes]]") -> None:
    """Signal all of them before waiting for any. A second Ctrl-C must not leave one running: they stop in a moment."""
    on_interrupt = signal.signal(signal.SIGINT, signal.SIG_IGN)
    for process in processes:
        process.terminate()
    for process in processes:
        try:
            process.wait(_STOP_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
    signal.signal(signal.SIGINT, on_interrupt)
