"""What every store of background jobs must do, whatever it keeps them in: nobody edits this to let a newcomer in."""

import asyncio
import random
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from router.contract.job import FINAL, PART_BYTES, Job, JobEnding, JobState, JobTerms
from router.contract.stores import StoreUnusable
from router.loop.tasks import spawn
from router.stores.sqlite.jobs import MemoryJobs
from tests.tools.jobs import LEASE_SECONDS, MANY, Clock, Observing, make_ending, make_job, make_segment, open_sqlite_jobs
from tests.tools.kept import ANN, BOB, Failures, remove_database

HALF_A_PAIR = "\ud800"
"""Text that cannot be written as UTF-8."""
OWNER, OTHER = "here:1:1", "there:2:2"
ONE = JobTerms(most_for_a_caller=1)


@dataclass(frozen=True)
class Kind:
    """One implementation: how it is opened, and whether what it keeps outlives it."""

    name: str
    open: Callable[[Any, Failures, Clock], Any]
    survives: bool = True
    place: str = "a_file"
    """The fixture that says where it keeps them."""


KINDS = [
    Kind("memory", lambda path, failures, clock: MemoryJobs(keep_seconds=86_400.0, clock=clock), survives=False),
    Kind("sqlite", lambda place, failures, clock: open_sqlite_jobs(place.path, failures, clock)),
    Kind("postgres", lambda place, failures, clock: place.open(failures, clock), place="a_database"),
]


class File:
    """Where SQLite keeps jobs."""

    def __init__(self, path: Path) -> None:
        self.path = path

    async def prepare(self) -> None:
        """The store makes it."""

    @asynccontextmanager
    async def refusing(self) -> AsyncIterator[None]:
        """Have another thing in place of the file."""
        remove_database(self.path)
        self.path.mkdir()
        yield
        self.path.rmdir()


class Database:
    """Where Postgres keeps jobs."""

    def __init__(self, server: Any) -> None:
        self._server, self._url = server, ""

    async def prepare(self) -> None:
        self._url = await self._server.create_used()

    def open(self, failures: Failures, clock: Clock) -> Any:
        from tests.tools.postgres import open_postgres_jobs  # needs asyncpg

        return open_postgres_jobs(self._url, failures, clock)

    def refusing(self) -> AbstractAsyncContextManager[None]:
        return self._server.refusing(self._url)


@pytest.fixture
def a_file(tmp_path):
    return File(tmp_path / "jobs.db")


@pytest.fixture
def a_database(postgres):
    return Database(postgres)


class Opener:
    """Opens stores of one kind in one place. Each is closed with the test."""

    def __init__(self, kind: Kind, place: Any) -> None:
        self.kind, self.place, self.clock = kind, place, Clock()
        self.failures: Failures = []
        self._stores: list[Any] = []

    def __call__(self) -> Any:
        self._stores.append(self.kind.open(self.place, self.failures, self.clock))
        return self._stores[-1]

    async def close(self) -> None:
        for store in self._stores:
            await store.close()


def opening(kinds: list[Kind]) -> Any:
    """A fixture for each kind."""

    marks = {"a_database": [pytest.mark.stores]}

    @pytest.fixture(params=[pytest.param(kind, id=kind.name, marks=marks.get(kind.place, ())) for kind in kinds])
    async def fixture(request):
        opener = Opener(request.param, request.getfixturevalue(request.param.place))
        await opener.place.prepare()
        yield opener
        await opener.close()

    return fixture


stores, lasting_stores = opening(KINDS), opening([kind for kind in KINDS if kind.survives])


async def begin(store, *jobs: Job, owner: str = OWNER) -> Job:
    """Add jobs, and have the first one that is queued claimed."""
    for job in jobs or (make_job(),):
        assert await store.add(job, MANY)
    claimed = await store.claim(owner, LEASE_SECONDS, MANY)
    assert claimed is not None
    return claimed


# Queueing.


async def test_a_job_is_found_by_its_caller_as_it_was_added_but_without_its_request(stores):
    store = stores()

    await store.add(make_job(), MANY)

    assert await store.find("resp_1", ANN) == make_job(body=b"", headers={})
    assert await store.find("resp_1", None) is not None
    assert await store.find("resp_1", BOB) is None
    assert await store.find(HALF_A_PAIR, ANN) is None


async def test_no_job_is_taken_while_so_many_are_queued(stores):
    store = stores()

    taken = [await store.add(make_job(f"resp_{number}"), JobTerms(most_queued=2)) for number in range(3)]

    assert taken == [True, True, False]
    assert await store.find("resp_2", ANN) is None


