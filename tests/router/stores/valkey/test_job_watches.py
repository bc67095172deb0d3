"""Workers notice what others do to jobs."""

import pytest

pytest.importorskip("hiredis")

from router.stores.valkey.job_watches import SharedWatches
from router.stores.valkey.link import Link


@pytest.fixture
async def pair(valkey):
    """The watches of two workers."""
    terms = valkey.terms()
    links = [Link(terms), Link(terms)]
    watches = [SharedWatches(link) for link in links]
    for link in links:
        await link.open()
    yield watches
    for link in links:
        await link.close()


@pytest.mark.parametrize("job_id", ["resp_1", None])
async def test_what_one_worker_notes_wakes_those_who_wait_at_another(pair, job_id):
    here, there = pair
    watch, other = there.watch(job_id), there.watch("resp_2")

    here.note(job_id)

    assert await watch.wait(30.0)
    assert not await other.wait(0.0)


async def test_a_cancelled_job_wakes_its_owner_at_another_worker(pair):
    here, there = pair
    watch = there.watch("resp_1", for_owner=True)

    here.note_stop("resp_1")

    assert await watch.wait(30.0)
