"""Giving the room of deleted rows back to the disk, in small steps beside traffic.

That needs a file with a map of its pages (`auto_vacuum = INCREMENTAL`). New files have one; a file without one, from before
0.4.0, gets one when `tandem ledger compact` rewrites it.
"""

import contextlib
import sqlite3
import time
from pathlib import Path
from typing import NamedTuple

from router.contract.stores import StoreUnusable
from router.stores.sqlite.files import connect, is_full
from router.stores.sqlite.lock import FileLock, find_owner
from router.telemetry import events

MAPPED = "PRAGMA auto_vacuum = INCREMENTAL"
"""Of a new file, or of one that is rewritten."""
_INCREMENTAL = 2
_STEP_PAGES = 256
"""A megabyte, in some tens of milliseconds: rows do not wait for long."""
_WORTH_BYTES = 16 << 20
"""Less is left for the next rows."""
_PAUSE_SECONDS = 0.1
"""Between steps next to a router, so that it can write."""


class Pages(NamedTuple):
    total: int
    free: int
    size: int
    is_mapped: bool

    @property
    def total_bytes(self) -> int:
        return self.total * self.size

    @property
    def free_bytes(self) -> int:
        return self.free * self.size

    @property
    def are_worth_freeing(self) -> bool:
        return self.free * 2 > self.total and self.free_bytes > _WORTH_BYTES


def read_pages(database: sqlite3.Connection) -> Pages:
    names = ("page_count", "freelist_count", "page_size", "auto_vacuum")
    total, free, size, mode = (int(database.execute(f"PRAGMA {name}").fetchone()[0]) for name in names)
    return Pages(total, free, size, mode == _INCREMENTAL)


def free_some(database: sqlite3.Connection) -> bool:
    """Give some free pages back. Returns whether there are more."""
    database.executescript(f"PRAGMA incremental_vacuum({_STEP_PAGES})")  # `execute` would free one page
    pages = read_pages(database)
    return pages.is_mapped and pages.free > 0


def rewrite(database: sqlite3.Connection) -> None:
    """Write the whole file again, without free pages and with a map. Others cannot write meanwhile."""
    database.execute(MAPPED)
    database.execute("VACUUM")
    database.execute("PRAGMA wal_checkpoint(TRUNCATE)")


def shrink(path: Path) -> tuple[int, int]:
    """Free all that is free; returns the bytes before and after.

    Raises `StoreInUse` for a file without a map that a router has open, and `StoreUnusable`.
    """
    try:
        with contextlib.closing(connect(path)) as database:
            before = read_pages(database)
            if before.is_mapped:
                while free_some(database):
                    if find_owner(path) is not None:
                        time.sleep(_PAUSE_SECONDS)
            else:
                lock = FileLock(path)
                try:
                    rewrite(database)
                finally:
                    lock.release()
            database.execute("PRAGMA wal_checkpoint(TRUNCATE)")
            return before.total_bytes, read_pages(database).total_bytes
    except sqlite3.Error as error:
        why = "the disk is full, and a file that is rewritten needs room for its rows" if is_full(error) else str(error)
        raise StoreUnusable(f"{path}: {why}") from error


class Compaction:
    """Shrinks a file of which more than half is free, a step at a time."""

    def __init__(self, file: str) -> None:
        self._file, self._began_with = file, 0

    def __call__(self, database: sqlite3.Connection) -> bool:
        """Returns whether there is more to do."""
        pages = read_pages(database)
        if not pages.is_mapped or not (self._began_with or pages.are_worth_freeing):
            return False
        self._began_with = self._began_with or pages.total
        if free_some(database):
            return True
        database.execute("PRAGMA wal_checkpoint(PASSIVE)")  # only then is the file shorter
        freed = (self._began_with - read_pages(database).total) * pages.size
        events.store_compacted(file=self._file, megabytes=freed // 1_000_000)
        self._began_with = 0
        return False
