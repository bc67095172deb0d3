"""What older releases kept goes at the first start, and that is said."""

import sqlite3
from contextlib import closing

from router.wiring.leftovers import delete_leftovers
from tests.conftest import SIMULATED
from tests.tools.configs import load_text


def write_copy(path, *places: bytes) -> None:
    with closing(sqlite3.connect(path)) as database, database:
        database.executescript(
            "CREATE TABLE entries (id); CREATE TABLE places (request_id, places);"
            "CREATE TABLE misjudged (request_id, at, should_be, places); PRAGMA user_version = 13"
        )
        database.executemany("INSERT INTO places VALUES ('req_1', ?)", [(one,) for one in places])
        database.execute("INSERT INTO misjudged VALUES ('req_1', 1.0, 'deep', ?)", places[:1] or (None,))


def test_hashes_of_words_are_deleted_from_files_of_their_own_and_from_copies(tmp_path):
    for name in ("personal.json", "personal.json.before"):
        (tmp_path / name).write_text("canary-1")
    write_copy(copy := tmp_path / "test.db.before-14", b"canary-2")

    said = delete_leftovers(load_text(SIMULATED, tmp_path), with_ledger=True)

    names = [str(tmp_path / name) for name in ("personal.json", "personal.json.before")]
    assert said == [f"deleted hashes of words that nothing reads any more: {', '.join(names)}, rows in {copy}"]
    assert [file.name for file in tmp_path.iterdir() if b"canary" in file.read_bytes()] == []
    with closing(sqlite3.connect(copy)) as database:
        assert database.execute("SELECT request_id, should_be, places FROM misjudged").fetchall() == [("req_1", "deep", None)]
    assert delete_leftovers(load_text(SIMULATED, tmp_path), with_ledger=True) == []


def test_a_table_that_the_config_named_goes_too(tmp_path):
    (tmp_path / "mine.json").write_text("{}")
    loaded = load_text(f"{SIMULATED}policies: [override, {{learned: {{personal: mine.json}}}}]\n", tmp_path)

    assert any(line.startswith("policies.learned.personal was removed: ") for line in loaded.warnings)
    assert delete_leftovers(loaded, with_ledger=False) == [
        f"deleted hashes of words that nothing reads any more: {tmp_path / 'mine.json'}"
    ]
    assert not (tmp_path / "mine.json").exists()


def test_what_cannot_be_deleted_is_named(tmp_path):
    (tmp_path / "personal.json").mkdir()

    (line,) = delete_leftovers(load_text(SIMULATED, tmp_path), with_ledger=True)

    assert line.startswith(f"{tmp_path / 'personal.json'}: holds hashes of words that nothing reads; delete it (")
