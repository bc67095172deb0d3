"""Background jobs on SQLite, in a file of their own. What they do to it is in `job_rows.py`.

Everything that waits is written in one transaction: many jobs that write their logs at once cost one commit together.
"""

import asyncio
import contextlib
import sqlite3
import time
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Awaitable, Callable, Collection, Sequence
from concurrent.futures import Future
from functools import partial
from typing import Any, NamedTuple, TypeVar

from router.contract.caller import Caller
from router.contract.job import Job, JobEnding, JobsPage, JobState, Segment, WebhookEvent
from router.contract.stores import StoreUnusable
from router.stores.job_records import MAX_UNCOLLECTED, is_number, is_writable, name_of, to_job, writable
from router.stores.owners import is_gone
from router.stores.sqlite import job_rows
from router.stores.sqlite.job_rows import FOUND, LISTED, READ
from router.stores.sqlite.migrate import read_migrations
from router.stores.sqlite.reader import RowReader
from router.stores.sqlite.retention import Retention
from router.stores.sqlite.rows import is_of_the_file, transaction
from router.stores.sqlite.writer import SqliteWriter
from router.stores.watches import Watch, Watches

Result = TypeVar("Result")
Work = Callable[[sqlite3.Connection], Result]
JOBS = read_migrations("jobs")
LOCK_SECONDS = 1.0
"""How long the writer waits for another program's lock. Callers wait as long before they hear that a job cannot be taken."""
LOOK_SECONDS = 1.0
"""Nothing waits for the writer's next batch, since all of it is run at once; it looks after the file this often."""
_READ_SECONDS = 0.02
"""How long the loop may wait for a file that somebody has locked whole."""
_DELETED_AT_ONCE = 20
"""A job's log may have many megabytes."""


