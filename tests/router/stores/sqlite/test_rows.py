"""A batch of rows: whole where it can be, without the bad ones where not, and untouched where the file is at fault."""

import sqlite3
from contextlib import closing

import pytest

from router.stores.sqlite.rows import Row, write_rows

ADD = "INSERT INTO a VALUES (?)"
OTHER = "INSERT INTO b VALUES (?)"


@pytest.fixture
def database(tmp_path):
    with closing(sqlite3.connect(tmp_path / "a.db", isolation_level=None, timeout=0.01)) as one:
        one.executescript("CREATE TABLE a (x NOT NULL); CREATE TABLE b (x);")
        yield one


def read(database, table: str = "a") -> list:
    return [value for (value,) in database.execute(f"SELECT x FROM {table} ORDER BY rowid")]


def test_rows_of_several_statements_are_written_in_their_order(database):
    rows = [Row(ADD, (1,), 0), Row(OTHER, (2,), 0), Row(ADD, (3,), 0), Row(ADD, (4,), 0)]

    assert write_rows(database, rows) == []

    assert (read(database), read(database, "b")) == ([1, 3, 4], [2])


def test_what_is_refused_is_answered_and_all_else_is_written_once(database):
    bad = [1 << 70, "\ud800", object(), None]

    refused = write_rows(database, [Row(ADD, (value,), 0) for value in (1, *bad, 2)])

    kinds = ["OverflowError", "UnicodeEncodeError", "ProgrammingError", "IntegrityError"]
    assert [type(error).__name__ for error in refused] == kinds
    assert read(database) == [1, 2]


@pytest.mark.parametrize("values", [(1,), (None,)], ids=["good", "bad"])
def test_where_the_file_is_locked_nothing_is_written_and_nothing_refused(database, tmp_path, values):
    with closing(sqlite3.connect(tmp_path / "a.db", isolation_level=None)) as other:
        other.execute("BEGIN EXCLUSIVE")
        with pytest.raises(sqlite3.OperationalError, match="locked"):
            write_rows(database, [Row(ADD, values, 0)])

    assert not database.in_transaction
    assert read(database) == []


def test_a_file_that_becomes_full_within_a_batch_keeps_none_of_it(database):
    pages = database.execute("PRAGMA page_count").fetchone()[0]
    database.execute(f"PRAGMA max_page_count = {pages}")

    with pytest.raises(sqlite3.OperationalError, match="full"):
        write_rows(database, [Row(ADD, (1,), 0), Row(ADD, ("x" * 100_000,), 0)])

    assert not database.in_transaction
    assert read(database) == []
