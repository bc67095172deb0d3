"""What becomes of a file on an upgrade: it is copied, then migrated whole or not at all."""

import os
import shutil
import sqlite3
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace

import pytest
from msgspec.structs import replace

from router.contract.caller import LOCAL
from router.contract.stores import StoreUnusable
from router.past.worth import fold
from router.stores.sqlite.entries import SqliteEntries
from router.stores.sqlite.files import StoreUnwritable, create_private
from router.stores.sqlite.migrate import Migrated, forget_copies, prepare
from router.stores.sqlite.schemas import JOBS, LEDGER, RESPONSES, Migrations, StoreNewer, StoreOlder
from router.stores.sqlite.sessions import SqliteSessions
from router.stores.sqlite.writer import SqliteWriter
from router.telemetry.events import set_up_logging
from tests.tools.sessions import save

# A ledger as 0.4.0 finds it after an upgrade from before its last script.
OLD = f"""
{LEDGER.scripts[0]}
INSERT INTO entries (id, at, caller, dialect, model, streaming, outcome, status, attempts, overhead_ms, duration_ms)
    VALUES ('req_old', 1.0, 'local', 'chat', 'auto', 0, 'SERVED', 200, '[]', 0.1, 2.0);
INSERT INTO sessions (key, at, state) VALUES ('key', 1e12, x'01');
INSERT INTO misjudged (request_id, at, should_be) VALUES ('req_old', 1.0, 'deep');
"""
COPY = f"tandem.db.before-{LEDGER.oldest + 1}"
ONE = "CREATE TABLE a (x);"
TWO = Migrations(1, (ONE, "ALTER TABLE a ADD COLUMN y;"))


def extend(migrations: Migrations, *scripts: str) -> Migrations:
    return replace(migrations, scripts=(*migrations.scripts, *scripts))


def write_old_ledger(path: Path, *scripts: str) -> Path:
    return write_old(path, OLD, *scripts, version=LEDGER.oldest)


def write_old(path: Path, *scripts: str, version: int = 1) -> Path:
    with closing(sqlite3.connect(path, isolation_level=None)) as database:
        database.execute("PRAGMA journal_mode = WAL")
        for script in scripts:
            database.executescript(script)
        database.execute(f"PRAGMA user_version = {version}")
    return path


def ask(path: Path, question: str) -> list[tuple]:
    with closing(sqlite3.connect(path)) as database:
        return database.execute(question).fetchall()


def version_of(path: Path) -> int:
    return ask(path, "PRAGMA user_version")[0][0]


def files_in(folder: Path) -> set[str]:
    return {file.name for file in folder.iterdir()}


def test_a_new_file_gets_every_migration_and_no_copy(tmp_path):
    create_private(tmp_path / "a.db")

    assert prepare(tmp_path / "a.db", LEDGER) is None

    assert version_of(tmp_path / "a.db") == LEDGER.newest
    assert {"entries", "sessions", "misjudged"} <= {
        name for (name,) in ask(tmp_path / "a.db", "SELECT name FROM sqlite_master")
    }
    assert files_in(tmp_path) == {"a.db"}
    assert prepare(tmp_path / "a.db", LEDGER) is None


def test_an_older_ledger_keeps_its_rows_and_a_copy_of_it_stays(tmp_path):
    path = write_old_ledger(tmp_path / "tandem.db")

    done = prepare(path, LEDGER)

    copy = tmp_path / COPY
    assert done == Migrated("tandem.db", LEDGER.oldest, LEDGER.newest, copy)
    assert version_of(path) == LEDGER.newest
    assert ask(path, "SELECT id, caller FROM entries") == [("req_old", "local")]
    assert ask(path, "SELECT key, state FROM sessions") == [("key", b"\x01")]
    assert ask(path, "SELECT request_id, should_be FROM misjudged") == [("req_old", "deep")]
    assert copy.stat().st_mode & 0o777 == 0o600
    assert (version_of(copy), ask(copy, "SELECT id FROM entries")) == (LEDGER.oldest, [("req_old",)])
    assert files_in(tmp_path) == {"tandem.db", COPY}


async def test_a_store_opens_an_old_ledger_and_says_that_it_was_migrated(tmp_path, listen):
    path, read = write_old_ledger(tmp_path / "tandem.db"), listen()

    writer = SqliteWriter(path, LEDGER, on_failure=print)
    sessions = SqliteSessions(writer)

    assert [(line["event"], line["copy"]) for line in read()] == [("store.migrated", COPY)]
    assert (await sessions.load("key")).state == b"\x01"
    await sessions.close()


def test_what_still_waits_in_the_log_of_another_connection_is_in_the_copy(tmp_path):
    path = write_old(tmp_path / "a.db", ONE)
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("INSERT INTO a VALUES (7)")
        assert (tmp_path / "a.db-wal").stat().st_size

        done = prepare(path, TWO)

    assert ask(done.copy, "SELECT * FROM a") == [(7,)]
    assert ask(path, "SELECT x, y FROM a") == [(7, None)]


