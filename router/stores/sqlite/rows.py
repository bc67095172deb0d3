"""Row batches in one transaction; a row SQLite refuses costs no other."""

import contextlib
import sqlite3
from collections import defaultdict
from collections.abc import Iterator, Sequence

from msgspec import Struct

from router.stores.sqlite.files import FAILURES

_ROW_CODES = (
    sqlite3.SQLITE_ERROR,
    sqlite3.SQLITE_TOOBIG,
    sqlite3.SQLITE_CONSTRAINT,
    sqlite3.SQLITE_MISMATCH,
    sqlite3.SQLITE_MISUSE,
    sqlite3.SQLITE_RANGE,
)
"""Codes that blame the statement or its values. Others are the file's state, which may pass."""


class Row(Struct, frozen=True):
    """A row to write. With a key, the last values count."""

    statement: str
    values: tuple[object, ...]
    size: int
    key: str | None = None


def write_rows(database: sqlite3.Connection, rows: Sequence[Row]) -> list[Exception]:
    """Returns the errors of refused rows. Raises, writing none, if the file is at fault."""
    try:
        _insert(database, rows)
    except Exception as error:
        if is_of_the_file(error):
            raise
        return _insert_one_by_one(database, rows)
    return []


def _insert(database: sqlite3.Connection, rows: Sequence[Row]) -> None:
    """Runs each statement once, with its rows in order. No two statements write to one table."""
    values: defaultdict[str, list[tuple[object, ...]]] = defaultdict(list)
    for row in rows:
        values[row.statement].append(row.values)
    with transaction(database):
        for statement, group in values.items():
            database.executemany(statement, group)


def _insert_one_by_one(database: sqlite3.Connection, rows: Sequence[Row]) -> list[Exception]:
    refused: list[Exception] = []
    with transaction(database):
        for row in rows:
            try:
                database.execute(row.statement, row.values)
            except Exception as error:
                if is_of_the_file(error):
                    raise
                refused.append(error)
    return refused


@contextlib.contextmanager
def transaction(database: sqlite3.Connection) -> Iterator[None]:
    """An exclusive transaction."""
    database.execute("BEGIN IMMEDIATE")
    try:
        yield
        database.execute("COMMIT")
    except BaseException:
        if database.in_transaction:
            database.execute("ROLLBACK")
        raise


def is_of_the_file(error: Exception) -> bool:
    """Whether the file is at fault, so that a retry may succeed."""
    if isinstance(error, sqlite3.Error):
        code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_MISUSE)  # absent where Python itself refuses a value
        return code & 0xFF not in _ROW_CODES
    return isinstance(error, FAILURES)
