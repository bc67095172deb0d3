"""One process writes to a file. Another is told who it is, and a process that died holds nobody up."""

import fcntl
import os
import subprocess
import sys

import pytest

from router.stores.sqlite.files import StoreUnusable
from router.stores.sqlite.lock import FileLock, Owner, StoreInUse, find_owner
from router.stores.sqlite.schemas import LEDGER
from router.stores.sqlite.writer import SqliteWriter
from tests.tools.quick import starts

HOLD = """
import sys
from pathlib import Path
from router.stores.sqlite.lock import FileLock
FileLock(Path(sys.argv[1]), "http://127.0.0.1:4000")
print("held", flush=True)
sys.stdin.read()
"""


@pytest.fixture
@starts
def hold():
    """Processes that each hold a file."""
    started = []

    def begin(path) -> subprocess.Popen:
        process = subprocess.Popen([sys.executable, "-c", HOLD, path], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        started.append(process)
        assert process.stdout.readline() == "held\n"
        return process

    yield begin
    for process in started:
        process.kill()
        process.communicate()


def test_a_file_that_another_process_writes_to_is_refused_with_who_that_is(tmp_path, hold):
    path = tmp_path / "a.db"
    process = hold(path)

    with pytest.raises(StoreInUse) as refused:
        FileLock(path)

    owner = find_owner(path)
    assert (owner.pid, owner.address) == (process.pid, "http://127.0.0.1:4000")
    assert str(refused.value) == f"{path} is in use by another Tandem router ({owner})"
    assert f"http://127.0.0.1:4000, pid {process.pid}, since 2" in str(owner)


def test_a_process_that_was_killed_holds_nobody_up(tmp_path, hold):
    path = tmp_path / "a.db"
    process = hold(path)

    process.kill()
    process.wait()

    assert find_owner(path) is None
    FileLock(path).release()
    assert list(tmp_path.iterdir()) == []


def test_two_names_of_one_file_are_one_file(tmp_path, hold):
    (tmp_path / "a.db").touch()
    (tmp_path / "b.db").symlink_to(tmp_path / "a.db")
    hold(tmp_path / "a.db")

    with pytest.raises(StoreInUse):
        FileLock(tmp_path / "b.db")


def test_a_lock_that_is_released_leaves_the_one_that_took_its_name_alone(tmp_path):
    folder = tmp_path / "here"
    folder.mkdir()
    moved = FileLock(folder / "a.db")
    folder.rename(tmp_path / "there")
    folder.mkdir()
    newer = FileLock(folder / "a.db")

    moved.release()

    assert find_owner(folder / "a.db").pid == os.getpid()
    newer.release()


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"\xff" * 2_000])
def test_an_owner_that_cannot_be_read_is_unknown(tmp_path, content):
    path = tmp_path / "a.db"
    lock = FileLock(path)
    (tmp_path / "a.db.lock").write_bytes(content)

    assert find_owner(path) == Owner()
    assert str(Owner()) == "unknown"
    lock.release()


async def test_a_second_writer_is_refused_before_it_touches_the_file_and_served_once_the_first_has_closed(tmp_path):
    path = tmp_path / "a.db"
    first = SqliteWriter(path, LEDGER.up_to(LEDGER.oldest), on_failure=print)
    first.attach("one", lambda _: False)

    with pytest.raises(StoreInUse):
        SqliteWriter(path, LEDGER, on_failure=print)
    assert await first.run(lambda database: database.execute("PRAGMA user_version").fetchone()) == (LEDGER.oldest,)

    await first.detach("one")
    second = SqliteWriter(path, LEDGER, on_failure=print)
    second.attach("two", lambda _: False)
    await second.detach("two")


def test_a_file_that_cannot_be_opened_is_not_held(tmp_path):
    path = tmp_path / "a.db"
    path.write_text("not a database" * 100)

    with pytest.raises(StoreUnusable, match="not a usable database"):
        SqliteWriter(path, LEDGER, on_failure=print)

    assert find_owner(path) is None


def test_a_lock_on_a_file_that_its_last_owner_deleted_meanwhile_is_taken_again(tmp_path, monkeypatch):
    path, flock, calls = tmp_path / "a.db", fcntl.flock, []

    def delete_first(handle: int, kind: int) -> None:
        if not calls:
            (tmp_path / "a.db.lock").unlink()
        calls.append(kind)
        flock(handle, kind)

    monkeypatch.setattr(fcntl, "flock", delete_first)
    lock = FileLock(path)

    with pytest.raises(StoreInUse):
        FileLock(path)
    lock.release()
