"""Several stores on one database: each hears what another does, and none acts on what it does not know for sure."""

import asyncio
from contextlib import suppress
from functools import partial

import pytest

from router.contract.job import FINAL, JobState, JobTerms
from router.contract.stores import StoreUnusable

pytest.importorskip("asyncpg")

from router.loop.tasks import spawn
from router.stores.postgres.jobs import PostgresJobs
from tests.tools.jobs import LEASE_SECONDS, MANY, Clock, Observing, make_ending, make_job, make_segment
from tests.tools.kept import ANN
from tests.tools.postgres import make_terms
from tests.tools.unreliable import DATABASE_FAULTS, UnreliableDatabase, insist
from tests.tools.waiting import until

OWNER, OTHER = "here:1:1", "there:2:2"
PATIENCE_SECONDS = 60.0


@pytest.fixture
async def open_store(postgres):
    """Open stores on one database. Each is closed with the test."""
    url, stores = await postgres.create_used(), []

    def open_one(**more) -> PostgresJobs:
        stores.append(PostgresJobs(make_terms(url), keep_seconds=86_400.0, **more))
        return stores[-1]

    yield open_one
    for store in stores:
        await store.close()


async def hear(store: PostgresJobs, job_id: str | None, change, **more) -> bool:
    """Whether somebody who waits in one store is woken by a change in another."""
    watch = store.watch(job_id, **more)
    await watch.wait(PATIENCE_SECONDS)  # it is told once it listens
    waiting = spawn(watch.wait(PATIENCE_SECONDS), name="wait")
    await change
    try:
        return await waiting
    finally:
        watch.close()


@pytest.mark.parametrize("what", ["add", "append", "finish", "cancel", "forget", "release"])
async def test_who_waits_at_another_router_is_woken(open_store, what):
    store, other = open_store(), open_store()
    await store.add(make_job(), MANY)
    job = await store.claim(OWNER, LEASE_SECONDS, MANY)
    changes = {
        "add": lambda: store.add(make_job("resp_2"), MANY),
        "append": lambda: store.append(job, [make_segment(0)]),
        "finish": lambda: store.finish(job, make_ending()),
        "cancel": lambda: store.cancel("resp_1", ANN, make_ending(JobState.CANCELLED)),
        "forget": lambda: store.forget("resp_1", ANN),
        "release": lambda: store.release(job),
    }

    is_heard = await hear(
        other, None if what in ("add", "release") else "resp_1", changes[what](), for_owner=what in ("cancel", "forget")
    )

    assert is_heard


async def test_the_limit_for_a_caller_holds_for_claims_of_many_routers_at_once(open_store):
    stores = [open_store() for _ in range(3)]
    for number in range(9):
        await stores[0].add(make_job(f"resp_{number}"), MANY)

    claims = [
        store.claim(f"router:{number}:1", LEASE_SECONDS, JobTerms(most_for_a_caller=2))
        for number, store in enumerate(stores)
        for _ in range(3)
    ]
    claimed = [job for job in await asyncio.gather(*claims) if job is not None]

    assert len(claimed) == 2


async def test_the_right_of_a_caller_holds_for_many_that_add_at_once(open_store):
    stores = [open_store() for _ in range(3)]

    adds = [store.add(make_job(f"resp_{number}{turn}"), MANY, 2) for number, store in enumerate(stores) for turn in range(3)]

    assert sum(await asyncio.gather(*adds)) == 2


async def test_other_routers_hear_which_jobs_ended_and_whose_end_was_read_or_deleted(open_store):
    store, other, there, here = open_store(), open_store(), Observing(), Observing()
    other.observe(there)
    store.observe(here)
    watch = other.watch(None)
    await watch.wait(PATIENCE_SECONDS)  # it listens
    for name in ("resp_1", "resp_2"):
        await store.add(make_job(name), MANY)
        await store.finish(await store.claim(OWNER, LEASE_SECONDS, MANY), make_ending())

    await store.collected("resp_1")
    await store.collected("resp_1")
    await store.forget("resp_2", ANN)
    read = [("read", "resp_1"), ("read", "resp_2")]
    await until(lambda: len(there.seen) >= 5)

    assert there.seen == [("missed", ""), ("ended elsewhere", "resp_1"), ("ended elsewhere", "resp_2"), *read]
    assert [seen for seen in here.seen if "elsewhere" in seen[0]] == []
    watch.close()


async def test_a_router_is_told_whenever_it_listens_again(open_store, postgres):
    url, store, observing = await postgres.create_used(is_empty=False), open_store(), Observing()
    store.observe(observing)
    watch = store.watch(None)
    await until(lambda: len(observing.seen) == 1)

    async with postgres.refusing(url):
        pass
    await until(lambda: len(observing.seen) == 2)

    watch.close()


async def test_a_claim_whose_answer_was_lost_runs_out_for_its_own_owner_too(open_store):
    clock = Clock()
    store, forgetful = open_store(clock=clock), open_store(clock=clock)
    await store.add(make_job(), MANY)
    await forgetful.claim(OWNER, LEASE_SECONDS, MANY)  # in the name of the same owner, which hears nothing of it
    clock.now += LEASE_SECONDS + 1

    overdue = await store.claim(OWNER, LEASE_SECONDS, MANY)

    assert (overdue.id, overdue.is_unrecorded) == ("resp_1", True)
    await store.release(overdue)
    assert (await store.claim(OWNER, LEASE_SECONDS, MANY)).attempt == 2


