"""Entries on SQLite: a row by the names of its columns, and what is forgotten."""

import asyncio
import sqlite3
import threading
import time
from contextlib import closing

import pytest

from router.contract.caller import LOCAL
from router.contract.entry import COLUMNS
from router.contract.errors import StoreUnavailable
from router.past.worth import fold
from router.stores.sqlite.entries import SqliteEntries
from router.stores.sqlite.schemas import LEDGER, tables_of
from router.stores.sqlite.writer import SqliteWriter
from tests.tools.kept import explain_shortly, make_entry, open_entries, remove_database
from tests.tools.running import read_entries
from tests.tools.waiting import until

DAY = 86_400.0


@pytest.fixture
async def store(tmp_path):
    failures = []
    one = open_entries(tmp_path / "a.db", failures)
    yield one
    await one.close()
    assert failures == []


async def test_every_column_is_filled_with_what_the_entry_says(store, tmp_path):
    entry = make_entry(
        key="1a2b3c4d",
        job="resp_1",
        reasoning_tokens=3,
        tokens_estimated=True,
        cost_usd=0.5,
        error="late",
        decision='{"v":2}',
        billing="mixed",
        list_usd=0.25,
        combined="deep looked it over: fine",
    )
    store.append(entry)
    await store.close()

    (row,) = read_entries(tmp_path / "a.db")

    assert row == {
        "sequence": 1,
        "id": "req_1",
        "at": entry.line.at,
        "caller": "local",
        "session": "s",
        "turn_kind": "ask",
        "client": "codex",
        "dialect": "chat",
        "model": "auto",
        "streaming": 1,
        "outcome": "SERVED",
        "status": 200,
        "error": "late",
        "tier": "fast",
        "target": "spark",
        "because": "a quick edit",
        "score": 0.2,
        "decision": '{"v":2}',
        "attempts": '[{"target":"spark","status":200,"error":null,"seconds":0.1}]',
        "overhead_ms": 0.3,
        "ttft_ms": 20.0,
        "duration_ms": 100.0,
        "tokens_per_second": 900.0,
        "input_tokens": 10,
        "cached_tokens": 4,
        "output_tokens": 5,
        "reasoning_tokens": 3,
        "tokens_estimated": 1,
        "cost_usd": 0.5,
        "prompt_text": None,
        "answer_text": None,
        "key": "1a2b3c4d",
        "job": "resp_1",
        "billing": "mixed",
        "list_usd": 0.25,
        "combined": "deep looked it over: fine",
        "replica": None,
        "worker": None,
    }


async def test_rows_say_which_router_wrote_them(tmp_path):
    for number, replica in enumerate(("web-1", "it's", None)):
        store = open_entries(tmp_path / "a.db", failures := [], replica=replica)
        store.append(make_entry(f"req_{number}"))
        await store.close()
        assert failures == []

    assert [row["replica"] for row in read_entries(tmp_path / "a.db")] == ["web-1", "it's", None]


async def test_what_a_request_has_not_is_null(store, tmp_path):
    absent = dict.fromkeys(("session", "turn_kind", "client", "score", "tier", "target", "input_tokens", "tokens_estimated"))
    store.append(make_entry(**absent, decision=None, attempts="[]", streaming=False))
    await store.close()

    (row,) = read_entries(tmp_path / "a.db")

    assert {name: row[name] for name in (*absent, "decision")} == {**absent, "decision": None}
    assert (row["attempts"], row["streaming"]) == ("[]", 0)


def test_an_entry_has_a_value_for_every_column():
    columns = (*tables_of(LEDGER)["entries"], "billing", "list_usd", "combined")  # which need no script

    assert set(columns) == {*("sequence", *COLUMNS, "decision", "attempts", "prompt_text", "answer_text", "replica", "worker")}


async def test_an_id_that_comes_twice_keeps_its_first_row(store, tmp_path):
    store.append(make_entry("req_1", model="first"))
    store.append(make_entry("req_1", model="second"))
    await store.close()

    assert [row["model"] for row in read_entries(tmp_path / "a.db")] == ["first"]


async def test_texts_are_written_and_not_kept_in_memory(store, tmp_path):
    store.append(make_entry(prompt_text="secret", answer_text="secret"))

    assert "secret" not in str(await store.find_decision("req_1", LOCAL))
    await store.close()
    assert read_entries(tmp_path / "a.db")[0]["prompt_text"] == "secret"


async def test_looking_for_a_decision_does_not_make_a_lost_file_again(tmp_path):
    writer = SqliteWriter(tmp_path / "a.db", LEDGER, on_failure=lambda *seen: None)
    one = SqliteEntries(writer, keep_days=30, explain=explain_shortly, fold=fold)
    is_at_work, may_end = threading.Event(), threading.Event()
    writer.submit(lambda _: (is_at_work.set(), may_end.wait()))  # a writer with nothing to do looks for its file, and makes it
    await asyncio.to_thread(is_at_work.wait)
    remove_database(tmp_path / "a.db")

    with pytest.raises(StoreUnavailable, match=r"the ledger cannot be asked now: a\.db cannot be read"):
        await one.find_decision("req_none", LOCAL)
    assert not (tmp_path / "a.db").exists()
    may_end.set()
    await one.close()


@pytest.mark.parametrize("decision", ["'{'", "'[]'", "NULL", "x'ff'"])
async def test_a_decision_that_somebody_spoilt_is_none(store, tmp_path, decision):
    store.append(make_entry())
    await store.close()
    with closing(sqlite3.connect(tmp_path / "a.db")) as database, database:
        database.execute(f"UPDATE entries SET decision = {decision}")

    again = open_entries(tmp_path / "a.db", [])

    assert await again.find_decision("req_1", LOCAL) is None
    await again.close()


async def test_old_entries_and_old_marks_are_forgotten(tmp_path):
    now, failures = time.time(), []
    store = open_entries(tmp_path / "a.db", failures, keep_days=365)
    for number in range(1_500):
        store.append(make_entry(f"old_{number}", at=now - 40 * DAY))
    store.append(make_entry("new"))
    await store.close()
    with closing(sqlite3.connect(tmp_path / "a.db")) as database, database:
        marks = [("old_1", now - 40 * DAY, "deep"), ("new", now, "deep")]
        database.executemany("INSERT INTO misjudged VALUES (?, ?, ?)", marks)

    again = open_entries(tmp_path / "a.db", failures, keep_days=30)

    await until(lambda: [row["id"] for row in read_entries(tmp_path / "a.db")] == ["new"])
    await again.close()
    with closing(sqlite3.connect(tmp_path / "a.db")) as database:
        left = database.execute("SELECT request_id FROM misjudged ORDER BY request_id").fetchall()
        assert left == [("new",)]
    assert failures == []
