"""Background jobs on SQLite. All waiting work shares one transaction, so many jobs' logs cost one commit."""

import asyncio
import contextlib
import sqlite3
import threading
import time
from abc import abstractmethod
from collections import deque
from collections.abc import Awaitable, Callable, Collection, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from math import inf
from typing import Any, NamedTuple, TypeVar

from router.contract.caller import Caller
from router.contract.clock import CLOCK
from router.contract.job import Job, JobEnding, JobTerms, Segment, WebhookEvent
from router.contract.stores import StoreUnusable
from router.stores.job_records import JobQuestions, is_writable
from router.stores.owners import is_gone
from router.stores.sqlite import job_rows
from router.stores.sqlite.files import cause_of
from router.stores.sqlite.migrate import forget_copies
from router.stores.sqlite.reader import RowReader
from router.stores.sqlite.retention import Retention
from router.stores.sqlite.rows import is_of_the_file, transaction
from router.stores.sqlite.schemas import JOBS
from router.stores.sqlite.writer import SqliteWriter

Result = TypeVar("Result")
Work = Callable[[sqlite3.Connection], Result]
LOCK_SECONDS = 1.0
"""Wait for another program's lock before a job is refused."""
LOOK_SECONDS = 1.0
"""How often the file is checked; batches run at once."""
_READ_SECONDS = 0.02
_READERS = 2
_DELETED_AT_ONCE = 20
"""Logs can be many megabytes."""
_DELETED_FROM_MEMORY = 1_000
_LONGEST_LEASE_SECONDS = 3_600.0
_MEMORY_BYTES = 256 << 20
"""For jobs in memory and their logs. When full, new ones are refused until some expire."""


class SqlJobs(JobQuestions):
    """A `JobStore` without its file: subclasses write and read."""

    def __init__(self, clock: Callable[[], float] | None) -> None:
        super().__init__()
        self._clock, self._expires_by = clock or time.time, clock or CLOCK.trusted
        self._threads = ThreadPoolExecutor(_READERS, "read jobs")
        self._large = job_rows.LargeValues()

    @abstractmethod
    def _write(self, work: Work[Result], *, is_synced: bool = True) -> Awaitable[Result]:
        """Run work in a transaction that survives the process, and with `is_synced` the machine."""

    @abstractmethod
    def _read(self, work: Work[Result]) -> Result:
        pass

    async def add(
        self, job: Job, terms: JobTerms, most_of_caller: int | None = None, lease_seconds: float | None = None
    ) -> bool:
        until = self._clock() + lease_seconds if lease_seconds is not None else None
        if is_taken := await self._write(lambda database: job_rows.add(database, job, terms, most_of_caller, until)):
            self._watches.note(None)
        return is_taken

    async def claim(self, owner: str, lease_seconds: float, terms: JobTerms) -> Job | None:
        """After a leap of the clock, owners have the time to renew their leases by it. Later, one far ahead is of before it."""
        now = self._clock()
        believed = (0.0, inf) if CLOCK.has_just_leapt(2 * lease_seconds) else (now, now + _LONGEST_LEASE_SECONDS)
        return await self._write(
            lambda database: job_rows.claim(database, owner, now, lease_seconds, terms, self._turns, believed)
        )

    async def renew(self, job: Job, owner: str, lease_seconds: float) -> bool:
        until = self._clock() + lease_seconds
        return await self._write(lambda database: job_rows.renew(database, job, owner, until), is_synced=False)

    async def release(self, job: Job) -> None:
        await self._write(lambda database: job_rows.release(database, job))
        self._watches.note_all()

    async def append(self, job: Job, segments: Sequence[Segment]) -> bool:
        """Synced when read or when the job ends: a sync costs ten times the CPU."""
        is_written = await self._write(lambda database: job_rows.append(database, job, segments), is_synced=False)
        self._watches.note(job.id)
        return is_written

    async def finish(self, job: Job, ending: JobEnding) -> bool:
        addresses = self._observer.addresses_for(ending.state)
        is_ended = await self._write(lambda database: job_rows.finish(database, job, ending, addresses))
        self._watches.note(job.id)
        self._watches.note(None)  # its caller has room for another
        if is_ended:
            self._observer.job_ended(job, ending)
        return is_ended

    async def _fetch(self, statement: str, *values: object) -> Sequence[Any]:
        """On the loop: a keyed read takes 20 µs, less than a thread."""
        named = {str(number): value for number, value in enumerate(values, 1)}
        return self._read(lambda database: database.execute(statement, named).fetchall())

    async def _read_log(
        self, job_id: str, caller: str | None, after: int, limit_bytes: int, part_at: int | None
    ) -> Sequence[Any]:
        return await self._read_aside(
            lambda database: job_rows.read_log(database, self._large, job_id, caller, after, limit_bytes, part_at)
        )

    async def _read_response(self, job_id: str, caller: str | None, start: int) -> tuple[bytes, int]:
        return await self._read_aside(lambda database: job_rows.read_response(database, self._large, job_id, caller, start))

    async def _read_aside(self, work: Work[Result]) -> Result:
        """In a thread, two at a time: a log may have many readers, and many megabytes for each."""
        try:
            reading = asyncio.get_running_loop().run_in_executor(self._threads, self._read_large, work)
        except RuntimeError as error:
            raise StoreUnusable("the store of jobs is closed") from error
        return await reading

    def _read_large(self, work: Work[Result]) -> Result:
        return self._read(work)

    async def close(self) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)

    async def _hand_out(self, job_id: str, attempt: int) -> bool:
        return await self._write(lambda database: job_rows.hand_out(database, job_id, attempt))

    async def collected(self, job_id: str) -> None:
        await self._write(lambda database: job_rows.collect(database, job_id))
        self._observer.job_read(job_id)

    async def cancel(self, job_id: str, caller: Caller | None, ending: JobEnding) -> Job | None:
        if not is_writable(job_id):
            return None
        addresses = self._observer.addresses_for(ending.state)
        found = await self._write(lambda database: job_rows.cancel(database, job_id, caller, ending, addresses))
        self._watches.note_stop(job_id)
        self._report_cancelled(found, ending)
        return found

    async def forget(self, job_id: str, caller: Caller | None) -> bool:
        if not is_writable(job_id):
            return False
        is_forgotten = await self._write(lambda database: job_rows.forget(database, job_id, caller))
        self._watches.note_stop(job_id)
        if is_forgotten:
            self._observer.job_read(job_id)
        return is_forgotten

    async def take_due(
        self, now: float, hold_seconds: float, limit: int = 16, not_for: Collection[str] = ()
    ) -> Sequence[WebhookEvent]:
        return await self._write(lambda database: job_rows.take_due(database, now, hold_seconds, limit, not_for))

    async def note_delivered(self, event_id: str) -> None:
        await self._write(lambda database: job_rows.note_delivered(database, event_id))

    async def note_undelivered(self, event_id: str, next_at: float | None) -> None:
        now = self._clock()
        await self._write(lambda database: job_rows.note_undelivered(database, event_id, next_at, now))


