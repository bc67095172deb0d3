"""The last turn of a ledger, one turn by its id, and the person's word that it was misjudged."""

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from router.contract.stores import StoreUnusable
from router.contract.words import Tier
from router.settle.kept import explain_row
from router.stores.sqlite.marks import judge_turn
from router.stores.sqlite.past import SqliteEntryReader
from tests.tools.ledgers import write_ledger


def read_marks(path: Path) -> list[tuple[str, str]]:
    with closing(sqlite3.connect(path)) as database:
        return database.execute("SELECT request_id, should_be FROM misjudged ORDER BY request_id").fetchall()


def change(path: Path, sql: str) -> None:
    with closing(sqlite3.connect(path)) as database, database:
        database.execute(sql)


@pytest.fixture
def ledger(tmp_path) -> Path:
    return write_ledger(
        tmp_path / "test.db",
        {"at": 5.0, "because": "first"},
        {
            "at": 6.0,
            "turn_kind": "follow_up",
            "tier": "deep",
            "target": "sage",
            "because": "second",
            "decision": {"because": "in full"},
        },
        {"at": 7.0, "turn_kind": "tool_loop"},
        {"at": 8.0, "turn_kind": "side"},
        {"at": 9.0, "decision": None},
    )


@pytest.mark.parametrize("decision", ["'{'", "'[]'", "x'ff'", "7"])
def test_a_turn_is_found_though_its_decision_cannot_be_read(ledger, decision):
    change(ledger, f"UPDATE entries SET decision = {decision} WHERE id = 'req_2'")

    turn = SqliteEntryReader(ledger).find_turn(None)

    assert turn.id == "req_2"
    assert explain_row(turn.row) is None


def test_a_mark_is_kept_under_the_id_of_its_request(ledger):
    judge_turn(ledger, SqliteEntryReader(ledger).find_turn("req_1"), Tier.DEEP)

    assert read_marks(ledger) == [("req_1", "deep")]


def test_said_again_the_newer_word_counts(ledger):
    turn = SqliteEntryReader(ledger).find_turn(None)
    first, second = (judge_turn(ledger, turn, Tier.FAST) for _ in range(2))

    assert (first.is_marked, second.is_marked) == (True, True)
    assert read_marks(ledger) == [("req_2", "fast")]


def test_the_tier_that_served_takes_a_mark_back(ledger):
    turn = SqliteEntryReader(ledger).find_turn("req_1")
    judge_turn(ledger, turn, Tier.DEEP)

    taken, again = (judge_turn(ledger, turn, Tier.FAST) for _ in range(2))

    assert (taken.is_marked, taken.was_unmarked, again.was_unmarked) == (False, True, False)
    assert read_marks(ledger) == []


def test_marking_in_a_file_that_is_gone_makes_none(ledger):
    turn = SqliteEntryReader(ledger).find_turn(None)
    for file in ledger.parent.iterdir():
        file.unlink()

    with pytest.raises(StoreUnusable, match="no ledger yet"):
        judge_turn(ledger, turn, Tier.FAST)

    assert not ledger.exists()