async def test_no_job_is_taken_while_its_caller_has_so_many_under_way(stores):
    store = stores()
    await begin(store, make_job("resp_1"), make_job("resp_2"))

    assert not await store.add(make_job("resp_3"), MANY, 2)
    assert await store.add(make_job("resp_4", BOB), MANY, 2)


async def test_text_that_cannot_be_written_costs_no_job(stores):
    store = stores()

    await store.add(make_job(title=f"a {HALF_A_PAIR}", session=HALF_A_PAIR), MANY)

    assert (await store.find("resp_1", ANN)).title == "a ?"


async def test_the_oldest_job_is_claimed_with_its_request(stores):
    store = stores()

    claimed = await begin(store, make_job("resp_1"), make_job("resp_2"))

    expected = make_job("resp_1", state=JobState.RUNNING, attempt=1, owner=OWNER)
    assert claimed == expected


async def test_nothing_is_claimed_twice(stores):
    store = stores()
    await begin(store)

    assert await store.claim(OTHER, LEASE_SECONDS, MANY) is None


async def test_many_claims_at_once_give_each_job_to_one(stores):
    store = stores()
    for number in range(20):
        await store.add(make_job(f"resp_{number}"), MANY)

    claimed = await asyncio.gather(*(store.claim(f"here:{owner}:1", LEASE_SECONDS, MANY) for owner in range(30)))

    ids = [job.id for job in claimed if job is not None]
    assert sorted(ids) == sorted(f"resp_{number}" for number in range(20))


async def test_a_caller_with_enough_jobs_under_way_lets_others_pass(stores):
    store = stores()
    await begin(store, make_job("resp_1"), make_job("resp_2"), make_job("resp_3", BOB))

    claimed = [await store.claim(OWNER, LEASE_SECONDS, ONE) for _ in range(2)]

    assert [job and job.id for job in claimed] == ["resp_3", None]


async def test_a_caller_leaves_room_in_the_queue_for_another_and_none_for_itself(stores):
    store, terms = stores(), JobTerms(most_queued=8, share=0.875)

    own = [await store.add(make_job(f"resp_{number}"), terms) for number in range(8)]
    others = [await store.add(make_job(f"resp_b{number}", BOB), terms) for number in range(2)]

    assert (own, others) == ([True] * 7 + [False], [True, False])


async def test_callers_take_turns_whoever_came_first(stores):
    """The next is of the caller with fewest running, then of the one that was served least recently."""
    store = stores()
    for number in range(4):
        await store.add(make_job(f"resp_{number}"), MANY)
    for number in range(2):
        await store.add(make_job(f"resp_b{number}", BOB), MANY)

    running = [await store.claim(OWNER, LEASE_SECONDS, MANY) for _ in range(3)]
    await store.finish(running[0], make_ending())
    running.append(await store.claim(OWNER, LEASE_SECONDS, MANY))
    for job in running[1:]:
        await store.finish(job, make_ending())
        await store.forget(job.id, None)
    last = [await store.claim(OWNER, LEASE_SECONDS, MANY) for _ in range(3)]

    assert [job and job.id for job in running + last] == ["resp_0", "resp_b0", "resp_1", "resp_b1", "resp_2", "resp_3", None]


async def test_a_caller_whose_jobs_take_its_share_of_the_disk_waits_and_another_does_not(stores):
    store, terms = stores(), JobTerms(max_disk_mb=1, most_for_a_caller=2, share=0.5)
    first = await begin(store, make_job("resp_1"), make_job("resp_2"))
    await store.append(first, [make_segment(0, text="x" * 600_000)])
    await store.finish(first, JobEnding(JobState.COMPLETED, 1_800_000_100.0, b"y" * 600_000))  # more than there is

    own = await store.add(make_job("resp_3"), terms)
    is_waiting = await store.claim(OWNER, LEASE_SECONDS, terms) is None
    other = await store.add(make_job("resp_4", BOB), terms)
    next_up = await store.claim(OWNER, LEASE_SECONDS, terms)
    await store.forget("resp_1", None)
    at_last = await store.claim(OWNER, LEASE_SECONDS, terms)

    assert (own, is_waiting, other) == (False, True, True)
    assert (next_up.id, at_last.id) == ("resp_4", "resp_2")


