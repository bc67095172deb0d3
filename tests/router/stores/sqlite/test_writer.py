"""The writer: order, bounds, and what a broken file or a bad row costs."""

import asyncio
import contextlib
import sqlite3
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from router.contract.stores import StoreUnusable
from router.stores.sqlite.reader import RowReader
from router.stores.sqlite.rows import Row
from router.stores.sqlite.schemas import Migrations
from router.stores.sqlite.writer import LOG_GONE, SqliteWriter
from tests.tools.ledgers import locks_on
from tests.tools.waiting import until

TABLE = "CREATE TABLE things (name TEXT PRIMARY KEY, size INTEGER NOT NULL);"
THINGS = Migrations(1, (TABLE,))
ADD = "INSERT INTO things (name, size) VALUES (?, ?)"
SET = "INSERT OR REPLACE INTO things (name, size) VALUES (?, ?)"


def keep_all(database: sqlite3.Connection) -> bool:
    return False


class Opened:
    """A writer on a file of its own, with one store that uses it, and what it said."""

    def __init__(self, path: Path, **bounds: float) -> None:
        self.path = path
        self.failures: list[tuple[str, int]] = []
        self.writer = SqliteWriter(path, THINGS, on_failure=lambda *seen: self.failures.append(seen), **bounds)
        self.writer.attach(self, keep_all)

    def add(self, name: str, size: object = 1) -> None:
        self.writer.append(Row(ADD, (name, size), 10))

    def set(self, name: str, size: int) -> None:
        self.writer.put(SET, name, (name, size), 10)

    async def read(self) -> dict[str, int]:
        return dict(await self.writer.run(lambda database: database.execute("SELECT name, size FROM things").fetchall()))

    def read_file(self) -> dict[str, int]:
        with contextlib.closing(sqlite3.connect(self.path)) as database:
            return dict(database.execute("SELECT name, size FROM things").fetchall())

    @contextlib.asynccontextmanager
    async def held(self) -> AsyncIterator[None]:
        """Keep the writer's thread from taking anything."""
        is_held, go = threading.Event(), threading.Event()

        def hold(_: sqlite3.Connection) -> None:
            is_held.set()
            go.wait(30)

        async with asyncio.TaskGroup() as group:
            group.create_task(self.writer.run(hold))
            await until(is_held.is_set)
            try:
                yield
            finally:
                go.set()

    async def close(self) -> None:
        await self.writer.detach(self)


@pytest.fixture
async def opened(tmp_path):
    """Open a writer. It is closed with the test."""
    writers = []

    def begin(**bounds: float) -> Opened:
        writers.append(Opened(tmp_path / "a.db", **bounds))
        return writers[-1]

    yield begin
    for one in writers:
        await one.close()


def replace_by_folder(path: Path) -> None:
    """A file that cannot be opened, not even by root."""
    for file in path.parent.glob(f"{path.name}*"):
        file.unlink()
    path.mkdir()


@pytest.fixture
def one(opened):
    return opened()


async def test_rows_are_written_soon_and_all_at_the_close(one):
    one.add("soon")
    await until(lambda: one.read_file() == {"soon": 1})
    for number in range(1_200):
        one.add(str(number))

    await one.close()

    assert len(one.read_file()) == 1_201
    assert one.failures == []


async def test_a_batch_that_is_full_does_not_wait_for_its_time(opened):
    one = opened(batch_seconds=60.0)
    await one.read()

    for number in range(500):
        one.add(str(number))

    await until(lambda: len(one.read_file()) == 500)


@pytest.mark.parametrize(
    ("size", "kind"),
    [
        (1 << 70, "OverflowError"),
        (object(), "ProgrammingError"),
        (None, "IntegrityError"),
        (float("nan"), "IntegrityError"),
        ("\ud800", "UnicodeEncodeError"),
    ],
    ids=["too large a number", "no value of SQLite's", "null", "not a number", "half a surrogate pair"],
)
async def test_a_row_that_sqlite_refuses_costs_no_other(one, size, kind):
    async with one.held():
        one.add("before")
        one.add("bad", size)
        one.add("after")

    assert await one.read() == {"before": 1, "after": 1}
    assert one.failures == [(kind, 1)]
    assert one.writer.lost == 1


async def test_a_bad_row_under_a_key_does_not_wait_for_ever(one):
    one.set("bad", 1 << 70)

    assert await one.read() == {}
    assert one.writer.find_waiting("bad") is None
    assert one.failures == [("OverflowError", 1)]


