"""Responses on SQLite: private, in order, and gone after thirty days."""

import os
import sqlite3
from contextlib import closing

import pytest

from router.contract.stores import StoreUnusable
from tests.tools.kept import ANN, make_response, open_responses, remove_database
from tests.tools.waiting import until

DAY = 86_400.0


@pytest.fixture
async def opened(tmp_path):
    """Open a store on the same file again and again; each is closed with the test."""
    stores = []

    def begin(now: float = 0.0, failures: list | None = None):
        told = [] if failures is None else failures
        stores.append(open_responses(tmp_path / "responses.db", told, clock=lambda: now))
        return stores[-1]

    yield begin
    for store in stores:
        await store.close()


async def test_a_file_is_its_owners_alone(opened, tmp_path):
    store = opened()
    store.keep(make_response(at=0.0), for_long=True)
    await store.find("resp_1", ANN)

    assert [file.stat().st_mode & 0o777 for file in tmp_path.glob("responses.db*")] == [0o600] * 4


def believed(path) -> float | None:
    """The time that the file itself remembers."""
    with closing(sqlite3.connect(path)) as database:
        try:
            found = database.execute("SELECT at FROM upkeep WHERE name = 'trusted'").fetchone()
        except sqlite3.OperationalError:  # nobody has looked after it yet
            return None
    return None if found is None else found[0]


async def test_after_thirty_days_a_response_is_not_found_and_is_deleted(opened, tmp_path):
    store = opened()
    store.keep(make_response(at=0.0), for_long=True)
    await store.close()
    (copy := tmp_path / "responses.db.before-2").write_text("the file before a migration holds the response too")
    os.utime(copy, (0.0, 0.0))
    for day in (6, 12, 18, 24):  # a clock that leaps is not believed at once
        store = opened(now=day * DAY)
        assert await store.find("resp_1", ANN) is not None
        assert copy.exists()
        await until(lambda day=day: believed(tmp_path / "responses.db") == day * DAY)
        await store.close()

    later = opened(now=30 * DAY + 1)
    assert await later.find("resp_1", ANN) is None
    later.keep(make_response("resp_2", at=30 * DAY), for_long=True)
    assert await later.find("resp_2", ANN) is not None

    with closing(sqlite3.connect(tmp_path / "responses.db")) as database:
        await until(lambda: database.execute("SELECT id FROM transcripts").fetchall() == [("resp_2",)])
    await until(lambda: not copy.exists())


async def test_a_file_that_was_moved_away_is_made_anew(opened, tmp_path):
    store = opened()
    store.keep(make_response(at=0.0), for_long=True)
    await store.find("resp_1", ANN)
    remove_database(tmp_path / "responses.db")

    store.keep(make_response("resp_2", at=0.0), for_long=True)

    assert await store.find("resp_2", ANN) is not None
    assert (tmp_path / "responses.db").stat().st_mode & 0o777 == 0o600


async def test_a_write_that_fails_is_counted_and_said(opened, tmp_path):
    failures = []
    store = opened(failures=failures)
    await store.find("resp_1", ANN)
    with closing(sqlite3.connect(tmp_path / "responses.db")) as database:
        database.execute("DROP TABLE transcripts")

    store.keep(make_response(), for_long=True)

    with pytest.raises(StoreUnusable, match="no such table"):
        await store.find("resp_1", ANN)
    assert ("OperationalError", 1) in failures


async def test_a_deletion_that_cannot_be_done_is_not_taken_for_done(opened, tmp_path):
    store = opened()
    store.keep(make_response(at=0.0), for_long=True)
    await store.find("resp_1", ANN)
    remove_database(tmp_path / "responses.db")
    (tmp_path / "responses.db").mkdir()

    with pytest.raises(StoreUnusable, match=r"responses\.db cannot be written to"):
        await store.forget("resp_1", ANN)

    (tmp_path / "responses.db").rmdir()
    assert not await store.forget("resp_1", ANN)


async def test_all_rows_can_be_listed_a_few_at_a_time_and_loaded_with_their_items(opened):
    store = opened(now=40 * DAY)
    kept = [make_response(f"resp_{number}", at=39 * DAY, item_ids=[f"msg_{number}"]) for number in range(3)]
    for response in (make_response("resp_old", at=1.0), *kept):
        store.keep(response, for_long=True)

    first = await store.list_rows(0, 2)
    rest = await store.list_rows(first[-1][0], 2)

    assert [key for _, key in first + rest] == [(ANN, "resp_0"), (ANN, "resp_1"), (ANN, "resp_2")]
    assert [await store.load(name, ANN) for _, (_, name) in first + rest] == kept
    assert await store.load("resp_unknown", ANN) is None
