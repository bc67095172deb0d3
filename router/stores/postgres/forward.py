"""Copies ledger rows to the shared database within a second; the file keeps them until then.

Runs in a thread with its own loop, so no request waits. A batch is one transaction, noted in the file afterwards: rows copied
but not noted when a process dies are sent again, and ignored by the database.
"""

import asyncio
import contextlib
import sqlite3
import threading
import time
from collections.abc import Sequence
from concurrent.futures import Future
from typing import Any

import asyncpg  # from the extra `shared`
from msgspec.structs import replace

from router.contract.shared import PostgresTerms
from router.contract.stores import StoreUnusable
from router.stores.postgres import entry_rows
from router.stores.postgres.link import Link
from router.stores.sqlite.files import FAILURES
from router.stores.sqlite.forwarded import FORWARDED, Mark, keep_mark, read_ids, read_mark, read_next
from router.stores.sqlite.lock import FileLock, StoreInUse
from router.stores.sqlite.reader import RowReader
from router.stores.sqlite.writer import SqliteWriter
from router.telemetry import events

_LOOK_SECONDS = 0.3
"""Rows reach the file within 250 ms: this leaves time to copy them within a second."""
_RETRY_SECONDS = 0.5
_BATCH_ROWS = 500
_LEAST_SECONDS = 5.0
"""Least time for a batch, which may hold megabytes of text."""
_LAST_SECONDS = 5.0
_TIDY_SECONDS = 3_600.0
_DELETED_AT_ONCE = 1_000
_DAY = 86_400.0
_CLOCK_SECONDS = 5.0
_REFUSED = (asyncpg.DataError, asyncpg.IntegrityConstraintViolationError, asyncpg.ProgramLimitExceededError)
_AT, _DURATION = 1 + FORWARDED.index("at"), 1 + FORWARDED.index("duration_ms")


class _Changed(Exception):
    """Rows were deleted from the file while being copied, as `tandem keys forget` does."""