async def test_rows_that_do_not_fit_are_counted_and_said_once(opened):
    one = opened(max_rows=3)
    async with one.held():
        for number in range(6):
            one.add(str(number))
        one.set("key", 1)

    await one.close()

    assert list(one.read_file()) == ["0", "1"]  # the job that held the writer took a place
    assert one.failures == [("QueueFull", 5)]


async def test_bytes_that_wait_are_bounded_and_freed_when_they_are_written(opened):
    one = opened(max_bytes=25)
    for batch in range(3):
        async with one.held():
            for number in range(6):
                one.add(f"{batch}.{number}")

    assert len(await one.read()) == 9
    assert one.writer.lost == 9


async def test_of_several_rows_for_a_key_the_last_is_written(one):
    async with one.held():
        for size in range(5):
            one.set("a", size)
        assert one.writer.find_waiting("a") == ("a", 4)

    assert await one.read() == {"a": 4}
    assert one.writer.find_waiting("a") is None


async def test_a_row_that_is_replaced_while_it_is_being_written_is_written_again(one):
    is_held, go = threading.Event(), threading.Event()

    def hold() -> None:
        is_held.set()
        go.wait(30)

    await one.writer.run(lambda database: database.create_function("hold", 0, hold))
    held = "INSERT OR REPLACE INTO things (name, size) SELECT ?, ? WHERE hold() IS NULL"

    one.writer.put(held, "a", ("a", 1), 10)
    await until(is_held.is_set)
    one.writer.put(held, "a", ("a", 2), 10)
    go.set()
    await one.close()

    assert one.read_file() == {"a": 2}
    assert one.writer.find_waiting("a") is None


async def test_a_job_finds_everything_that_was_queued_before_it(one):
    for number in range(700):
        one.add(str(number))

    assert len(await one.read()) == 700


async def test_what_a_job_raises_is_its_callers_and_the_writer_goes_on(one):
    with pytest.raises(sqlite3.OperationalError, match="no such table"):
        await one.writer.run(lambda database: database.execute("SELECT * FROM absent"))
    with pytest.raises(ZeroDivisionError):
        await one.writer.run(lambda _: 1 / 0)

    one.add("a")
    assert await one.read() == {"a": 1}
    assert one.failures == [("OperationalError", 0)]


async def test_a_job_that_nobody_waits_for_any_more_is_not_done(one):
    done = []
    async with one.held():
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(one.writer.run(done.append), 0.01)

    await one.read()

    assert done == []


async def test_a_file_that_is_locked_delays_rows_and_loses_none(one):
    with contextlib.closing(sqlite3.connect(one.path, isolation_level=None)) as other:
        other.execute("BEGIN EXCLUSIVE")
        one.add("a")
        closing = asyncio.gather(one.close())
        await asyncio.sleep(0)
        other.execute("ROLLBACK")

    await closing

    assert one.read_file() == {"a": 1}
    assert one.writer.lost == 0


async def test_a_lock_that_outlasts_the_writers_patience_is_said_and_tried_again(opened):
    one = opened(lock_seconds=0.01)
    with contextlib.closing(sqlite3.connect(one.path, isolation_level=None)) as other:
        other.execute("BEGIN EXCLUSIVE")
        one.add("a")
        await until(lambda: one.failures)
        with pytest.raises((sqlite3.OperationalError, StoreUnusable)):
            await one.read()
        other.execute("ROLLBACK")

    assert await one.read() == {"a": 1}
    assert {lost for _, lost in one.failures} == {0}


async def test_a_file_that_vanished_is_made_anew_for_its_owner_alone(one):
    one.add("a")
    await one.read()
    async with one.held():
        for file in one.path.parent.glob("a.db*"):
            file.unlink()

    one.add("b")

    assert await one.read() == {"b": 1}
    assert [file.stat().st_mode & 0o777 for file in one.path.parent.glob("a.db*")] == [0o600] * 4
    assert one.failures == [("FileNotFoundError", 0)]


async def test_a_file_that_was_replaced_is_taken_and_gets_its_tables(one, tmp_path):
    one.add("a")
    await one.read()
    for file in tmp_path.glob("a.db-*"):
        file.unlink()
    (tmp_path / "other.db").touch()
    (tmp_path / "other.db").replace(one.path)

    one.add("b")

    assert await one.read() == {"b": 1}
    assert one.path.stat().st_mode & 0o777 == 0o600


