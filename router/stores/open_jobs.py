"""Opening the store of background jobs: with the first job, or at the start where jobs of an earlier process may be left.

Nothing else of it is imported before that: most routers never run a job.
"""

import asyncio
import contextlib
from collections.abc import Callable
from pathlib import Path

from router.contract.job import JobStore
from router.contract.shared import PostgresTerms
from router.contract.stores import SharedUnusable
from router.stores.open_shared import say_missing
from router.stores.sqlite.lock import StoreInUse
from router.stores.watches import Watches
from router.telemetry import events

JOBS_FILE = "jobs.db"


class JobsOpener:
    """Opens a store once, when it is first needed."""

    def __init__(self, make: Callable[[], JobStore]) -> None:
        self._make, self._lock = make, asyncio.Lock()
        self.store: JobStore | None = None
        """The store; None as long as there was no job."""

    def open_now(self) -> None:
        """Open it at the start, before there is a loop. Raises `StoreUnusable`."""
        self.store = self._make()

    async def open(self) -> JobStore:
        """The store, opened off the loop where it is not yet. Raises `StoreUnusable`."""
        async with self._lock:
            if self.store is None:
                self.store = await asyncio.to_thread(self._make)
            return self.store

    async def close(self) -> None:
        if self.store is not None:
            await self.store.close()


def open_jobs(
    ledger: Path | None,
    *,
    keep_seconds: float,
    address: str = "",
    postgres: PostgresTerms | None = None,
    watches: Watches | None = None,
) -> JobsOpener:
    """The store of jobs in a shared database, else next to a ledger, or in memory where none is kept.

    Raises `StoreUnusable` where there is a file or a database of jobs that cannot be used. A file that another router uses is
    left to it. A shared database is opened at once, since other routers may have left jobs in it. `watches` are those of
    workers that share the file.
    """
    if postgres is not None:
        (shared := JobsOpener(lambda: _make_on_postgres(postgres, keep_seconds))).open_now()
        return shared
    if ledger is None:
        return JobsOpener(lambda: _make_in_memory(keep_seconds))
    path = ledger.with_name(JOBS_FILE)
    opener = JobsOpener(lambda: _make_on_disk(path, keep_seconds, address, watches))
    if path.exists():
        with contextlib.suppress(StoreInUse):
            opener.open_now()
    return opener


def _make_in_memory(keep_seconds: float) -> JobStore:
    from router.stores.memory.jobs import MemoryJobs

    return MemoryJobs(keep_seconds=keep_seconds)


def _make_on_postgres(terms: PostgresTerms, keep_seconds: float) -> JobStore:
    try:
        from router.stores.postgres.jobs import open_postgres_jobs  # the extra `shared` brings asyncpg
    except ModuleNotFoundError as error:
        raise SharedUnusable(say_missing("shared.postgres needs", error.name)) from error
    try:
        return open_postgres_jobs(
            terms.for_jobs, keep_seconds=keep_seconds, on_failure=lambda reason: events.jobs_failed(reason=reason)
        )
    except SharedUnusable as error:
        raise SharedUnusable(f"shared.postgres: {error}") from error


def _make_on_disk(path: Path, keep_seconds: float, address: str, watches: Watches | None) -> JobStore:
    from router.stores.sqlite.jobs import JOBS, LOCK_SECONDS, LOOK_SECONDS, SqliteJobs
    from router.stores.sqlite.writer import SqliteWriter

    writer = SqliteWriter(
        path,
        JOBS,
        on_failure=lambda reason, _: events.jobs_failed(reason=reason),
        batch_seconds=LOOK_SECONDS,
        lock_seconds=LOCK_SECONDS,
        address=address,
    )
    return SqliteJobs(writer, keep_seconds=keep_seconds, watches=watches)
