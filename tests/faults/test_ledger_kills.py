"""A router that is killed repeatedly under load: records on disk stay, none is doubled, the file is sound.

`python -m tests.faults.test_ledger_kills 50` kills fifty times, prints the ages of lost records, and fails if one was older
than 250 ms.
"""

import asyncio
import contextlib
import os
import re
import signal
import sqlite3
import sys
import tempfile
import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from router.stores.sqlite.damage import find_damage
from tests.conftest import SIMULATED
from tests.tools.http import call, chat
from tests.tools.ports import keepable_port
from tests.tools.waiting import by_the_clock, until

KILLS = 3
CALLERS = 8
FLUSHED_SECONDS = 0.25


class Answered:
    """When each request was answered, for its caller."""

    def __init__(self) -> None:
        self.at: dict[str, float] = {}
        self.is_over = False

    async def ask_on(self, port: int) -> None:
        while not self.is_over:
            with contextlib.suppress(OSError, asyncio.IncompleteReadError, ValueError):
                reply = await call(port, "/v1/chat/completions", chat())
                if reply.status == 200 and reply.is_whole:
                    self.at[reply.headers["x-tandem-request-id"]] = time.monotonic()
            await asyncio.sleep(0.005)


@contextlib.asynccontextmanager
async def serving(
    folder: Path, port: int, checkout: Path | None = None
) -> AsyncIterator[tuple[asyncio.subprocess.Process, int]]:
    """A router process, possibly of another checkout, that must be killed by the end of the block."""
    log = folder / "log"
    command = [sys.executable, "-m", "router.cli", "serve", "--config", str(folder / "config.yaml"), "--port", str(port)]
    with log.open("wb") as file:
        process = await asyncio.create_subprocess_exec(*command, stderr=file, cwd=checkout)
    try:
        await until(lambda: b"server.started" in log.read_bytes(), 60)
        yield process, int(re.search(rb"http://127\.0\.0\.1:(\d+)", log.read_bytes())[1])
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


def read_ids(folder: Path) -> list[str]:
    with contextlib.closing(sqlite3.connect(folder / "test.db", timeout=30)) as database:
        return [name for (name,) in database.execute("SELECT id FROM entries")]


async def kill_under_load(folder: Path, kills: int, load_seconds: float = 0.0) -> tuple[list[float], list[str]]:
    """Kill a busy router repeatedly. Returns the ages of lost records, and faults."""
    (folder / "config.yaml").write_text(SIMULATED)
    answered, faults, ages, port = Answered(), list[str](), list[float](), keepable_port()
    for number in range(kills):
        async with serving(folder, port) as (process, port):
            answered.is_over = False
            callers = [asyncio.ensure_future(answered.ask_on(port)) for _ in range(CALLERS)]  # noqa: TID251  held in the list
            before = len(read_ids(folder))
            await until(lambda before=before: len(read_ids(folder)) > before + 4 * CALLERS, 60)
            await by_the_clock(load_seconds)
            on_disk = set(read_ids(folder))
            killed_at = time.monotonic()
            os.kill(process.pid, signal.SIGKILL)
            await process.wait()
            answered.is_over = True
            await asyncio.gather(*callers)
        rows = read_ids(folder)
        if lost := on_disk - set(rows):
            faults.append(f"kill {number}: {len(lost)} records that were on disk are gone")
        if len(rows) != len(set(rows)):
            faults.append(f"kill {number}: a request has two records")
        if damage := find_damage(folder / "test.db", in_full=True):
            faults.append(f"kill {number}: {damage}")
        lost_now = [killed_at - answered.at.pop(name) for name in set(answered.at) - set(rows)]
        ages += lost_now
        oldest_now = max(lost_now, default=0.0) * 1000
        print(f"kill {number + 1}: {len(rows)} records, {len(lost_now)} lost, the oldest {oldest_now:.0f} ms old", flush=True)
    return ages, faults


@pytest.mark.skipif(os.name != "posix", reason="it kills a process")
async def test_a_record_that_was_on_disk_outlives_a_kill_and_the_file_stays_sound(tmp_path):
    _, faults = await kill_under_load(tmp_path, KILLS)

    assert faults == []


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as place:
        lost_ages, wrong = asyncio.run(kill_under_load(Path(place), int(sys.argv[1]), load_seconds=0.5))
        total, oldest = len(read_ids(Path(place))), max(lost_ages, default=0.0)
        print(f"{total} records kept, {len(lost_ages)} lost; the oldest lost was {oldest * 1000:.0f} ms old")
        print("\n".join(wrong) or "nothing that was on disk was lost, nothing is there twice, the file is sound")
        sys.exit(bool(wrong) or oldest > FLUSHED_SECONDS)