async def test_requests_that_wait_take_their_callers_share_of_the_disk(stores):
    store, terms = stores(), JobTerms(max_disk_mb=1, share=0.5)

    added = [await store.add(make_job(f"resp_{number}", body=b"x" * 300_000), terms) for number in range(3)]
    await store.cancel("resp_0", ANN, make_ending(JobState.CANCELLED))
    is_kept = not await store.add(make_job("resp_3"), terms)
    await store.forget("resp_0", ANN)

    assert (added, is_kept) == ([True, True, False], True)
    assert await store.add(make_job("resp_3"), terms)
    assert (await store.claim(OWNER, LEASE_SECONDS, terms)).id == "resp_1"


async def test_a_caller_whose_job_ended_has_room_for_the_next(stores):
    store = stores()
    job = await begin(store, make_job("resp_1"), make_job("resp_2"))
    await store.finish(job, make_ending())

    claimed = await store.claim(OWNER, LEASE_SECONDS, ONE)

    assert claimed.id == "resp_2"


# The log.


async def test_the_log_is_read_after_any_number(stores):
    store = stores()
    job = await begin(store)

    await store.append(job, [make_segment(0, 3), make_segment(4, 9)])
    await store.append(job, [make_segment(10)])

    assert await store.read("resp_1", ANN, -1) == [make_segment(0, 3), make_segment(4, 9), make_segment(10)]
    assert await store.read("resp_1", ANN, 4) == [make_segment(4, 9), make_segment(10)]
    assert await store.read("resp_1", ANN, 10) == []
    assert await store.read("resp_1", BOB, -1) == []
    assert await store.read(HALF_A_PAIR, None, -1) == []


async def test_a_long_log_is_read_in_parts(stores):
    store = stores()
    job = await begin(store)
    await store.append(job, [make_segment(number, text="x" * 100) for number in range(10)])

    first = await store.read("resp_1", ANN, -1, limit_bytes=250)
    second = await store.read("resp_1", ANN, first[-1].last, limit_bytes=250)

    assert [segment.first for segment in (*first, *second)] == list(range(6))


def numbered(number: int, text: str) -> str:
    return f'data: {{"sequence_number":{number},"delta":"{text}"}}\n\n'


@pytest.mark.parametrize("after", [-1, 0, 1, 2, 3])
async def test_a_segment_larger_than_the_limit_is_read_in_parts_from_any_number_on(stores, after):
    store, frames = stores(), [numbered(number, "x" * 300) for number in range(4)]
    job = await begin(store)
    await store.append(job, [make_segment(0, 3, text="".join(frames)), make_segment(4, text=numbered(4, "last"))])
    number, part_at, read, largest = after, 0, b"", 0

    while segments := await store.read("resp_1", ANN, number, limit_bytes=100, part_at=part_at):
        for segment in segments:
            read, largest = read + segment.frames, max(largest, len(segment.frames))
            part_at = segment.rest_at
            number = number if part_at else segment.last

    assert read.decode() == "".join([*frames, numbered(4, "last")][after + 1 :])
    assert largest <= 100


async def test_a_write_that_is_repeated_with_other_cuts_leaves_no_frame_twice(stores):
    store = stores()
    job = await begin(store)
    await store.append(job, [make_segment(0, 1), make_segment(2, 4), make_segment(5, 9)])

    await store.append(job, [make_segment(2, 6), make_segment(7, 12)])

    read = await store.read("resp_1", ANN, -1)
    assert [(segment.first, segment.last) for segment in read] == [(0, 1), (2, 6), (7, 12)]


async def test_who_has_lost_a_job_can_neither_write_renew_nor_end_it(stores):
    store = stores()
    lost = await begin(store)
    stores.clock.now += LEASE_SECONDS + 1
    taken = await store.claim(OTHER, LEASE_SECONDS, MANY)

    assert not await store.append(lost, [make_segment(0)])
    assert not await store.renew(lost, OWNER, LEASE_SECONDS)
    store.observe(Observing("https://a.example"))
    assert not await store.finish(lost, make_ending())
    assert await store.read("resp_1", ANN, -1) == []
    assert await store.take_due(stores.clock() + 1_000, 60.0) == []
    assert await store.append(taken, [make_segment(0)])


async def test_an_earlier_attempt_of_the_same_owner_cannot_write(stores):
    store = stores()
    first = await begin(store)
    await store.release(first)
    again = await store.claim(OWNER, LEASE_SECONDS, MANY)

    assert again.attempt == 2
    assert not await store.append(first, [make_segment(0)])


async def test_a_job_that_ended_takes_no_more_frames(stores):
    store = stores()
    job = await begin(store)
    await store.finish(job, make_ending())

    assert not await store.append(job, [make_segment(0)])


# An owner that is gone.


