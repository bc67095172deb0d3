"""Ends jobs whose key was revoked or has expired: those that wait, those that run here, and agents' work.

Jobs that run at other workers or routers are stopped there: each looks at its own keys.
"""

import asyncio
from collections.abc import Sequence
from typing import Literal, NamedTuple

from router.contract.job import FINAL, Job, JobState, JobStore
from router.jobs.endings import write_revoked
from router.jobs.outside import is_outside
from router.jobs.runner import Runner

_AT_ONCE = 100


class EndedWork(NamedTuple):
    key: str | None
    kind: Literal["waiting_jobs", "running_jobs"]


async def end_revoked(store: JobStore, runner: Runner) -> Sequence[EndedWork]:
    """Raises `StoreUnusable`; what was not ended then is found again."""
    ended = [EndedWork(job.key, "running_jobs") for job in runner.stop_revoked()]
    for state in (JobState.QUEUED, JobState.RUNNING):
        before, is_last = None, False
        while not is_last:
            page = await store.list_jobs(None, state, _AT_ONCE, before)
            ours = (job for job in page.jobs if state is JobState.QUEUED or (is_outside(job) and not job.is_cancelled))
            cancelled = await asyncio.gather(*(_cancel(store, job) for job in ours if runner.is_revoked(job)))
            ended += [one for one in cancelled if one is not None]
            before, is_last = page.before, page.before is None
    return ended


async def _cancel(store: JobStore, job: Job) -> EndedWork | None:
    """None if it has ended meanwhile."""
    if (found := await store.find(job.id, None)) is None or found.state in FINAL:
        return None
    after = await store.cancel(job.id, None, ending := write_revoked(found))
    if after is None or after.state not in FINAL:
        return EndedWork(job.key, "running_jobs") if after is not None else None
    return EndedWork(job.key, "waiting_jobs") if after.ended_at == ending.at else None
