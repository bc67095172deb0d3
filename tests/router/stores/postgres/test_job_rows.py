"""The statements, where what is done at the same moment matters."""

import pytest

asyncpg = pytest.importorskip("asyncpg")

from router.contract.share import Turns  # noqa: E402
from router.stores.postgres import job_rows  # noqa: E402
from router.stores.postgres.schema import prepare  # noqa: E402
from tests.tools.jobs import LEASE_SECONDS, MANY, make_job, make_segment  # noqa: E402
from tests.tools.kept import ANN  # noqa: E402
from tests.tools.waiting import later  # noqa: E402

OWNER, OTHER = "here:1:1", "there:2:2"
LOCKED = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"


@pytest.fixture
async def connections(postgres):
    """Three connections to a database with one job, which `OWNER` has."""
    url = await postgres.create_used()
    opened = [await asyncpg.connect(url) for _ in range(3)]
    await prepare(opened[0])
    await job_rows.add(opened[0], make_job(), None, MANY, None)
    yield opened
    for connection in opened:
        await connection.close()


async def begin(connection):
    return await job_rows.claim(connection, OWNER, [], None, LEASE_SECONDS, MANY, Turns())


async def test_who_writes_while_its_job_is_taken_away_writes_nothing(connections):
    first, second, watching = connections
    job = await begin(first)
    await job_rows.release(first, job)

    async with second.transaction():
        await job_rows.claim(second, OTHER, [], None, LEASE_SECONDS, MANY, Turns())
        writing = later(job_rows.append(first, job, [make_segment(0)], ""))
        while await watching.fetchval(LOCKED) == 0:
            pass

    assert not await writing
    assert await watching.fetch(job_rows.READ, job.id, None, -1, 1_000, None) == []


async def test_a_job_whose_owner_writes_at_this_moment_is_not_taken(connections):
    first, second, _ = connections
    job = await begin(first)
    await job_rows.release(first, job)

    async with first.transaction():
        await job_rows.append(first, job, [make_segment(0)], "")
        taken = await job_rows.claim(second, OTHER, [], None, LEASE_SECONDS, MANY, Turns())

    assert taken is None


async def test_a_job_that_is_handed_out_at_the_moment_it_expires_is_lost_and_not_begun_again(connections):
    first, second, _ = connections
    job = await begin(first)
    await job_rows.append(first, job, [make_segment(0)], "")
    await job_rows.release(first, job)

    assert await job_rows.hand_out(second, job.id, job.attempt)
    lost = await job_rows.claim(second, OTHER, [], None, LEASE_SECONDS, MANY, Turns())

    assert (lost.is_lost, lost.attempt) == (True, 1)
    assert len(await second.fetch(job_rows.READ, job.id, ANN.name, -1, 1_000, None)) == 1


async def test_leases_count_by_the_clock_of_the_database(connections):
    first, *_ = connections
    await begin(first)

    left = await first.fetchval("SELECT leased_until - extract(epoch FROM clock_timestamp())::float8 FROM tandem.jobs")

    assert 0 < left <= LEASE_SECONDS
