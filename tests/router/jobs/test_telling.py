"""What happens to jobs is reported by their store."""

from router.contract.job import JobState
from router.contract.secret import Secret
from router.contract.webhooks import JobWebhook
from router.jobs.telling import TellingStore
from router.jobs.uncollected import Uncollected
from router.jobs.webhooks import Webhooks
from router.sessions.memory import SessionMemory
from router.stores.memory.jobs import MemoryJobs
from router.stores.memory.sessions import NoSessions
from tests.tools.jobs import LEASE_SECONDS, MANY, Clock, make_ending, make_job
from tests.tools.kept import ANN

URL = "https://hooks.example/"


def make_store():
    clock = Clock()
    below = MemoryJobs(keep_seconds=3_600.0, clock=clock)
    webhooks = Webhooks(below, clock=clock)
    webhooks.follow([JobWebhook(URL, Secret("x" * 16))])
    return TellingStore(below, Uncollected(SessionMemory(NoSessions()), keep_seconds=3_600.0, clock=clock), webhooks), below


async def events_of(below):
    return [(event.job_id, event.event, event.address) for event in await below.take_due(2e9, 1.0)]


async def test_the_end_of_a_job_puts_an_event_into_the_outbox():
    store, below = make_store()
    await store.add(make_job(), MANY)
    job = await store.claim("owner", LEASE_SECONDS, MANY)

    assert await store.finish(job, make_ending(JobState.INCOMPLETE))

    assert await events_of(below) == [("resp_1", "response.incomplete", URL)]
    await store.close()


async def test_a_queued_job_that_is_cancelled_is_reported_once():
    store, below = make_store()
    await store.add(make_job(), MANY)

    for _ in range(2):
        await store.cancel("resp_1", ANN, make_ending(JobState.CANCELLED))

    assert await events_of(below) == [("resp_1", "response.cancelled", URL)]
    await store.close()


async def test_a_running_job_that_is_cancelled_is_reported_by_its_owner_alone():
    store, below = make_store()
    await store.add(make_job(), MANY)
    job = await store.claim("owner", LEASE_SECONDS, MANY)

    await store.cancel("resp_1", ANN, make_ending(JobState.CANCELLED))
    assert await events_of(below) == []
    await store.finish(job, make_ending(JobState.CANCELLED))

    assert await events_of(below) == [("resp_1", "response.cancelled", URL)]
    await store.close()


async def test_an_attempt_that_lost_its_job_reports_nothing():
    store, below = make_store()
    await store.add(make_job(), MANY)
    job = await store.claim("owner", LEASE_SECONDS, MANY)
    await store.forget("resp_1", ANN)

    assert not await store.finish(job, make_ending())
    assert await events_of(below) == []
    await store.close()
