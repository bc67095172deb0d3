"""Many routers that share a queue of jobs, simulated as in `simulated.py`: the real store, in memory, and the real times."""

import asyncio
import itertools
import random
import statistics
from typing import Any, NamedTuple

from router.contract.caller import Caller
from router.contract.job import JobTerms
from router.jobs.endings import LEASE_SECONDS, RENEW_SECONDS
from router.jobs.runner import _POLL_SECONDS as POLL_SECONDS
from router.stores.sqlite.jobs import MemoryJobs
from tests.bench.simulated import EPOCH, TRIP_SECONDS, SimulatedLoop
from tests.tools.jobs import make_ending, make_job


class TakeOvers(NamedTuple):
    """How long jobs of a router that died wait for another, and how often routers ask for one in vain."""

    median_seconds: float
    last_seconds: float
    claims: float
    """Questions for a job, for each job that ended."""
    idle_claims: float
    """Questions a second of all routers while there is nothing to do."""


_JOB_SECONDS, _JOBS = 20.0, 100
_MANY = JobTerms(most_queued=10_000, most_for_a_caller=1_000)


class Runner:
    """Claims, keeps and ends jobs by the rules and times of `router/jobs/runner.py`; serving one is a pause."""

    def __init__(self, store: MemoryJobs, name: str, taken: dict[str, list[float]]) -> None:
        self._store, self.name, self._taken, self.claims = store, name, taken, 0
        self.running: dict[str, asyncio.Task[None]] = {}
        self.looking = asyncio.get_running_loop().create_task(self._look())

    async def _look(self) -> None:
        watch = self._store.watch(None)
        while True:
            while len(self.running) < _MANY.most_running and await self._claim():
                pass
            await watch.wait(POLL_SECONDS)

    async def _claim(self) -> bool:
        await asyncio.sleep(TRIP_SECONDS)
        self.claims += 1
        job = await self._store.claim(self.name, LEASE_SECONDS, _MANY)
        if job is None:
            return False
        loop = asyncio.get_running_loop()
        if job.is_unrecorded:
            await self._store.release(job)
            return True
        if job.is_lost:
            await self._store.finish(job, make_ending(at=EPOCH + loop.time()))
            return True
        self._taken.setdefault(job.id, []).append(loop.time())
        self.running[job.id] = loop.create_task(self._run(job))
        return True

    async def _run(self, job: Any) -> None:
        for _ in range(int(_JOB_SECONDS / RENEW_SECONDS)):
            await asyncio.sleep(RENEW_SECONDS)
            await self._store.renew(job, self.name, LEASE_SECONDS)
        await self._store.finish(job, make_ending(at=EPOCH + asyncio.get_running_loop().time()))
        del self.running[job.id]

    def die(self) -> set[str]:
        """Returns the jobs that it leaves."""
        for task in (self.looking, *self.running.values()):
            task.cancel()
        return set(self.running)


async def _take_over(count: int, seed: int) -> TakeOvers:
    chance, loop = random.Random(seed), asyncio.get_running_loop()
    store, taken = MemoryJobs(keep_seconds=3_600.0, clock=lambda: EPOCH + loop.time()), dict[str, list[float]]()
    runners = []
    for number in range(count):
        await asyncio.sleep(chance.uniform(0, POLL_SECONDS / count))
        runners.append(Runner(store, f"runner-{number}", taken))
    names, late = itertools.count(1), list[float]()
    asked = sum(runner.claims for runner in runners)
    await asyncio.sleep(4 * POLL_SECONDS)
    idle = (sum(runner.claims for runner in runners) - asked) / 4 / POLL_SECONDS
    asked = sum(runner.claims for runner in runners)
    for number in range(_JOBS):
        await asyncio.sleep(chance.expovariate(count / 2 / _JOB_SECONDS))
        await store.add(make_job(f"resp_{next(names)}", Caller(f"caller-{number % 7}")), _MANY)
        busy = [runner for runner in runners if runner.running]
        if number % 10 == 9 and busy:
            left, died = (dead := chance.choice(busy)).die(), loop.time()
            runners[runners.index(dead)] = Runner(store, f"successor-{number}", taken)
            asked -= dead.claims
            await asyncio.sleep(2 * LEASE_SECONDS)
            again = [[at - died for at in taken[name] if at > died] for name in sorted(left)]
            late += [times[0] for times in again if times]  # one that killed its third owner is given up
    await asyncio.sleep(4 * _JOB_SECONDS)
    claims = (sum(runner.claims for runner in runners) - asked) / _JOBS
    for runner in runners:
        runner.die()
    await store.close()
    return TakeOvers(statistics.median(late), max(late), claims, idle)


def take_over(count: int, seed: int = 1) -> TakeOvers:
    """A hundred jobs of 20 seconds, at half of what the routers could do; one of ten begins with the death of a router."""
    with asyncio.Runner(loop_factory=SimulatedLoop) as runner:
        return runner.run(_take_over(count, seed))