async def test_who_has_just_found_the_database_away_leaves_jobs_to_owners_that_could_not_renew_them_either(
    open_store, postgres
):
    clock, url = Clock(), await postgres.create_used(is_empty=False)
    owner, cut_off, other = (open_store(clock=clock) for _ in range(3))
    await owner.add(make_job("resp_1"), MANY)
    job = await owner.claim(OWNER, LEASE_SECONDS, MANY)
    async with postgres.refusing(url):
        with pytest.raises(StoreUnusable):
            await cut_off.find("resp_1", None)
    clock.now += LEASE_SECONDS + 1

    assert await cut_off.claim(OTHER, LEASE_SECONDS, MANY) is None
    await owner.release(job)
    assert (await cut_off.claim(OTHER, LEASE_SECONDS, MANY)).attempt == 2
    clock.now += LEASE_SECONDS + 1
    assert (await other.claim("third:3:3", LEASE_SECONDS, MANY)).is_unrecorded
    assert not await owner.append(job, [make_segment(0)])


async def test_a_job_that_may_have_been_added_after_its_caller_was_refused_is_deleted(open_store, postgres):
    url = await postgres.create_used(is_empty=False)
    store, other = open_store(), open_store()
    await store.add(make_job("resp_1"), MANY)
    async with postgres.refusing(url):
        with pytest.raises(StoreUnusable):
            await store.add(make_job("resp_2"), MANY)
    watch = other.watch("resp_2")
    await watch.wait(PATIENCE_SECONDS)

    await other.add(make_job("resp_2"), MANY)  # as a server does that commits late
    while await other.find("resp_2", None) is not None:
        await watch.wait(PATIENCE_SECONDS)

    assert await other.find("resp_1", None) is not None
    watch.close()


async def test_jobs_that_ended_too_long_ago_are_deleted_with_their_logs(open_store, postgres):
    clock = Clock()
    store = open_store(clock=clock)
    for name, ended_at in (("resp_1", clock()), ("resp_2", clock() + 86_400)):
        await store.add(make_job(name), MANY)
        job = await store.claim(OWNER, LEASE_SECONDS, MANY)
        await store.append(job, [make_segment(0)])
        await store.finish(job, make_ending(at=ended_at))
    clock.now += 86_401

    tidying = open_store(clock=clock)
    tidying.watch(None)  # whoever waits has it look after the database
    url = await postgres.create_used(is_empty=False)
    while await postgres.ask(url, "SELECT id FROM tandem.jobs") != [("resp_2",)]:
        pass

    assert await postgres.ask(url, "SELECT count(*) FROM tandem.segments") == [(1,)]


async def work_off(store: PostgresJobs, owner: str, clock: Clock, is_over) -> None:
    """Run jobs as a router does, until all are over. Where nothing can be claimed, time passes and leases run out."""
    while not await insist(is_over):
        job = None
        with suppress(StoreUnusable):
            job = await store.claim(owner, LEASE_SECONDS, MANY)
        if job is None:
            clock.now += LEASE_SECONDS / 4
        elif job.is_unrecorded:
            await insist(store.release, job)
        else:
            state = JobState.FAILED if job.is_lost else JobState.COMPLETED
            for number in range(0 if job.is_lost else 3):
                await insist(store.append, job, [make_segment(number, text=f"{number} of attempt {job.attempt}")])
            await insist(store.finish, job, make_ending(state))


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("fault", DATABASE_FAULTS)
async def test_over_an_unreliable_link_each_accepted_job_ends_once_with_the_whole_log_of_one_attempt(
    open_store, postgres, monkeypatch, fault, seed
):
    monkeypatch.setattr("router.stores.postgres.jobs.Link", partial(UnreliableDatabase, fault=fault, seed=seed))
    for name, seconds in (("GRACE", 0.0), ("LOOK", 0.1), ("RETRY", 0.01)):
        monkeypatch.setattr(f"router.stores.postgres.jobs._{name}_SECONDS", seconds)
    url, clock = await postgres.create_used(is_empty=False), Clock()
    stores, accepted = [open_store(clock=clock) for _ in range(3)], set()
    for number, store in enumerate(stores):
        store.observe(Observing("https://hooks.example"))
        for turn in range(3):
            with suppress(StoreUnusable):
                await store.add(make_job(job_id := f"resp_{number}{turn}"), MANY)
                accepted.add(job_id)

    async def are_over() -> bool:
        rows = dict(await postgres.ask(url, "SELECT id, state FROM tandem.jobs"))
        return all(rows[job_id] in FINAL for job_id in accepted)

    works = [work_off(store, f"router:{number}:1", clock, are_over) for number, store in enumerate(stores)]
    await asyncio.gather(*works)

    for store in stores:
        store.watch(None)  # it looks after the database
    jobs = "SELECT id, state, attempt, sequence FROM tandem.jobs"
    await until(lambda: ids_are(postgres, url, accepted))  # who was refused has no job
    for job_id, state, attempt, sequence in await postgres.ask(url, jobs):
        frames = await postgres.ask(url, "SELECT frames FROM tandem.segments WHERE job = $1 ORDER BY first", sequence)
        if state == JobState.COMPLETED:
            assert frames == [(f"{number} of attempt {attempt}".encode(),) for number in range(3)], job_id
    events = "SELECT job, event FROM tandem.outbox ORDER BY job"
    ended = await postgres.ask(url, "SELECT id, 'response.' || state FROM tandem.jobs ORDER BY id")
    assert await postgres.ask(url, events) == ended


async def ids_are(postgres, url: str, names: set[str]) -> bool:
    return {name for (name,) in await postgres.ask(url, "SELECT id FROM tandem.jobs")} == names
