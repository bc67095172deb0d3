"""Schemas by number, and files whose schema is newer than ours."""

import os
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from router.contract.caller import Caller
from router.stores.sqlite.files import connect_to_read, create_private, open_ledger
from router.stores.sqlite.forget import count_kept, forget_caller
from router.stores.sqlite.migrate import prepare
from router.stores.sqlite.schemas import JOBS, LEDGER, RESPONSES, StoreNewer, check_version, tables_of
from tests.router.stores.sqlite.test_migrate import COPY, ONE, TWO, ask, extend, version_of, write_old, write_old_ledger


def test_columns_are_those_that_all_migrations_make():
    assert tables_of(TWO)["a"] == ("x", "y")
    assert tables_of(RESPONSES)["transcripts"] == ("caller", "id", "target", "at", "content")


@pytest.mark.parametrize("kind", ["ledger", "responses", "jobs"])
def test_migrations_are_numbered_without_gaps(kind):
    folder = Path(__file__).parents[4] / "router/stores/sqlite/migrations" / kind
    names = sorted(file.name for file in folder.iterdir())

    assert names == [f"{number:04}.sql" for number in range(int(names[0][:4]), int(names[-1][:4]) + 1)]


def test_for_a_file_of_a_newer_version_the_copy_that_fits_is_named_with_the_command_that_restores_it(tmp_path):
    path = write_old(tmp_path / "a.db", ONE, "INSERT INTO a VALUES (7);")
    prepare(path, extend(TWO, "CREATE TABLE b (z);"))
    write_old(tmp_path / "a.db.before-1", version=0)
    write_old(tmp_path / "a.db.before-4", ONE, version=3)

    with pytest.raises(StoreNewer) as refusal:
        prepare(path, TWO)

    assert f"or its copy from before the upgrade, {path}.before-2." in str(refusal.value)
    assert os.system(str(refusal.value).splitlines()[-1]) == 0
    assert ask(path, "SELECT * FROM a") == [(7,)]
    assert version_of(tmp_path / "a.db.newer") == 3
    assert prepare(path, TWO).copy.name == "a.db.before-2"


@pytest.mark.parametrize("writes", [False, True])
def test_a_newer_ledger_is_not_read_either(tmp_path, writes):
    path = write_old_ledger(tmp_path / "tandem.db")
    prepare(path, extend(LEDGER, "CREATE TABLE later (x);"))

    with pytest.raises(StoreNewer) as refusal, open_ledger(path, writes=writes):
        pass

    assert str(refusal.value).startswith(
        f"tandem.db was written by a newer Tandem (schema {LEDGER.newest + 1} > {LEDGER.newest})\n"
    )
    assert f"{path.parent / COPY}" in str(refusal.value)


def test_the_command_that_restores_a_copy_moves_a_log_with_the_newer_file(tmp_path):
    path = write_old(tmp_path / "a.db", ONE, "INSERT INTO a VALUES (7);")
    prepare(path, extend(TWO, "CREATE TABLE b (z);"))
    with closing(sqlite3.connect(path, isolation_level=None)) as killed:
        killed.execute("INSERT INTO a VALUES (8, 8)")
        log = (tmp_path / "a.db-wal").read_bytes()
    (tmp_path / "a.db-wal").write_bytes(log)  # as after a kill
    (tmp_path / "a.db.newer").write_text("moved away before")

    with pytest.raises(StoreNewer) as refusal, closing(connect_to_read(path)) as database:
        check_version(database, path, TWO)

    assert os.system(str(refusal.value).splitlines()[-1]) == 0
    assert ask(path, "SELECT * FROM a") == [(7,)]
    assert (tmp_path / "a.db.newer").read_text() == "moved away before"
    assert ask(tmp_path / "a.db.newer2", "SELECT x FROM a") == [(7,), (8,)]


@pytest.mark.parametrize(("name", "migrations"), [("tandem.db", LEDGER), ("responses.db", RESPONSES), ("jobs.db", JOBS)])
def test_a_caller_is_not_forgotten_in_part_of_a_newer_file(tmp_path, name, migrations):
    create_private(path := tmp_path / name)
    prepare(path, extend(migrations, "CREATE TABLE later (caller);"))

    for work in (count_kept, forget_caller):
        with pytest.raises(StoreNewer):
            work(path, Caller("ada"))
