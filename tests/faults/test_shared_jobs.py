"""Routers that share background jobs in Postgres: kills, reads and cancels elsewhere, lost databases.

`python -m tests.faults.test_shared_jobs kills 200 30` kills three routers 30 times during 200 jobs. `streams 100` cuts 100
streams and resumes them elsewhere, `cancels 50` cancels elsewhere, `resumptions 200` times the first byte there, and `outages
20` takes the database away for 20 seconds, stopped and killed. Each prints what it saw.
"""

import asyncio
import collections
import contextlib
import json
import signal
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.faults.test_job_kills import COSTS, ask, find_unrecorded
from tests.tools.background import events_in
from tests.tools.http import call
from tests.tools.waiting import later

pytest.importorskip("asyncpg")

from tests.tools.fleet import SHARED, Fleet, Router, cancel, fleet_of, read_piece, read_rest
from tests.tools.postgres import PostgresServer, find_binaries
from tests.tools.waiting import by_the_clock, until

HEARTBEAT = b":"
EXPIRE = "UPDATE tandem.jobs SET leased_until = 1 WHERE state = 'running' AND split_part(owner, ':', 2) = $1"


async def kill_at_random(fleet: Fleet, jobs: int, kills: int, *, within_seconds: float) -> float:
    """Kill routers while jobs run. Returns how long after the last kill all were over."""
    killed_at = time.monotonic()
    for number in range(kills):
        await fleet.give(fleet.chance.choice(fleet.routers), jobs * (number + 1) // kills - len(fleet.ids))
        await by_the_clock(fleet.chance.uniform(0.0, within_seconds))
        victim = fleet.chance.choice(fleet.routers)
        reading = later(read_some(fleet))
        await by_the_clock(0.05)
        await victim.kill()
        killed_at = time.monotonic()
        await victim.start()
        await reading
    await fleet.give(fleet.routers[0], jobs - len(fleet.ids))
    await fleet.await_end()
    return time.monotonic() - killed_at


async def read_some(fleet: Fleet) -> None:
    """Read part of a running job at any router, so that it counts as handed out."""
    running = await fleet.ask("SELECT id FROM tandem.jobs WHERE state = 'running' LIMIT 1")
    for (job_id,) in running:
        with contextlib.suppress(OSError, asyncio.IncompleteReadError, ValueError, TimeoutError):
            async with asyncio.timeout(0.3):
                await read_piece(fleet.chance.choice(fleet.routers), job_id, -1, 2_000)


async def cut_and_resume(fleet: Fleet, job_id: str) -> bool:
    """Read a job in pieces, each at another router. Returns whether they join."""
    router, joined = fleet.routers[0], b""
    for _ in range(fleet.chance.randint(1, 20)):
        router = fleet.other_than(router)
        last = events_in(joined)[-1]["sequence_number"] if joined else -1
        piece = await read_piece(router, job_id, last, fleet.chance.randint(1, 4_000))
        joined += piece[: piece.rfind(b"\n\n") + 2] if b"\n\n" in piece else b""
    last = events_in(joined)[-1]["sequence_number"] if joined else -1
    joined += await read_rest(fleet.other_than(router), job_id, last)
    uncut = await read_rest(fleet.routers[0], job_id, -1)
    return without_heartbeats(joined) == without_heartbeats(uncut)


def without_heartbeats(body: bytes) -> list[bytes]:
    return [frame for frame in body.split(b"\n\n") if not frame.startswith(HEARTBEAT)]


async def cancel_elsewhere(fleet: Fleet) -> float:
    """Cancel a job at another router. Returns how long its owner took to end it."""
    (job_id,) = await fleet.give(fleet.routers[0], 1)
    owner = await fleet.await_owner(job_id)
    began = time.monotonic()
    reply = await cancel(fleet.other_than(owner), job_id)
    took = time.monotonic() - began
    assert (reply.status, json.loads(reply.body)["status"]) == (200, "cancelled"), reply.body
    return took


async def resume_elsewhere(fleet: Fleet, job_id: str) -> float:
    """Time to the first byte of a stream resumed at another router."""
    owner = await fleet.await_owner(job_id)
    began = time.monotonic()
    await read_piece(fleet.other_than(owner), job_id, 0, 1)
    return time.monotonic() - began


class Stopped:
    """A suspended database, whose connections the system still accepts."""

    def __init__(self, server: PostgresServer) -> None:
        self._server = server

    def begin(self) -> None:
        self._server.signal_all(signal.SIGSTOP)

    def end(self) -> None:
        self._server.signal_all(signal.SIGCONT)


class Killed(Stopped):
    def begin(self) -> None:
        self._server.kill()

    def end(self) -> None:
        self._server.start()


async def go_through(fleet: Fleet, outage: Stopped, seconds: float, jobs: int = 4) -> list[str]:
    """Serve jobs while the database is away. Returns the faults."""
    given = await fleet.give(fleet.routers[0], jobs)
    for job_id in given:
        await fleet.await_owner(job_id)
    await asyncio.to_thread(outage.begin)
    refused = await call(fleet.routers[0].port, "/v1/responses", {"model": "deep", "input": "one more", "background": True})
    served = await call(fleet.routers[0].port, "/v1/responses", {"model": "fast", "input": "in front"})
    await by_the_clock(seconds)
    await asyncio.to_thread(outage.end)
    await fleet.await_end()
    given += await fleet.give(fleet.routers[0], 1)  # one without an outage
    await fleet.await_end()
    faults = await fleet.find_faults()
    if (refused.status, json.loads(refused.body)["error"]["code"]) != (503, "jobs_unavailable"):
        faults.append(f"a new job was answered {refused.status}: {refused.body!r}")
    if served.status != 200:
        faults.append(f"a request in front was answered {served.status}")
    logs = "SELECT j.state, j.attempt, max(s.last) FROM tandem.jobs j JOIN tandem.segments s ON s.job = j.sequence GROUP BY j.id, 1, 2"
    ends = set(await fleet.ask(logs))
    if len(ends) != 1 or not {(state, attempt) for state, attempt, _ in ends} <= {("completed", 1)}:
        faults.append(f"not all completed at once, with logs of one length: {ends}")
    return faults


def slow(seconds: float) -> str:
    """A config whose deep target takes at least this long."""
    return SHARED.replace("answer_tokens: 40", f"answer_tokens: {int(40 * (seconds + 1))}")


async def test_the_jobs_of_a_router_that_is_killed_end_at_another_with_the_answer_of_one_attempt(postgres, tmp_path):
    async with fleet_of(2, postgres, tmp_path, slow(1)) as fleet:
        given = await fleet.give(fleet.routers[0], 8)
        victim = await fleet.await_owner(given[-1])

        await victim.kill()
        await fleet.ask(EXPIRE, str(victim.pid))
        await fleet.ask("SELECT pg_notify('tandem_jobs', 'test ')::text")
        await fleet.await_end()

        assert await fleet.find_faults() == []
        unrecorded, *_ = await find_unrecorded_of(fleet)
        assert unrecorded == []
        assert await fleet.ask("SELECT state, attempt FROM tandem.jobs WHERE id = $1", given[-1]) == [("completed", 2)]


async def test_a_job_is_read_and_cancelled_at_a_router_that_does_not_run_it_and_goes_on_without_its_database(
    tmp_path, postgres
):
    async with fleet_of(2, postgres, tmp_path) as fleet:
        (job_id,) = await fleet.give(fleet.routers[0], 1)

        assert await cut_and_resume(fleet, job_id)
        await cancel_elsewhere(fleet)
        await fleet.ask("DELETE FROM tandem.jobs")
        fleet.ids.clear()
        assert await go_through(fleet, Stopped(postgres), 0.0) == []


async def test_a_job_is_named_in_its_session_at_every_router_until_its_end_is_read_at_one(postgres, tmp_path):
    session = {"x-tandem-session": "mine"}

    async def is_named(router: Router, jobs: str | None) -> bool:
        reply = await call(router.port, "/v1/responses", {"model": "fast", "input": "and then?"}, session)
        return reply.headers.get("x-tandem-jobs") == jobs

    async with fleet_of(2, postgres, tmp_path) as fleet:
        body = {"model": "deep", "input": "a question", "background": True}
        job_id = json.loads((await call(fleet.routers[0].port, "/v1/responses", body, session)).body)["id"]
        await fleet.await_end()
        for router in fleet.routers:
            await until(lambda router=router: is_named(router, f"{job_id}=completed"))

        await call(fleet.routers[0].port, f"/v1/responses/{job_id}", method="GET")

        for router in fleet.routers:
            await until(lambda router=router: is_named(router, None))


def show(name: str, seconds: list[float], bar: float) -> bool:
    cuts = statistics.quantiles(seconds, n=100)
    print(
        f"{name}: {len(seconds)} times, p50 {cuts[49] * 1e3:.0f} ms, p99 {cuts[98] * 1e3:.0f} ms, most {max(seconds) * 1e3:.0f} ms"
    )
    return cuts[98] <= bar


async def try_kills(server: PostgresServer, folder: Path, jobs: int, kills: int) -> bool:
    async with fleet_of(3, server, folder, seed=int(time.time())) as fleet:
        seconds = await kill_at_random(fleet, jobs, kills, within_seconds=3.0)
        faults = await fleet.find_faults()
        counts = collections.Counter(await fleet.ask("SELECT state, attempt FROM tandem.jobs"))
        ended = "; ".join(f"{count} {state} in attempt {number}" for (state, number), count in sorted(counts.items()))
        print(f"{len(fleet.ids)} jobs, {kills} kills of 3 routers, all over {seconds:.1f} s after the last: {ended}")
        print("\n".join(faults) or "none is lost, none is without an owner, no log mixes attempts")
        unrecorded, rows, twice = await find_unrecorded_of(fleet)
        print(f"{rows} rows in the ledgers, {twice} of them of an attempt that another ledger has, too")
        print("\n".join(unrecorded) or "each attempt's cost is recorded")
        return not faults and not unrecorded and seconds <= 30


async def find_unrecorded_of(fleet: Fleet) -> tuple[list[str], int, int]:
    """Attempts without a recorded cost, the number of job rows, and how many are doubled."""
    attempts = [(name, count) for name, count in await fleet.ask("SELECT id, attempt FROM tandem.jobs")]
    rows = [row for router in fleet.routers for row in ask(router.folder / "test.db", COSTS)]
    return find_unrecorded(attempts, dict(rows)), len(rows), len(rows) - len(dict(rows))


async def try_streams(server: PostgresServer, folder: Path, count: int, _: int) -> bool:
    async with fleet_of(2, server, folder) as fleet:
        given = await fleet.give(fleet.routers[0], count // 2) + await fleet.give(fleet.routers[1], count - count // 2)
        joined = []
        for start in range(0, count, 16):
            joined += await asyncio.gather(*(cut_and_resume(fleet, job_id) for job_id in given[start : start + 16]))
        print(f"{count} streams, cut 1 to 20 times, each time resumed at the other router: {sum(joined)} equal the uncut one")
        return all(joined)


async def try_cancels(server: PostgresServer, folder: Path, count: int, _: int) -> bool:
    async with fleet_of(2, server, folder, slow(60)) as fleet:
        return show("cancelled at another router", [await cancel_elsewhere(fleet) for _ in range(count)], 1.5)


async def try_resumptions(server: PostgresServer, folder: Path, count: int, _: int) -> bool:
    async with fleet_of(2, server, folder, slow(120)) as fleet:
        given = await fleet.give(fleet.routers[0], 8)
        taken, plain = [], []
        for number in range(count):
            taken.append(await resume_elsewhere(fleet, given[number % 8]))
            began = time.monotonic()
            await call(fleet.routers[number % 2].port, "/v1/models", method="GET")
            plain.append(time.monotonic() - began)
        show("for comparison, a list of models, without the database", plain, 0.0)
        return show("first byte of a resumption at another router", taken, 0.15)


async def try_outages(server: PostgresServer, folder: Path, seconds: int, _: int) -> bool:
    is_good = True
    kinds: list[Callable[[PostgresServer], Stopped]] = [Stopped, Killed]
    for number, kind in enumerate(kinds):
        (folder / str(number)).mkdir()
        async with fleet_of(2, server, folder / str(number), slow(seconds)) as fleet:
            faults = await go_through(fleet, kind(server), seconds)
            print(f"{kind.__name__} for {seconds} s:", "\n".join(faults) or "4 jobs went on, no frame lost, a new one 503")
            is_good = is_good and not faults
    return is_good


TRIALS = {
    "kills": try_kills,
    "streams": try_streams,
    "cancels": try_cancels,
    "resumptions": try_resumptions,
    "outages": try_outages,
}

if __name__ == "__main__":
    database = PostgresServer(find_binaries())
    database.start()
    try:
        with tempfile.TemporaryDirectory() as place:
            numbers = [*map(int, sys.argv[2:]), 0]
            held = asyncio.run(TRIALS[sys.argv[1]](database, Path(place), *numbers[:2]))
    finally:
        database.stop()
    sys.exit(not held)
