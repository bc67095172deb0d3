"""Background jobs in memory, where no ledger is kept: they live as long as the process. The rules are those of the file."""

import sqlite3
import time
from collections.abc import Callable

from router.contract.stores import StoreUnusable
from router.stores.sqlite import job_rows
from router.stores.sqlite.jobs import JOBS, Result, SqlJobs, Work
from router.stores.sqlite.rows import transaction

_MAX_BYTES = 256 << 20
"""What all jobs and their logs may take. When it is full, no more is taken until some are forgotten."""
_DELETED_AT_ONCE = 1_000


class MemoryJobs(SqlJobs):
    """Jobs in a database without a file."""

    def __init__(self, *, keep_seconds: float, max_bytes: int = _MAX_BYTES, clock: Callable[[], float] = time.time) -> None:
        super().__init__(clock)
        self._keep_seconds = keep_seconds
        self._database = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
        for script in JOBS:
            self._database.executescript(script)
        page_bytes = int(self._database.execute("PRAGMA page_size").fetchone()[0])
        self._database.execute(f"PRAGMA max_page_count = {max_bytes // page_bytes}")

    async def _write(self, work: Work[Result], *, is_synced: bool = True) -> Result:
        return self._read(work, self._forget_old)

    def _read(self, work: Work[Result], *before: Work[object]) -> Result:
        try:
            with transaction(self._database):
                for first in before:
                    first(self._database)
                return work(self._database)
        except sqlite3.Error as error:
            raise StoreUnusable(f"jobs cannot be kept in memory: {error}") from error

    async def close(self) -> None:
        self._database.close()

    def _forget_old(self, database: sqlite3.Connection) -> None:
        job_rows.forget_old(database, self._clock() - self._keep_seconds, _DELETED_AT_ONCE)
