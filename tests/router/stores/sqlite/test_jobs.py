"""Jobs on SQLite: many written at once, a file that is locked or full, owners that are gone, and what is too old."""

import asyncio
import contextlib
import sqlite3

import pytest

from router.contract.clock import Clock as ProcessClock
from router.contract.job import JobState
from router.contract.stores import StoreUnusable
from router.stores.owners import name_owner
from router.stores.sqlite.jobs import MemoryJobs
from tests.tools.jobs import LEASE_SECONDS, MANY, Clock, Observing, make_ending, make_job, make_segment, open_sqlite_jobs
from tests.tools.kept import ANN
from tests.tools.waiting import until

OWNER = "elsewhere:1:1"


class Opened:
    """A store on one file, opened as often as a test likes."""

    def __init__(self, path) -> None:
        self.path, self.clock, self.failures = path, Clock(), []
        self.stores = []

    def __call__(self):
        self.stores.append(open_sqlite_jobs(self.path, self.failures, self.clock))
        return self.stores[-1]

    @contextlib.contextmanager
    def locked(self):
        """Somebody else writes to the file, and does not come to an end."""
        with contextlib.closing(sqlite3.connect(self.path, isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            yield
            other.execute("ROLLBACK")

    def count(self, table: str) -> int:
        with contextlib.closing(sqlite3.connect(self.path)) as database:
            return database.execute(f"SELECT count(*) FROM {table}").fetchone()[0]


@pytest.fixture
async def opened(tmp_path):
    opened = Opened(tmp_path / "jobs.db")
    yield opened
    for store in opened.stores:
        await store.close()


async def begin(store, name: str = "resp_1", owner: str = OWNER):
    await store.add(make_job(name), MANY)
    return await store.claim(owner, LEASE_SECONDS, MANY)


async def test_files_are_their_owners_alone(opened, tmp_path):
    await begin(opened())

    assert {file.stat().st_mode & 0o777 for file in tmp_path.glob("jobs.db*")} == {0o600}


async def test_writes_that_come_together_are_committed_together(opened):
    store = opened()
    jobs = [await begin(store, f"resp_{number}") for number in range(8)]
    commits: list[str] = []
    await store._writer.run(lambda database: database.set_trace_callback(commits.append))

    await asyncio.gather(*(store.append(job, [make_segment(0)]) for job in jobs))

    assert commits.count("COMMIT") <= 2
    assert opened.count("segments") == 8


async def test_only_what_somebody_was_promised_is_synced(opened):
    """In WAL mode, a transaction that is synced takes all before it along."""
    store = opened()
    job = await begin(store)
    modes: list[int] = []

    async def look() -> None:
        modes.append(await store._writer.run(lambda database: database.execute("PRAGMA synchronous").fetchone()[0]))

    for change in (
        store.append(job, [make_segment(0)]),
        store.read("resp_1", ANN, -1),
        store.renew(job, OWNER, LEASE_SECONDS),
        store.add(make_job("resp_2"), MANY),
        store.append(job, [make_segment(1)]),
        store.finish(job, make_ending()),
    ):
        await change
        await look()

    assert modes == [1, 2, 1, 2, 1, 2]


async def test_one_that_fails_by_itself_costs_no_other(opened):
    store = opened()
    await store.add(make_job("resp_1"), MANY)

    outcomes = await asyncio.gather(
        store.add(make_job("resp_2"), MANY),
        store.add(make_job("resp_1"), MANY),
        store.add(make_job("resp_3"), MANY),
        return_exceptions=True,
    )

    assert (outcomes[0], type(outcomes[1]), outcomes[2]) == (True, sqlite3.IntegrityError, True)
    assert opened.count("jobs") == 3


async def test_who_no_longer_waits_when_the_writer_comes_has_done_nothing(opened):
    store = opened()
    abandoned = asyncio.gather(store.add(make_job("resp_1"), MANY))
    await asyncio.sleep(0)
    with opened.locked():
        abandoned.cancel()
        with pytest.raises(asyncio.CancelledError):
            await abandoned

    await store.add(make_job("resp_2"), MANY)

    assert (await store.find("resp_2", ANN)) is not None


async def test_a_locked_file_refuses_all_that_wait_and_is_said_once(opened):
    store = opened()
    job = await begin(store)

    with opened.locked():
        outcomes = await asyncio.gather(
            *(store.append(job, [make_segment(number)]) for number in range(10)),
            store.add(make_job("resp_2"), MANY),
            return_exceptions=True,
        )
        found = await store.find("resp_1", ANN)

    assert {type(outcome) for outcome in outcomes} == {StoreUnusable}
    assert found.state is JobState.RUNNING
    await until(lambda: len(opened.failures) == 1)
    assert await store.append(job, [make_segment(0)])


async def test_the_next_outage_is_said_again(opened):
    store = opened()
    job = await begin(store)

    for _ in range(2):
        with opened.locked(), pytest.raises(StoreUnusable):
            await store.append(job, [make_segment(0)])
        await store.append(job, [make_segment(0)])

    await until(lambda: [kind for kind, _ in opened.failures] == ["OperationalError"] * 2)
    assert store._writer.failing is None


async def test_a_full_disk_refuses_and_loses_nothing_that_was_written(opened):
    store = opened()
    job = await begin(store)
    await store.append(job, [make_segment(0)])
    await store._writer.run(lambda database: database.execute("PRAGMA max_page_count = 1"))

    with pytest.raises(StoreUnusable, match="full"):
        await store.append(job, [make_segment(1, text="x" * 100_000)])

    await until(lambda: [kind for kind, _ in opened.failures] == ["DiskFull"])
    assert await store.append(job, [make_segment(1)])  # the next connection has room again
    assert [segment.first for segment in await store.read("resp_1", ANN, -1)] == [0, 1]


async def test_jobs_of_a_process_of_this_machine_that_is_gone_are_taken_at_once(opened):
    store = opened()
    gone = f"{name_owner()}0"  # the same id, begun at another time
    await begin(store, "resp_1", gone)
    await begin(store, "resp_2", name_owner())
    await begin(store, "resp_3", OWNER)
    await store.close()

    again = opened()
    taken = [await again.claim("another", LEASE_SECONDS, MANY) for _ in range(2)]

    assert [job and (job.id, job.is_unrecorded) for job in taken] == [("resp_1", True), None]


async def test_jobs_are_deleted_with_their_logs_some_time_after_their_end(opened):
    store = opened()
    for number in range(45):
        job = await begin(store, f"resp_{number}")
        await store.append(job, [make_segment(0)])
        await store.finish(job, make_ending(at=opened.clock()))
    running = await begin(store, "resp_running")
    await store.append(running, [make_segment(0)])
    await store.close()
    opened.clock.now += 86_401

    again = opened()
    await until(lambda: opened.count("jobs") == 1)

    assert opened.count("segments") == 1
    assert await again.find("resp_running", ANN) is not None


async def test_what_is_given_up_is_deleted_with_its_time_and_what_is_due_is_not(opened):
    store = opened()
    store.observe(Observing("https://a.example", "https://b.example"))
    job = await begin(store)
    await store.finish(job, make_ending(at=opened.clock()))
    dead, _ = await store.take_due(opened.clock(), 60.0)
    await store.note_undelivered(dead.id, None)
    await store.close()
    opened.clock.now += 86_401

    again = opened()
    await until(lambda: opened.count("jobs") == 0)

    assert (await again.list_dead(), len(await again.take_due(opened.clock(), 60.0))) == ([], 1)


async def test_jobs_in_memory_are_forgotten_some_time_after_their_end():
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


@pytest.mark.parametrize("days", [40, -40])
async def test_after_a_leap_an_owner_has_the_time_to_renew_its_lease_and_one_that_is_gone_loses_it(opened, monkeypatch, days):
    uptime, wall = Clock(), opened.clock
    monkeypatch.setattr("router.stores.sqlite.jobs.CLOCK", ProcessClock(wall, uptime))
    store = opened()
    job = await begin(store)
    await begin(store, "resp_2", "gone:1:1")

    wall.now += days * 86_400.0
    assert await store.claim("other:1:1", LEASE_SECONDS, MANY) is None
    assert await store.renew(job, OWNER, LEASE_SECONDS)
    for _ in range(3):
        wall.now += LEASE_SECONDS - 1
        uptime.now += LEASE_SECONDS - 1
        assert await store.renew(job, OWNER, LEASE_SECONDS)
    taken = await store.claim("other:1:1", LEASE_SECONDS, MANY)

    assert taken is not None
    assert taken.id == "resp_2"
    assert await store.claim("other:1:1", LEASE_SECONDS, MANY) is None