class Forwarder:
    """Copies one ledger. Of several processes on one file, one does so at a time."""

    def __init__(self, terms: PostgresTerms, ledger: SqliteWriter, *, keep_days: int) -> None:
        self._terms = replace(terms.waiting(_LEAST_SECONDS), connections=2)
        self._ledger, self._keep_seconds = ledger, keep_days * _DAY
        self._rows = RowReader(ledger.path)
        ledger.watch(self._rows)
        ledger.attach(self, lambda _: False)  # keeps the file open until the last rows are copied
        self._home = ""
        self._most = _BATCH_ROWS
        self._failed_at: float | None = None
        self._tidied_at = -_TIDY_SECONDS
        self._thread: threading.Thread | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stop = threading.Event()
        self._stopping = asyncio.Event()
        self._ended: Future[None] = Future()
        self.copied = 0
        self.waiting_since: float | None = None
        """End of the oldest uncopied request, in seconds since 1970; None where all are copied."""

    @property
    def lag_seconds(self) -> float:
        """Thread-safe."""
        since = self.waiting_since
        return max(0.0, time.time() - since) if since is not None else 0.0

    def start(self) -> None:
        self._thread = threading.Thread(target=self._work, name="copy the ledger", daemon=True)
        self._thread.start()

    async def close(self) -> None:
        if self._thread is not None:
            self._stop.set()
            with contextlib.suppress(RuntimeError):  # already ended
                if self._loop is not None:
                    self._loop.call_soon_threadsafe(self._stopping.set)
            await asyncio.wait([asyncio.wrap_future(self._ended)], timeout=2 * _LAST_SECONDS)
        await self._ledger.detach(self)

    # In the thread.

    def _work(self) -> None:
        try:
            asyncio.run(self._run())
        finally:
            self._rows.close()
            self._ended.set_result(None)

    async def _run(self) -> None:
        self._loop = asyncio.get_running_loop()
        link = Link(self._terms, self._note_lost)
        try:
            with contextlib.ExitStack() as stack:
                while not self._stop.is_set() and not self._own_the_file(stack):
                    await self._pause(_RETRY_SECONDS)
                while not self._stop.is_set():
                    await self._pause(await self._take_a_step(link))
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(_LAST_SECONDS):
                        while await self._take_a_step(link) == 0.0:
                            pass
        finally:
            await link.close()

    def _own_the_file(self, stack: contextlib.ExitStack) -> bool:
        path = self._ledger.path
        try:
            stack.callback(FileLock(path.with_name(f"{path.name}.copy")).release)
        except StoreInUse:
            return False  # another process copies this file
        except StoreUnusable:
            pass  # no lock possible: rows sent twice are ignored
        return True

    async def _pause(self, seconds: float) -> None:
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._stopping.wait(), seconds)

    async def _take_a_step(self, link: Link) -> float:
        """Returns the pause before the next step."""
        try:
            if not self._home:
                await self._begin(link)
            is_more = await self._copy(link)
            await self._tidy(link)
        except _Changed:
            return 0.0
        except Exception as error:  # noqa: BLE001  whatever it is, the rows wait in the file, and must not wait for a restart
            if not isinstance(error, FAILURES):
                link.note_failure(error)
            self._home = ""
            self._most = max(1, self._most // 2)
            return _RETRY_SECONDS
        self._note_success()
        return 0.0 if is_more else _LOOK_SECONDS

    def _note_lost(self, reason: str) -> None:
        self._failed_at = self._failed_at or time.monotonic()
        events.store_lost(store="postgres", reason=reason)

    def _note_success(self) -> None:
        if self._failed_at is not None:
            events.store_back(store="postgres", seconds=round(time.monotonic() - self._failed_at, 1))
            self._failed_at = None

    async def _begin(self, link: Link) -> None:
        self._note_waiting(self._rows.read(lambda database: read_next(database, self._read_mark(database).sequence, 1)))
        async with link.borrow() as connection:
            self._home, now = await entry_rows.read_home(connection)
        if abs(ahead := now - time.time()) >= _CLOCK_SECONDS:
            events.clock_differs(store="postgres", seconds=round(ahead, 1))

    def _read_mark(self, database: sqlite3.Connection) -> Mark:
        """Zero for a database it was not copied to before."""
        mark = read_mark(database)
        return mark if mark.home == self._home or not self._home else Mark(self._home)

    async def _copy(self, link: Link) -> bool:
        """Returns whether there may be more."""
        after = self._rows.read(self._read_mark).sequence
        rows = self._rows.read(lambda database: read_next(database, after, self._most))
        self._note_waiting(rows)
        if not rows:
            return False
        good = [row[1:] for row in rows]
        if unfit := entry_rows.find_unfit(good):
            good = [row for place, row in enumerate(good) if place not in unfit]
        if good and not await self._send(link, good, after, rows):
            if len(rows) > 1:
                self._most = 1  # until the refused row is found
                return True
            good = []
        mark, refused = Mark(self._home, rows[-1][0]), len(rows) - len(good)
        await asyncio.wrap_future(self._ledger.submit(lambda database: keep_mark(database, mark, rows[-1][1], refused)))
        self._most = min(_BATCH_ROWS, self._most * 2)
        self.copied += len(good)
        if refused:
            events.ledger_uncopied(reason="refused", rows=refused)
        return True

    async def _send(self, link: Link, good: Sequence[Sequence[Any]], after: int, rows: Sequence[tuple[Any, ...]]) -> bool:
        """Write rows to the database. False where it refuses one.

        `tandem keys forget` deletes rows in the file, then in the database once no copy is under way, so the file is checked
        again before the commit. Raises `_Changed` where rows are gone from it.
        """
        sent, is_changed = [row[1] for row in rows], False
        async with link.borrow() as connection:
            try:
                async with connection.transaction():
                    await entry_rows.insert(connection, good)
                    if is_changed := self._rows.read(lambda database: read_ids(database, after, rows[-1][0])) != sent:
                        raise _Changed
            except _REFUSED:
                return False
            except _Changed:
                pass  # rolled back; the connection is still usable
        if is_changed:
            raise _Changed
        return True

    def _note_waiting(self, rows: Sequence[tuple[Any, ...]]) -> None:
        first = rows[0] if rows else None
        if first is None or not isinstance(first[_AT], float):
            self.waiting_since = None
        else:
            self.waiting_since = first[_AT] + (first[_DURATION] if isinstance(first[_DURATION], float) else 0.0) / 1_000

    async def _tidy(self, link: Link) -> None:
        """Delete expired rows hourly, by the earlier of both clocks, so that one running fast deletes nothing."""
        if time.monotonic() < self._tidied_at + _TIDY_SECONDS:
            return
        is_more = True
        while is_more:
            async with link.borrow() as connection:
                _, now = await entry_rows.read_home(connection)
                oldest = min(now, time.time()) - self._keep_seconds
                is_more = await entry_rows.forget_old(connection, oldest, _DELETED_AT_ONCE)
        self._tidied_at = time.monotonic()
