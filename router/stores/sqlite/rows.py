"""Rows into a file: a batch in one transaction, in which one that SQLite refuses costs no other."""

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
"""What SQLite answers where a statement or its values are at fault. All else is the file's state, which may pass."""


class Row(Struct, frozen=True):
    """One row to be written. With a key, the values are those that were put last under it."""

    statement: str
    values: tuple[object, ...]
    size: int
    key: str | None = None


def write_rows(database: sqlite3.Connection, rows: Sequence[Row]) -> list[Exception]:
    """Write all rows that can be written. Answers why the others cannot.

    Raises where the file is at fault: then none is written, and all may be later.
    """
    try:
        _insert(database, rows)
    except Exception as error:
        if is_of_the_file(error):
            raise
        return _insert_one_by_one(database, rows)
    return []


def _insert(database: sqlite3.Connection, rows: Sequence[Row]) -> None:
    """Each statement once, with all of its rows in their order. No two statements write to the same table."""
    values: defaultdict[str, list[tuple[object, ...]]] = defaultdict(list)
    for row in rows:
        values[row.statement].append(row.values)
    with transaction(database):
        for statement, group in values.items():
            database.executemany(statement, group)


def _insert_one_by_one(database: sqlite3.Connection, rows: Sequence[Row]) -> list[Exception]:
    """Write the rows that can be written. Answers why the others cannot."""
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
    """One transaction, whole or not at all, in which nobody else writes."""
    database.execute("BEGIN IMMEDIATE")
    try:
        yield
        database.execute("COMMIT")
    except BaseException:
        if database.in_transaction:
            database.execute("ROLLBACK")
        raise


def is_of_the_file(error: Exception) -> bool:
    """Whether the file is at fault, so that the same rows may be written later."""
    if isinstance(error, sqlite3.Error):
        code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_MISUSE)  # absent where Python itself refuses a value
        return code & 0xFF not in _ROW_CODES
    return isinstance(error, FAILURES)
