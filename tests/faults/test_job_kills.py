"""A router that is killed repeatedly during background jobs: each job ends with the answer of one attempt.

`python -m tests.faults.test_job_kills 200 30` gives it 200 jobs, kills it 30 times, and prints what became of them.
"""

import asyncio
import collections
import contextlib
import json
import os
import random
import signal
import sqlite3
import sys
import tempfile
import time
from collections.abc import Iterable, Mapping
from pathlib import Path

import pytest

from router.dialects.responses.background import request_id_of
from router.stores.sqlite.damage import find_damage
from tests.conftest import SIMULATED
from tests.faults.test_ledger_kills import serving
from tests.tools.http import call
from tests.tools.ports import keepable_port
from tests.tools.waiting import by_the_clock, until

JOBS, KILLS = 12, 2
SLOW = SIMULATED.replace("tokens_per_second: 20000, prefill", "tokens_per_second: 40, prefill").replace(
    "- name: simulated-deep", "- name: simulated-deep\n        price: {input: 1, output: 2}"
) + ("jobs: {most_running: 8, most_for_a_caller: 8, most_queued: 1000}\n")
"""The deep target takes about a second."""
ENDED_SECONDS = 30.0
OF_JOBS = "SELECT * FROM entries WHERE job IS NOT NULL"
COSTS = f"SELECT id, cost_usd FROM ({OF_JOBS})"
INTERRUPTED = "sum(outcome = 'INTERRUPTED')"
UNENDED = "SELECT count(*) FROM jobs WHERE ended_at IS NULL"


class Given:
    """The accepted jobs, and which of them are read."""

    def __init__(self, folder: Path, seed: int = 1) -> None:
        self.folder = folder
        self.ids: list[str] = []
        self.chance = random.Random(seed)

    async def give(self, port: int, jobs: int) -> None:
        """Hand jobs in until `jobs` are accepted or the router is gone."""
        with contextlib.suppress(OSError, asyncio.IncompleteReadError, ValueError):
            while len(self.ids) < jobs:
                body = {"model": "deep", "input": f"question {len(self.ids)}", "background": True}
                reply = await call(port, "/v1/responses", body)
                assert reply.status == 200, reply.body
                self.ids.append(json.loads(reply.body)["id"])

    async def read_some(self, port: int) -> None:
        """Read a running job's output, so that it counts as handed out."""
        running = ask(self.folder / "jobs.db", "SELECT id FROM jobs WHERE state = 'running'")
        with contextlib.suppress(OSError, asyncio.IncompleteReadError, ValueError, TimeoutError):
            async with asyncio.timeout(0.3):
                for (job_id,) in running[:1]:
                    await call(port, f"/v1/responses/{job_id}?stream=true", method="GET")


def ask(file: Path, statement: str) -> list:
    with contextlib.closing(sqlite3.connect(file, timeout=30)) as database:
        return database.execute(statement).fetchall()


async def kill_at_random(
    folder: Path, jobs: int, kills: int, seed: int = 1, within_seconds: float = 0.6
) -> tuple[Given, float]:
    """Give jobs to a router that is killed repeatedly. Returns how long after the last kill all were over."""
    (folder / "config.yaml").write_text(SLOW)
    given, port = Given(folder, seed), keepable_port()
    for _ in range(kills):
        async with serving(folder, port) as (process, port):
            await given.give(port, len(given.ids) + jobs // kills)
            await by_the_clock(given.chance.uniform(0.0, within_seconds))
            await given.read_some(port)
            os.kill(process.pid, signal.SIGKILL)
            killed_at = time.monotonic()
            await process.wait()
    async with serving(folder, port) as (_, port):
        await given.give(port, jobs)
        await until(lambda: ask(folder / "jobs.db", UNENDED) == [(0,)], 10 * ENDED_SECONDS)
        over_seconds = time.monotonic() - killed_at
        return given, over_seconds


def find_unrecorded(attempts: Iterable[tuple[str, int]], costs: Mapping[str, float | None]) -> list[str]:
    """Attempts without a recorded cost, by attempts per job and costs per request."""
    numbered = ((job_id, number) for job_id, count in attempts for number in range(1, count + 1))
    return [f"{job_id}, attempt {number}" for job_id, number in numbered if costs.get(request_id_of(job_id, number)) is None]


def find_faults(folder: Path, given: Given) -> list[str]:
    file, faults = folder / "jobs.db", []
    rows = ask(file, "SELECT id, state, attempt, response FROM jobs")
    faults += [f"{name} was accepted and is gone" for name in set(given.ids) - {row[0] for row in rows}]
    faults += [f"{name}: {attempt} attempts" for name, _, attempt, _ in rows if attempt > 3]
    for name, state, _, response in rows:
        error = json.loads(response).get("error") or {}
        if state != "completed" and (state, error.get("reason")) != ("failed", "interrupted"):
            faults.append(f"{name}: {state}, {error}")
        query = f"SELECT s.first, s.last, s.attempt FROM segments s JOIN jobs j ON j.sequence = s.job WHERE j.id = '{name}'"
        segments = ask(file, f"{query} ORDER BY s.first")
        numbers = [number for first, last, _ in segments for number in range(first, last + 1)]
        if numbers != list(range(len(numbers))):
            faults.append(f"{name}: frames are missing or twice in the log: {segments}")
        if len({attempt for *_, attempt in segments}) > 1:
            faults.append(f"{name}: the log mixes attempts: {segments}")
    if damage := find_damage(file, in_full=True):
        faults.append(damage)
    costs = dict(ask(folder / "test.db", COSTS))
    unrecorded = find_unrecorded([(name, attempt) for name, _, attempt, _ in rows], costs)
    return faults + [f"{name}: its cost is not recorded" for name in unrecorded]


def sum_up(folder: Path) -> str:
    counts = collections.Counter(ask(folder / "jobs.db", "SELECT state, attempt FROM jobs"))
    ended = "; ".join(f"{count} {state} in attempt {number}" for (state, number), count in sorted(counts.items()))
    rows, interrupted, cost = ask(folder / "test.db", f"SELECT count(*), {INTERRUPTED}, count(cost_usd) FROM ({OF_JOBS})")[0]
    return f"{ended}; {rows} rows in the ledger, {interrupted} of them of attempts that were interrupted, {cost} with a cost"


@pytest.mark.skipif(os.name != "posix", reason="it kills a process")
async def test_every_accepted_job_of_a_router_that_is_killed_again_and_again_ends_with_the_answer_of_one_attempt(tmp_path):
    given, _ = await kill_at_random(tmp_path, JOBS, KILLS)

    assert find_faults(tmp_path, given) == []
    assert len(given.ids) == JOBS
    assert max(attempt for (attempt,) in ask(tmp_path / "jobs.db", "SELECT attempt FROM jobs")) > 1


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as place:
        accepted, seconds = asyncio.run(
            kill_at_random(Path(place), int(sys.argv[1]), int(sys.argv[2]), int(time.time()), within_seconds=3.0)
        )
        print(f"{len(accepted.ids)} jobs, all over {seconds:.1f} s after the last kill: {sum_up(Path(place))}")
        wrong = find_faults(Path(place), accepted)
        sound = (
            "none is lost, none is without an owner, no log mixes attempts, each attempt's cost is recorded, the file is sound"
        )
        print("\n".join(wrong) or sound)
        sys.exit(bool(wrong) or seconds > ENDED_SECONDS)
