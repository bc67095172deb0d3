"""The last turn of a ledger, one turn by its id, and the person's word that it was misjudged."""

import json
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from router.contract.features import HASHING
from router.contract.past import Marks
from router.contract.stores import StoreUnusable
from router.contract.words import Tier
from router.settle.kept import explain_row
from router.stores.sqlite.marks import mark_misjudged, unmark_misjudged
from router.stores.sqlite.migrate import LEDGER, prepare
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
    mark_misjudged(ledger, SqliteEntryReader(ledger).find_turn("req_1"), Tier.DEEP)

    assert read_marks(ledger) == [("req_1", "deep")]


def test_said_again_the_newer_word_counts(ledger):
    mark_misjudged(ledger, SqliteEntryReader(ledger).find_turn(None), Tier.FAST)
    mark_misjudged(ledger, SqliteEntryReader(ledger).find_turn(None), Tier.DEEP)

    assert read_marks(ledger) == [("req_2", "deep")]


def test_a_ledger_that_an_older_tandem_began_can_be_marked(ledger):
    for column in ("key", "job", "replica", "worker"):
        change(ledger, f"ALTER TABLE entries DROP COLUMN {column}")
    for table in ("misjudged", "forwarded"):
        change(ledger, f"DROP TABLE {table}")
    change(ledger, "PRAGMA user_version = 1")

    mark_misjudged(ledger, SqliteEntryReader(ledger).find_turn(None), Tier.FAST)

    assert read_marks(ledger) == [("req_2", "fast")]


def test_marking_in_a_file_that_is_gone_makes_none(ledger):
    turn = SqliteEntryReader(ledger).find_turn(None)
    for file in ledger.parent.iterdir():
        file.unlink()

    with pytest.raises(StoreUnusable, match="no ledger yet"):
        mark_misjudged(ledger, turn, Tier.FAST)

    assert not ledger.exists()


def test_a_migrated_mark_has_what_its_row_said_but_not_what_was_typed(tmp_path):
    decision = {"v": 3, "decided_by": "estimate", "weights": "w", "person_text": "canary"}
    path = write_ledger(tmp_path / "old.db", {"at": 5.0, "caller": "ada", "decision": decision}, {"at": 6.0}, version=9)
    change(path, "INSERT INTO misjudged VALUES ('req_1', 7.0, 'deep'), ('req_gone', 7.0, 'fast')")
    change(path, "INSERT INTO places (request_id, at, caller, places) VALUES ('req_1', 5.0, 'ada', x'01000000')")
    assert SqliteEntryReader(path).read_marks() == Marks([], frozenset()), "before that, marks end with their rows"
    prepare(path, LEDGER)
    change(path, "DELETE FROM entries")

    (marked,) = SqliteEntryReader(path).read_marks().turns

    assert marked[:5] == ("req_1", 5.0, Tier.DEEP, "ada", "s")
    assert (marked.turn_kind, marked.tier, marked.places) == ("ask", Tier.FAST, bytes([1, 0, 0, 0]))
    assert json.loads(marked.decision) == {"v": 3, "decided_by": "estimate", "weights": "w"}


def test_places_of_another_hashing_are_not_read(ledger):
    change(ledger, "INSERT INTO places (request_id, at, caller, places) VALUES ('req_1', 5.0, 'local', x'01000000')")
    mark_misjudged(ledger, SqliteEntryReader(ledger).find_turn("req_1"), Tier.DEEP)
    assert SqliteEntryReader(ledger).read_marks().turns[0].places

    change(ledger, f"UPDATE misjudged SET hashing = {HASHING + 1}")

    assert SqliteEntryReader(ledger).read_marks().turns[0].places == b""


def test_a_mark_that_is_taken_back_leaves_its_id_alone(ledger):
    turn = SqliteEntryReader(ledger).find_turn("req_1")
    mark_misjudged(ledger, turn, Tier.DEEP)

    assert unmark_misjudged(ledger, turn)

    assert SqliteEntryReader(ledger).read_marks() == Marks([], frozenset({"req_1"}))
    assert not unmark_misjudged(ledger, turn)
    mark_misjudged(ledger, turn, Tier.DEEP)
    assert [marked.id for marked in SqliteEntryReader(ledger).read_marks().turns] == ["req_1"]
