"""Schemas by number, and files whose schema is newer than ours."""

import os
from pathlib import Path

import pytest

from router.stores.sqlite.files import open_ledger
from router.stores.sqlite.migrate import prepare
from router.stores.sqlite.schemas import LEDGER, RESPONSES, StoreNewer, tables_of
from tests.router.stores.sqlite.test_migrate import OLD, TWO, ask, version_of, write_old


def test_columns_are_those_that_all_migrations_make():
    assert tables_of(TWO)["a"] == ("x", "y")
    assert tables_of(RESPONSES)["transcripts"] == ("caller", "id", "target", "at", "content")


@pytest.mark.parametrize("kind", ["ledger", "responses", "jobs"])
def test_migrations_are_numbered_without_gaps(kind):
    folder = Path(__file__).parents[4] / "router/stores/sqlite/migrations" / kind
    names = sorted(file.name for file in folder.iterdir())

    assert names == [f"{number:04}.sql" for number in range(1, len(names) + 1)]


def test_for_a_file_of_a_newer_version_the_copy_that_fits_is_named_with_the_command_that_restores_it(tmp_path):
    path = write_old(tmp_path / "a.db", TWO[0], "INSERT INTO a VALUES (7);")
    prepare(path, (*TWO, "CREATE TABLE b (z);"))
    write_old(tmp_path / "a.db.before-1", version=0)
    write_old(tmp_path / "a.db.before-4", TWO[0], version=3)

    with pytest.raises(StoreNewer) as refusal:
        prepare(path, TWO)

    assert f"or its copy from before the upgrade, {path}.before-2." in str(refusal.value)
    assert os.system(str(refusal.value).splitlines()[-1]) == 0
    assert ask(path, "SELECT * FROM a") == [(7,)]
    assert version_of(tmp_path / "a.db.newer") == 3
    assert prepare(path, TWO).copy.name == "a.db.before-2"


@pytest.mark.parametrize("writes", [False, True])
def test_a_newer_ledger_is_not_read_either(tmp_path, writes):
    path = write_old(tmp_path / "tandem.db", OLD)
    prepare(path, (*LEDGER, "CREATE TABLE later (x);"))

    with pytest.raises(StoreNewer) as refusal, open_ledger(path, writes=writes):
        pass

    assert str(refusal.value).startswith(
        f"tandem.db was written by a newer Tandem (schema {len(LEDGER) + 1} > {len(LEDGER)})\n"
    )
    assert f"{path}.before-2" in str(refusal.value)
