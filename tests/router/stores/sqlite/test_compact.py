"""Room of deleted rows goes back to the disk, next to a writer that keeps writing."""

import os
import sqlite3
from contextlib import closing

import pytest

from router.stores.sqlite import compact
from router.stores.sqlite.compact import Compaction, free_some, read_pages
from router.stores.sqlite.files import connect, create_private
from router.stores.sqlite.migrate import prepare
from router.stores.sqlite.rows import Row
from router.stores.sqlite.schemas import LEDGER
from router.stores.sqlite.writer import SqliteWriter
from tests.tools.ledgers import write_ledger
from tests.tools.waiting import until

FILL = "INSERT INTO sessions (key, at, state) VALUES (?, 1.0, zeroblob(100000))"


def fill(path, rows):
    with closing(connect(path)) as database:
        database.executemany(FILL, [(f"req_{number}",) for number in range(rows)])


def look(path):
    with closing(connect(path)) as database:
        return read_pages(database)


@pytest.fixture
def path(tmp_path):
    return write_ledger(tmp_path / "a.db")


def test_a_new_file_can_shrink(path):
    assert look(path).is_mapped


def test_a_step_gives_a_megabyte_back_and_the_last_one_ends_it(path):
    fill(path, 30)
    with closing(connect(path)) as database:
        database.execute("DELETE FROM sessions")
        free = read_pages(database).free

        assert free_some(database)
        assert free - read_pages(database).free == 256
        while free_some(database):
            pass

        assert read_pages(database).free == 0
        assert database.execute("PRAGMA integrity_check").fetchone() == ("ok",)


def test_a_file_of_which_less_than_half_is_free_is_left_alone(path):
    fill(path, 500)
    with closing(connect(path)) as database:
        database.execute("DELETE FROM sessions WHERE CAST(substr(key, 5) AS INTEGER) < 240")

        assert read_pages(database).free_bytes > 20_000_000
        assert not Compaction("a.db")(database)
        assert read_pages(database).free_bytes > 20_000_000


async def test_a_writer_shrinks_its_file_after_old_rows_were_deleted_and_loses_none_meanwhile(tmp_path, monkeypatch):
    path = tmp_path / "a.db"
    done = list[dict]()
    monkeypatch.setattr("router.stores.sqlite.writer._COMPACTION_SECONDS", 0.0)
    monkeypatch.setattr(compact.events, "store_compacted", lambda **said: done.append(said))
    writer = SqliteWriter(path, LEDGER, on_failure=lambda kind, lost: None, batch_seconds=0.01)
    fill(path, 400)
    large = look(path).total

    def delete(database):
        database.execute("DELETE FROM sessions WHERE key IN (SELECT key FROM sessions WHERE key < 'x' LIMIT 99)")
        return database.execute("SELECT count(*) FROM sessions WHERE key < 'x'").fetchone() != (0,)

    writer.attach(store := object(), delete)
    number = 0
    while not done:
        writer.append(Row(FILL.replace("100000", "10"), (f"x_{number}",), 100))
        number += 1
        await until(lambda: not writer.waiting_rows)
    small = path.stat().st_size
    await writer.detach(store)

    assert large * 4096 > 40_000_000 > 10 * small
    assert done[0]["megabytes"] >= 39
    with closing(sqlite3.connect(path)) as database:
        assert database.execute("SELECT count(*) FROM sessions WHERE key LIKE 'x%'").fetchone() == (number,)
        assert database.execute("PRAGMA integrity_check").fetchone() == ("ok",)


def test_the_log_does_not_stay_as_large_as_it_was(tmp_path):
    create_private(path := tmp_path / "a.db")
    prepare(path, LEDGER)
    with closing(connect(path)) as database, closing(connect(path)) as reader:
        reader.execute("BEGIN")
        reader.execute("SELECT count(*) FROM entries").fetchone()
        database.executemany(
            FILL, [(f"req_{number}",) for number in range(300)]
        )  # the reader keeps the log from being used again
        assert os.path.getsize(f"{path}-wal") > 30_000_000
        reader.execute("COMMIT")
        for number in range(2):
            database.execute(FILL, (f"more_{number}",))

        assert os.path.getsize(f"{path}-wal") <= 16 << 20
