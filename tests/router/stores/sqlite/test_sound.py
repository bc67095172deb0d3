"""Rows that somebody changed by hand are passed over, and counted."""

import sqlite3
from contextlib import closing

import pytest

from router.cli import main
from router.contract.stores import StoreUnusable
from router.stores.sqlite.past import SqliteEntryReader
from router.stores.sqlite.sound import open_ledger
from tests.conftest import SIMULATED
from tests.router.stores.rows import write_ledger

SPOILT = {
    "a time beyond all dates": "at = 1e300",
    "a time in words": "at = 'yesterday'",
    "an unknown outcome": "outcome = 'WHATEVER'",
    "an endless duration": "duration_ms = 9e999",
    "a duration in words": "duration_ms = 'long'",
    "a cost in words": "cost_usd = 'much'",
    "a cost of bytes": "cost_usd = x'01'",
    "a score beyond all odds": "score = 1e300",
    "tokens below all counts": "input_tokens = -9223372036854775807 - 1",
    "a session of bytes": "session = x'ff00'",
    "a target without bytes": "target = x''",
    "an error without bytes": "error = x''",
    "a caller of bytes": "caller = x'ff'",
}


@pytest.fixture
def spoil(tmp_path):
    def begin(change: str):
        path = write_ledger(tmp_path / "test.db", {"id": "req_1", "session": "s"}, {"id": "req_2", "session": "s"})
        with closing(sqlite3.connect(path)) as database, database:
            database.execute("PRAGMA ignore_check_constraints = 1")
            database.execute(f"UPDATE entries SET {change} WHERE id = 'req_2'")
        return path

    return begin


@pytest.mark.parametrize("change", SPOILT.values(), ids=SPOILT)
def test_a_spoilt_row_is_passed_over_and_counted(spoil, change):
    path = spoil(change)

    assert [call.line.id for call in SqliteEntryReader(path).read_newest(0, 10)[0]] == ["req_1"]
    assert [session.calls for session in SqliteEntryReader(path).read_sessions(0, 10)] == [1]
    assert sum(row.calls for row in SqliteEntryReader(path).read_sums(0).calls) == 1
    assert SqliteEntryReader(path).find_turn("req_2") is None
    assert SqliteEntryReader(path).count_passed_over() == 1


def ask_for_ten_years(path, write):
    """A question that would take hours, while a router writes."""
    with open_ledger(path, within_seconds=0.0) as database:
        database.execute("SELECT id FROM entries").fetchone()
        write()
        database.execute("SELECT count(*) FROM entries a, entries b, entries c, entries d").fetchone()


def test_a_question_that_takes_too_long_is_given_up_and_keeps_no_writer_waiting(tmp_path):
    path = write_ledger(tmp_path / "test.db", *({"id": f"req_{number}"} for number in range(300)))

    def write():
        with closing(sqlite3.connect(path, timeout=0)) as database, database:
            database.execute("UPDATE entries SET because = 'written meanwhile'")

    with pytest.raises(StoreUnusable, match=r"no answer within 0 s\n  hint: ask for less, with --since"):
        ask_for_ten_years(path, write)

    with closing(sqlite3.connect(path)) as database:
        assert database.execute("SELECT DISTINCT because FROM entries").fetchall() == [("written meanwhile",)]


NESTED = f'decision = \'{{"tier": "fast", "x": {"[" * 5_000}{"]" * 5_000}}}\''


@pytest.mark.parametrize("change", [*SPOILT.values(), NESTED, "because = char(27) || '[31mred'"])
@pytest.mark.parametrize("command", ["log", "sessions", "stats", "why req_2", "why req_1", "wrong deep req_2"])
def test_no_command_ends_in_a_traceback_or_prints_escapes(spoil, tmp_path, monkeypatch, capsys, change, command):
    spoil(change)
    (tmp_path / "config.yaml").write_text(SIMULATED)
    monkeypatch.chdir(tmp_path)

    assert main(command.split()) in (0, 1)

    told = capsys.readouterr()
    assert "Traceback" not in told.err
    assert "\x1b" not in told.out
