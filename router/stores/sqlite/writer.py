"""The only way to write to SQLite: one thread per file takes queued work in order, in batches.

Stores of one file share its writer. A locked or moved file delays the queue; a row SQLite refuses costs no other. A deleted log
is noticed before the next row. Losses are counted, and reported by `alarm`.
"""

import asyncio
import contextlib
import sqlite3
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import Any, Generic, TypeVar

from msgspec.structs import replace

from router.contract.stores import StoreUnusable
from router.stores.sqlite.alarm import OUTAGE, Alarm, Failing, OnFailure
from router.stores.sqlite.compact import Compaction
from router.stores.sqlite.files import (
    DAMAGED,
    FAILURES,
    RETRY_SECONDS,
    WRITE_SECONDS,
    Inodes,
    StoreUnwritable,
    cause_of,
    connect,
    count_rows,
    inodes_of,
    kind_of,
)
from router.stores.sqlite.migrate import OwnFile
from router.stores.sqlite.reader import RowReader
from router.stores.sqlite.rows import Row, transaction, write_rows
from router.stores.sqlite.schemas import Migrations

Result = TypeVar("Result")
Upkeep = Callable[[sqlite3.Connection], bool]
"""Deletes a few expired rows. Returns whether there are more."""

_MAX_ROWS = 50_000
_MAX_BYTES = 128 << 20
_BATCH_ROWS = 2_000
_BATCH_SECONDS = 0.15
"""From one batch's start to the next: with its own time, a row is on disk within 250 ms."""
_MAX_DOUBLINGS = 5
"""Of the pause between batches while the file fails."""
_UPKEEP_SECONDS = 3_600.0
_COMPACTION_SECONDS = 60.0
"""How often it is checked whether much of the file is free."""
_LAST_TRIES = 3
_CLOSE_SECONDS = 10.0
LOG_GONE = "LogGone"
"""The log (`-wal`) or its index (`-shm`) was deleted under an open file: rows may be lost."""


class _Job(Generic[Result]):
    __slots__ = ("future", "work")

    def __init__(self, work: Callable[[sqlite3.Connection], Result]) -> None:
        self.work = work
        self.future: Future[Result] = Future()

    def perform(self, database: sqlite3.Connection) -> Exception | None:
        """Passes an error to its caller, and returns it."""
        if self.future.set_running_or_notify_cancel():
            try:
                self.future.set_result(self.work(database))
            except Exception as error:  # noqa: BLE001  the writer must outlive it
                self.future.set_exception(error)
                return error
        return None

    def fail(self, error: Exception) -> None:
        if self.future.set_running_or_notify_cancel():
            self.future.set_exception(error)