async def take_over(store, terms: JobTerms = MANY) -> Job:
    """Claim a job whose lease has run out, and go on as if its attempt were recorded."""
    overdue = await store.claim(OTHER, LEASE_SECONDS, MANY)
    assert overdue.is_unrecorded
    await store.release(overdue)
    return await store.claim(OTHER, LEASE_SECONDS, terms)


async def test_a_job_whose_lease_has_run_out_is_first_to_be_recorded_with_what_its_owner_left(stores):
    store = stores()
    job = await begin(store)
    await store.append(job, [make_segment(0, 8)])
    stores.clock.now += LEASE_SECONDS + 1

    overdue = await store.claim(OTHER, LEASE_SECONDS, MANY)

    assert (overdue.is_unrecorded, overdue.is_lost, overdue.attempt, overdue.owner) == (True, False, 1, OTHER)
    assert overdue.body == job.body
    assert await store.read("resp_1", None, -1) == [make_segment(0, 8)]
    assert not await store.append(job, [make_segment(9)])


async def test_an_owner_that_is_gone_before_it_has_recorded_an_attempt_leaves_that_to_the_next(stores):
    store = stores()
    await begin(store)
    stores.clock.now += LEASE_SECONDS + 1
    await store.claim(OTHER, LEASE_SECONDS, MANY)
    stores.clock.now += LEASE_SECONDS + 1

    overdue = await store.claim("third:3:3", LEASE_SECONDS, MANY)

    assert (overdue.is_unrecorded, overdue.attempt) == (True, 1)


async def test_a_job_that_was_released_needs_no_record(stores):
    store = stores()
    await store.release(await begin(store))
    stores.clock.now += LEASE_SECONDS + 1

    again = await store.claim(OTHER, LEASE_SECONDS, MANY)

    assert (again.is_unrecorded, again.attempt) == (False, 2)


async def test_one_job_of_an_owner_is_released_alone(stores):
    store = stores()
    await begin(store, make_job("resp_1"), make_job("resp_2"))
    second = await store.claim(OWNER, LEASE_SECONDS, MANY)

    await store.release(second)

    claimed = [await store.claim(OTHER, LEASE_SECONDS, MANY) for _ in range(2)]
    assert (claimed[0].id, claimed[1]) == ("resp_2", None)


async def test_a_renewed_job_stays_with_its_owner(stores):
    store = stores()
    job = await begin(store)
    stores.clock.now += LEASE_SECONDS - 1

    assert await store.renew(job, OWNER, LEASE_SECONDS)
    stores.clock.now += LEASE_SECONDS - 1
    assert await store.claim(OTHER, LEASE_SECONDS, MANY) is None


async def test_an_owner_that_could_not_renew_for_long_does_not_take_its_own_jobs_from_itself(stores):
    store = stores()
    job = await begin(store)
    stores.clock.now += 10 * LEASE_SECONDS

    assert await store.claim(OWNER, LEASE_SECONDS, MANY) is None
    assert await store.append(job, [make_segment(0)])


async def test_a_job_without_content_is_begun_again(stores):
    store = stores()
    job = await begin(store)
    await store.append(job, [make_segment(0, 1, has_content=False)])
    await store.read("resp_1", ANN, -1)
    stores.clock.now += LEASE_SECONDS + 1

    again = await take_over(store)

    assert (again.id, again.attempt, again.owner, again.is_lost, again.body) == ("resp_1", 2, OTHER, False, job.body)
    assert await store.read("resp_1", ANN, -1) == []


async def test_a_job_whose_content_nobody_read_is_begun_again_with_an_empty_log(stores):
    store = stores()
    job = await begin(store)
    await store.append(job, [make_segment(0, 8)])
    stores.clock.now += LEASE_SECONDS + 1

    again = await take_over(store)

    assert (again.attempt, again.is_lost) == (2, False)
    assert await store.read("resp_1", ANN, -1) == []


async def test_a_job_that_is_added_with_a_lease_is_its_owners_alone(stores):
    store = stores()
    leased = make_job(state=JobState.RUNNING, owner=OWNER, attempt=1, body=b"")

    assert await store.add(
        leased, JobTerms(most_queued=0), None, LEASE_SECONDS
    )  # it is not queued, so a full queue is no obstacle

    assert await store.claim(OTHER, LEASE_SECONDS, MANY) is None
    assert await store.append(leased, [make_segment(0)])
    assert await store.renew(leased, OWNER, LEASE_SECONDS)
    assert not await store.append(make_job(owner=OTHER, attempt=1), [make_segment(1)])
    assert await store.finish(leased, make_ending())
    found = await store.find("resp_1", ANN)
    assert (found.state, found.owner, found.attempt) == (JobState.COMPLETED, OWNER, 1)


