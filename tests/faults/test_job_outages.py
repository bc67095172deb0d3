"""A job file that cannot be written for a while: running jobs lose nothing, new ones are refused.

`python -m tests.faults.test_job_outages 20` locks the file, then fills the disk, for 20 seconds each.
"""

import asyncio
import contextlib
import json
import resource
import sqlite3
import sys
import tempfile
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from tests.faults.test_job_kills import SLOW, UNENDED, Given, ask, find_faults
from tests.faults.test_ledger_kills import serving
from tests.tools.http import call
from tests.tools.waiting import by_the_clock, until

JOBS = 4
BEGUN = "SELECT count(DISTINCT job) FROM segments WHERE has_content"
ENDS = "SELECT j.id, j.state, max(s.last), group_concat(CAST(s.frames AS TEXT), '') FROM jobs j JOIN segments s ON s.job = j.sequence GROUP BY 1"
Outage = Callable[[Path, int], contextlib.AbstractAsyncContextManager[None]]


@contextlib.asynccontextmanager
async def locked(folder: Path, pid: int) -> AsyncIterator[None]:
    """Another program keeps writing to the file."""
    with contextlib.closing(sqlite3.connect(folder / "jobs.db", isolation_level=None, timeout=30)) as other:
        other.execute("BEGIN IMMEDIATE")
        yield
        other.execute("ROLLBACK")


@contextlib.asynccontextmanager
async def full(folder: Path, pid: int) -> AsyncIterator[None]:
    _, hard = resource.prlimit(pid, resource.RLIMIT_FSIZE)
    resource.prlimit(pid, resource.RLIMIT_FSIZE, (1, hard))
    yield
    resource.prlimit(pid, resource.RLIMIT_FSIZE, (hard, hard))


async def go_through(folder: Path, outage: Outage, seconds: float) -> list[str]:
    """Serve jobs during an outage. Returns the faults."""
    tokens = int(40 * (seconds + 1))
    (folder / "config.yaml").write_text(SLOW.replace("answer_tokens: 40", f"answer_tokens: {tokens}"))
    given, faults = Given(folder), []
    async with serving(folder, 0) as (process, port):
        await given.give(port, JOBS)
        await until(lambda: ask(folder / "jobs.db", BEGUN) == [(JOBS,)])
        async with outage(folder, process.pid):
            refused = await call(port, "/v1/responses", {"model": "deep", "input": "one more", "background": True})
            await by_the_clock(seconds)
        await until(lambda: ask(folder / "jobs.db", UNENDED) == [(0,)], 60 + 2 * seconds)
        await given.give(port, JOBS + 1)  # one without an outage
        await until(lambda: ask(folder / "jobs.db", UNENDED) == [(0,)], 60 + 2 * seconds)
    if (refused.status, json.loads(refused.body)["error"]["code"]) != (503, "jobs_unavailable"):
        faults.append(f"a new job was answered {refused.status}: {refused.body!r}")
    ends = ask(folder / "jobs.db", ENDS)
    if {state for _, state, *_ in ends} != {"completed"} or len(ends) != JOBS + 1:
        faults.append(f"ended as {[state for _, state, *_ in ends]}")
    if len({last for _, _, last, _ in ends}) != 1:
        faults.append(f"the logs are not equally long: {[last for _, _, last, _ in ends]}")
    faults += [f"{name} has no end" for name, *_, frames in ends if "response.completed" not in frames]
    return faults + find_faults(folder, given)


@pytest.mark.skipif(not hasattr(resource, "prlimit"), reason="the limit of another process can be set on Linux only")
@pytest.mark.parametrize("outage", [locked, full])
async def test_running_jobs_lose_no_frame_while_their_file_cannot_be_written_to_and_new_ones_are_refused(tmp_path, outage):
    assert await go_through(tmp_path, outage, 0.0) == []


if __name__ == "__main__":
    for kind in (locked, full):
        with tempfile.TemporaryDirectory() as place:
            wrong = asyncio.run(go_through(Path(place), kind, float(sys.argv[1])))
            print(
                f"{kind.__name__} for {sys.argv[1]} s:",
                "\n".join(wrong) or f"{JOBS} jobs went on, no frame lost, a new one 503",
            )
