"""What happens to jobs is reported by their store."""

import pytest

from router.contract.job import JobState
from router.contract.secret import Secret
from router.contract.webhooks import JobWebhook
from router.jobs.telling import TellingStore
from router.jobs.uncollected import Uncollected
from router.jobs.webhooks import Webhooks
from router.sessions.memory import SessionMemory
from router.stores.memory.entries import NoSessions
from router.stores.sqlite.jobs import MemoryJobs
from tests.tools.jobs import LEASE_SECONDS, MANY, Clock, make_ending, make_job
from tests.tools.kept import ANN
from tests.tools.waiting import some_turns

URL = "https://hooks.example/"


def make_store():
    clock = Clock()
    below = MemoryJobs(keep_seconds=3_600.0, clock=clock)
    webhooks = Webhooks(below, clock=clock)
    webhooks.follow([JobWebhook(URL, Secret("x" * 16))])
    return TellingStore(below, Uncollected(SessionMemory(NoSessions()), keep_seconds=3_600.0, clock=clock), webhooks), below


class Elsewhere(MemoryJobs):
    """Jobs that another router has, too."""

    def hear(self, on_end, on_read, on_missed):
        self.on_end, self.on_read, self.on_missed = on_end, on_read, on_missed

    async def find(self, *given):
        pytest.fail("a whole response is read where its name would do")


async def test_what_is_heard_of_jobs_at_other_routers_is_known_here_until_their_end_is_read():
    below, memory = Elsewhere(keep_seconds=3_600.0), SessionMemory(NoSessions())
    store = TellingStore(below, uncollected := Uncollected(memory, keep_seconds=1e12), Webhooks(below))
    for name in ("resp_1", "resp_2"):
        await below.add(make_job(name), MANY)
        await below.finish(await below.claim("owner", LEASE_SECONDS, MANY), make_ending())

    below.on_end("resp_1")
    below.on_end("resp_2")
    below.on_read("resp_2")  # before anybody could look for it
    below.on_end("resp_gone")
    await some_turns()

    assert [job.id for job in uncollected.list_all()] == ["resp_1"]
    below.on_read("resp_1")
    assert uncollected.list_all() == ()
    await store.close()


async def test_what_was_not_heard_of_other_routers_is_looked_up_once_they_are_heard_again():
    below, memory = Elsewhere(keep_seconds=3_600.0), SessionMemory(NoSessions())
    store = TellingStore(below, uncollected := Uncollected(memory, keep_seconds=1e12), Webhooks(below))
    for name in ("resp_1", "resp_2", "resp_3"):
        await below.add(make_job(name), MANY)
    jobs = [await below.claim("owner", LEASE_SECONDS, MANY) for _ in range(3)]
    for job in jobs[:2]:
        await store.finish(job, make_ending())
    await below.collected("resp_1")
    await below.finish(jobs[2], make_ending())

    below.on_missed()
    await some_turns()

    assert [job.id for job in uncollected.list_all()] == ["resp_2", "resp_3"]
    await store.close()


async def events_of(below):
    return [(event.job_id, event.event, event.address) for event in await below.take_due(2e9, 1.0)]


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