async def test_a_job_that_was_added_with_a_lease_is_lost_with_it_and_keeps_its_log(stores):
    store = stores()
    leased = make_job(state=JobState.RUNNING, owner=OWNER, attempt=1, body=b"")
    await store.add(leased, MANY, None, LEASE_SECONDS)
    await store.append(leased, [make_segment(0)])

    stores.clock.now += LEASE_SECONDS + 1
    lost = await take_over(store)

    assert (lost.id, lost.is_lost, lost.body, lost.owner) == ("resp_1", True, b"", OTHER)
    assert not await store.append(leased, [make_segment(1)])
    assert await store.read("resp_1", ANN, -1) == [make_segment(0)]


async def test_jobs_with_a_lease_count_among_those_of_their_caller(stores):
    store = stores()
    leased = make_job(state=JobState.RUNNING, owner=OWNER, attempt=1)

    assert await store.add(leased, MANY, 1, LEASE_SECONDS)
    assert not await store.add(make_job("resp_2", state=JobState.RUNNING, owner=OTHER), MANY, 1, LEASE_SECONDS)


async def test_a_job_whose_content_was_read_is_lost_and_keeps_its_text(stores):
    store = stores()
    job = await begin(store)
    await store.append(job, [make_segment(0, 8)])
    await store.read("resp_1", ANN, -1)
    stores.clock.now += LEASE_SECONDS + 1

    lost = await take_over(store)

    assert (lost.is_lost, lost.is_handed_out, lost.is_cancelled) == (True, True, False)
    assert await store.append(lost, [make_segment(9, text="failed")])
    assert await store.finish(lost, make_ending(JobState.FAILED))
    assert [segment.last for segment in await store.read("resp_1", ANN, -1)] == [8, 9]


async def test_what_the_router_reads_for_itself_is_not_handed_out(stores):
    store = stores()
    job = await begin(store)
    await store.append(job, [make_segment(0, 8)])
    await store.read("resp_1", None, -1)
    stores.clock.now += LEASE_SECONDS + 1

    again = await take_over(store)

    assert (again.attempt, again.is_lost) == (2, False)


async def test_a_job_is_begun_three_times_at_most(stores):
    store = stores()
    await store.add(make_job(), MANY)

    seen = []
    for _ in range(4):
        job = await store.claim(OWNER, LEASE_SECONDS, MANY)
        seen.append((job.attempt, job.is_lost))
        await store.release(job)

    assert seen == [(1, False), (2, False), (3, False), (3, True)]


async def test_a_lost_job_comes_before_others_even_where_its_caller_has_no_room(stores):
    store = stores()
    job = await begin(store, make_job("resp_1"), make_job("resp_2"))
    await store.claim(OTHER, 10 * LEASE_SECONDS, MANY)
    await store.append(job, [make_segment(0)])
    await store.read("resp_1", ANN, -1)
    stores.clock.now += LEASE_SECONDS + 1

    lost = await take_over(store, ONE)

    assert (lost.id, lost.is_lost) == ("resp_1", True)


async def test_a_released_job_is_taken_at_once(stores):
    store = stores()
    job = await begin(store)

    await store.release(job)

    taken = await store.claim(OTHER, LEASE_SECONDS, MANY)
    assert taken.attempt == 2


async def test_a_release_that_is_repeated_leaves_a_later_attempt_of_its_owner_alone(stores):
    store = stores()
    first = await begin(store)
    await store.release(first)
    again = await store.claim(OWNER, LEASE_SECONDS, MANY)

    await store.release(first)
    await store.release(replace(again, owner=OTHER))

    assert await store.claim(OTHER, LEASE_SECONDS, MANY) is None
    assert await store.append(again, [make_segment(0)])


# Endings.


@pytest.mark.parametrize("state", sorted(FINAL))
async def test_an_ended_job_has_its_response_and_its_request_without_headers(stores, state):
    store = stores()
    job = await begin(store)

    assert await store.finish(job, make_ending(state))

    ended = await store.find("resp_1", ANN)
    assert (ended.state, ended.ended_at) == (state, make_ending().at)
    whole = make_ending(state).response
    assert await store.read_response("resp_1", ANN) == (whole, len(whole))
    assert await store.read_response("resp_1", ANN, 3) == (whole[3:], len(whole))
    assert (ended.queued, ended.body, ended.headers) == (b"", b"", {})
    assert await store.find_body("resp_1", ANN) == job.body
    assert await store.claim(OTHER, LEASE_SECONDS, MANY) is None