class MemoryJobs(SqlJobs):
    """Used where no ledger is kept."""

    def __init__(
        self, *, keep_seconds: float, max_bytes: int = _MEMORY_BYTES, clock: Callable[[], float] | None = None
    ) -> None:
        super().__init__(clock)
        self._keep_seconds, self._lock = keep_seconds, threading.Lock()
        self._database = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
        for script in JOBS.scripts:
            self._database.executescript(script)
        page_bytes = int(self._database.execute("PRAGMA page_size").fetchone()[0])
        self._database.execute(f"PRAGMA max_page_count = {max_bytes // page_bytes}")

    async def _write(self, work: Work[Result], *, is_synced: bool = True) -> Result:
        return self._read(work, self._forget_old)

    def _read(self, work: Work[Result], *before: Work[object]) -> Result:
        try:
            with self._lock, transaction(self._database):
                for first in before:
                    first(self._database)
                return work(self._database)
        except sqlite3.Error as error:
            raise StoreUnusable(f"jobs cannot be kept in memory: {error}") from error

    async def close(self) -> None:
        await super().close()
        with self._lock:
            self._database.close()

    def _forget_old(self, database: sqlite3.Connection) -> None:
        job_rows.forget_old(database, self._expires_by() - self._keep_seconds, _DELETED_FROM_MEMORY)


class _Waiting(NamedTuple):
    work: Work[Any]
    future: asyncio.Future[Any]
    is_synced: bool


