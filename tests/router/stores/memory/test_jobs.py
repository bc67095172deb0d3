"""Jobs in memory: bounded by bytes and by age. What else they must do is in `tests/contract/test_job_store.py`."""

import pytest

from router.contract.stores import StoreUnusable
from router.stores.memory.jobs import MemoryJobs
from tests.tools.jobs import LEASE_SECONDS, MANY, Clock, make_ending, make_job, make_segment
from tests.tools.kept import ANN


async def test_jobs_are_forgotten_some_time_after_their_end():
    store, clock = MemoryJobs(keep_seconds=100.0, clock=(clock := Clock())), clock
    await store.add(make_job("resp_1"), MANY)
    await store.add(make_job("resp_2"), MANY)
    await store.finish(await store.claim("here:1:1", LEASE_SECONDS, MANY), make_ending(at=clock()))
    clock.now += 101

    await store.add(make_job("resp_3"), MANY)

    assert await store.find("resp_1", ANN) is None
    assert await store.find("resp_2", ANN) is not None
    await store.close()


async def test_a_full_memory_refuses_more_and_keeps_what_it_has():
    store = MemoryJobs(keep_seconds=100.0, max_bytes=1 << 20)
    await store.add(make_job(), MANY)
    job = await store.claim("here:1:1", LEASE_SECONDS, MANY)
    await store.append(job, [make_segment(0)])

    with pytest.raises(StoreUnusable, match="full"):
        await store.append(job, [make_segment(1, text="x" * (2 << 20))])

    assert await store.read("resp_1", ANN, -1) == [make_segment(0)]
    assert await store.append(job, [make_segment(1)])
    await store.close()