async def test_the_request_of_a_job_is_found_by_its_caller_until_the_job_is_deleted(stores):
    store = stores()
    job = make_job()
    await store.add(job, MANY)

    assert [await store.find_body("resp_1", caller) for caller in (ANN, None, BOB)] == [job.body, job.body, b""]
    assert [await store.find_body(name, ANN) for name in ("resp_2", "resp_\0", "resp_\ud800")] == [b""] * 3

    await store.cancel("resp_1", ANN, make_ending(JobState.CANCELLED))
    assert await store.find_body("resp_1", ANN) == job.body
    await store.forget("resp_1", ANN)
    assert await store.find_body("resp_1", ANN) == b""


async def test_an_ending_that_is_repeated_is_answered_the_same_and_noted_once(stores):
    store = stores()
    job = await begin(store)

    store.observe(Observing("https://a.example"))
    answers = [await store.finish(job, make_ending()) for _ in range(2)]

    assert answers == [True, True]
    assert len(await store.take_due(make_ending().at, 60.0)) == 1


async def test_a_large_response_is_read_in_parts_and_by_its_caller_alone(stores):
    store, whole = stores(), random.Random(1).randbytes(3_000_000)
    await store.finish(await begin(store), JobEnding(JobState.COMPLETED, make_ending().at, whole))

    read, parts = b"", set()
    while len(read) < len(whole):
        part, size = await store.read_response("resp_1", ANN, len(read))
        read += part
        parts.add((0 < len(part) <= PART_BYTES, size))

    assert parts == {(True, len(whole))}
    assert read == whole
    assert await store.read_response("resp_1", ANN, len(whole) + 9) == (b"", len(whole))
    assert await store.read_response("resp_1", BOB) == (b"", 0)
    assert await store.read_response("resp_2", ANN) == (b"", 0)


async def test_a_queued_job_is_cancelled_at_once(stores):
    store = stores()
    await store.add(make_job(), MANY)

    cancelled = await store.cancel("resp_1", ANN, make_ending(JobState.CANCELLED))

    assert cancelled.state is JobState.CANCELLED
    assert (await store.read_response("resp_1", ANN))[0] == make_ending(JobState.CANCELLED).response
    assert await store.claim(OWNER, LEASE_SECONDS, MANY) is None


async def test_a_running_job_is_cancelled_by_its_owner_who_hears_of_it_when_it_renews(stores):
    store = stores()
    job = await begin(store)

    store.observe(Observing("https://a.example"))
    asked = await store.cancel("resp_1", ANN, make_ending(JobState.CANCELLED))

    again = await store.cancel("resp_1", ANN, make_ending(JobState.CANCELLED))

    assert (asked.state, asked.is_cancelled) == (again.state, again.is_cancelled) == (JobState.RUNNING, True)
    assert (asked.is_newly_cancelled, again.is_newly_cancelled) == (True, False)
    assert not await store.renew(job, OWNER, LEASE_SECONDS)
    assert await store.append(job, [make_segment(0)])
    assert await store.finish(job, make_ending(JobState.CANCELLED))


async def test_a_cancelled_job_whose_owner_is_gone_is_not_begun_again(stores):
    store = stores()
    await begin(store)
    await store.cancel("resp_1", ANN, make_ending(JobState.CANCELLED))
    stores.clock.now += LEASE_SECONDS + 1

    lost = await take_over(store)

    assert (lost.is_lost, lost.is_cancelled) == (True, True)


async def test_an_ended_job_stays_as_it_is_when_it_is_cancelled(stores):
    store = stores()
    job = await begin(store)
    await store.finish(job, make_ending())

    store.observe(Observing("https://a.example"))
    asked = await store.cancel("resp_1", ANN, make_ending(JobState.CANCELLED))

    assert asked == await store.find("resp_1", ANN)
    assert (asked.state, asked.is_cancelled) == (JobState.COMPLETED, False)
    assert await store.take_due(stores.clock() + 1_000, 60.0) == []


async def test_nobody_cancels_or_forgets_the_job_of_another(stores):
    store = stores()
    await store.add(make_job(), MANY)

    assert await store.cancel("resp_1", BOB, make_ending(JobState.CANCELLED)) is None
    assert await store.cancel(HALF_A_PAIR, ANN, make_ending(JobState.CANCELLED)) is None
    assert not await store.forget("resp_1", BOB)
    assert not await store.forget(HALF_A_PAIR, None)
    assert (await store.find("resp_1", ANN)).state is JobState.QUEUED