async def test_rows_wait_while_the_file_cannot_be_opened_and_are_written_once_it_can(opened):
    one = opened()
    await one.read()
    replace_by_folder(one.path)
    one.add("a")
    with pytest.raises(StoreUnusable, match=r"a\.db cannot be opened"):
        await one.read()
    one.path.rmdir()

    assert await one.read() == {"a": 1}
    assert one.writer.lost == 0


async def test_a_file_that_cannot_be_opened_at_the_start_is_tried_again_until_it_can_be(opened, tmp_path):
    (tmp_path / "a.db").mkdir()
    one = opened()
    one.add("a")

    with pytest.raises(StoreUnusable, match=r"a\.db cannot be opened: Is a directory"):
        await one.read()
    assert (one.writer.was_open, one.writer.failing.cause, one.failures) == (False, "Is a directory", [("Is a directory", 0)])
    with pytest.raises(StoreUnusable, match=r"a\.db cannot be written to: Is a directory"):
        one.writer.check_written()
    one.path.rmdir()

    await until(lambda: one.writer.failing is None)
    assert (one.writer.was_open, one.writer.lost, await one.read()) == (True, 0, {"a": 1})


async def test_an_outage_ends_without_a_row_to_write(one):
    await one.read()
    replace_by_folder(one.path)
    with pytest.raises(StoreUnusable):
        await one.read()
    assert one.writer.failing.is_outage

    one.path.rmdir()

    await until(lambda: one.writer.failing is None or not one.writer.failing.is_outage)


async def test_a_folder_that_was_moved_is_not_made_again_and_its_file_is_used_once_it_is_back(tmp_path):
    one = Opened(tmp_path / "folder" / "a.db")
    one.add("a")
    await one.read()
    (tmp_path / "folder").rename(tmp_path / "moved")
    one.add("b")

    with pytest.raises(StoreUnusable, match=r"a\.db cannot be opened: its folder was moved or deleted"):
        await one.read()
    assert not (tmp_path / "folder").exists()
    (tmp_path / "moved").rename(tmp_path / "folder")

    await until(lambda: one.writer.failing is None or not one.writer.failing.is_outage)
    assert await one.read() == {"a": 1, "b": 1}
    await one.close()


async def test_an_outage_is_said_once_however_often_the_file_is_tried_and_the_next_one_again(one):
    await one.read()
    for name in ("a", "b"):
        replace_by_folder(one.path)
        one.add(name)
        for _ in range(6):
            with pytest.raises(StoreUnusable):
                await one.read()
        one.path.rmdir()
        await one.read()

    assert [kind for kind, _ in one.failures if kind != "FileNotFoundError"] == ["Is a directory", "Is a directory"]


async def test_rows_that_are_refused_again_and_again_are_said_once_and_counted_at_the_end(one):
    for name in "abcdef":
        one.add(name, None)
        await one.read()

    assert one.failures == [("IntegrityError", 1)]
    await one.close()
    assert one.failures == [("IntegrityError", 1), ("Closed", 6)]


async def test_a_table_that_somebody_dropped_costs_rows_and_is_said(one):
    await one.read()
    with contextlib.closing(sqlite3.connect(one.path)) as other:
        other.execute("DROP TABLE things")

    one.add("a")
    one.add("b")

    await until(lambda: one.failures)
    await one.close()
    assert one.failures[-1] == ("OperationalError", 2)


async def test_what_cannot_be_written_at_the_close_is_counted(one):
    await one.read()
    replace_by_folder(one.path)
    one.add("a")
    one.set("b", 1)

    await one.close()

    assert one.writer.lost == 2
    assert one.failures[-1] == ("Closed", 2)


async def test_what_comes_after_the_close_is_counted_and_said(one):
    await one.close()

    one.add("a")
    one.set("b", 1)

    assert one.failures == [("Closed", 1), ("Closed", 2)]
    with pytest.raises(StoreUnusable, match=r"a\.db is closed"):
        await one.read()
    await one.close()


async def test_the_writer_stops_with_the_last_store_that_uses_it(one):
    one.writer.attach("another", keep_all)
    one.add("a")

    await one.close()
    assert one.read_file() == {"a": 1}
    one.add("b")
    await one.writer.detach("another")

    assert one.read_file() == {"a": 1, "b": 1}
    assert one.failures == []


async def test_a_store_deletes_what_is_too_old_a_little_in_each_round(one):
    rounds = []

    def delete_some(database: sqlite3.Connection) -> bool:
        rounds.append(database.execute("SELECT count(*) FROM things").fetchone()[0])
        return len(rounds) < 3

    one.writer.attach("tidy", delete_some)
    while len(rounds) < 3:
        await one.read()
    await one.read()
    await one.read()

    assert len(rounds) == 3
    await one.writer.detach("tidy")


