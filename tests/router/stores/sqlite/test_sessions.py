"""Sessions on SQLite: in the ledger's own file, with the ledger's own writer."""

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
    await again.close()
