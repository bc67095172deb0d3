import sqlite3
import time

import pytest

from router.contract.entry import Attempt, Entry, Usage
from router.contract.words import Dialect, Outcome, Tier
from router.ledger.entries import _cost
from router.ledger.files import LedgerUnusable
from router.ledger.sqlite import SqliteLedger
from tests.tools.running import read_entries
from tests.tools.values import PRICE

ENTRY = Entry(
    id="req_1",
    at=time.time(),
    caller="local",
    dialect=Dialect.CHAT,
    model="auto",
    is_streaming=True,
    outcome=Outcome.SERVED,
    status=200,
    error=None,
    decision=None,
    because=None,
    attempts=(Attempt("spark", 200, None, 0.1),),
    tier=Tier.FAST,
    target="spark",
    overhead_ms=0.3,
    ttft_ms=20.0,
    duration_ms=100.0,
    tokens_per_second=900.0,
    usage=Usage(10, 5),
    cost_usd=None,
)


def open_ledger(path, failures=None, keep_days=30) -> SqliteLedger:
    return SqliteLedger(
        path, keep_days=keep_days, explain=lambda entry: {}, on_failure=lambda *seen: (failures or []).append(seen)
    )


def test_entries_are_written_soon_and_all_at_the_close(tmp_path):
    ledger = open_ledger(tmp_path / "a.db")
    for number in range(1_200):
        ledger.record(ENTRY._replace(id=f"req_{number}"))

    ledger.close()

    rows = read_entries(tmp_path / "a.db")
    assert len(rows) == 1_200
    assert rows[0]["input_tokens"] == 10
    assert rows[0]["cost_usd"] is None


def test_a_locked_file_delays_entries_and_loses_none(tmp_path):
    failures = []
    ledger = open_ledger(tmp_path / "a.db", failures)
    other = sqlite3.connect(tmp_path / "a.db", isolation_level=None)
    other.execute("BEGIN EXCLUSIVE")
    ledger.record(ENTRY)
    time.sleep(0.5)
    other.execute("ROLLBACK")
    other.close()

    ledger.close()

    assert len(read_entries(tmp_path / "a.db")) == 1


def test_a_file_that_vanished_is_made_anew(tmp_path):
    path = tmp_path / "a.db"
    ledger = open_ledger(path)
    for file in tmp_path.glob("a.db*"):
        file.unlink()
    ledger.record(ENTRY)
    deadline = time.monotonic() + 5
    while not path.exists() and time.monotonic() < deadline:
        time.sleep(0.05)

    ledger.close()

    assert len(read_entries(path)) == 1
    assert path.stat().st_mode & 0o777 == 0o600


def test_looking_for_a_decision_does_not_make_a_lost_file_again(tmp_path):
    path = tmp_path / "a.db"
    ledger = open_ledger(path)
    for file in tmp_path.glob("a.db*"):
        file.unlink()

    assert ledger.find_decision("req_none", "local") is None
    assert not path.exists()
    ledger.close()


def test_texts_are_written_and_not_kept_in_memory(tmp_path):
    ledger = open_ledger(tmp_path / "a.db")
    ledger.record(ENTRY._replace(prompt_text="secret", answer_text="secret"))

    assert "secret" not in str(ledger._recent._known)
    ledger.close()
    assert read_entries(tmp_path / "a.db")[0]["prompt_text"] == "secret"


def test_a_path_that_cannot_be_a_file_is_refused_by_name(tmp_path):
    with pytest.raises(LedgerUnusable, match="cannot be opened"):
        open_ledger(tmp_path)


def test_old_entries_are_forgotten(tmp_path):
    ledger = open_ledger(tmp_path / "a.db")
    ledger.record(ENTRY._replace(id="old", at=time.time() - 40 * 86_400))
    ledger.record(ENTRY._replace(id="new"))
    ledger.close()

    open_ledger(tmp_path / "a.db").close()
    ledger = open_ledger(tmp_path / "a.db")
    time.sleep(0.4)
    ledger.close()

    assert [row["id"] for row in read_entries(tmp_path / "a.db")] == ["new"]


@pytest.mark.parametrize("content", [b"not a database at all, but long enough to be read as one" * 20])
def test_a_damaged_file_is_refused_by_name(tmp_path, content):
    (tmp_path / "a.db").write_bytes(content)

    with pytest.raises(LedgerUnusable, match="a.db is not a usable ledger"):
        open_ledger(tmp_path / "a.db")


def test_a_file_of_a_newer_version_is_refused(tmp_path):
    database = sqlite3.connect(tmp_path / "a.db")
    database.execute("PRAGMA user_version = 99")
    database.close()

    with pytest.raises(LedgerUnusable, match="newer"):
        open_ledger(tmp_path / "a.db")


def test_cost_is_unknown_without_a_price_and_counts_cached_tokens_apart():
    usage = Usage(input_tokens=1_000_000, output_tokens=100_000, cached_tokens=900_000)

    assert _cost(usage, None) is None
    assert _cost(None, PRICE) is None
    assert _cost(usage, PRICE) == pytest.approx(0.1 + 0.09 + 0.8)
