"""`tandem ledger`: what is kept, its backup, its restoration, and its size."""

import json
import shutil
import sqlite3
from contextlib import closing

import pytest

from router.cli import main
from router.stores.sqlite.compact import read_pages
from router.stores.sqlite.files import connect
from router.stores.sqlite.lock import FileLock
from router.stores.sqlite.schemas import LEDGER
from tests.conftest import SIMULATED
from tests.tools.ledgers import write_ledger
from tests.tools.read_only import run_read_only

DAY = 86_400.0


@pytest.fixture
def ledger(home):
    return write_ledger(home / "test.db", {"at": 10 * DAY}, {"at": 12 * DAY})


def fill_and_empty(path):
    with closing(connect(path)) as database:
        rows = [(f"s{number}",) for number in range(40)]
        database.executemany("INSERT INTO sessions (key, at, state) VALUES (?, 1.0, zeroblob(1000000))", rows)
        database.execute("DELETE FROM sessions")


def make_unmapped(path):
    with closing(connect(path)) as database:
        database.execute("PRAGMA auto_vacuum = NONE")
        database.execute("VACUUM")


def test_status_shows_size_log_schema_rows_ages_and_copies(ledger, home, capsys):
    fill_and_empty(ledger)
    (home / "test.db.before-3").write_bytes(b"x" * 2_000_000)
    assert main(["ledger", "backup", "a.tar"]) == 0
    capsys.readouterr()

    assert main(["ledger", "status"]) == 0

    shown = capsys.readouterr().out
    assert str(ledger) in shown
    assert f"MB of it free; log 0 bytes; schema {LEDGER.newest}" in shown
    assert "2 entries, from 1970-01-11" in shown
    assert "to 1970-01-13" in shown
    assert "copy test.db.before-3: 2.0 MB" in shown
    assert f"backup     {home / 'a.tar'}: " in shown


def test_status_as_json_has_the_figures(ledger, home, capsys):
    lock = FileLock(ledger, "http://127.0.0.1:1")

    assert main(["ledger", "status", "--json"]) == 0

    lock.release()
    (found,) = json.loads(capsys.readouterr().out)["files"]
    figures = {
        name: found[name] for name in ("store", "schema", "newest_schema", "oldest_at", "newest_at", "in_use", "problem")
    }
    assert figures == {
        "store": "ledger",
        "schema": LEDGER.newest,
        "newest_schema": LEDGER.newest,
        "oldest_at": 10 * DAY,
        "newest_at": 12 * DAY,
        "in_use": True,
        "problem": None,
    }
    assert found["rows"]["entries"] == 2
    assert found["bytes"] == ledger.stat().st_size


def test_a_file_that_cannot_be_read_is_a_problem_of_its_own(ledger, capsys):
    ledger.write_bytes(b"something else, and long enough to be looked at by SQLite " * 100)

    assert main(["ledger", "status"]) == 1
    assert "cannot be read: file is not a database" in capsys.readouterr().out


def test_status_reads_a_read_only_file_system(ledger, home):
    done = run_read_only(home, "ledger", "status")

    assert (done.returncode, done.stderr) == (0, "")
    assert "2 entries" in done.stdout


def test_status_and_backup_of_a_log_on_a_read_only_file_system_say_what_can_be_read(home, tmp_path_factory):
    write_ledger(home / "full.db", {"at": 10 * DAY})
    with closing(connect(home / "full.db")) as database:
        database.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        database.execute("CREATE TABLE more (a)")
        for end in ("", "-wal"):
            shutil.copy(home / f"full.db{end}", home / f"test.db{end}")

    done = run_read_only(home, "ledger", "status")
    backed_up = run_read_only(home, "ledger", "backup", str(tmp_path_factory.mktemp("other") / "a.tar"))

    hint = "hint: its newest rows are in test.db-wal, and the folder is read-only: copy both files to another folder"
    assert (done.returncode, done.stderr) == (1, "")
    assert f"schema {LEDGER.newest}" in done.stdout
    assert "1 entries, from 1970-01-11" in done.stdout
    assert "that is without its log, which cannot be read: unable to open database file" in done.stdout
    assert hint in done.stdout
    assert backed_up.returncode == 1
    assert hint in backed_up.stderr


def test_a_backup_has_the_config_and_what_it_names_and_no_secret_of_a_provider(home, ledger, capsys):
    (home / ".env").write_text("OPENAI_API_KEY=sk-canary\n")
    (home / "night.py").write_text("# a policy\n")
    (home / "config.yaml").write_text(SIMULATED + "\npolicies: [{file: night.py}]\n")
    (home / "test.db.key").write_bytes(b"k" * 32)

    assert main(["ledger", "backup", "~/a.tar"]) == 0

    said = capsys.readouterr()
    names = [line.split(":")[0].strip() for line in said.out.splitlines()[1:]]
    assert names == ["tandem.db", "config.yaml", "tandem.db.key", "policies/0.py"]
    assert "keys of providers" in said.err
    assert b"sk-canary" not in (home / "a.tar").read_bytes()


