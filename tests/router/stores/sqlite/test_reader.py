"""Reading off the loop: of the file that is there now, and without waiting for whoever writes."""

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from router.contract.stores import StoreUnusable
from router.stores.sqlite.files import connect, create_private
from router.stores.sqlite.reader import RowReader, SqliteReader
from tests.tools.kept import remove_database

QUESTION = "SELECT x FROM a WHERE x = ?"


def write(path: Path, *values: int) -> None:
    create_private(path)
    with closing(connect(path)) as database:
        database.execute("PRAGMA journal_mode = WAL")
        database.execute("CREATE TABLE a (x)")
        database.executemany("INSERT INTO a VALUES (?)", [(value,) for value in values])


@pytest.fixture
async def reader(tmp_path):
    one = SqliteReader(tmp_path / "a.db")
    yield one
    await one.close()


async def test_reading_does_not_wait_for_whoever_writes(reader, tmp_path):
    write(tmp_path / "a.db", 1)
    with closing(sqlite3.connect(tmp_path / "a.db", isolation_level=None)) as other:
        other.execute("BEGIN EXCLUSIVE")
        other.execute("DELETE FROM a")

        assert await reader.find_row(QUESTION, 1) == (1,)


async def test_a_file_that_was_replaced_is_the_one_that_is_read(reader, tmp_path):
    write(tmp_path / "a.db", 1)
    assert await reader.find_row(QUESTION, 1) == (1,)
    remove_database(tmp_path / "a.db")
    with pytest.raises(StoreUnusable, match=r"a\.db cannot be read: unable to open database file"):
        await reader.find_row(QUESTION, 1)
    assert not (tmp_path / "a.db").exists()

    write(tmp_path / "a.db", 2)

    assert (await reader.find_row(QUESTION, 1), await reader.find_row(QUESTION, 2)) == (None, (2,))


async def test_a_file_that_cannot_be_read_says_why_and_may_recover(reader, tmp_path):
    (tmp_path / "a.db").write_bytes(b"not a database at all, but long enough to be read as one" * 20)
    with pytest.raises(StoreUnusable, match=r"a\.db cannot be read: file is not a database"):
        await reader.find_row(QUESTION, 1)
    (tmp_path / "a.db").unlink()

    write(tmp_path / "a.db", 1)

    assert await reader.find_row(QUESTION, 1) == (1,)


async def test_a_closed_reader_knows_nothing(reader, tmp_path):
    write(tmp_path / "a.db", 1)
    await reader.close()

    assert await reader.find_row(QUESTION, 1) is None


def test_more_rows_than_one_are_read_and_a_file_that_is_gone_is_said(tmp_path):
    path = tmp_path / "a.db"
    with closing(sqlite3.connect(path)) as database, database:
        database.executescript("CREATE TABLE things (name TEXT); INSERT INTO things VALUES ('a'), ('b')")
    reader = RowReader(path)

    assert reader.read(lambda database: database.execute("SELECT name FROM things").fetchall()) == [("a",), ("b",)]
    path.unlink()
    with pytest.raises(StoreUnusable, match=r"a\.db cannot be read"):
        reader.read(lambda database: database.execute("SELECT name FROM things").fetchall())
    reader.close()