class SqliteWriter:
    """Writes to one private file (0600). Batches are synced (`synchronous = FULL`) and survive a machine crash."""

    def __init__(
        self,
        path: Path,
        migrations: Migrations,
        *,
        on_failure: OnFailure,
        max_rows: int = _MAX_ROWS,
        max_bytes: int = _MAX_BYTES,
        batch_seconds: float = _BATCH_SECONDS,
        lock_seconds: float = WRITE_SECONDS,
        address: str = "",
    ) -> None:
        """Open or create the file. Raises `StoreInUse`, changing nothing, and `StoreDamaged`.

        Where the disk does not allow it now, it is tried again every few seconds, and rows wait.
        """
        self.path, self._alarm = path, Alarm(on_failure)
        self._max_rows, self._max_bytes = max_rows, max_bytes
        self._batch_seconds, self._lock_seconds = batch_seconds, lock_seconds
        self.lost = 0
        # The loop appends, the writer takes; each counts bytes in its own figure.
        self._queue: deque[Row | _Job[Any]] = deque()
        self._bytes_in = 0
        self._bytes_out = 0
        self._newest: dict[str, tuple[Any, ...]] = {}
        self._lock = threading.Lock()
        self._in_hand: list[Row] = []
        """Taken from the queue, not yet written."""
        self._users: dict[object, Upkeep] = {}
        self._next_upkeep: dict[object, float] = {}
        self._next_look = self._next_compaction = 0.0
        self._compact = Compaction(path.name)
        self._wake = threading.Event()
        self._is_closing = False
        self._database: sqlite3.Connection | None = None
        self._inodes = Inodes(0, 0, 0)
        self._readers: list[RowReader] = []
        self._had = 0
        """Rows seen through a connection whose log was deleted, until the file's are counted."""
        self._file = OwnFile(path, migrations, address)
        try:
            self._file.open()
        except StoreUnwritable as error:
            self._sound_outage(error)
        self._ended: Future[None] = Future()
        self._thread = threading.Thread(target=self._run, name=f"write {path.name}", daemon=True)
        self._thread.start()

    # In the loop's thread.

    def attach(self, store: object, upkeep: Upkeep) -> None:
        self._users[store] = upkeep

    def watch(self, reader: RowReader) -> None:
        """Add a reader that must close before the file is reopened after its log was deleted."""
        self._readers.append(reader)

    async def detach(self, store: object) -> None:
        """Stops with the last store."""
        self._users.pop(store, None)
        if not self._users:
            await self._close()
        elif not self._is_closing:
            with contextlib.suppress(*FAILURES):
                await self.run(lambda _: None)

    def append(self, *rows: Row) -> bool:
        """False without room: rows are lost, and counted."""
        queue, waiting = self._queue, len(self._queue)
        if (
            self._is_closing
            or waiting + len(self._in_hand) >= self._max_rows
            or self._bytes_in - self._bytes_out > self._max_bytes
        ):
            self._refuse(len(rows))
            return False
        for row in rows:
            self._bytes_in += row.size
        queue.extend(rows)
        if waiting < _BATCH_ROWS <= len(queue):
            self._wake.set()
        return True

    @property
    def waiting_rows(self) -> int:
        return len(self._queue) + len(self._in_hand)

    def put(self, statement: str, key: str, values: tuple[object, ...], size: int) -> None:
        """Replaces a waiting row of this key."""
        with self._lock:
            is_waiting = key in self._newest
            self._newest[key] = values
        if not is_waiting and not self.append(Row(statement, values, size, key)):
            with self._lock:
                del self._newest[key]

    def find_waiting(self, key: str) -> tuple[Any, ...] | None:
        return self._newest.get(key)

    async def run(self, work: Callable[[sqlite3.Connection], Result]) -> Result:
        """Runs after everything queued. Raises one of `FAILURES`."""
        return await asyncio.wrap_future(self.submit(work))

    def submit(self, work: Callable[[sqlite3.Connection], Result]) -> Future[Result]:
        if self._is_closing:
            raise StoreUnusable(f"{self.path.name} is closed")
        job: _Job[Result] = _Job(work)
        self._queue.append(job)
        self._wake.set()
        return job.future

    @property
    def was_open(self) -> bool:
        """Whether the file could be opened since the start."""
        return self._file.was_open

    def check_written(self) -> None:
        """Raise `StoreUnusable` during an outage: a row that is not on disk may be waiting."""
        if (failing := self._alarm.failing) is not None and failing.is_outage:
            raise StoreUnusable(f"{self.path.name} cannot be written to: {failing.cause}")

    def note_written(self) -> None:
        """End an outage. Called by work that wrote, in the writer's thread."""
        self._alarm.clear()

    @property
    def failing(self) -> Failing | None:
        """Thread-safe."""
        return self._alarm.failing

    def lose(self, kind: str) -> None:
        self._count_lost(1)
        self._alarm.sound(kind, self.lost)

    def _count_lost(self, rows: int) -> None:
        with self._lock:
            self.lost += rows

    def _refuse(self, rows: int) -> None:
        self._count_lost(rows)  # reported once for many by the writer's thread
        if self._is_closing:
            self._alarm.conclude("Closed", self.lost)

    async def _close(self) -> None:
        self._is_closing = True
        self._wake.set()
        done, _ = await asyncio.wait([asyncio.wrap_future(self._ended)], timeout=_CLOSE_SECONDS)
        if not done:
            self._count_lost(len(self._queue) + len(self._in_hand))
            self._alarm.conclude("TimeoutError", self.lost)

    # In the writer's thread.

    def _run(self) -> None:
        failures = 0
        tries_left = _LAST_TRIES
        began = time.monotonic()
        while tries_left:
            due = began + (self._batch_seconds if self._is_closing else min(self._batch_seconds * 2**failures, RETRY_SECONDS))
            self._wake.wait(max(0.0, due - time.monotonic()))
            self._wake.clear()
            is_closing, began = self._is_closing, time.monotonic()
            try:
                self._write_all()
                if not is_closing:
                    self._tidy()
                failures = 0
                self._alarm.remind(self.lost)
                tries_left = 0 if is_closing else _LAST_TRIES
            except Exception as error:  # noqa: BLE001  the writer must outlive a locked or vanished file
                failures = min(failures + 1, _MAX_DOUBLINGS)
                tries_left -= is_closing
                self._give_way(error)
        self._disconnect()
        self._end()

    def _write_all(self) -> None:
        """Each job runs after the rows before it."""
        while self._in_hand or self._queue:
            job = self._take()
            if self._in_hand:
                self._write(self._open(), self._in_hand[:_BATCH_ROWS])
            if job is not None and not self._in_hand:
                error = job.perform(self._open())
                self._queue.popleft()
                if isinstance(error, FAILURES):
                    self._disconnect()
                    self._sound_outage(error)

    def _take(self) -> _Job[Any] | None:
        """Take rows until a batch is full or a job is next, which stays queued until done."""
        queue, in_hand = self._queue, self._in_hand
        while queue:
            first = queue[0]
            if isinstance(first, _Job):
                return first
            if len(in_hand) >= _BATCH_ROWS:
                return None
            in_hand.append(first)
            queue.popleft()
        return None

    def _write(self, database: sqlite3.Connection, rows: Sequence[Row]) -> None:
        written = [row if row.key is None else replace(row, values=self._newest[row.key]) for row in rows]
        refused = write_rows(database, written)
        if refused:
            self._count_lost(len(refused))
            self._alarm.sound(type(refused[0]).__name__, self.lost)
        self._alarm.clear()
        del self._in_hand[: len(rows)]
        for row in written:
            self._bytes_out += row.size
            if row.key is not None:
                self._settle(row, row.key)

    def _settle(self, row: Row, key: str) -> None:
        """Forget a key's row, unless replaced during the write."""
        with self._lock:
            if self._newest[key] is row.values:
                del self._newest[key]
                return
        self._bytes_out -= row.size
        self._in_hand.append(row)

    def _tidy(self) -> None:
        now, failing = time.monotonic(), self._alarm.failing
        if failing is not None and failing.is_outage and failing.kind != DAMAGED:
            self._probe(self._open())
        if self._database is not None and now >= self._next_look:
            self._next_look = now + RETRY_SECONDS
            self._open()
        is_deleting = False
        for store, upkeep in list(self._users.items()):
            if now >= self._next_upkeep.get(store, now):
                is_more_left = self._upkeep(upkeep)
                self._next_upkeep[store] = now if is_more_left else now + _UPKEEP_SECONDS
                is_deleting |= is_more_left
        if now >= self._next_compaction and not is_deleting:
            self._next_compaction = now if self._upkeep(self._compact) else now + _COMPACTION_SECONDS

    def _upkeep(self, work: Upkeep) -> bool:
        """Whether there is more to do."""
        try:
            return work(self._open())
        except FAILURES as error:  # old rows cost room, not requests
            self._disconnect()
            self._sound_outage(error)
            return False

    def _probe(self, database: sqlite3.Connection) -> None:
        """End an outage as soon as something can be written, though no row waits."""
        with transaction(database):
            (version,) = database.execute("PRAGMA user_version").fetchone()
            database.execute(f"PRAGMA user_version = {version}")
        self._alarm.clear()

    def _open(self) -> sqlite3.Connection:
        """A file moved or replaced under it is reopened."""
        if self._database is not None and (found := inodes_of(self.path)) != self._inodes:
            is_moved = found.file != self._inodes.file
            self._had = 0 if is_moved else count_rows(self._database)
            self._let_go()
            if is_moved:
                self._alarm.sound("FileNotFoundError", self.lost)
        if self._database is None:
            self._file.open()
            self._database = connect(self.path, self._lock_seconds)
            self._database.execute("PRAGMA synchronous = FULL")
            self._database.execute("SELECT 1 FROM sqlite_master").fetchone()  # creates the side files
            self._inodes = inodes_of(self.path)
            if self._had:
                self._count_lost(max(0, self._had - count_rows(self._database)))
                self._had = 0
                self._alarm.sound(LOG_GONE, self.lost)
        return self._database

    def _let_go(self) -> None:
        """The last to close merges a deleted log into the file; one left open would pass on its index."""
        with contextlib.ExitStack() as stack:
            for reader in self._readers:
                stack.enter_context(reader.held_shut())
            self._disconnect()

    def _give_way(self, error: Exception) -> None:
        """The file fails: rows wait, jobs fail."""
        self._disconnect()
        self._sound_outage(error)
        self._fail_jobs(error)

    def _sound_outage(self, error: Exception) -> None:
        self._alarm.sound(kind_of(error), self.lost, OUTAGE, cause_of(error, self.path))

    def _fail_jobs(self, error: Exception) -> None:
        while self._queue:
            first = self._queue.popleft()
            if isinstance(first, _Job):
                first.fail(error)
            else:
                self._in_hand.append(first)

    def _disconnect(self) -> None:
        if self._database is not None:
            self._database.close()
            self._database = None

    def _end(self) -> None:
        self._fail_jobs(StoreUnusable(f"{self.path.name} is closed"))
        self._count_lost(len(self._in_hand))
        self._alarm.conclude("Closed", self.lost)
        with self._lock:
            self._newest.clear()
        self._file.release()
        self._ended.set_result(None)