def test_an_older_copy_is_never_written_over(tmp_path):
    (tmp_path / "a.db.before-2").write_text("an older copy")
    path = write_old(tmp_path / "a.db", ONE)

    assert prepare(path, TWO).copy.name == "a.db.before-2.2"
    assert (tmp_path / "a.db.before-2").read_text() == "an older copy"


@pytest.mark.parametrize("broken", ["INSERT INTO a VALUES (1, 2, 3, 4);", "not SQL;", "SELECT"])
def test_a_migration_that_breaks_off_leaves_the_old_file_whole_and_no_copy(tmp_path, broken):
    path = write_old(tmp_path / "a.db", ONE, "INSERT INTO a VALUES (7);")
    script = f"ALTER TABLE a ADD COLUMN y;\nCREATE TABLE b (z);\nINSERT INTO b VALUES (1);\nDELETE FROM a;\n{broken}"

    with pytest.raises(StoreUnusable, match=r"a\.db is not a usable database"):
        prepare(path, Migrations(1, (ONE, script)))

    assert version_of(path) == 1
    assert ask(path, "SELECT name FROM sqlite_master") == [("a",)]
    assert ask(path, "SELECT * FROM a") == [(7,)]
    assert files_in(tmp_path) == {"a.db"}


def test_where_a_later_migration_breaks_off_none_is_made_and_no_copy_stays(tmp_path):
    path = write_old(tmp_path / "a.db", ONE, "INSERT INTO a VALUES (7);")

    with pytest.raises(StoreUnusable):
        prepare(path, extend(TWO, "CREATE TABLE b (z);", "INSERT INTO c SELECT x FROM a;"))

    assert (version_of(path), ask(path, "SELECT * FROM a")) == (1, [(7,)])
    assert files_in(tmp_path) == {"a.db"}
    assert prepare(path, extend(TWO, "CREATE TABLE b (z);")).copy.name == "a.db.before-2"
    assert files_in(tmp_path) == {"a.db", "a.db.before-2"}


def test_a_process_that_dies_within_a_migration_leaves_the_old_file(tmp_path):
    path = write_old(tmp_path / "a.db", ONE, "INSERT INTO a VALUES (7);")
    with closing(sqlite3.connect(path, isolation_level=None)) as dying:
        dying.execute("BEGIN IMMEDIATE")
        dying.execute(TWO.scripts[1])
        dying.execute("PRAGMA user_version = 2")
        # Its connection ends without a commit, as when the process is killed.

    assert version_of(path) == 1
    assert ask(path, "SELECT * FROM a") == [(7,)]


def test_of_several_who_open_an_old_file_at_once_one_migrates_it(tmp_path):
    path = write_old(tmp_path / "a.db", ONE, "INSERT INTO a VALUES (7);")
    with ThreadPoolExecutor(max_workers=8) as openers:
        done = list(openers.map(lambda _: prepare(path, TWO), range(8)))

    assert len([one for one in done if one is not None]) == 1
    assert {name for name in files_in(tmp_path) if not name.endswith(("-wal", "-shm"))} == {"a.db", "a.db.before-2"}
    assert (version_of(path), ask(path, "SELECT x, y FROM a")) == (2, [(7, None)])


def test_a_file_of_a_newer_version_is_refused_and_left_alone(tmp_path):
    path = write_old(tmp_path / "a.db", ONE, version=99)
    before = path.read_bytes()

    with pytest.raises(
        StoreNewer, match=r"a\.db was written by a newer Tandem \(schema 99 > 2\)\n  hint: use that Tandem, or move"
    ):
        prepare(path, TWO)

    assert path.read_bytes() == before
    assert files_in(tmp_path) == {"a.db"}


@pytest.mark.parametrize("migrations", [LEDGER, RESPONSES, JOBS])
def test_a_file_from_before_the_first_release_is_refused_and_left_alone(tmp_path, migrations):
    path = write_old(tmp_path / "a.db", *migrations.scripts, version=migrations.oldest - 1)
    before = path.read_bytes()

    with pytest.raises(
        StoreOlder, match=r"a\.db was written by a Tandem before 0\.4\.0 \(schema \d+ < \d+\)\n  hint: move it away"
    ):
        prepare(path, migrations)

    assert path.read_bytes() == before
    assert files_in(tmp_path) == {"a.db"}


def test_a_file_that_is_not_a_database_is_refused_by_name(tmp_path):
    (tmp_path / "a.db").write_bytes(b"not a database at all, but long enough to be read as one" * 20)

    with pytest.raises(StoreUnusable, match=r"a\.db is not a usable database"):
        prepare(tmp_path / "a.db", LEDGER)


