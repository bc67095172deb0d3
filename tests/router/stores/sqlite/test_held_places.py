"""Places of words: in memory until a turn is marked, the router reloads or ends."""

import asyncio
import sqlite3
import time
from contextlib import closing

import pytest

from router.contract.caller import Caller
from router.contract.words import Tier
from router.past.worth import fold
from router.stores.sqlite.entries import SqliteEntries
from router.stores.sqlite.forget import forget_caller
from router.stores.sqlite.marks import mark_misjudged
from router.stores.sqlite.past import SqliteEntryReader
from router.stores.sqlite.schemas import LEDGER
from router.stores.sqlite.writer import SqliteWriter
from tests.tools.kept import ANN, BOB, explain_shortly, make_entry, open_entries
from tests.tools.running import read_entries
from tests.tools.waiting import until

DAY = 86_400.0
PLACES = (int.from_bytes(b"1234", "little"),)


@pytest.fixture
async def store(tmp_path):
    failures = []
    one = open_entries(tmp_path / "a.db", failures)
    yield one
    await one.close()
    assert failures == []


def read_places(path) -> list[tuple]:
    with closing(sqlite3.connect(path)) as database:
        return database.execute("SELECT request_id, caller, places FROM places ORDER BY sequence").fetchall()


async def test_the_places_of_a_turn_are_kept_next_to_its_row_and_none_where_it_has_none(store, tmp_path):
    store.append(make_entry("req_1", places=PLACES))
    store.append(make_entry("req_2"))
    await store.close()

    assert read_places(tmp_path / "a.db") == [("req_1", "local", b"1234")]
    assert [row["id"] for row in read_entries(tmp_path / "a.db")] == ["req_1", "req_2"]


async def test_places_are_kept_of_the_newest_100_turns_of_each_caller(tmp_path):
    failures = []
    for numbers in (range(60), range(60, 111)):
        store = open_entries(tmp_path / "a.db", failures)
        for number in numbers:
            store.append(make_entry(f"req_{number}", places=PLACES))
        store.append(make_entry(f"ann_{numbers[0]}", ANN, places=PLACES))
        await store.close()

    assert failures == []
    kept = {name for name, _, _ in read_places(tmp_path / "a.db")}
    assert kept == {"ann_0", "ann_60", *(f"req_{number}" for number in range(11, 111))}


async def test_places_stay_in_memory_until_one_of_their_turns_is_marked(store, tmp_path):
    path = tmp_path / "a.db"
    for number in range(3):
        store.append(make_entry(f"req_{number}", places=PLACES))
    await store.sync()
    assert read_places(path) == []
    turn = SqliteEntryReader(path).find_beginning("req_1")

    judged = await asyncio.to_thread(mark_misjudged, path, turn, Tier.DEEP)

    assert judged.teaches
    assert [marked.places for marked in SqliteEntryReader(path).read_marks().turns] == [b"1234"]
    assert [name for name, _, _ in read_places(path)] == ["req_0", "req_1", "req_2"]
    store.append(make_entry("req_3", places=PLACES))
    await store.keep_places()
    assert [name for name, _, _ in read_places(path)] == ["req_0", "req_1", "req_2", "req_3"], "each once"


async def test_places_of_a_caller_who_was_forgotten_are_not_written_any_more(store, tmp_path):
    for name, caller in (("req_1", ANN), ("req_2", BOB)):
        store.append(make_entry(name, caller, places=PLACES))
    await store.sync()

    await asyncio.to_thread(forget_caller, tmp_path / "a.db", ANN)
    await store.close()

    assert [name for name, _, _ in read_places(tmp_path / "a.db")] == ["req_2"]


async def test_places_of_many_callers_are_bounded(store, tmp_path):
    for number in range(102):
        store.append(make_entry(f"req_{number}", Caller(f"c{number}"), places=PLACES))
    await store.close()

    assert len(read_places(tmp_path / "a.db")) == 100


async def test_places_of_yesterday_go_when_new_ones_come(store, tmp_path):
    store.append(make_entry("req_1", at=time.time() - 1.1 * DAY, places=PLACES))
    store.append(make_entry("req_2", places=PLACES))
    await store.close()

    assert [name for name, _, _ in read_places(tmp_path / "a.db")] == ["req_2"]


async def test_places_of_yesterday_go_where_no_new_ones_come(tmp_path):
    failures = []
    store = open_entries(tmp_path / "a.db", failures)
    store.append(make_entry("req_1"))
    await store.close()
    with closing(sqlite3.connect(tmp_path / "a.db")) as database:
        row = ("req_1", time.time() - 1.1 * DAY, "local", b"1234")
        database.execute("INSERT INTO places (request_id, at, caller, places) VALUES (?, ?, ?, ?)", row)
        database.commit()

    store = open_entries(tmp_path / "a.db", failures)  # its upkeep is due at once
    await until(lambda: read_places(tmp_path / "a.db") == [])
    await store.close()

    assert failures == []
    assert [row["id"] for row in read_entries(tmp_path / "a.db")] == ["req_1"]


@pytest.mark.parametrize("first_hours_ago", [23.5, -2_000])
async def test_places_of_yesterday_go_though_the_row_before_them_is_younger(store, tmp_path, first_hours_ago):
    now = time.time()
    # A long request came first and ended last, or the clock was ahead for a while.
    for name, hours in (("first", first_hours_ago), ("long", 27), ("new", 0)):
        store.append(make_entry(name, at=now - hours * 3_600, places=PLACES))
    await store.close()

    assert [name for name, _, _ in read_places(tmp_path / "a.db")] == ["first", "new"]


async def test_no_places_are_kept_where_none_are_wanted(tmp_path):
    writer = SqliteWriter(tmp_path / "a.db", LEDGER, on_failure=lambda *_: None)
    store = SqliteEntries(writer, keep_days=30, explain=explain_shortly, fold=fold, keeps_places=False)
    store.append(make_entry(places=PLACES))
    await store.close()

    assert read_places(tmp_path / "a.db") == []
    assert len(read_entries(tmp_path / "a.db")) == 1


async def test_places_that_are_too_old_are_forgotten_with_their_turns(tmp_path):
    failures = []
    store = open_entries(tmp_path / "a.db", failures)
    store.append(make_entry("old", at=time.time() - 400 * DAY, places=PLACES))
    store.append(make_entry("new", places=PLACES))
    await store.close()
    store = open_entries(tmp_path / "a.db", failures)
    store.append(make_entry("newer", places=PLACES))
    await store.close()

    assert [name for name, _, _ in read_places(tmp_path / "a.db")] == ["new", "newer"]
    assert failures == []
