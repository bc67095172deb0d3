"""An archive holds each file whole, and nothing is restored from one that does not."""

import hashlib
import io
import json
import os
import sqlite3
import tarfile
from contextlib import closing

import pytest

from router.contract.stores import StoreUnusable
from router.stores.sqlite.archive import Item, read_manifest, restore_archive, write_archive
from router.stores.sqlite.files import connect
from router.stores.sqlite.lock import FileLock, StoreInUse
from router.stores.sqlite.schemas import LEDGER
from tests.tools.ledgers import write_ledger


@pytest.fixture
def here(tmp_path):
    (tmp_path / "here").mkdir()
    write_ledger(tmp_path / "here" / "tandem.db", {}, {}, {})
    (tmp_path / "here" / "keys.yaml").write_text("callers: {}\n")
    return tmp_path / "here"


@pytest.fixture
def archive(here, tmp_path):
    items = [Item(name, here / name, name) for name in ("tandem.db", "keys.yaml")]
    write_archive(tmp_path / "a.tar", items, "1.2.3")
    return tmp_path / "a.tar"


def places_in(folder):
    return {name: folder / name for name in ("tandem.db", "keys.yaml")}


def count(path):
    with closing(sqlite3.connect(path)) as database:
        return database.execute("SELECT count(*) FROM entries").fetchone()[0]


def repack(archive, change):
    """Write the archive again, with its members as `change` leaves them."""
    with tarfile.open(archive) as tar:
        members = {entry.name: tar.extractfile(entry).read() for entry in tar}
    change(members)
    with tarfile.open(archive, "w") as tar:
        for name, content in members.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            tar.addfile(entry, io.BytesIO(content))


def test_the_manifest_names_versions_schemas_rows_and_hashes(archive):
    manifest = read_manifest(archive)

    ledger, keys = manifest.files
    assert (manifest.tandem, ledger.schema, ledger.rows["entries"], keys.rows) == ("1.2.3", LEDGER.newest, 3, {})
    assert len(ledger.sha256) == 64
    assert archive.stat().st_mode & 0o777 == 0o600
    assert [file.name for file in archive.parent.iterdir() if file.name.startswith(".")] == []


def test_rows_that_are_only_in_the_log_are_in_the_archive_and_those_written_meanwhile_do_not_disturb_it(here, tmp_path):
    with closing(connect(here / "tandem.db")) as database:
        database.execute("INSERT INTO sessions (key, at, state) VALUES ('a', 1.0, zeroblob(30000000))")
        written = []

        def write():
            database.execute("INSERT INTO sessions (key, at, state) VALUES (?, 1.0, zeroblob(9))", (f"more {len(written)}",))
            written.append(1)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("router.stores.sqlite.archive.time.sleep", lambda _: write())  # between two steps
            manifest = write_archive(tmp_path / "a.tar", [Item("tandem.db", here / "tandem.db", "tandem.db")], "")

    assert len(written) >= 7
    assert manifest.files[0].rows["sessions"] == 1


def test_what_was_there_is_kept_with_the_rows_of_its_log(archive, here):
    crashed = here / "crashed.db"
    with closing(connect(here / "tandem.db")) as database:
        database.execute("DELETE FROM entries WHERE id = 'req_1'")
        for end in ("", "-wal"):
            (crashed.with_name(f"crashed.db{end}")).write_bytes((here / f"tandem.db{end}").read_bytes())
    for end in ("", "-wal"):
        crashed.with_name(f"crashed.db{end}").rename(here / f"tandem.db{end}")

    ledger, keys = restore_archive(archive, read_manifest(archive), places_in(here))

    assert (count(ledger.path), count(ledger.aside)) == (3, 2)
    assert ledger.aside.name == "tandem.db.before-restore"
    assert keys.aside.read_text() == "callers: {}\n"
    again, _ = restore_archive(archive, read_manifest(archive), places_in(here))
    assert again.aside.name == "tandem.db.before-restore.1"


def spoil_a_byte(members):
    members["tandem.db"] = members["tandem.db"][:-1] + b"x"


