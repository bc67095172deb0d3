"""Background jobs in a shared Postgres database; `job_rows.py` has the statements.

Each change is sent by `NOTIFY`, which wakes waits at other routers. A task listens, reconnects, and deletes expired jobs.
"""

import asyncio
import secrets
import time
from collections.abc import Callable, Collection, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any

from router.contract.caller import Caller
from router.contract.job import PART_BYTES, Job, JobEnding, JobTerms, Segment, WebhookEvent
from router.contract.shared import PostgresTerms
from router.contract.stores import StoreUnusable
from router.loop.supervisor import supervise
from router.stores.job_records import JobQuestions, is_writable
from router.stores.postgres import job_rows
from router.stores.postgres.link import Link
from router.stores.postgres.schema import SchemaUnusable
from router.stores.watches import STOP, Watch, stop_of

_LOOK_SECONDS = 5.0
_RETRY_SECONDS = 1.0
_GRACE_SECONDS = 8.0
"""Time for owners to renew their leases after the database was away, before leases count as expired."""
_FORGET_SECONDS = 60.0
_ENDED, _READ = "ended", "read"
_DELETED_AT_ONCE = 20
"""Logs can be many megabytes."""


class PostgresJobs(JobQuestions):
    """A `JobStore` for many processes. It connects on first use, and again after a failure."""

    _schema = "tandem."

    def __init__(
        self,
        terms: PostgresTerms,
        *,
        keep_seconds: float,
        on_failure: Callable[[str], None] = lambda reason: None,
        clock: Callable[[], float] | None = None,
    ) -> None:
        """Without a clock, the database's time counts."""
        super().__init__()
        self._link, self._keep_seconds, self._clock = Link(terms, on_failure), keep_seconds, clock
        self._name = secrets.token_hex(4)
        self._known: set[str] = set()
        self._doubtful: set[str] = set()
        """Jobs whose insert failed or is in doubt: delete them, their callers got an error."""
        self._listening: asyncio.Task[None] | None = None
        self._forgotten_at = 0.0

    async def add(
        self, job: Job, terms: JobTerms, most_of_caller: int | None = None, lease_seconds: float | None = None
    ) -> bool:
        self._start()
        try:
            async with self._link.borrow() as connection, connection.transaction():
                is_added = await job_rows.add(connection, job, self._now(), terms, most_of_caller, lease_seconds)
                if is_added:
                    await job_rows.notify(connection, self._write())
        except BaseException:
            self._doubtful.add(job.id)
            raise
        self._doubtful.discard(job.id)
        self._watches.note(None)
        return is_added

    async def claim(self, owner: str, lease_seconds: float, terms: JobTerms) -> Job | None:
        async with self._link.borrow() as connection, connection.transaction():
            known, trusts_leases = sorted(self._known), self._link.works_since_seconds > _GRACE_SECONDS
            found = await job_rows.claim(
                connection, owner, known, self._now(), lease_seconds, terms, self._turns, trusts_leases=trusts_leases
            )
        if found is not None:
            self._known.add(found.id)
        return found

    async def renew(self, job: Job, owner: str, lease_seconds: float) -> bool:
        async with self._link.borrow() as connection:
            return await job_rows.renew(connection, job, owner, self._now(), lease_seconds)

    async def release(self, job: Job) -> None:
        async with self._link.borrow() as connection:
            await job_rows.release(connection, job)
            self._known.discard(job.id)
            await job_rows.notify(connection, self._write())
        self._watches.note_all()

    async def append(self, job: Job, segments: Sequence[Segment]) -> bool:
        async with self._link.borrow() as connection, connection.transaction():
            is_written = await job_rows.append(connection, job, segments, self._write(job.id))
        if not is_written:
            self._known.discard(job.id)
        self._watches.note(job.id)
        return is_written

    async def finish(self, job: Job, ending: JobEnding) -> bool:
        addresses = self._observer.addresses_for(ending.state)
        payloads = (self._write(f"{job.id} {_ENDED}"), self._write())  # its caller has room for another
        async with self._link.borrow() as connection:
            is_ended = await job_rows.finish(connection, job, ending, addresses, payloads)
        self._known.discard(job.id)
        self._watches.note(job.id)
        self._watches.note(None)
        if is_ended:
            self._observer.job_ended(job, ending)
        return is_ended

    def watch(self, job_id: str | None, *, for_owner: bool = False) -> Watch:
        self._start()
        return super().watch(job_id, for_owner=for_owner)

    async def collected(self, job_id: str) -> None:
        async with self._link.borrow() as connection:
            await job_rows.collect(connection, job_id, self._write(f"{job_id} {_READ}"))
        self._observer.job_read(job_id)

    async def cancel(self, job_id: str, caller: Caller | None, ending: JobEnding) -> Job | None:
        if not is_writable(job_id):
            return None
        async with self._link.borrow() as connection, connection.transaction():
            found = await job_rows.cancel(connection, job_id, caller, ending, self._observer.addresses_for(ending.state))
            await job_rows.notify(connection, self._write(stop_of(job_id)))
        self._watches.note_stop(job_id)
        self._report_cancelled(found, ending)
        return found

    async def forget(self, job_id: str, caller: Caller | None) -> bool:
        if not is_writable(job_id):
            return False
        async with self._link.borrow() as connection:
            is_forgotten = await job_rows.forget(connection, job_id, caller, self._write(stop_of(job_id)))
        self._known.discard(job_id)
        self._watches.note_stop(job_id)
        if is_forgotten:
            self._observer.job_read(job_id)
        return is_forgotten

    async def take_due(
        self, now: float, hold_seconds: float, limit: int = 16, not_for: Collection[str] = ()
    ) -> Sequence[WebhookEvent]:
        async with self._link.borrow() as connection:
            return await job_rows.take_due(connection, now, hold_seconds, limit, not_for)

    async def note_delivered(self, event_id: str) -> None:
        async with self._link.borrow() as connection:
            await connection.execute("DELETE FROM tandem.outbox WHERE id = $1", event_id)

    async def note_undelivered(self, event_id: str, next_at: float | None) -> None:
        async with self._link.borrow() as connection:
            await job_rows.note_undelivered(connection, event_id, next_at, self._now())

    async def close(self) -> None:
        if self._listening is not None:
            self._listening.cancel()
            await asyncio.wait([self._listening])
        await self._link.close()

    async def _fetch(self, statement: str, *values: object) -> Sequence[Any]:
        async with self._link.borrow() as connection:
            found: Sequence[Any] = await connection.fetch(statement, *values)
            return found

    async def _read_log(
        self, job_id: str, caller: str | None, after: int, limit_bytes: int, part_at: int | None
    ) -> Sequence[Any]:
        return await self._fetch(job_rows.READ, job_id, caller, after, limit_bytes, part_at)

    async def _read_response(self, job_id: str, caller: str | None, start: int) -> tuple[bytes, int]:
        rows = await self._fetch(job_rows.READ_RESPONSE, job_id, caller, start + 1, PART_BYTES)
        return (rows[0][0], rows[0][1]) if rows else (b"", 0)

    async def _hand_out(self, job_id: str, attempt: int) -> bool:
        async with self._link.borrow() as connection:
            return await job_rows.hand_out(connection, job_id, attempt)

    def _now(self) -> float | None:
        return self._clock() if self._clock is not None else None

    def _write(self, news: str = "") -> str:
        """A notification with its sender. `news` is a job and its change; empty where a job may be claimable."""
        return f"{self._name} {news}"

    def _hear(self, payload: str) -> None:
        sender, _, news = payload.partition(" ")
        job_id, _, what = news.partition(" ")
        if sender == self._name:
            return
        if what == STOP:
            self._watches.note_stop(job_id)
        elif what != _READ:
            self._watches.note(job_id or None)
        if what == _ENDED:
            self._observer.job_ended_elsewhere(job_id)
        elif what in (STOP, _READ):
            self._observer.job_read(job_id)

    def _start(self) -> None:
        if self._listening is None:
            self._listening = supervise(self._look_after, name="listen for jobs")

    async def _look_after(self) -> None:
        while True:
            with suppress(StoreUnusable):
                async with self._link.listen(job_rows.CHANNEL, self._hear) as check:
                    self._watches.note_all()  # notifications may have been missed
                    self._observer.updates_missed()
                    while True:
                        await self._tidy()
                        await check(_LOOK_SECONDS)
            await asyncio.sleep(_RETRY_SECONDS)

    async def _tidy(self) -> None:
        """Expired jobs and those in doubt."""
        for job_id in list(self._doubtful):
            await self.forget(job_id, None)
            self._doubtful.discard(job_id)
        if time.monotonic() < self._forgotten_at + _FORGET_SECONDS:
            return
        has_more = True
        while has_more:
            async with self._link.borrow() as connection:
                has_more = await job_rows.forget_old(connection, self._now(), self._keep_seconds, _DELETED_AT_ONCE)
        self._forgotten_at = time.monotonic()


def open_postgres_jobs(terms: PostgresTerms, *, keep_seconds: float, on_failure: Callable[[str], None]) -> PostgresJobs:
    """A store, with its tables if the database is reachable; otherwise it is retried while the router serves.

    Raises `SchemaUnusable` for a database that must not be used.
    """

    async def prepare() -> None:
        link = Link(terms, on_failure)
        try:
            async with link.borrow():
                pass
        except SchemaUnusable:
            raise
        except StoreUnusable:
            pass  # reported, and may pass
        finally:
            await link.close()

    with ThreadPoolExecutor(1) as thread:  # a loop may be running here
        thread.submit(asyncio.run, prepare()).result()
    return PostgresJobs(terms, keep_seconds=keep_seconds, on_failure=on_failure)
