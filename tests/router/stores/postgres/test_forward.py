"""Copying the ledger: every row once, over outages, kills, other databases and deletions."""

import asyncio
import sqlite3
import time
from contextlib import asynccontextmanager, closing
from functools import partial
from pathlib import Path

import pytest

pytest.importorskip("asyncpg")

from router.past.worth import fold
from router.stores.postgres import entry_rows
from router.stores.postgres.forget import count_kept, forget_caller
from router.stores.postgres.forward import Forwarder
from router.stores.sqlite.entries import SqliteEntries
from router.stores.sqlite.files import connect
from router.stores.sqlite.forget import forget_caller as forget_in_file
from router.stores.sqlite.forwarded import look_at_waiting, read_mark
from router.stores.sqlite.schemas import LEDGER
from router.stores.sqlite.writer import SqliteWriter
from tests.tools.kept import ANN, BOB, explain_shortly, make_entry
from tests.tools.postgres import make_terms
from tests.tools.unreliable import DATABASE_FAULTS, UnreliableDatabase
from tests.tools.waiting import until

IDS = "SELECT id FROM tandem.entries ORDER BY id"


class Copied:
    """A ledger with its forwarder."""

    def __init__(self, path: Path, url: str, keep_days: int = 30) -> None:
        self.writer = SqliteWriter(path, LEDGER, on_failure=lambda *_: None)
        self.forwarder = Forwarder(make_terms(url), self.writer, keep_days=keep_days)
        self.entries = SqliteEntries(self.writer, keep_days=keep_days, explain=explain_shortly, fold=fold, is_forwarded=True)

    def append(self, *names: str, **more) -> None:
        for name in names:
            self.entries.append(make_entry(name, **more))

    async def close(self) -> None:
        await self.entries.close()
        await self.forwarder.close()


@asynccontextmanager
async def copying(path: Path, url: str, **more):
    one = Copied(path, url, **more)
    one.forwarder.start()
    try:
        yield one
    finally:
        await one.close()


async def ids_in(postgres, url: str) -> list[str]:
    return [name for (name,) in await postgres.ask(url, IDS)]


async def test_rows_are_copied_while_the_router_runs_and_the_last_ones_when_it_stops(postgres, tmp_path):
    url = await postgres.create_used()

    async with copying(tmp_path / "a.db", url) as one:
        one.append("req_1")
        await until(lambda: one.forwarder.copied == 1)
        assert await ids_in(postgres, url) == ["req_1"]
        one.append(*(f"req_{number}" for number in range(2, 702)))

    assert len(await ids_in(postgres, url)) == 701
    assert look_at_waiting(tmp_path / "a.db").rows == 0


async def test_rows_wait_in_the_file_while_the_database_is_away(postgres, tmp_path, listen):
    url, heard, told = await postgres.create(), listen(), []

    def hear() -> list[str]:
        told.extend(line["event"] for line in heard() if line["event"].startswith("store."))
        return told

    async with copying(tmp_path / "a.db", url) as one:
        one.append("req_1")
        await until(lambda: one.forwarder.copied == 1)
        async with postgres.refusing(url):
            one.append("req_2", at=time.time() - 10)
            await until(lambda: hear() == ["store.lost"] and one.forwarder.lag_seconds > 9)
            assert look_at_waiting(tmp_path / "a.db").rows == 1
        await until(lambda: one.forwarder.copied == 2)
        await until(lambda: one.forwarder.lag_seconds == 0)

    assert await ids_in(postgres, url) == ["req_1", "req_2"]
    assert hear() == ["store.lost", "store.back"]


async def test_what_a_process_had_copied_and_not_noted_when_it_died_is_not_there_twice(postgres, tmp_path):
    url = await postgres.create_used()
    async with copying(tmp_path / "a.db", url) as one:
        one.append("req_1", "req_2")
    with closing(connect(tmp_path / "a.db")) as database:
        database.execute("UPDATE forwarded SET sequence = 0")

    async with copying(tmp_path / "a.db", url) as one:
        one.append("req_3")
        await until(lambda: one.forwarder.copied == 3)

    assert await ids_in(postgres, url) == ["req_1", "req_2", "req_3"]


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("fault", DATABASE_FAULTS)
async def test_over_an_unreliable_link_each_row_is_copied_once(postgres, tmp_path, monkeypatch, fault, seed):
    monkeypatch.setattr("router.stores.postgres.forward.Link", partial(UnreliableDatabase, fault=fault, seed=seed))
    monkeypatch.setattr("router.stores.postgres.forward._RETRY_SECONDS", 0.01)
    url, names = await postgres.create_used(), [f"req_{number:02}" for number in range(40)]

    async with copying(tmp_path / "a.db", url) as one:
        for start in range(0, 40, 8):
            one.append(*names[start : start + 8])
            await until(lambda: one.forwarder.copied >= start + 8)  # noqa: B023  awaited in this turn

    assert await ids_in(postgres, url) == names
    assert look_at_waiting(tmp_path / "a.db")[::2] == (0, 0)


async def test_another_database_gets_the_whole_ledger(postgres, tmp_path):
    first, second = await postgres.create_used(), await postgres.create()
    async with copying(tmp_path / "a.db", first) as one:
        one.append("req_1")

    async with copying(tmp_path / "a.db", second) as one:
        one.append("req_2")

    assert await ids_in(postgres, second) == ["req_1", "req_2"]


async def test_tables_that_somebody_dropped_are_made_and_filled_again(postgres, tmp_path):
    url = await postgres.create()
    async with copying(tmp_path / "a.db", url) as one:
        one.append("req_1")
        await until(lambda: one.forwarder.copied == 1)
        await postgres.ask(url, "DROP SCHEMA tandem CASCADE")

        one.append("req_2")
        await until(lambda: one.forwarder.copied == 3)

    assert await ids_in(postgres, url) == ["req_1", "req_2"]