THEIRS = {
    "a table of the same name": ("CREATE TABLE entries (id INTEGER PRIMARY KEY, title TEXT, body TEXT, at TEXT)", 0),
    "a version of ours": ("CREATE TABLE entries (id INTEGER PRIMARY KEY, title TEXT, body TEXT, at TEXT)", LEDGER.newest),
    "another table": ("CREATE TABLE notes (id INTEGER PRIMARY KEY, text TEXT)", 0),
    "another table and a version of ours": ("CREATE TABLE notes (id INTEGER PRIMARY KEY, text TEXT)", LEDGER.newest),
    "our tables without a version": (OLD, 0),
    "responses": (RESPONSES.scripts[0], 1),
}


@pytest.mark.parametrize(("script", "version"), THEIRS.values(), ids=THEIRS)
@pytest.mark.parametrize("by_link", [False, True])
def test_a_database_of_another_program_is_refused_and_left_alone(tmp_path, script, version, by_link):
    theirs = tmp_path / "theirs.db"
    with closing(sqlite3.connect(theirs)) as database:
        database.executescript(f"{script};PRAGMA user_version = {version};")
    theirs.chmod(0o640)
    path, before = theirs, theirs.read_bytes()
    if by_link:
        path = tmp_path / "tandem.db"
        path.symlink_to(theirs)

    with pytest.raises(StoreUnusable, match=rf"{path.name} is not a Tandem database"):
        SqliteWriter(path, LEDGER, on_failure=lambda *_: None)

    assert theirs.read_bytes() == before
    assert theirs.stat().st_mode & 0o777 == 0o640
    assert files_in(tmp_path) == {theirs.name, path.name}


def test_a_text_behind_a_link_is_refused_and_left_alone(tmp_path):
    (tmp_path / "letter.txt").write_text("Dear reader, " * 100)
    (tmp_path / "letter.txt").chmod(0o644)
    (tmp_path / "tandem.db").symlink_to(tmp_path / "letter.txt")

    with pytest.raises(StoreUnusable, match=r"tandem\.db is not a usable database"):
        SqliteWriter(tmp_path / "tandem.db", LEDGER, on_failure=lambda *_: None)

    assert (tmp_path / "letter.txt").stat().st_mode & 0o777 == 0o644


def test_our_own_file_behind_a_link_is_made_private_and_used(tmp_path):
    ours = write_old_ledger(tmp_path / "elsewhere.db")
    ours.chmod(0o644)
    (tmp_path / "tandem.db").symlink_to(ours)
    create_private(tmp_path / "tandem.db")

    prepare(tmp_path / "tandem.db", LEDGER)

    assert ours.stat().st_mode & 0o777 == 0o600
    assert version_of(ours) == LEDGER.newest


def test_tables_that_its_owner_added_to_a_ledger_stay(tmp_path):
    path = write_old_ledger(tmp_path / "tandem.db", "CREATE TABLE notes (x); CREATE VIEW slow AS SELECT * FROM entries;")

    prepare(path, LEDGER)

    assert ask(path, "SELECT id FROM slow") == [("req_old",)]


def test_a_script_may_hold_triggers_and_comments_with_semicolons(tmp_path):
    create_private(tmp_path / "a.db")
    script = """
-- A table; with a note.
CREATE TABLE a (x);  -- one; column
CREATE TRIGGER t AFTER INSERT ON a BEGIN
    UPDATE a SET x = x + 1;
    DELETE FROM a WHERE x > 5;
END;
INSERT INTO a VALUES (1)
"""
    prepare(tmp_path / "a.db", Migrations(1, (script,)))

    assert ask(tmp_path / "a.db", "SELECT x FROM a") == [(2,)]


def test_a_column_that_a_release_brought_without_a_script_is_added_and_null_in_older_rows(tmp_path):
    path = tmp_path / "tandem.db"
    create_private(path)
    prepare(path, LEDGER)
    with closing(sqlite3.connect(path, isolation_level=None)) as database:
        database.execute("ALTER TABLE entries DROP COLUMN tokens_estimated")
        database.execute("ALTER TABLE entries DROP COLUMN cost_usd")
        database.execute(
            "INSERT INTO entries (id, at, caller, dialect, model, streaming, outcome, status, attempts, overhead_ms, duration_ms)"
            " VALUES ('req_old', 1.0, 'local', 'chat', 'auto', 0, 'SERVED', 200, '[]', 0.1, 2.0)"
        )

    prepare(path, LEDGER)

    with closing(sqlite3.connect(path)) as database:
        assert database.execute("SELECT cost_usd, tokens_estimated FROM entries").fetchall() == [(None, None)]
        kinds = dict(database.execute("SELECT name, type FROM pragma_table_info('entries')"))
    assert (kinds["cost_usd"], kinds["tokens_estimated"]) == ("REAL", "INTEGER")


