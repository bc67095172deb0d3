"""Deleting a caller's rows from files of every schema, and from files that others use."""

import os
import sqlite3
from contextlib import closing

import pytest

from router.contract.caller import Caller
from router.contract.stores import StoreUnusable
from router.stores.sqlite.forget import forget_caller, forget_in_copies
from router.stores.sqlite.migrate import prepare
from router.stores.sqlite.schemas import LEDGER
from tests.router.stores.two_callers import ask, found_in, write_two

ADA = Caller("ada")


@pytest.mark.parametrize("version", range(LEDGER.oldest, LEDGER.newest))
def test_copies_of_every_schema_are_searched_and_keep_their_age(tmp_path, version):
    path, copy = write_two(tmp_path / "test.db"), tmp_path / f"test.db.before-{version + 1}"
    copy.touch()
    prepare(copy, LEDGER.up_to(version))
    with closing(sqlite3.connect(copy)) as database, database:
        database.execute("ATTACH ? AS source", (str(path),))
        names = ", ".join(name for (name,) in database.execute("SELECT name FROM pragma_table_info('entries', 'main')"))
        database.execute(f"INSERT INTO entries ({names}) SELECT {names} FROM source.entries")
        database.execute("INSERT INTO misjudged (request_id, at, should_be) SELECT * FROM source.misjudged")
    os.utime(copy, (1_000_000, 1_000_000))

    forget_caller(path, ADA)
    (kept,) = forget_in_copies(path, ADA)

    assert kept.rows["requests"] == 20
    assert kept.rows["marks"] == 1
    assert found_in(tmp_path) == []
    assert ask(copy, "SELECT count(*), min(caller) FROM entries") == [(20, "bob")]
    assert copy.stat().st_mtime == 1_000_000


def test_a_copy_from_before_the_first_release_is_named(tmp_path):
    path, copy = write_two(tmp_path / "test.db"), write_two(tmp_path / "test.db.before-6")
    with closing(sqlite3.connect(copy)) as database:
        database.execute("PRAGMA user_version = 5")

    (kept,) = forget_in_copies(path, ADA)

    assert kept.problem.startswith(f"{copy.name} was written by a Tandem before 0.4.0")
    assert kept.problem.endswith(": delete it")


def test_a_ledger_that_is_locked_is_left_whole(tmp_path, monkeypatch):
    monkeypatch.setattr("router.stores.sqlite.forget._LOCK_SECONDS", 0.01)
    path = write_two(tmp_path / "test.db")
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(StoreUnusable, match="nothing was deleted: database is locked"):
            forget_caller(path, ADA)

    assert ask(path, "SELECT count(*) FROM entries") == [(40,)]


def test_a_reader_that_holds_the_log_is_told_of(tmp_path, monkeypatch):
    monkeypatch.setattr("router.stores.sqlite.forget._LOCK_SECONDS", 0.01)
    path = write_two(tmp_path / "test.db")
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN")
        other.execute("SELECT count(*) FROM entries").fetchone()
        kept = forget_caller(path, ADA)

    assert "may still be in the log" in kept.problem
    assert ask(path, "SELECT count(*) FROM entries") == [(20,)]