async def test_a_deletion_that_fails_stops_no_writing(one):
    one.writer.attach("tidy", lambda database: bool(database.execute("DELETE FROM absent")))
    await until(lambda: one.failures)

    one.add("a")

    assert await one.read() == {"a": 1}
    await one.writer.detach("tidy")


async def test_a_listener_that_fails_ends_neither_the_writer_nor_a_request(tmp_path):
    def fail(*_: object) -> None:
        raise ValueError("I/O operation on closed file")

    writer = SqliteWriter(tmp_path / "a.db", THINGS, on_failure=fail)
    writer.attach("one", keep_all)
    writer.append(Row(ADD, ("bad", 1 << 70), 10))
    writer.append(Row(ADD, ("good", 1), 10))

    names = await writer.run(lambda database: database.execute("SELECT name FROM things").fetchall())
    await writer.detach("one")
    writer.append(Row(ADD, ("late", 1), 10))

    assert names == [("good",)]
    assert writer.lost == 2


def open_elsewhere(path: Path, statement: str = "CREATE TABLE IF NOT EXISTS visits (x)") -> str:
    """Another program opens the file, writes to it and closes it again."""
    code = f"import sqlite3; d = sqlite3.connect({str(path)!r}, timeout=30); print(d.execute({statement!r}).fetchall()); d.commit(); d.close()"
    return subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True, timeout=60).stdout


@contextlib.contextmanager
def held_open_elsewhere(path: Path) -> Iterator[None]:
    code = f"import sqlite3, sys; d = sqlite3.connect({str(path)!r}); d.execute('SELECT * FROM things'); print(flush=True); sys.stdin.read()"
    process = subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    process.stdout.readline()
    try:
        yield
    finally:
        process.communicate()


@pytest.mark.starts
async def test_its_locks_outlive_a_first_reader_and_a_reconnect_so_that_no_program_deletes_the_log(opened):
    one = opened(batch_seconds=0.01)
    reader = RowReader(one.path)
    one.writer.watch(reader)
    reader.find_row("SELECT 1 FROM things")  # as a request that comes before the first row is written
    one.add("first")
    await one.read()
    with contextlib.suppress(sqlite3.Error):
        await one.writer.run(lambda database: database.execute("SELECT no such thing"))  # after which it connects again
    one.add("second")
    await one.read()

    assert locks_on(one.path)
    open_elsewhere(one.path)
    one.add("third")
    await one.read()

    assert open_elsewhere(one.path, "SELECT count(*) FROM things") == "[(3,)]\n"
    assert one.failures == [("OperationalError", 0)]
    reader.close()


@pytest.mark.parametrize("side_file", ["-wal", "-shm"])
@pytest.mark.starts
async def test_a_log_that_was_deleted_is_noticed_and_what_is_written_next_is_seen_by_others(one, side_file):
    reader = RowReader(one.path)
    one.writer.watch(reader)
    one.add("before")
    await one.read()
    assert reader.find_row("SELECT name FROM things") == ("before",)

    one.path.with_name(f"{one.path.name}{side_file}").unlink()
    one.add("after")
    await one.read()

    assert open_elsewhere(one.path, "SELECT name FROM things ORDER BY name") == "[('after',), ('before',)]\n"
    assert reader.find_row("SELECT count(*) FROM things") == (2,)
    assert one.failures == [(LOG_GONE, 0)]
    reader.close()


@pytest.mark.starts
async def test_rows_that_were_in_a_log_that_nobody_can_save_are_counted(one):
    await one.writer.run(lambda database: database.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall())
    for number in range(3):
        one.add(f"{number}")
    await one.read()

    for side_file in ("a.db-wal", "a.db-shm"):
        one.path.with_name(side_file).unlink()
    with held_open_elsewhere(one.path):  # so that nobody may write what the deleted log holds into the file
        one.add("after")
        found = await one.read()

    assert found == {"after": 1}
    assert one.failures == [(LOG_GONE, 3)]


async def test_rows_wait_until_they_are_written(one):
    async with one.held():
        before = one.writer.waiting_rows
        one.add("one")
        one.add("two")
        assert one.writer.waiting_rows == before + 2

    await until(lambda: one.writer.waiting_rows == 0)
    assert set(one.read_file()) == {"one", "two"}