async def test_a_row_that_no_router_wrote_is_passed_over_and_counted(postgres, tmp_path, listen):
    url, heard = await postgres.create_used(), listen()
    store = Copied(tmp_path / "a.db", url)
    store.append("req_1", "req_2", "req_3", "req_4")
    await store.close()
    with closing(connect(tmp_path / "a.db")) as database:
        database.execute("UPDATE entries SET at = 'noon' WHERE id = 'req_2'")
        database.execute("UPDATE entries SET caller = hex(randomblob(20000)) WHERE id = 'req_3'")

    async with copying(tmp_path / "a.db", url) as one:
        await until(lambda: one.forwarder.copied == 2)

    assert await ids_in(postgres, url) == ["req_1", "req_4"]
    assert look_at_waiting(tmp_path / "a.db")[::2] == (0, 2)
    assert [line["rows"] for line in heard() if line["event"] == "ledger.uncopied"] == [1, 1]


async def test_what_is_forgotten_is_gone_from_the_copy_and_does_not_come_back(postgres, tmp_path):
    url = await postgres.create_used()
    async with copying(tmp_path / "a.db", url) as one:
        for number in range(400):
            one.append(f"a{number}", caller=ANN)
            one.append(f"b{number}", caller=BOB)
        await asyncio.to_thread(forget_in_file, tmp_path / "a.db", ANN)
        await asyncio.to_thread(forget_caller, make_terms(url), ANN)
        one.append("b_last", caller=BOB)

    left = read_callers(tmp_path / "a.db")
    kept = await asyncio.to_thread(count_kept, make_terms(url), ANN)
    # What was still in memory when the file forgot is new there; some of it may have been in the copy when that forgot.
    assert kept["requests"] <= left.count("ann")
    assert (await asyncio.to_thread(count_kept, make_terms(url), BOB))["requests"] == left.count("bob") == 401


def read_callers(path: Path) -> list[str]:
    with closing(sqlite3.connect(path)) as database:
        return [name for (name,) in database.execute("SELECT caller FROM entries")]


async def test_rows_that_are_forgotten_while_they_are_copied_are_not_committed(postgres, tmp_path, monkeypatch):
    url, insert = await postgres.create_used(), entry_rows.insert

    async def insert_and_forget(connection, rows) -> None:
        await insert(connection, rows)
        with closing(connect(tmp_path / "a.db")) as database:
            database.execute("DELETE FROM entries WHERE caller = ?", (ANN.name,))

    monkeypatch.setattr(entry_rows, "insert", insert_and_forget)
    async with copying(tmp_path / "a.db", url) as one:
        one.append("req_1", caller=ANN)
        one.append("req_2", caller=BOB)
        await until(lambda: one.forwarder.copied == 1)

    assert await ids_in(postgres, url) == ["req_2"]


async def test_rows_that_take_the_numbers_of_forgotten_ones_are_copied(postgres, tmp_path):
    url = await postgres.create_used()
    async with copying(tmp_path / "a.db", url) as one:
        one.append("req_1", caller=BOB)
        one.append("req_2", caller=ANN)
        await until(lambda: one.forwarder.copied == 2 and look_at_waiting(tmp_path / "a.db").rows == 0)
        await asyncio.to_thread(forget_in_file, tmp_path / "a.db", ANN)

        one.append("req_3", caller=BOB)
        await until(lambda: one.forwarder.copied == 3)

    assert "req_3" in await ids_in(postgres, url)


async def test_the_copy_keeps_rows_as_long_as_the_ledger_does(postgres, tmp_path):
    url = await postgres.create_used()
    async with copying(tmp_path / "old.db", url, keep_days=365) as one:
        one.append("old", at=time.time() - 40 * 86_400.0)
        one.append("new")

    async with copying(tmp_path / "b.db", url) as one:
        one.append("other")
        await until(lambda: one.forwarder.copied == 1)

    assert await ids_in(postgres, url) == ["new", "other"]


async def test_a_database_whose_clock_runs_ahead_loses_no_row(postgres, tmp_path, monkeypatch):
    url = await postgres.create_used()
    async with copying(tmp_path / "a.db", url) as one:
        one.append("req_1")
    monkeypatch.setattr("router.stores.postgres.entry_rows._NOW", "SELECT extract(epoch FROM now())::float8 + 40 * 86400")

    async with copying(tmp_path / "b.db", url) as one:
        one.append("req_2")

    assert await ids_in(postgres, url) == ["req_1", "req_2"]


async def test_of_two_processes_with_one_file_one_copies(postgres, tmp_path):
    url = await postgres.create_used()
    async with copying(tmp_path / "a.db", url) as one:
        one.append("req_1")
        await until(lambda: one.forwarder.copied == 1)
        second = Forwarder(make_terms(url), one.writer, keep_days=30)
        second.start()

        one.append("req_2")
        await until(lambda: one.forwarder.copied == 2)
        await second.close()

    assert second.copied == 0
    with closing(connect(tmp_path / "a.db")) as database:
        assert read_mark(database).sequence == 2


async def test_a_database_whose_clock_differs_is_reported(postgres, tmp_path, listen, monkeypatch):
    url, heard = await postgres.create_used(), listen()
    monkeypatch.setattr("router.stores.postgres.entry_rows._NOW", "SELECT extract(epoch FROM now())::float8 + 90")

    async with copying(tmp_path / "a.db", url) as one:
        one.append("req_1")
        await until(lambda: one.forwarder.copied == 1)

    (told,) = [line for line in heard() if line["event"] == "clock.differs"]
    assert (told["store"], round(told["seconds"])) == ("postgres", 90)
