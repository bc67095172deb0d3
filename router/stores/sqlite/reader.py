"""Keyed reads of a file while its writer writes. In WAL mode they never wait for the writer."""

import asyncio
import contextlib
import sqlite3
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypeVar

from router.contract.stores import StoreUnusable
from router.stores.sqlite.files import READ_SECONDS, cause_of, connect_to_read, inode_of

Result = TypeVar("Result")


class RowReader:
    """Reads single rows. The writer may close the connection between reads (`held_shut`)."""

    def __init__(self, path: Path, *, lock_seconds: float = READ_SECONDS) -> None:
        self._path, self._lock_seconds = path, lock_seconds
        self._database: sqlite3.Connection | None = None
        self._inode = 0
        self._lock = threading.Lock()
        self.times_shut = 0
        """How often the file was reopened, which may be another one since."""

    def find_row(self, statement: str, *values: object) -> tuple[Any, ...] | None:
        """The first row, or None. Raises `StoreUnusable`."""
        with self._lock:
            try:
                row: tuple[Any, ...] | None = self._open().execute(statement, values).fetchone()
            except UnicodeEncodeError:
                return None  # a lone surrogate: such a key cannot have been written
            except sqlite3.Error as error:
                raise self._give_up(error) from error
            return row

    def read(self, work: Callable[[sqlite3.Connection], Result]) -> Result:
        """Raises `StoreUnusable`."""
        with self._lock:
            try:
                return work(self._open())
            except sqlite3.Error as error:
                raise self._give_up(error) from error

    def close(self) -> None:
        with self._lock:
            self._close()

    @contextlib.contextmanager
    def held_shut(self) -> Iterator[None]:
        """Keep the file closed during the block."""
        with self._lock:
            self._close()
            self.times_shut += 1
            yield

    def _close(self) -> None:
        if self._database is not None:
            self._database.close()
            self._database = None

    def _give_up(self, error: sqlite3.Error) -> StoreUnusable:
        self._close()
        return StoreUnusable(f"{self._path.name} cannot be read: {cause_of(error, self._path)}")

    def _open(self) -> sqlite3.Connection:
        inode = inode_of(self._path)
        if inode != self._inode:
            self._close()
        if self._database is None:
            self._inode = inode
            self._database = connect_to_read(self._path, self._lock_seconds, one_thread=False)
        return self._database


class SqliteReader:
    """Reads rows of any size in a thread of its own, started on first use."""

    def __init__(self, path: Path) -> None:
        self.rows = RowReader(path)
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix=f"read {path.name}")
        self._is_closed = False

    async def find_row(self, statement: str, *values: object) -> tuple[Any, ...] | None:
        """Raises `StoreUnusable`."""
        if self._is_closed:
            return None
        return await asyncio.get_running_loop().run_in_executor(self._thread, self.rows.find_row, statement, *values)

    async def close(self) -> None:
        if not self._is_closed:
            self._is_closed = True
            await asyncio.get_running_loop().run_in_executor(self._thread, self.rows.close)
            self._thread.shutdown(wait=False)