def spoil_what_is_hashed(members):
    content = bytearray(members["tandem.db"])
    content[5000:9000] = os.urandom(4000)
    manifest = json.loads(members["manifest.json"])
    manifest["files"][0]["sha256"] = hashlib.sha256(content).hexdigest()
    members |= {"tandem.db": bytes(content), "manifest.json": json.dumps(manifest).encode()}


def forget_one(members):
    del members["keys.yaml"]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (spoil_a_byte, "tandem.db is not what was backed up"),
        (spoil_what_is_hashed, "tandem.db is damaged|malformed"),
        (forget_one, "keys.yaml is missing"),
    ],
)
def test_a_damaged_archive_is_refused_and_nothing_is_changed(archive, here, change, words):
    repack(archive, change)
    before = sorted(file.name for file in here.iterdir())

    with pytest.raises(StoreUnusable, match=words):
        restore_archive(archive, read_manifest(archive), places_in(here))

    assert sorted(file.name for file in here.iterdir()) == before
    assert count(here / "tandem.db") == 3


def test_a_file_cut_short_is_refused(archive, here):
    os.truncate(archive, archive.stat().st_size // 2)

    with pytest.raises(StoreUnusable, match=r"damaged|missing"):
        restore_archive(archive, read_manifest(archive), places_in(here))
    assert count(here / "tandem.db") == 3


def test_a_database_of_a_newer_schema_is_refused(here, tmp_path):
    with closing(sqlite3.connect(here / "tandem.db")) as database:
        database.execute("PRAGMA user_version = 999")

    with pytest.raises(StoreUnusable, match="newer Tandem"):
        write_archive(tmp_path / "a.tar", [Item("tandem.db", here / "tandem.db", "tandem.db")], "")
    assert not (tmp_path / "a.tar").exists()


@pytest.mark.parametrize("content", [b"", b"no tar", None])
def test_another_file_is_not_taken_for_a_backup(tmp_path, content):
    if content is None:
        with tarfile.open(tmp_path / "a.tar", "w") as tar:
            tar.addfile(tarfile.TarInfo("something"))
    else:
        (tmp_path / "a.tar").write_bytes(content)

    with pytest.raises(StoreUnusable, match="not a backup of Tandem"):
        read_manifest(tmp_path / "a.tar")


def test_a_backup_with_files_that_this_version_does_not_know_is_a_newer_tandems(archive):
    def rename(members):
        members["manifest.json"] = members["manifest.json"].replace(b"keys.yaml", b"../x.yaml")

    repack(archive, rename)

    with pytest.raises(StoreUnusable, match="written by a newer Tandem"):
        read_manifest(archive)


def test_no_file_is_replaced_under_a_router(archive, here):
    lock = FileLock(here / "tandem.db")

    with pytest.raises(StoreInUse):
        restore_archive(archive, read_manifest(archive), places_in(here))

    lock.release()
    assert [file.name for file in here.iterdir() if "restor" in file.name] == []


def test_where_one_file_cannot_be_put_in_place_all_stay_as_they_were(archive, here, monkeypatch):
    (here / "keys.yaml").write_text("callers: {ada: {keys: []}}\n")
    monkeypatch.setattr(os, "utime", lambda path: refuse() if "keys" in path.name else None)

    def refuse():
        raise OSError("no")

    with pytest.raises(OSError, match="no"):
        restore_archive(archive, read_manifest(archive), places_in(here))

    assert count(here / "tandem.db") == 3
    assert sorted(file.name for file in here.iterdir() if not file.name.startswith("keys")) == ["tandem.db"]


def test_a_config_keeps_who_may_read_it_and_a_new_file_is_private(archive, here):
    keys = here / "keys.yaml"
    keys.chmod(0o640)
    restore_archive(archive, read_manifest(archive), places_in(here))
    replaced = keys.stat().st_mode & 0o777
    keys.unlink()

    restore_archive(archive, read_manifest(archive), places_in(here))

    assert (replaced, keys.stat().st_mode & 0o777) == (0o640, 0o600)


def test_no_archive_is_overwritten(archive, here):
    with pytest.raises(FileExistsError):
        write_archive(archive, [Item("keys.yaml", here / "keys.yaml", "keys.yaml")], "")
