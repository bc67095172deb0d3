"""How far a ledger is copied: what the file remembers, and what it must not take for copied."""

import sqlite3
import time
from contextlib import closing

import pytest

from router.contract.stores import StoreUnusable
from router.stores.sqlite.files import connect
from router.stores.sqlite.forwarded import Mark, Waiting, keep_mark, look_at_waiting, read_ids, read_mark, read_next
from tests.tools.kept import make_entry, open_entries
from tests.tools.running import read_entries
from tests.tools.waiting import until

DAY = 86_400.0


@pytest.fixture
async def database(tmp_path):
    """A ledger with three rows, a, b and c."""
    store = open_entries(tmp_path / "a.db", [])
    for name in "abc":
        store.append(make_entry(name, at=1_000.0, duration_ms=500.0))
    await store.close()
    with closing(connect(tmp_path / "a.db")) as opened:
        yield opened


def test_the_next_rows_follow_the_mark(database):
    keep_mark(database, Mark("here", 2), "b")

    assert read_mark(database) == Mark("here", 2, 0)
    assert [row[:2] for row in read_next(database, 2, 10)] == [(3, "c")]
    assert read_ids(database, 0, 2) == ["a", "b"]


def test_rows_with_much_text_are_read_a_few_at_a_time(database):
    database.execute("UPDATE entries SET prompt_text = ?", ("x" * 3_000_000,))

    assert [row[1] for row in read_next(database, 0, 10)] == ["a", "b"]


def test_text_that_is_not_utf_8_is_read_all_the_same(database):
    database.execute("UPDATE entries SET because = CAST(x'61ff62' AS TEXT) WHERE id = 'a'")

    assert "a\N{REPLACEMENT CHARACTER}b" in read_next(database, 0, 1)[0]


def test_refused_rows_add_up_and_another_database_begins_again(database):
    keep_mark(database, Mark("here", 2), "b", refused=1)
    keep_mark(database, Mark("there", 1), "a", refused=1)

    assert read_mark(database) == Mark("there", 1, 2)


def test_a_number_that_is_given_out_again_does_not_count_as_copied(database):
    keep_mark(database, Mark("here", 3), "c")

    database.execute("DELETE FROM entries WHERE id IN ('b', 'c')")

    assert read_mark(database).sequence == 1


def test_a_row_that_took_the_number_of_a_copied_one_is_not_noted_as_copied(database):
    keep_mark(database, Mark("here", 1), "a")
    database.execute("UPDATE entries SET id = 'new' WHERE id = 'c'")

    keep_mark(database, Mark("here", 3), "c")

    assert read_mark(database).sequence == 1


def test_what_waits_is_counted_with_the_moment_at_which_the_oldest_row_was_finished(database, tmp_path):
    keep_mark(database, Mark("here", 1), "a", refused=4)

    assert look_at_waiting(tmp_path / "a.db") == Waiting(2, 1_000.5, 4)


def test_a_file_that_is_not_a_ledger_says_what_is_wrong(tmp_path):
    sqlite3.connect(tmp_path / "b.db").close()

    with pytest.raises(StoreUnusable, match=r"b\.db: no such table: forwarded"):
        look_at_waiting(tmp_path / "b.db")


@pytest.mark.parametrize(("is_forwarded", "lost"), [(True, 2), (False, 0)])
async def test_rows_that_get_too_old_before_they_are_copied_are_counted_as_lost(tmp_path, listen, is_forwarded, lost):
    now = time.time()
    store = open_entries(tmp_path / "a.db", [], keep_days=365)
    for name in "abc":
        store.append(make_entry(name, at=now - 40 * DAY))
    store.append(make_entry("new"))
    await store.close()
    with closing(connect(tmp_path / "a.db")) as database:
        keep_mark(database, Mark("here", 1), "a")
    heard = listen()

    again = open_entries(tmp_path / "a.db", [], keep_days=30, is_forwarded=is_forwarded)
    await until(lambda: [row["id"] for row in read_entries(tmp_path / "a.db")] == ["new"])
    await again.close()

    with closing(connect(tmp_path / "a.db")) as database:
        assert read_mark(database) == Mark("here", 1, lost)
    said = [(line["reason"], line["rows"]) for line in heard() if line["event"] == "ledger.uncopied"]
    assert said == ([("too old", 2)] if lost else [])
