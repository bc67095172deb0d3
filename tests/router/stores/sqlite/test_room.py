"""The room that a migration needs is foreseen from a sample of the file."""

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from router.stores.sqlite.migrate import prepare
from router.stores.sqlite.room import foresee_room, page_bytes
from router.stores.sqlite.schemas import Migrations

TABLE = "CREATE TABLE entries (sequence INTEGER PRIMARY KEY, at REAL, caller TEXT, body TEXT);"
SPARE = 5 << 20
STEPS = {
    "nothing": "SELECT 1;",
    "an index": "CREATE INDEX wide ON entries (caller, at, body);",
    "a partial index": "CREATE INDEX few ON entries (caller) WHERE at > 15000;",
    "new columns and tables": "ALTER TABLE entries ADD COLUMN key TEXT;\nCREATE TABLE a (x);\nCREATE INDEX i ON a (x);",
    "all rows changed": "UPDATE entries SET body = body || '!';",
    "a few rows changed": "UPDATE entries SET body = body || '!' WHERE at < 3;",
    "a second table": "CREATE TABLE more (x TEXT);\nINSERT INTO more SELECT body FROM entries;",
}


def write(path: Path, rows: int) -> Path:
    with closing(sqlite3.connect(path, isolation_level=None)) as database:
        database.executescript(f"PRAGMA journal_mode = WAL; PRAGMA user_version = 1; {TABLE}")
        values = ((float(n), f"caller {n % 7}", f"{n} " + "x" * (n % 400)) for n in range(rows))
        database.execute("BEGIN")
        database.executemany("INSERT INTO entries (at, caller, body) VALUES (?, ?, ?)", values)
        database.execute("COMMIT")
    return path


@pytest.mark.parametrize("rows", [3, 1_500, 20_000])
@pytest.mark.parametrize("step", STEPS.values(), ids=STEPS)
def test_what_is_foreseen_covers_copy_growth_and_log_and_is_not_far_off(tmp_path, rows, step):
    path, migrations = write(tmp_path / "tandem.db", rows), Migrations(1, (TABLE, step))
    with closing(sqlite3.connect(path)) as database:
        size, foreseen = page_bytes(database), foresee_room(database, 1, migrations) - SPARE
    with closing(sqlite3.connect(path)) as held:  # keeps the log from being emptied
        held.execute("SELECT * FROM entries").fetchone()

        done = prepare(path, migrations)

        log = path.with_name("tandem.db-wal").stat().st_size
        growth = page_bytes(held) - size
    needed = done.copy.stat().st_size + growth + log
    assert needed <= foreseen * 1.02 + 200_000
    assert foreseen <= size + 3.5 * (growth + log) + 200_000
