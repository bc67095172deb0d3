"""A file that is damaged is found, with a copy that can take its place."""

import contextlib
import os
import sqlite3
import time
from pathlib import Path

import pytest

from router.stores.sqlite.damage import StoreDamaged, find_damage, find_sound_copy
from router.stores.sqlite.migrate import prepare
from router.stores.sqlite.schemas import LEDGER, find_copies
from router.stores.sqlite.writer import SqliteWriter
from tests.tools.ledgers import write_ledger
from tests.tools.waiting import until

PAGE = 4_096


def spoil(path: Path, page: int = 1, size: int = PAGE // 2) -> Path:
    """Overwrite part of a page, as a failing disk does. The first page keeps its head, so that the file opens."""
    with path.open("r+b") as file:
        file.seek(page * PAGE)
        file.write(b"\xff" * size)
    return path


def write_rows(path: Path, rows: int = 200) -> Path:
    return write_ledger(path, *({"id": f"req_{number}"} for number in range(rows)))


def test_a_sound_file_has_no_damage(tmp_path):
    path = write_rows(tmp_path / "a.db")

    assert find_damage(path) == ""
    assert find_damage(path, in_full=True) == ""


@pytest.mark.parametrize("page", [1, 2, 5])
def test_a_page_that_was_overwritten_is_damage(tmp_path, page):
    path = spoil(write_rows(tmp_path / "a.db"), page)

    assert find_damage(path) != ""


def test_an_index_that_differs_from_its_table_is_found_in_full_only(tmp_path):
    path = write_rows(tmp_path / "a.db")
    with contextlib.closing(sqlite3.connect(path)) as database, database:
        database.execute("CREATE INDEX by_caller ON entries (caller)")
        database.execute("PRAGMA writable_schema = ON")
        database.execute("UPDATE sqlite_master SET sql = 'CREATE INDEX by_caller ON entries (model)' WHERE name = 'by_caller'")

    assert find_damage(path) == ""
    assert "by_caller" in find_damage(path, in_full=True)


def test_the_newest_copy_that_is_sound_is_named_with_the_command_that_uses_it(tmp_path):
    path = spoil(write_rows(tmp_path / "a.db"))
    for age, name in enumerate(("a.db.before-5", "a.db.before-4", "a.db.before-3")):
        os.utime(write_rows(tmp_path / name), (time.time() - age, time.time() - age))
    spoil(tmp_path / "a.db.before-5")
    (tmp_path / "a.db.before-6.part").write_bytes(b"")

    error = StoreDamaged(path, "wrong")

    assert [copy.name for copy in find_copies(path)] == ["a.db.before-5", "a.db.before-4", "a.db.before-3"]
    assert error.copy == find_sound_copy(path) == tmp_path / "a.db.before-4"
    assert os.system(error.hint.splitlines()[-1]) == 0
    assert find_damage(path) == ""
    assert (tmp_path / "a.db.damaged").is_file()


def test_without_a_copy_the_hint_moves_the_file_away(tmp_path):
    path = spoil(write_rows(tmp_path / "a file.db"))

    assert os.system(StoreDamaged(path, "wrong").hint.splitlines()[-1]) == 0
    assert [file.name for file in tmp_path.iterdir()] == ["a file.db.damaged"]


def test_a_damaged_file_is_neither_opened_for_writing_nor_left_locked(tmp_path):
    path = spoil(write_rows(tmp_path / "a.db"))

    for _ in range(2):
        with pytest.raises(StoreDamaged, match=r"a\.db is damaged: "):
            SqliteWriter(path, LEDGER, on_failure=lambda *_: None)

    assert not (tmp_path / "a.db.lock").exists()


def test_a_damaged_file_is_not_migrated_and_no_copy_of_it_is_made(tmp_path):
    path = tmp_path / "a.db"
    path.touch()
    prepare(path, LEDGER.up_to(LEDGER.oldest))
    with contextlib.closing(sqlite3.connect(path)) as database, database:
        database.execute("CREATE TABLE more (at, text)")
        database.executemany("INSERT INTO more VALUES (?, ?)", [(number, "x" * 500) for number in range(200)])
    spoil(path, 6)

    with pytest.raises(StoreDamaged):
        prepare(path, LEDGER)

    assert find_copies(path) == []


async def test_damage_of_a_file_that_is_too_large_to_be_checked_at_start_is_reported_when_it_is_met(tmp_path, monkeypatch):
    path, said = write_rows(tmp_path / "a.db"), []
    with contextlib.closing(sqlite3.connect(path)) as database:
        (root,) = database.execute("SELECT rootpage FROM sqlite_master WHERE name = 'entries'").fetchone()
    spoil(path, root - 1)
    monkeypatch.setattr("router.stores.sqlite.damage._CHECKED_BYTES", 0)
    writer = SqliteWriter(path, LEDGER, on_failure=lambda kind, lost: said.append((kind, lost)))
    writer.attach(path, lambda _: False)

    with pytest.raises(sqlite3.DatabaseError):
        await writer.run(
            lambda database: database.execute("SELECT count(*) FROM entries NOT INDEXED WHERE tier = ''").fetchone()
        )

    await until(lambda: said == [("Damaged", 0)])
    assert writer.failing is not None
    await writer.detach(path)