class SqlJobs(ABC):
    """All of a `JobStore` but the database: how something is written, and how it is read."""

    def __init__(self, clock: Callable[[], float], watches: Watches | None = None) -> None:
        self._clock = clock
        self._watches = watches or Watches()

    @abstractmethod
    def _write(self, work: Work[Result], *, is_synced: bool = True) -> Awaitable[Result]:
        """Do something in a transaction. When this returns, it outlives the process, and the machine where `is_synced`."""

    @abstractmethod
    def _read(self, work: Work[Result]) -> Result:
        """Read what was written."""

    async def add(
        self, job: Job, most_queued: int, most_of_caller: int | None = None, lease_seconds: float | None = None
    ) -> bool:
        """Queue a job, and wake whoever runs jobs."""
        until = self._clock() + lease_seconds if lease_seconds is not None else None
        if is_taken := await self._write(lambda database: job_rows.add(database, job, most_queued, most_of_caller, until)):
            self._watches.note(None)
        return is_taken

    async def claim(self, owner: str, lease_seconds: float, most_for_a_caller: int) -> Job | None:
        now = self._clock()
        return await self._write(lambda database: job_rows.claim(database, owner, now, lease_seconds, most_for_a_caller))

    async def renew(self, job: Job, owner: str, lease_seconds: float) -> bool:
        until = self._clock() + lease_seconds
        return await self._write(lambda database: job_rows.renew(database, job, owner, until), is_synced=False)

    async def release(self, owner: str, job_id: str | None = None) -> None:
        await self._write(lambda database: job_rows.release(database, owner, job_id))
        self._watches.note_all()

    async def append(self, job: Job, segments: Sequence[Segment]) -> bool:
        """Write to the log. It is synced when somebody reads it, or the job ends: a sync costs ten times as much CPU."""
        is_written = await self._write(lambda database: job_rows.append(database, job, segments), is_synced=False)
        self._watches.note(job.id)
        return is_written

    async def finish(self, job: Job, ending: JobEnding, addresses: Sequence[str] = ()) -> bool:
        is_ended = await self._write(lambda database: job_rows.finish(database, job, ending, addresses))
        self._watches.note(job.id)
        self._watches.note(None)  # its caller has room for another
        return is_ended

    async def find(self, job_id: str, caller: Caller | None) -> Job | None:
        """One keyed read, on the loop: it takes 20 µs, and a thread would take longer."""
        if not is_writable(job_id):
            return None
        found = await self._select(f"{FOUND} FROM jobs WHERE id = ? AND caller = ifnull(?, caller)", job_id, name_of(caller))
        return found[0] if found else None

    async def find_listed(self, job_id: str) -> Job | None:
        found = await self._select(f"{LISTED} FROM jobs WHERE id = ?", job_id)
        return found[0] if found else None

    async def read(self, job_id: str, caller: Caller | None, after: int, limit_bytes: int = 1 << 20) -> Sequence[Segment]:
        """Read a part of the log. That a caller sees content is noted first, unless that is known."""
        while is_writable(job_id):
            rows = self._read(lambda database: _read_part(database, job_id, name_of(caller), after, limit_bytes))
            new = next((attempt for *_, has_content, attempt, is_known in rows if has_content and not is_known), None)
            if caller is None or new is None or await self._write(partial(job_rows.hand_out, job_id=job_id, attempt=new)):
                return [Segment(first, last, frames, bool(content)) for first, last, frames, content, *_ in rows]
        return []

    def watch(self, job_id: str | None, *, for_owner: bool = False) -> Watch:
        return self._watches.watch(job_id, for_owner=for_owner)

    def hear(  # noqa: B027  no-op for every SQL backend
        self, on_end: Callable[[str], None], on_read: Callable[[str], None], on_missed: Callable[[], None] = lambda: None
    ) -> None:
        """Nothing is heard of what happens elsewhere."""

    async def collected(self, job_id: str) -> None:
        await self._write(lambda database: job_rows.collect(database, job_id))

    async def cancel(self, job_id: str, caller: Caller | None, ending: JobEnding, addresses: Sequence[str] = ()) -> Job | None:
        """Cancel a job, and wake its owner."""
        if not is_writable(job_id):
            return None
        found = await self._write(lambda database: job_rows.cancel(database, job_id, caller, ending, addresses))
        self._watches.note_stop(job_id)
        return found

    async def forget(self, job_id: str, caller: Caller | None) -> bool:
        if not is_writable(job_id):
            return False
        is_forgotten = await self._write(lambda database: job_rows.forget(database, job_id, caller))
        self._watches.note_stop(job_id)
        return is_forgotten

    async def list_jobs(self, caller: Caller | None, state: JobState | None, limit: int, before: str | None) -> JobsPage:
        """A page of jobs. The next one begins at a row's number, so that it is found when that row is deleted."""
        if before is not None and not is_number(before):
            return JobsPage([])
        conditions = "sequence < ifnull(?, sequence + 1) AND caller = ifnull(?, caller) AND state = ifnull(?, state)"
        statement = f"SELECT sequence, {LISTED} FROM jobs WHERE {conditions} ORDER BY sequence DESC LIMIT ?"  # noqa: S608  fixed names
        start = int(before) if before is not None else None
        values = (start, name_of(caller), state, limit + 1)
        rows = self._read(lambda database: database.execute(statement, values).fetchall())
        jobs = [to_job(row) for _, *row in rows[:limit]]
        return JobsPage(jobs, str(rows[limit - 1][0]) if len(rows) > limit else None)

    async def find_uncollected(self, caller: Caller, session: str) -> Sequence[Job]:
        conditions = "session = ? AND caller = ? AND ended_at IS NOT NULL AND is_collected = 0"
        statement = f"{LISTED} FROM jobs WHERE {conditions} ORDER BY sequence DESC LIMIT {MAX_UNCOLLECTED}"
        return await self._select(statement, writable(session), caller.name)

    async def take_due(
        self, now: float, hold_seconds: float, limit: int = 16, not_for: Collection[str] = ()
    ) -> Sequence[WebhookEvent]:
        return await self._write(lambda database: job_rows.take_due(database, now, hold_seconds, limit, not_for))

    async def note_delivered(self, event_id: str) -> None:
        await self._write(lambda database: job_rows.note_delivered(database, event_id))

    async def note_undelivered(self, event_id: str, next_at: float | None) -> None:
        now = self._clock()
        await self._write(lambda database: job_rows.note_undelivered(database, event_id, next_at, now))

    async def list_dead(self) -> Sequence[WebhookEvent]:
        statement = "SELECT id, job, address, event, at, tries, next_at FROM outbox WHERE is_dead = 1 ORDER BY next_at DESC"
        return [WebhookEvent(*row) for row in self._read(lambda database: database.execute(statement).fetchall())]

    async def _select(self, statement: str, *values: object) -> list[Job]:
        rows = self._read(lambda database: database.execute(f"SELECT {statement}", values).fetchall())
        return [to_job(row) for row in rows]


class _Waiting(NamedTuple):
    """Something to be done in the next transaction, and who waits for it."""

    work: Work[Any]
    future: asyncio.Future[Any]
    is_synced: bool


