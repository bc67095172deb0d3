"""Questions of commands: what is asked of a ledger here and of a router has one answer."""

import pytest

from router.past.answers import QUESTIONS, Query
from router.stores.sqlite.past import SqliteEntryReader
from tests.tools.kept import ANN, BOB, make_entry
from tests.tools.ledgers import write_ledger


@pytest.fixture
def ask(tmp_path):
    rows = [make_entry(f"req_{number}", caller, session="s") for number, caller in enumerate((ANN, ANN, BOB))]
    ledger = SqliteEntryReader(write_ledger(tmp_path / "l.db", *rows, make_entry("req_3", ANN, decision=None, because=None)))
    return lambda question, **asked: QUESTIONS[question](ledger, Query(**asked))


def test_turns_come_with_how_many_were_before_them(ask):
    told = ask("turns", most=1, caller="ann")

    assert [call["id"] for call in told["calls"]] == ["req_3"]
    assert told["earlier"] == [{"caller": "ann", "session": "s", "turns": 2}]


@pytest.mark.parametrize(("caller", "calls"), [(None, 4), ("ann", 3), ("bob", 1), ("eve", 0)])
def test_sessions_and_sums_are_those_of_the_caller(ask, caller, calls):
    assert sum(sums["calls"] for sums in ask("sessions", caller=caller)["sessions"]) == calls
    assert sum(row["calls"] for row in ask("sums", caller=caller)["calls"]) == calls


@pytest.mark.parametrize(
    ("asked", "found", "undecided"),
    [
        ({}, "req_2", None),
        ({"caller": "ann"}, "req_1", None),
        ({"request": "req_2", "caller": "ann"}, None, None),
        ({"request": "req_2", "caller": "ann", "begins": True}, None, None),
        ({"request": "req_1", "begins": True}, "req_1", None),
        ({"request": "req_3"}, None, "served"),
    ],
)
def test_a_turn_is_told_to_its_caller_or_why_there_is_none(ask, asked, found, undecided):
    told = ask("turn", **asked)

    assert ((told["turn"] or {}).get("id"), told["undecided"]) == (found, undecided)
