"""Background work in numbers, for `/metrics`. Nothing is shown as long as there was no job."""

from collections.abc import Mapping

from router.contract.job import FINAL, JobState, JobStore
from router.contract.stores import StoreUnusable
from router.jobs.jobs import Jobs

_MOST = 1_000
"""More jobs of one state are not counted: each is a row that is read."""
Samples = Mapping[tuple[str, ...], float]


async def read_figures(jobs: Jobs | None, *, with_all: bool = True) -> dict[str, Samples]:
    """How many jobs wait and run, how those of this process ended, and how many events no webhook took.

    Without `with_all` only what is this process's own: of several workers, one is enough to count what they share.
    """
    if jobs is None or jobs.store is None or jobs.uncollected is None:
        return {}
    ended = jobs.uncollected.ended
    found: dict[str, Samples] = {"tandem_jobs_ended_total": {(str(state),): ended[state] for state in sorted(FINAL)}}
    if not with_all:
        return found
    try:
        found["tandem_jobs"] = {(str(state),): await _count(jobs.store, state) for state in (JobState.QUEUED, JobState.RUNNING)}
        found["tandem_webhooks_dead"] = {(): len(await jobs.store.list_dead())}
    except StoreUnusable:
        pass
    return found


async def _count(store: JobStore, state: JobState) -> int:
    return len((await store.list_jobs(None, state, _MOST, None)).jobs)