class SqliteJobs(SqlJobs):
    """Jobs in a file, for `keep_seconds` after their end.

    Jobs whose owner was a process of this machine that is gone can be claimed at once.
    """

    def __init__(
        self,
        writer: SqliteWriter,
        *,
        keep_seconds: float,
        clock: Callable[[], float] = time.time,
        watches: Watches | None = None,
    ) -> None:
        super().__init__(clock, watches)
        self._writer, self._reader = writer, RowReader(writer.path, lock_seconds=_READ_SECONDS)
        writer.watch(self._reader)
        self._retention = Retention(writer.path.name, "jobs", keep_seconds, clock=clock)
        writer.attach(self, self._forget_old)
        self._waiting: deque[_Waiting] = deque()
        self._is_asked = False
        """Whether the writer was asked to come for what waits."""
        self._is_synced = True
        """Whether the connection syncs each transaction, as every new one does."""
        self._submit(self._expire)

    async def close(self) -> None:
        self._reader.close()
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

    def _submit(self, work: Work[None]) -> None:
        try:
            self._writer.submit(work).add_done_callback(self._refuse)
        except StoreUnusable as error:
            self._fail(error)

    # In the writer's thread.

    def _write_all(self, database: sqlite3.Connection) -> None:
        self._is_asked = False  # before anything is taken: who comes later asks again
        taken: list[_Waiting] = []
        while self._waiting:
            taken.append(self._waiting.popleft())
        taken = [one for one in taken if not one.future.cancelled()]
        if not taken:
            return
        is_synced = any(one.is_synced for one in taken)
        try:
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
        """The writer could not come, or failed: whoever waits must not wait on."""
        if not done.cancelled() and (error := done.exception()) is not None:
            self._fail(error)

    def _fail(self, error: BaseException) -> None:
        self._is_asked = False
        failed: list[_Waiting] = []
        while self._waiting:
            failed.append(self._waiting.popleft())
        _deliver(failed, [_as_unusable(self._writer, error)] * len(failed))

    def _expire(self, database: sqlite3.Connection) -> None:
        with transaction(database):
            job_rows.expire(database, is_gone)

    def _forget_old(self, database: sqlite3.Connection) -> bool:
        """A few at a time, so that no job waits long to be written."""
        with transaction(database):
            deleted = job_rows.forget_old(database, self._retention.find_limit(database), _DELETED_AT_ONCE)
        self._retention.count(deleted)
        if deleted == _DELETED_AT_ONCE:
            return True
        self._retention.conclude()
        return False


def _read_part(database: sqlite3.Connection, job_id: str, caller: str | None, after: int, most_bytes: int) -> list[Any]:
    rows: list[Any] = []
    cursor = database.execute(READ, (job_id, caller, after))
    for row in cursor:
        rows.append(row)
        if (most_bytes := most_bytes - len(row[2])) <= 0:
            break
    cursor.close()  # an open read would keep SQLite's log from being emptied
    return rows


def _perform(database: sqlite3.Connection, works: Sequence[Work[Any]]) -> list[Any]:
    """Do all of it in one transaction. Where one thing is wrong, do each by itself: savepoints cost a tenth of the writing."""
    try:
        with transaction(database):
            return [work(database) for work in works]
    except Exception as error:
        if is_of_the_file(error):
            raise
    with transaction(database):
        return [_attempt(database, work) for work in works]


def _attempt(database: sqlite3.Connection, work: Work[Any]) -> Any:
    """Do one thing of many. What is wrong with it alone is its own outcome; what is wrong with the file is raised."""
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
    return error if isinstance(error, StoreUnusable) else StoreUnusable(f"{writer.path.name} cannot be written to: {error}")


def _deliver(waiting: Sequence[_Waiting], outcomes: Sequence[Any]) -> None:
    """Hand each its outcome, in the loop's thread."""
    if waiting:
        with contextlib.suppress(RuntimeError):  # the loop is closed: nobody waits
            waiting[0].future.get_loop().call_soon_threadsafe(_resolve, waiting, outcomes)


def _resolve(waiting: Sequence[_Waiting], outcomes: Sequence[Any]) -> None:
    for one, outcome in zip(waiting, outcomes, strict=True):
        if one.future.done():
            continue
        if isinstance(outcome, BaseException):
            one.future.set_exception(outcome)
        else:
            one.future.set_result(outcome)