def test_copies_are_forgotten_once_they_are_older_than_what_is_kept(tmp_path):
    old, young, other = (tmp_path / name for name in ("a.db.before-2", "a.db.before-3", "b.db.before-2"))
    for path, at in ((old, 100.0), (young, 300.0), (other, 100.0)):
        path.write_bytes(b"x")
        os.utime(path, (at, at))

    forget_copies(tmp_path / "a.db", 200.0)

    assert files_in(tmp_path) == {"a.db.before-3", "b.db.before-2"}


async def test_after_the_stores_have_closed_the_file_alone_holds_every_row(tmp_path):
    writer = SqliteWriter(tmp_path / "a.db", LEDGER, on_failure=print)
    entries, sessions = SqliteEntries(writer, keep_days=1, explain=lambda _: {}, fold=fold), SqliteSessions(writer)
    await save(sessions, "k", time.time(), b"{}")
    await sessions.load("other")
    await entries.find_decision("req_none", LOCAL)

    await entries.close()
    await sessions.close()

    assert files_in(tmp_path) == {"a.db"}
    assert ask(tmp_path / "a.db", "SELECT key FROM sessions") == [("k",)]


KILLED = {
    "the copy": ("os.close = lambda part: (os.write(part, b'half'), os.kill(os.getpid(), 9))", 1),
    "the steps": ("migrate._split = lambda script: os.kill(os.getpid(), 9)", 1),
    "the deletion of the named part": (
        "link = os.link; os.link = lambda part, copy: (link(part, copy), os.kill(os.getpid(), 9))",
        2,
    ),
    "the naming of the copy": ("migrate._give_name = lambda part, wanted: os.kill(os.getpid(), 9)", 2),
}


@pytest.mark.starts
@pytest.mark.parametrize(("patch", "version"), KILLED.values(), ids=KILLED)
def test_a_process_that_is_killed_leaves_the_old_file_or_the_new_one_and_the_next_start_names_one_copy(
    tmp_path, patch, version
):
    path = write_old(tmp_path / "a.db", ONE, "INSERT INTO a VALUES (7);")
    code = "from router.stores.sqlite.schemas import Migrations\n"
    code += f"import os, sys; from pathlib import Path; from router.stores.sqlite import migrate\n{patch}\n"
    code += f"migrate.prepare(Path(sys.argv[1]), {TWO!r})"
    assert subprocess.run([sys.executable, "-c", code, path]).returncode == -9
    assert (tmp_path / "a.db.before-2").exists() == ("os.link" in patch)
    assert (tmp_path / "a.db.before-2.part").stat().st_size
    assert version_of(path) == version

    done = prepare(path, TWO)

    assert done == Migrated("a.db", 1, 2, tmp_path / "a.db.before-2")
    assert ask(done.copy, "SELECT * FROM a") == [(7,)]
    assert ask(path, "SELECT x, y FROM a") == [(7, None)]
    assert files_in(tmp_path) == {"a.db", "a.db.before-2"}


@pytest.mark.parametrize("free", [[900_000], [10_000_000, 900_000]], ids=["before the copy", "before the commit"])
def test_too_little_room_is_said_in_megabytes_and_changes_nothing(tmp_path, monkeypatch, free):
    path = write_old(tmp_path / "a.db", ONE, "INSERT INTO a VALUES (7);")
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=free.pop(0)))

    with pytest.raises(StoreUnwritable, match=r"a copy and builds indexes, which needs [56] MB; 0 MB are free"):
        prepare(path, TWO)

    assert (version_of(path), files_in(tmp_path)) == (1, {"a.db"})


def test_where_there_are_no_hard_links_the_copy_gets_its_name_all_the_same(tmp_path, monkeypatch):
    def refuse(*_):
        raise PermissionError

    monkeypatch.setattr(os, "link", refuse)
    (tmp_path / "a.db.before-2").write_text("an older copy")
    path = write_old(tmp_path / "a.db", ONE)

    assert prepare(path, TWO).copy.name == "a.db.before-2.2"
    assert files_in(tmp_path) == {"a.db", "a.db.before-2", "a.db.before-2.2"}


def test_the_migration_of_a_large_file_is_announced_before_it_begins(tmp_path, monkeypatch, capsys):
    set_up_logging()
    path = write_old_ledger(tmp_path / "tandem.db")
    prepare(path, LEDGER.up_to(LEDGER.oldest))
    assert "store.migrating" not in capsys.readouterr().err

    monkeypatch.setattr("router.stores.sqlite.migrate._LARGE_BYTES", 0)
    prepare(path, LEDGER)

    said = capsys.readouterr().err
    assert '"store.migrating"' in said
    assert f'"before":{LEDGER.oldest},"version":{LEDGER.newest}' in said.replace(" ", "")
