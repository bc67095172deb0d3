"""The state of a file: its size, its rows and their ages, and the copies next to it."""

import contextlib
import sqlite3
from pathlib import Path
from typing import NamedTuple

from router.stores.sqlite import hours, turn_worth
from router.stores.sqlite.compact import Pages, read_pages
from router.stores.sqlite.files import WRITE_SECONDS, connect_to_read, has_closed_log, say_unreadable, side_files
from router.stores.sqlite.migrate import UPKEEP
from router.stores.sqlite.schemas import find_copies, read_tables, read_version

_DATED = ("entries", "transcripts", "jobs")
"""The main table of each kind of file."""
_UNCOUNTED = (UPKEEP, *hours.DERIVED, *turn_worth.DERIVED, "settled", "folded", "summed_spans")


class CopyState(NamedTuple):
    path: Path
    size: int
    at: float


class FileState(NamedTuple):
    path: Path
    log_bytes: int
    copies: list[CopyState]
    pages: Pages | None = None
    schema: int = 0
    rows: tuple[tuple[str, int], ...] = ()
    """By table."""
    oldest: float | None = None
    newest: float | None = None
    problem: str = ""
    """Why it cannot be read. With figures nevertheless, they are without the rows in its log."""


def look_at_file(path: Path) -> FileState:
    log = side_files(path)[0]
    found = FileState(path, log.stat().st_size if log.exists() else 0, [measure_copy(copy) for copy in find_copies(path)])
    try:
        return _read(found, connect_to_read(path, WRITE_SECONDS))
    except sqlite3.Error as error:
        found = found._replace(problem=say_unreadable(path, error))
        if has_closed_log(path, error):
            with contextlib.suppress(sqlite3.Error):
                return _read(found, connect_to_read(path, WRITE_SECONDS, without_log=True))
        return found


def _read(found: FileState, database: sqlite3.Connection) -> FileState:
    with contextlib.closing(database):
        oldest, newest = _read_ages(database)
        rows = tuple(count_tables(database).items())
        return found._replace(
            pages=read_pages(database), schema=read_version(database), rows=rows, oldest=oldest, newest=newest
        )


def measure_copy(path: Path) -> CopyState:
    return CopyState(path, (there := path.stat()).st_size, there.st_mtime)


def count_tables(database: sqlite3.Connection) -> dict[str, int]:
    count = 'SELECT count(*) FROM "{}"'.format
    return {
        table: int(database.execute(count(table)).fetchone()[0]) for table in read_tables(database) if table not in _UNCOUNTED
    }


def _read_ages(database: sqlite3.Connection) -> tuple[float | None, float | None]:
    table = next((name for name in _DATED if name in read_tables(database)), None)
    if table is None:
        return None, None
    oldest, newest = database.execute(f"SELECT min(at), max(at) FROM {table}").fetchone()  # noqa: S608  ours
    return oldest, newest
