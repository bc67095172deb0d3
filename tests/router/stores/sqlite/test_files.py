"""A database file: private from the first moment, and never made by whoever only opens it."""

import os
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from router.contract.stores import AskedTooMuch
from router.stores.sqlite.files import (
    StoreUnusable,
    StoreUnwritable,
    connect,
    connect_to_read,
    create_private,
    inode_of,
    make_private,
    open_ledger,
)
from tests.tools.ledgers import locks_on, write_ledger


def test_a_file_is_its_owners_alone_with_all_that_sqlite_puts_next_to_it(tmp_path):
    create_private(tmp_path / "deep" / "a.db")

    with closing(connect(tmp_path / "deep" / "a.db")) as database:
        database.execute("PRAGMA journal_mode = WAL")
        database.execute("CREATE TABLE a (x)")
        modes = {file.name: file.stat().st_mode & 0o777 for file in (tmp_path / "deep").iterdir()}

    assert modes == {"a.db": 0o600, "a.db-wal": 0o600, "a.db-shm": 0o600}


def test_a_file_that_others_could_read_is_taken_from_them(tmp_path):
    for name in ("a.db", "a.db-wal"):
        (tmp_path / name).touch(0o644)

    make_private(tmp_path / "a.db")

    assert [file.stat().st_mode & 0o777 for file in tmp_path.iterdir()] == [0o600, 0o600]


def test_a_file_that_is_there_is_left_as_it_is_until_it_is_known_to_be_ours(tmp_path):
    (tmp_path / "theirs").touch(0o644)
    (tmp_path / "a.db").symlink_to(tmp_path / "theirs")

    create_private(tmp_path / "a.db")

    assert inode_of(tmp_path / "a.db") == inode_of(tmp_path / "theirs")
    assert (tmp_path / "theirs").stat().st_mode & 0o777 == 0o644


def test_a_path_that_cannot_be_a_file_is_refused_by_name(tmp_path):
    with pytest.raises(StoreUnusable, match=f"{tmp_path.name} cannot be opened: Is a directory"):
        create_private(tmp_path)


def test_a_name_that_no_file_can_have_is_refused(tmp_path):
    with pytest.raises(StoreUnusable, match="cannot be opened: .*embedded null"):
        create_private(tmp_path / "a\0.db")


@pytest.mark.parametrize("opens", [connect, connect_to_read])
def test_a_file_that_is_gone_is_not_made_by_opening_it(tmp_path, opens):
    with pytest.raises(sqlite3.OperationalError):
        opens(tmp_path / "a.db")

    assert inode_of(tmp_path / "a.db") == 0


def test_a_connection_to_read_cannot_write(tmp_path):
    create_private(tmp_path / "a.db")
    with closing(connect_to_read(tmp_path / "a.db")) as database, pytest.raises(sqlite3.OperationalError, match="readonly"):
        database.execute("CREATE TABLE a (x)")


def test_a_file_that_cannot_be_made_is_told_with_its_path_to_those_who_may_know_it():
    path = Path("/proc/nowhere/a.db")

    with pytest.raises(StoreUnwritable) as caught:
        create_private(path)

    assert caught.value.path == path
    assert "/proc" not in str(caught.value)


def test_an_existing_file_is_not_opened_next_to_sqlite_so_that_its_locks_stay(tmp_path):
    path = tmp_path / "a.db"
    create_private(path)
    with closing(connect(path)) as database:
        database.execute("PRAGMA journal_mode = WAL")
        database.execute("CREATE TABLE a (x)")
        held = locks_on(path)

        create_private(path)

        assert held
        assert locks_on(path) == held


def test_a_link_to_a_file_that_is_not_there_yet_makes_that_file(tmp_path):
    (tmp_path / "a.db").symlink_to(tmp_path / "elsewhere.db")

    create_private(tmp_path / "a.db")

    assert (tmp_path / "elsewhere.db").stat().st_mode & 0o777 == 0o600
    assert len(list(tmp_path.iterdir())) == 2


@pytest.mark.parametrize("links_fail", [False, True])
def test_a_file_that_somebody_makes_at_the_same_moment_is_taken(tmp_path, monkeypatch, links_fail):
    path = tmp_path / "a.db"

    def link(source, target):
        Path(target).write_bytes(b"theirs")
        raise PermissionError if links_fail else FileExistsError

    monkeypatch.setattr(os, "link", link)

    create_private(path)

    assert path.read_bytes() == b"theirs"
    assert list(tmp_path.iterdir()) == [path]


def test_links_in_a_circle_are_refused_by_name(tmp_path):
    (tmp_path / "a.db").symlink_to(tmp_path / "b.db")
    (tmp_path / "b.db").symlink_to(tmp_path / "a.db")

    with pytest.raises(StoreUnwritable, match=r"a\.db cannot be opened"):
        create_private(tmp_path / "a.db")


def ask_for_ten_years(path, write):
    """A question that would take hours, while a router writes."""
    with open_ledger(path, within_seconds=0.0) as database:
        database.execute("SELECT id FROM entries").fetchone()
        write()
        database.execute("SELECT count(*) FROM entries a, entries b, entries c, entries d").fetchone()


def test_a_question_that_takes_too_long_is_given_up_and_keeps_no_writer_waiting(tmp_path):
    path = write_ledger(tmp_path / "test.db", *({"id": f"req_{number}"} for number in range(300)))

    def write():
        with closing(sqlite3.connect(path, timeout=0)) as database, database:
            database.execute("UPDATE entries SET because = 'written meanwhile'")

    with pytest.raises(AskedTooMuch, match=r"no answer within 0 s\n  hint: ask for less, with --since"):
        ask_for_ten_years(path, write)

    with closing(sqlite3.connect(path)) as database:
        assert database.execute("SELECT DISTINCT because FROM entries").fetchall() == [("written meanwhile",)]