def test_a_restore_puts_each_file_where_the_config_of_the_backup_looks_for_it(home, ledger, capsys, monkeypatch):
    names = ["config.yaml", "test.db", "test.db.key"]
    (home / "test.db.key").write_bytes(b"k" * 32)
    assert main(["ledger", "backup", "a.tar"]) == 0
    (home / "new").mkdir()
    monkeypatch.chdir(home / "new")
    capsys.readouterr()

    assert main(["ledger", "restore", "../a.tar"]) == 0

    assert sorted(file.name for file in (home / "new").iterdir()) == names
    assert (home / "new" / "test.db").stat().st_mode & 0o777 == 0o600
    assert str(home / "new" / "test.db") in capsys.readouterr().out
    assert main(["log"]) == 0


def test_a_restore_says_what_it_kept(home, ledger, capsys):
    assert main(["ledger", "backup", "a.tar"]) == 0
    (home / "config.yaml").write_text("# changed\n" + SIMULATED)

    assert main(["ledger", "restore", "a.tar"]) == 0

    assert f"{ledger} (what was there is now test.db.before-restore)" in capsys.readouterr().out
    assert (home / "config.yaml").read_text() == SIMULATED
    assert (home / "config.yaml.before-restore").read_text().startswith("# changed")


def test_nothing_is_restored_under_a_router(home, ledger, capsys):
    assert main(["ledger", "backup", "a.tar"]) == 0
    lock = FileLock(ledger, "http://127.0.0.1:1")

    assert main(["ledger", "restore", "a.tar"]) == 1

    lock.release()
    assert "in use by another Tandem router (http://127.0.0.1:1" in capsys.readouterr().err
    assert not (home / "test.db.before-restore").exists()


def test_no_backup_is_overwritten_and_an_empty_one_is_not_made(home, ledger, capsys):
    (home / "a.tar").write_text("mine")
    assert main(["ledger", "backup", "a.tar"]) == 1
    assert "no backup is overwritten" in capsys.readouterr().err
    assert (home / "a.tar").read_text() == "mine"

    ledger.unlink()
    assert main(["ledger", "backup", "b.tar"]) == 1
    assert "nothing to back up" in capsys.readouterr().err
    assert not (home / "b.tar").exists()


@pytest.mark.parametrize("in_use", [True, False])
def test_compact_gives_free_room_back_also_next_to_a_router(ledger, capsys, in_use):
    fill_and_empty(ledger)
    lock = FileLock(ledger) if in_use else None

    assert main(["ledger", "compact"]) == 0

    if lock is not None:
        lock.release()
    assert " MB, now " in capsys.readouterr().out
    assert ledger.stat().st_size < 1_000_000
    with closing(sqlite3.connect(ledger)) as database:
        assert database.execute("SELECT count(*) FROM entries").fetchone() == (2,)
    assert main(["ledger", "compact"]) == 0
    assert "nothing to free" in capsys.readouterr().out


def test_an_older_file_is_rewritten_only_while_no_router_runs(ledger, capsys):
    make_unmapped(ledger)
    fill_and_empty(ledger)
    lock = FileLock(ledger)

    assert main(["ledger", "compact"]) == 1
    assert main(["ledger", "status"]) == 0
    said = capsys.readouterr()
    assert "in use by another Tandem router" in said.err
    assert "shrinks only while no router runs" in said.out
    lock.release()

    assert main(["ledger", "compact"]) == 0
    with closing(connect(ledger)) as database:
        assert read_pages(database).is_mapped
    assert ledger.stat().st_size < 1_000_000


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (["backup"], "needs a FILE"),
        (["status", "a.tar"], "takes no FILE"),
        (["compact", "--json"], "--json is an option of status"),
    ],
)
def test_wrong_usage_is_explained(home, capsys, given, words):
    assert main(["ledger", *given]) == 2
    assert words in capsys.readouterr().err


def test_a_config_that_cannot_be_read_and_a_file_that_is_no_backup_are_said(home, capsys):
    (home / "a.tar").write_text("something")
    assert main(["ledger", "restore", "a.tar"]) == 1
    assert "not a backup of Tandem" in capsys.readouterr().err

    (home / "config.yaml").write_text("nonsense: 1")
    assert main(["ledger", "status"]) == 2


def test_without_any_file_there_is_nothing_to_show_or_free(home, capsys):
    assert main(["ledger", "status"]) == 0
    assert "no file is kept yet" in capsys.readouterr().err
    assert main(["ledger", "compact"]) == 1