class SqliteJobs(SqlJobs):
    """Jobs of a dead local process can be claimed at once."""

    def __init__(
        self,
        writer: SqliteWriter,
        *,
        keep_seconds: float,
        clock: Callable[[], float] | None = None,
    ) -> None:
        super().__init__(clock)
        self._writer, self._reader = writer, RowReader(writer.path, lock_seconds=_READ_SECONDS)
        self._logs = RowReader(writer.path, lock_seconds=_READ_SECONDS)
        """A connection of its own: reads on the loop do not wait for those of threads."""
        writer.watch(self._reader)
        writer.watch(self._logs)
        self._retention = Retention(writer.path.name, "jobs", keep_seconds, clock=self._expires_by)
        writer.attach(self, self._forget_old)
        self._waiting: deque[_Waiting] = deque()
        self._is_asked = False
        self._is_synced = True
        """Whether the connection syncs each transaction, as new ones do."""
        self._is_expired = False
        """Whether jobs of processes that are gone can be claimed: the file may be away at the start."""
        self._submit(self._expire)

    async def close(self) -> None:
        await super().close()
        self._reader.close()
        self._logs.close()
        await self._writer.detach(self)

    def _write(self, work: Work[Result], *, is_synced: bool = True) -> Awaitable[Result]:
        future: asyncio.Future[Result] = asyncio.get_running_loop().create_future()
        self._waiting.append(_Waiting(work, future, is_synced))
        if not self._is_asked:
            self._is_asked = True
            self._submit(self._write_all)
        return future

    def _read(self, work: Work[Result]) -> Result:
        return self._reader.read(work)

    def _read_large(self, work: Work[Result]) -> Result:
        return self._logs.read(work)

    def _submit(self, work: Work[None]) -> None:
        try:
            self._writer.submit(work).add_done_callback(self._refuse)
        except StoreUnusable as error:
            self._fail(error)

    # In the writer's thread.

    def _write_all(self, database: sqlite3.Connection) -> None:
        self._is_asked = False  # first, so that later work asks again
        taken: list[_Waiting] = []
        while self._waiting:
            taken.append(self._waiting.popleft())
        taken = [one for one in taken if not one.future.cancelled()]
        if not taken:
            return
        is_synced = any(one.is_synced for one in taken)
        try:
            self._expire(database)
            if is_synced != self._is_synced:
                database.execute(f"PRAGMA synchronous = {'FULL' if is_synced else 'NORMAL'}")
                self._is_synced = is_synced
            outcomes = _perform(database, [one.work for one in taken])
        except BaseException as error:
            _deliver(taken, [_as_unusable(self._writer, error)] * len(taken))
            raise
        self._writer.note_written()
        _deliver(taken, outcomes)

    def _refuse(self, done: Future[None]) -> None:
        if not done.cancelled() and (error := done.exception()) is not None:
            self._fail(error)

    def _fail(self, error: BaseException) -> None:
        self._is_asked = False
        failed: list[_Waiting] = []
        while self._waiting:
            failed.append(self._waiting.popleft())
        _deliver(failed, [_as_unusable(self._writer, error)] * len(failed))

    def _expire(self, database: sqlite3.Connection) -> None:
        if not self._is_expired:
            with transaction(database):
                job_rows.expire(database, is_gone)
            self._is_expired = True

    def _forget_old(self, database: sqlite3.Connection) -> bool:
        """A few at a time, so that no job waits long."""
        with transaction(database):
            oldest = self._retention.find_limit(database)
            deleted = job_rows.forget_old(database, oldest, _DELETED_AT_ONCE)
        self._retention.count(deleted)
        if deleted == _DELETED_AT_ONCE:
            return True
        self._retention.conclude()
        forget_copies(self._writer.path, oldest)
        return False


def _perform(database: sqlite3.Connection, works: Sequence[Work[Any]]) -> list[Any]:
    """One transaction for all; on an error one each, since savepoints cost a tenth of the writing."""
    try:
        with transaction(database):
            return [work(database) for work in works]
    except Exception as error:
        if is_of_the_file(error):
            raise
    with transaction(database):
        return [_attempt(database, work) for work in works]


def _attempt(database: sqlite3.Connection, work: Work[Any]) -> Any:
    """An error of the work is its outcome; one of the file is raised."""
    database.execute("SAVEPOINT one")
    try:
        outcome = work(database)
    except Exception as error:
        if is_of_the_file(error):
            raise
        database.execute("ROLLBACK TO one")
        outcome = error
    database.execute("RELEASE one")
    return outcome


def _as_unusable(writer: SqliteWriter, error: BaseException) -> StoreUnusable:
    return (
        error
        if isinstance(error, StoreUnusable)
        else StoreUnusable(f"{writer.path.name} cannot be written to: {cause_of(error, writer.path)}")
    )


def _deliver(waiting: Sequence[_Waiting], outcomes: Sequence[Any]) -> None:
    if waiting:
        with contextlib.suppress(RuntimeError):  # the loop is closed
            waiting[0].future.get_loop().call_soon_threadsafe(_resolve, waiting, outcomes)


def _resolve(waiting: Sequence[_Waiting], outcomes: Sequence[Any]) -> None:
    for one, outcome in zip(waiting, outcomes, strict=True):
        if one.future.done():
            continue
        if isinstance(outcome, BaseException):
            one.future.set_exception(outcome)
        else:
            one.future.set_result(outcome)
