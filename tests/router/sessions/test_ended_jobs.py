"""A session's answers name its jobs until they are collected, and other requests are not asked about it."""

import pytest
from msgspec.structs import replace

from router.contract.caller import Caller
from router.contract.job import JobState
from router.contract.words import Tier
from router.jobs.jobs import Jobs
from router.sessions.ended_jobs import EndedJobs
from router.stores.sqlite.jobs import MemoryJobs
from tests.tools.jobs import LEASE_SECONDS, MANY, Clock, make_ending, make_job
from tests.tools.kept import ANN

KEEP_SECONDS = 3_600.0


class Rig:
    def __init__(self) -> None:
        self.clock = Clock()
        self.ended = EndedJobs(KEEP_SECONDS, self.clock)
        self.store = MemoryJobs(keep_seconds=KEEP_SECONDS, clock=self.clock)
        self.store.observe(Jobs(lambda: self.store, self.ended))

    async def end(self, name, state=JobState.COMPLETED, **more):
        await self.store.add(make_job(name, **more), MANY)
        job = await self.store.claim("owner", LEASE_SECONDS, MANY)
        await self.store.finish(job, make_ending(state, self.clock.now))

    def named(self, caller=ANN, session="s_1"):
        """What an answer in this session says of jobs."""
        carried = self.ended.name_in({Tier.FAST: (("a", "b"),)}, caller, session)
        assert ("a", "b") in carried[Tier.FAST]
        return [named for headers in carried.values() if (named := dict(headers).get("x-tandem-jobs"))]


@pytest.fixture
async def rig():
    rig = Rig()
    yield rig
    await rig.store.close()


async def test_a_job_that_ended_at_another_router_is_named_and_not_counted(rig):
    ended = make_job("resp_1", state=JobState.COMPLETED, ended_at=rig.clock.now)

    rig.ended.note_left(ended)
    rig.ended.note_left(replace(ended, id="resp_2", is_collected=True))
    rig.ended.note_left(replace(ended, id="resp_3", state=JobState.CANCELLED))

    assert rig.named() == ["resp_1=completed"] * 2
    assert rig.ended.counts[JobState.COMPLETED] == 0
    rig.ended.discard("resp_1")
    assert not rig.ended.by_session


async def test_a_job_is_named_in_its_session_until_it_is_collected(rig):
    await rig.end("resp_1")
    await rig.end("resp_2", JobState.FAILED)

    assert rig.named() == ["resp_1=completed, resp_2=failed"] * 2
    assert rig.named(Caller("bob")) == rig.named(session="s_2") == []
    await rig.store.collected("resp_1")
    assert rig.named() == ["resp_2=failed"] * 2
    await rig.store.forget("resp_2", ANN)
    assert rig.named() == []


async def test_a_header_names_the_newest_eight(rig):
    for number in range(12):
        await rig.end(f"resp_{number}")

    assert rig.named()[0] == ", ".join(f"resp_{number}=completed" for number in range(4, 12))


async def test_a_cancelled_job_waits_for_nobody(rig):
    await rig.store.add(make_job("resp_1"), MANY)

    await rig.store.cancel("resp_1", ANN, make_ending(JobState.CANCELLED))

    assert rig.ended.list_all() == ()
    assert rig.ended.counts == {JobState.CANCELLED: 1}


async def test_a_job_that_the_store_has_forgotten_is_no_longer_named(rig):
    await rig.end("resp_1")
    rig.clock.now += KEEP_SECONDS + 1

    assert rig.named() == []
    assert not rig.ended.by_session


async def test_a_new_process_takes_over_what_an_earlier_one_left(rig):
    await rig.end("resp_1")
    await rig.end("resp_2")
    await rig.end("resp_3", JobState.CANCELLED)
    await rig.store.collected("resp_2")
    later = EndedJobs(KEEP_SECONDS, rig.clock)

    await later.recall(rig.store)

    assert [job.id for job in later.list_all()] == ["resp_1"]
    assert later.list_of(ANN, "s_1") == [*later.list_all()]
    assert not later.counts


async def test_what_an_earlier_process_left_comes_before_what_ended_here_meanwhile(rig):
    await rig.end("resp_1")
    later = EndedJobs(KEEP_SECONDS, rig.clock)
    later.note_end(make_job("resp_2"), make_ending(at=rig.clock.now + 60))

    await later.recall(rig.store)

    assert [job.id for job in later.list_of(ANN, "s_1")] == ["resp_1", "resp_2"]
    rig.clock.now += KEEP_SECONDS + 30
    assert [job.id for job in later.list_all()] == ["resp_2"]


async def test_a_job_whose_end_is_read_while_all_are_looked_up_is_not_named_again(rig, monkeypatch):
    await rig.end("resp_1")
    list_jobs = rig.store.list_jobs

    async def list_then_read(*given):
        page = await list_jobs(*given)
        await rig.store.collected("resp_1")
        return page

    monkeypatch.setattr(rig.store, "list_jobs", list_then_read)
    await rig.ended.recall(rig.store, are_elsewhere=True)

    assert rig.named() == []


class Compared(str):
    """The name of a session that counts how often it is compared with another."""

    __slots__ = ()
    times = 0
    __hash__ = str.__hash__

    def __eq__(self, other):
        Compared.times += 1
        return str.__eq__(self, other)


def test_a_request_is_not_compared_with_the_jobs_of_other_sessions(rig):
    for number in range(1_000):
        rig.ended.note_end(make_job(f"resp_{number}", session=Compared(f"s_{number}")), make_ending(at=rig.clock.now))
    Compared.times = 0

    found = rig.ended.list_of(ANN, "s_7")

    assert [job.id for job in found] == ["resp_7"]
    assert Compared.times <= 10


def test_of_more_than_a_thousand_jobs_the_oldest_is_forgotten(rig):
    for number in range(1_001):
        rig.ended.note_end(make_job(f"resp_{number}"), make_ending(at=rig.clock.now))

    assert len(rig.ended.list_all()) == len(rig.ended.list_of(ANN, "s_1")) == 1_000
