"""Transcripts on disk: private, in order, and gone after thirty days."""

import sqlite3

import pytest

from router.contract.request import Transcript
from router.contract.transcript import StoredResponse
from router.ledger.files import LedgerUnusable
from router.ledger.transcripts import SqliteResponses

DAY = 86_400.0


def make(name: str = "resp_1", caller: str = "ann", at: float = 0.0) -> StoredResponse:
    return StoredResponse.write(caller, "spark", at, Transcript(["hi"], [""]), {"id": name, "output": []})


@pytest.fixture
def opened(tmp_path):
    """Open a store on the same file again and again; each is closed with the test."""
    stores, failures = [], []

    def begin(now: float = 0.0) -> SqliteResponses:
        store = SqliteResponses(
            tmp_path / "responses.db", on_failure=lambda reason, lost: failures.append((reason, lost)), clock=lambda: now
        )
        store.failures = failures
        stores.append(store)
        return store

    yield begin
    for store in stores:
        store.close()


async def test_what_is_kept_is_there_for_the_next_process_and_for_its_caller_only(opened, tmp_path):
    store = opened()
    store.keep(make(), for_long=True)
    store.close()

    again = opened()

    assert await again.find("resp_1", "ann") == make()
    assert await again.find("resp_1", "bob") is None
    assert (await again.is_denied("resp_1", "bob"), await again.is_denied("resp_1", "ann")) == (True, False)
    for file in tmp_path.glob("responses.db*"):
        assert file.stat().st_mode & 0o777 == 0o600


async def test_a_deletion_is_never_overtaken_by_the_write_before_it(opened):
    store = opened()
    for _ in range(50):
        store.keep(make(), for_long=True)

        assert await store.forget("resp_1", "ann")
        assert await store.find("resp_1", "ann") is None
    assert not await store.forget("resp_1", "ann")


async def test_after_thirty_days_a_transcript_is_not_found_and_the_next_write_deletes_it(opened, tmp_path):
    store = opened()
    store.keep(make(), for_long=True)
    store.close()

    later = opened(now=30 * DAY + 1)
    assert await later.find("resp_1", "ann") is None
    later.keep(make("resp_2", at=30 * DAY), for_long=True)
    assert await later.find("resp_2", "ann") is not None

    rows = sqlite3.connect(tmp_path / "responses.db").execute("SELECT id FROM transcripts").fetchall()
    assert rows == [("resp_2",)]


async def test_a_file_that_was_moved_away_is_made_anew(opened, tmp_path):
    store = opened()
    store.keep(make(), for_long=True)
    await store.find("resp_1", "ann")
    for file in tmp_path.glob("responses.db*"):
        file.unlink()

    store.keep(make("resp_2"), for_long=True)

    assert await store.find("resp_2", "ann") is not None
    assert (tmp_path / "responses.db").stat().st_mode & 0o777 == 0o600


async def test_a_write_that_fails_is_counted_and_said(opened, tmp_path):
    store = opened()
    await store.find("resp_1", "ann")
    with sqlite3.connect(tmp_path / "responses.db") as database:
        database.execute("DROP TABLE transcripts")

    store.keep(make(), for_long=True)

    assert await store.find("resp_1", "ann") is None
    assert store.failures[0] == ("OperationalError", 1)


def test_what_comes_after_the_close_is_counted_as_lost(opened):
    store = opened()
    store.close()

    store.keep(make(), for_long=True)

    assert store.failures == [("Closed", 1)]


def test_a_file_that_is_no_database_is_refused(tmp_path):
    (tmp_path / "responses.db").write_bytes(b"no database, but a text that is long enough to be looked at" * 20)

    with pytest.raises(LedgerUnusable, match=r"responses\.db"):
        SqliteResponses(tmp_path / "responses.db", on_failure=print)
