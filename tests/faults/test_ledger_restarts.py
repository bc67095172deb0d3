"""A ledger that other programs open while its router is restarted under load: every answer has its row.

`python -m tests.faults.test_ledger_restarts 50` restarts fifty times and prints what it counted.
"""

import asyncio
import contextlib
import os
import re
import signal
import sqlite3
import sys
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.conftest import SIMULATED
from tests.tools.http import call
from tests.tools.ledgers import locks_on
from tests.tools.ports import keepable_port
from tests.tools.waiting import until

RESTARTS = 3
CALLERS = 4
CONFIG = SIMULATED + "store: {path: responses.db}\n"
FILES = {"test.db": "SELECT id FROM entries", "responses.db": "SELECT id FROM transcripts"}
LOOKS = "import sqlite3, sys; d = sqlite3.connect(sys.argv[1], timeout=30); d.execute('SELECT count(*) FROM sqlite_master').fetchall(); d.close()"


class Counted:
    """Answered requests and stored responses, as callers saw them."""

    def __init__(self) -> None:
        self.requests: set[str] = set()
        self.responses: set[str] = set()


async def ask_without_end(port: int, counted: Counted) -> None:
    """Ask repeatedly, also while nobody answers."""
    while True:
        with contextlib.suppress(OSError, asyncio.IncompleteReadError, ValueError):
            reply = await call(port, "/v1/responses", {"model": "fast", "input": "hello", "store": True})
            if reply.status == 200:
                counted.requests.add(reply.headers["x-tandem-request-id"])
                counted.responses.add(reply.json["id"])
        await asyncio.sleep(0.01)


@contextlib.asynccontextmanager
async def serving(folder: Path, port: int) -> AsyncIterator[tuple[int, int]]:
    """A router process. Yields its process id and port."""
    with (folder / "log").open("wb") as log:
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "router.cli", "serve", "--config", folder / "config.yaml", "--port", str(port), stderr=log
        )
    try:
        await until(lambda: b"http://127.0.0.1" in (folder / "log").read_bytes())
        found = re.search(rb"http://127\.0\.0\.1:(\d+)", (folder / "log").read_bytes())
        yield process.pid, int(found[1])
    finally:
        if process.returncode is None:
            process.send_signal(signal.SIGTERM)
            assert await asyncio.wait_for(process.wait(), 60) == 0


async def look_from_elsewhere(folder: Path) -> None:
    """Open and close the files, as `sqlite3` and `tandem wrong` do."""
    commands = [[sys.executable, "-c", LOOKS, folder / name] for name in FILES]
    commands.append([sys.executable, "-m", "router.cli", "wrong", "--config", folder / "config.yaml"])
    for command in commands:
        process = await asyncio.create_subprocess_exec(
            *command, stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.DEVNULL, stderr=asyncio.subprocess.PIPE
        )
        _, said = await process.communicate()
        assert process.returncode == 0, said.decode()


async def restart_under_load(folder: Path, restarts: int) -> tuple[Counted, list[str]]:
    """Restart a busy router repeatedly. Returns what callers saw, and missing locks."""
    (folder / "config.yaml").write_text(CONFIG)
    counted, unlocked = Counted(), []
    callers: list[asyncio.Task] = []
    port = keepable_port()
    try:
        for number in range(restarts + 1):
            async with serving(folder, port) as (pid, port):
                if not callers:
                    callers = [asyncio.ensure_future(ask_without_end(port, counted)) for _ in range(CALLERS)]  # noqa: TID251  held in the list
                before = len(counted.requests)
                await until(lambda before=before: len(counted.requests) > before + 2 * CALLERS)
                await look_from_elsewhere(folder)
                unlocked += [f"{name} after {number} restarts" for name in FILES if not locks_on(folder / name, pid)]
                before = len(counted.requests)
                await until(lambda before=before: len(counted.requests) > before + 2 * CALLERS)
                if number == restarts:
                    for caller in callers:
                        caller.cancel()
    finally:
        for caller in callers:
            caller.cancel()
    return counted, unlocked


def missing_rows(folder: Path, counted: Counted) -> tuple[set[str], set[str]]:
    rows = []
    for name, statement in FILES.items():
        with contextlib.closing(sqlite3.connect(folder / name)) as database:
            rows.append({found for (found,) in database.execute(statement)})
    return counted.requests - rows[0], counted.responses - rows[1]


@pytest.mark.skipif(os.name != "posix", reason="it looks at the system's locks")
async def test_every_answer_has_its_row_though_the_router_is_restarted_under_load_and_others_open_its_files(tmp_path):
    counted, unlocked = await restart_under_load(tmp_path, RESTARTS)

    assert unlocked == []
    assert missing_rows(tmp_path, counted) == (set(), set())
    assert "ledger.failed" not in (tmp_path / "log").read_text()


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as place:
        told, without_lock = asyncio.run(restart_under_load(Path(place), int(sys.argv[1])))
        requests, responses = missing_rows(Path(place), told)
        print(
            f"{len(told.requests)} answers, {len(requests)} without a row; {len(told.responses)} stored, {len(responses)} missing"
        )
        print(f"without a lock: {without_lock or 'never'}")
