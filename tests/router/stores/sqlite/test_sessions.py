"""Sessions on SQLite: in the ledger's own file, with the ledger's own writer."""

import asyncio
import sqlite3
import time
from contextlib import closing

from tests.tools.kept import open_sessions
from tests.tools.sessions import save
from tests.tools.waiting import until

DAY = 86_400.0


def read_keys(path) -> list[str]:
    with closing(sqlite3.connect(path)) as database:
        return [key for (key,) in database.execute("SELECT key FROM sessions ORDER BY key")]


async def test_a_record_that_waits_is_answered_while_the_file_cannot_be_written(tmp_path):
    failures = []
    sessions = open_sessions(tmp_path / "a.db", failures)
    with closing(sqlite3.connect(tmp_path / "a.db", isolation_level=None)) as other:
        other.execute("BEGIN EXCLUSIVE")
        await save(sessions, "a", time.time(), b"1")

        assert (await sessions.load("a")).state == b"1"
        assert (await sessions.load("b")).state is None
        other.execute("ROLLBACK")

    await sessions.close()
    assert read_keys(tmp_path / "a.db") == ["a"]


async def test_after_thirty_days_a_session_is_forgotten(tmp_path):
    first = open_sessions(tmp_path / "a.db", [])
    await save(first, "new", time.time(), b"1")
    await first.close()
    with closing(sqlite3.connect(tmp_path / "a.db")) as database, database:
        database.execute("INSERT INTO sessions VALUES ('old', ?, x'01')", (time.time() - 31 * DAY,))

    again = open_sessions(tmp_path / "a.db", [])

    await until(lambda: read_keys(tmp_path / "a.db") == ["new"])
    assert (await again.load("new")).state == b"1"
    await again.close()


def insert(path, key: str) -> None:
    with closing(sqlite3.connect(path)) as database, database:
        database.execute("INSERT INTO sessions VALUES (?, ?, x'01')", (key, time.time()))


async def until_listed(sessions, path) -> None:
    """Until keys that this process did not write are not looked up any more."""
    number, is_looked_up = 0, True
    async with asyncio.timeout(30):
        while is_looked_up:
            insert(path, key := f"foreign-{(number := number + 1)}")
            is_looked_up = (await sessions.load(key)).state is not None
            await asyncio.sleep(0.01)


async def test_once_its_keys_are_listed_the_file_is_not_read_for_a_new_session(tmp_path):
    first = open_sessions(tmp_path / "a.db", [])
    keys = [f"session-{number}" for number in range(300)]
    for key in keys:
        await save(first, key, time.time(), key.encode())
    await first.close()

    again = open_sessions(tmp_path / "a.db", [])
    await until_listed(again, tmp_path / "a.db")

    assert [(await again.load(key)).state for key in keys] == [key.encode() for key in keys]
    await again.close()


async def test_what_was_written_since_the_keys_were_listed_is_found(tmp_path):
    sessions = open_sessions(tmp_path / "a.db", [])
    await until_listed(sessions, tmp_path / "a.db")

    await save(sessions, "a", time.time(), b"1")
    await until(lambda: "a" in read_keys(tmp_path / "a.db"))

    assert (await sessions.load("a")).state == b"1"
    await sessions.close()


async def test_the_keys_of_a_file_that_took_the_place_of_another_are_looked_up(tmp_path):
    sessions = open_sessions(tmp_path / "a.db", [])
    await until_listed(sessions, tmp_path / "a.db")
    with closing(sqlite3.connect(tmp_path / "a.db")) as database, closing(sqlite3.connect(tmp_path / "b.db")) as other:
        database.backup(other)
    insert(tmp_path / "b.db", "restored")

    for ending in ("-wal", "-shm"):
        (tmp_path / f"a.db{ending}").unlink(missing_ok=True)
    (tmp_path / "b.db").replace(tmp_path / "a.db")
    await save(sessions, "a", time.time(), b"1")
    await until(lambda: "a" in read_keys(tmp_path / "a.db"))

    assert (await sessions.load("restored")).state == b"\x01"
    await sessions.close()