async def test_a_forgotten_job_is_gone_with_its_log_and_its_events_and_its_owner_hears_of_it(stores):
    store = stores()
    job = await begin(store)
    await store.append(job, [make_segment(0)])

    assert await store.forget("resp_1", ANN)

    assert await store.find("resp_1", None) is None
    assert await store.read("resp_1", None, -1) == []
    assert not await store.renew(job, OWNER, LEASE_SECONDS)
    assert not await store.append(job, [make_segment(1)])
    assert not await store.forget("resp_1", ANN)


# Lists.


async def test_jobs_are_listed_newest_first_a_page_at_a_time_to_their_own_caller(stores):
    store = stores()
    for number in range(5):
        await store.add(make_job(f"resp_{number}", ANN if number != 2 else BOB), MANY)

    first = await store.list_jobs(ANN, None, 2, None)
    await store.forget("resp_3", ANN)
    rest = await store.list_jobs(ANN, None, 10, first.before)

    assert [job.id for job in first.jobs] == ["resp_4", "resp_3"]
    assert ([job.id for job in rest.jobs], rest.before) == (["resp_1", "resp_0"], None)
    assert len((await store.list_jobs(None, None, 10, None)).jobs) == 4


async def test_jobs_are_listed_by_state_without_their_texts(stores):
    store = stores()
    job = await begin(store, make_job("resp_1"), make_job("resp_2"))
    await store.finish(job, make_ending())

    page = await store.list_jobs(ANN, JobState.COMPLETED, 10, None)

    assert [(one.id, one.queued) for one in page.jobs] == [("resp_1", b"")]


@pytest.mark.parametrize("before", ["", "x", "-1", "9" * 40, "٣", HALF_A_PAIR])
async def test_a_page_that_begins_nowhere_is_empty(stores, before):
    store = stores()
    await store.add(make_job(), MANY)

    assert (await store.list_jobs(ANN, None, 10, before)).jobs == []


async def test_a_job_is_found_as_a_list_shows_it(stores):
    store = stores()
    await store.finish(await begin(store, make_job()), make_ending())

    found = await store.find_listed("resp_1")

    assert [found] == list((await store.list_jobs(ANN, None, 10, None)).jobs)
    assert (found.state, found.queued) == (JobState.COMPLETED, b"")
    assert await store.find_listed("resp_2") is None


async def test_an_observer_is_told_of_each_end_and_of_each_reading_once(stores):
    store = stores()
    store.observe(seen := Observing())
    first, second = [await begin(store, make_job(name)) for name in ("resp_1", "resp_2")]
    await store.add(make_job("resp_3"), MANY)

    assert await store.finish(first, make_ending())
    assert not await store.finish(replace(second, attempt=9), make_ending())
    for at in (1_800_000_200.0, 1_800_000_300.0):  # a queued job ends with it, a running one does not
        await store.cancel("resp_3", ANN, make_ending(JobState.CANCELLED, at))
        await store.cancel("resp_2", ANN, make_ending(JobState.CANCELLED, at))
    await store.collected("resp_1")
    await store.forget("resp_3", ANN)
    await store.forget("resp_none", ANN)

    found = [one for one in seen.seen if one[0] != "missed"]
    assert found == [("ended", "resp_1"), ("ended", "resp_3"), ("read", "resp_1"), ("read", "resp_3")]
    assert (await store.find("resp_1", ANN)).is_collected


# Webhooks.


async def test_an_event_for_each_address_is_due_when_a_job_ends_or_is_cancelled(stores):
    store = stores()
    job = await begin(store, make_job("resp_1"), make_job("resp_2"))

    store.observe(Observing("https://a.example", "https://b.example"))
    await store.finish(job, make_ending(JobState.INCOMPLETE))
    store.observe(Observing("https://a.example"))
    await store.cancel("resp_2", ANN, make_ending(JobState.CANCELLED))

    due = await store.take_due(make_ending().at, 60.0)
    assert sorted((event.job_id, event.address, event.event) for event in due) == [
        ("resp_1", "https://a.example", "response.incomplete"),
        ("resp_1", "https://b.example", "response.incomplete"),
        ("resp_2", "https://a.example", "response.cancelled"),
    ]
    assert len({event.id for event in due}) == 3


async def test_an_event_is_held_by_who_took_it_and_sent_again_under_the_same_id(stores):
    store = stores()
    job = await begin(store)
    store.observe(Observing("https://a.example"))
    await store.finish(job, make_ending())
    now = make_ending().at

    (first,) = await store.take_due(now, 60.0)

    assert await store.take_due(now + 59, 60.0) == []
    (again,) = await store.take_due(now + 60, 60.0)
    assert again.id == first.id


