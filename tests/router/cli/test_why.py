"""`tandem why`: the explanation of a turn that was served, out of the ledger."""

import json
import sqlite3
from contextlib import closing

import pytest

from router.cli import main
from tests.router.cli.recorded import record_turns

LONG = "Implement the whole parser from scratch, with tests and docs"


def test_the_last_turn_is_explained_as_a_dry_run_would_be(folder, capsys):
    record_turns(folder, LONG, "fix the typo", calls=2)

    assert main(["why"]) == 0

    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("fast  looks like a quick edit")
    assert [line.split()[0] for line in lines if line and not line.startswith(" ")] == [
        "fast",
        "turn",
        "prompt",
        "long",
        "evidence",
        "estimates",
        "redo",
        "would",
        "cost",
        "request",
    ]
    assert lines[-1] == "request     req_2, served by simulated-fast"


def test_an_older_turn_is_explained_by_its_id(folder, capsys):
    record_turns(folder, LONG, "fix the typo")

    assert main(["why", "req_1"]) == 0

    out = capsys.readouterr().out
    assert out.startswith("deep  looks like a long task")
    assert "request     req_1, served by simulated-deep" in out


def test_a_call_within_a_turn_can_be_explained_too(folder, capsys):
    record_turns(folder, "fix the typo", calls=1)

    assert main(["why", "req_call_1"]) == 0
    assert "turn        tool_loop" in capsys.readouterr().out


def test_the_decision_is_given_to_programs_whole(folder, capsys):
    record_turns(folder, "fix the typo")

    assert main(["why", "--json"]) == 0

    decision = json.loads(capsys.readouterr().out)
    assert (decision["tier"], decision["decided_by"], decision["turn_kind"]) == ("fast", "estimate", "ask")
    assert {"evidence", "estimates", "flip", "score"} <= set(decision)


def test_nothing_that_was_typed_is_shown(folder, capsys):
    record_turns(folder, "fix the typo in zanzibar.py")

    assert main(["why"]) == 0
    assert main(["why", "--json"]) == 0
    assert "zanzibar" not in capsys.readouterr().out


def test_a_ledger_without_a_turn_is_said_to_be_that(folder, capsys):
    record_turns(folder)

    assert main(["why"]) == 1
    assert "test.db yet" in capsys.readouterr().err


def change(folder, assignments: str) -> None:
    with closing(sqlite3.connect(folder / "test.db")) as database, database:
        database.execute(f"UPDATE entries SET {assignments}")


def test_a_turn_that_spilled_over_begins_with_the_tier_that_served(folder, capsys):
    record_turns(folder, "fix the typo")
    reason = "simulated-fast failed (503), so simulated-deep answers: looks like a quick edit"
    change(folder, f"tier = 'deep', target = 'simulated-deep', because = '{reason}'")

    assert main(["why"]) == 0

    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == f"deep  {reason}"
    assert lines[-1] == "request     req_1, served by simulated-deep"


@pytest.mark.parametrize(
    ("assignments", "said"),
    [
        ("outcome = 'FAILED', tier = 'deep', target = 'simulated-deep'", "failed at simulated-deep: no target served it"),
        ("outcome = 'REFUSED', target = NULL", "refused: no target served it"),
        ("outcome = 'ABANDONED', target = NULL", "abandoned: no target served it"),
        ("outcome = 'CUT_SHORT'", "cut short at simulated-fast"),
    ],
)
def test_a_request_that_nobody_served_is_not_called_served(folder, capsys, assignments, said):
    record_turns(folder, "fix the typo")
    change(folder, assignments)

    assert main(["why"]) == 0

    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("fast  looks like a quick edit")
    assert lines[-1] == f"request     req_1, {said}"
