"""Background work in numbers."""

from types import SimpleNamespace

from router.contract.job import JobState
from router.contract.stores import StoreUnusable
from router.jobs.panel import read_figures
from router.jobs.uncollected import Uncollected
from router.sessions.memory import SessionMemory
from router.stores.memory.entries import NoSessions
from router.stores.memory.jobs import MemoryJobs
from tests.tools.jobs import LEASE_SECONDS, MANY, make_ending, make_job


async def test_nothing_is_shown_before_the_first_job():
    assert await read_figures(None) == {}
    assert await read_figures(SimpleNamespace(store=None, uncollected=None)) == {}


async def test_jobs_are_counted_by_state_and_events_that_were_given_up():
    store = MemoryJobs(keep_seconds=3_600.0)
    uncollected = Uncollected(SessionMemory(NoSessions()), keep_seconds=3_600.0)
    for number in range(4):
        await store.add(make_job(f"resp_{number}"), MANY)
    job = await store.claim("owner", LEASE_SECONDS, MANY)
    await store.finish(job, make_ending(), ["https://hooks.example/"])
    uncollected.note_end(job, make_ending())
    await store.claim("owner", LEASE_SECONDS, MANY)
    (event,) = await store.take_due(2e9, 1.0)
    await store.note_undelivered(event.id, None)

    found = await read_figures(SimpleNamespace(store=store, uncollected=uncollected))

    assert found["tandem_jobs"] == {("queued",): 2, ("running",): 1}
    assert found["tandem_jobs_ended_total"] == {
        (str(state),): int(state is JobState.COMPLETED)
        for state in (JobState.CANCELLED, JobState.COMPLETED, JobState.FAILED, JobState.INCOMPLETE)
    }
    assert found["tandem_webhooks_dead"] == {(): 1}
    await store.close()


async def test_a_store_that_cannot_be_read_leaves_its_own_figures_out():
    class Away:
        async def list_jobs(self, *_):
            raise StoreUnusable("away")

    uncollected = Uncollected(SessionMemory(NoSessions()), keep_seconds=3_600.0)

    assert set(await read_figures(SimpleNamespace(store=Away(), uncollected=uncollected))) == {"tandem_jobs_ended_total"}