async def test_events_for_addresses_that_are_left_out_stay_due(stores):
    store = stores()
    job = await begin(store)
    store.observe(Observing("https://a.example", "https://b.example", "https://c.example"))
    await store.finish(job, make_ending())
    now = make_ending().at

    others = await store.take_due(now, 60.0, not_for=["https://a.example", "https://c.example"])

    assert [event.address for event in others] == ["https://b.example"]
    assert {event.address for event in await store.take_due(now, 60.0)} == {"https://a.example", "https://c.example"}


async def test_an_event_that_did_not_arrive_is_due_later_and_one_that_did_never_again(stores):
    store = stores()
    job = await begin(store)
    store.observe(Observing("https://a.example"))
    await store.finish(job, make_ending())
    (event,) = await store.take_due(make_ending().at, 60.0)

    await store.note_undelivered(event.id, make_ending().at + 300)

    assert await store.take_due(make_ending().at + 299, 60.0) == []
    (again,) = await store.take_due(make_ending().at + 300, 60.0)
    assert again.tries == 1
    await store.note_delivered(event.id)
    assert await store.take_due(make_ending().at + 9_000, 60.0) == []


async def test_an_event_that_is_given_up_is_listed_as_dead(stores):
    store = stores()
    job = await begin(store)
    store.observe(Observing("https://a.example"))
    await store.finish(job, make_ending())
    (event,) = await store.take_due(make_ending().at, 60.0)

    await store.note_undelivered(event.id, None)

    assert await store.take_due(make_ending().at + 9_000, 60.0) == []
    assert [(dead.id, dead.tries, dead.next_at) for dead in await store.list_dead()] == [(event.id, 1, stores.clock())]


# Watching.


async def test_who_watches_a_job_hears_of_its_log_its_end_and_a_request_to_cancel_it(stores):
    store = stores()
    job = await begin(store, make_job("resp_1"), make_job("resp_2"))
    watch = store.watch("resp_1")

    heard = [await watch.wait(0.0)]
    for change in (
        store.append(job, [make_segment(0)]),
        store.cancel("resp_1", ANN, make_ending(JobState.CANCELLED)),
        store.finish(job, make_ending(JobState.CANCELLED)),
        store.cancel("resp_2", ANN, make_ending(JobState.CANCELLED)),
    ):
        await change
        heard.append(await watch.wait(0.0))
    watch.close()

    assert heard == [False, True, True, True, False]


async def test_the_owner_of_a_job_hears_only_that_it_was_cancelled_or_deleted(stores):
    store = stores()
    of_another = store.watch("resp_0")
    job = await begin(store, make_job("resp_1"), make_job("resp_2"))
    if stores.kind.name == "postgres":  # all are woken once it has begun to listen to other routers
        assert await of_another.wait(30.0)
    of_another.close()
    watch = store.watch("resp_1", for_owner=True)

    heard = []
    for change in (
        store.append(job, [make_segment(0)]),
        store.cancel("resp_1", ANN, make_ending(JobState.CANCELLED)),
        store.forget("resp_2", ANN),
        store.forget("resp_1", ANN),
    ):
        await change
        heard.append(await watch.wait(0.0))
    watch.close()

    assert heard == [False, True, False, True]


async def test_who_waits_for_work_hears_of_a_new_job(stores):
    store = stores()
    watch = store.watch(None)
    waiting = spawn(watch.wait(60.0), name="wait for work")

    await store.add(make_job(), MANY)

    assert await waiting
    watch.close()


# Keeping.


async def test_jobs_outlive_their_store(lasting_stores):
    store = lasting_stores()
    job = await begin(store)
    await store.append(job, [make_segment(0)])
    await store.close()

    again = lasting_stores()

    assert (await again.find("resp_1", ANN)).state is JobState.RUNNING
    assert await again.read("resp_1", ANN, -1) == [make_segment(0)]


async def test_a_store_that_cannot_be_written_to_says_so_and_works_again_later(lasting_stores):
    store = lasting_stores()
    job = await begin(store)
    await store.append(job, [make_segment(0)])

    async with lasting_stores.place.refusing():
        with pytest.raises(StoreUnusable):
            await store.add(make_job("resp_2"), MANY)
        with pytest.raises(StoreUnusable):
            await store.append(job, [make_segment(1)])

    assert await store.add(make_job("resp_3"), MANY)


async def test_a_closed_store_refuses(lasting_stores):
    store = lasting_stores()
    await store.close()

    with pytest.raises(StoreUnusable):
        await store.add(make_job(), MANY)
