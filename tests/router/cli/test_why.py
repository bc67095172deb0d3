"""`tandem why`: the explanation of a turn that was served, out of the ledger."""

import json
import sqlite3
from contextlib import closing

import pytest

from router.cli import main
from router.cli.why import write_cost
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


def test_turns_that_were_redone_lately_are_counted_with_the_time_that_fast_worked_on_them(folder, capsys):
    record_turns(folder, "fix the typo", "rename total to sum")
    change(folder, "duration_ms = 12000")
    assert main(["wrong", "deep", "req_1"]) == 0
    capsys.readouterr()

    for command in (["why"], ["explain", "fix the typo"]):
        assert main(command) == 0
        out = capsys.readouterr().out
        assert "\nredone      1 turn in the last 7 days; fast had worked 12s on it\nwould flip " in out
    change(folder, "at = at - 8 * 86400")
    assert main(["why"]) == 0
    assert "redone" not in capsys.readouterr().out


def test_an_older_turn_and_a_call_within_one_are_explained_by_their_ids(folder, capsys):
    record_turns(folder, LONG, "fix the typo", calls=1)

    assert main(["why", "req_1"]) == 0
    out = capsys.readouterr().out
    assert out.startswith("deep  looks like a long task")
    assert "request     req_1, served by simulated-deep" in out
    assert main(["why", "req_call_1"]) == 0
    assert "turn        tool_loop" in capsys.readouterr().out


def test_the_decision_is_given_to_programs_whole_without_what_was_typed(folder, capsys):
    record_turns(folder, "fix the typo in zanzibar.py")

    assert main(["why"]) == 0
    assert "zanzibar" not in capsys.readouterr().out
    assert main(["why", "--json"]) == 0
    told = capsys.readouterr().out
    decision = json.loads(told)
    assert (decision["tier"], decision["decided_by"], decision["turn_kind"]) == ("fast", "estimate", "ask")
    assert {"evidence", "estimates", "flip", "score"} <= set(decision)
    assert "zanzibar" not in told


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


SERVED = {
    "target": "sage",
    "status": 200,
    "error": None,
    "seconds": 4.2,
    "usage": {"input_tokens": 1_200, "output_tokens": 88},
    "cost_usd": 0.012,
}
UNUSABLE = {
    "target": "spark",
    "status": 200,
    "error": "upstream_malformed",
    "seconds": 0.3,
    "usage": {"input_tokens": 1_200, "output_tokens": 10, "is_estimated": True},
    "cost_usd": 0.004,
}
REFUSED = {"target": "spark", "status": 429, "error": "upstream_refused", "seconds": 0.1, "usage": None, "cost_usd": 0.0}


def test_one_attempt_that_served_is_only_its_cost():
    assert write_cost({"attempts": [SERVED], "cost_usd": 0.012}) == ["cost        $0.012"]


def test_two_attempts_are_told_apart():
    assert write_cost({"attempts": [UNUSABLE, SERVED], "cost_usd": 0.016}) == [
        "cost        $0.016",
        "attempts",
        "  spark: upstream_malformed (200), 0.3s, 1.2k tokens in, 10 out, estimated, $0.004",
        "  sage: served, 4.2s, 1.2k tokens in, 88 out, $0.012",
    ]


def test_a_question_is_told_from_what_served():
    asked = {**SERVED, "target": "spark", "seconds": 0.2, "cost_usd": 0.001, "is_question": True}
    late = {**asked, "status": None, "error": "late", "usage": None, "cost_usd": 0.0}

    assert write_cost({"attempts": [asked, SERVED], "cost_usd": 0.013})[2:] == [
        "  spark: question, 0.2s, 1.2k tokens in, 88 out, $0.001",
        "  sage: served, 4.2s, 1.2k tokens in, 88 out, $0.012",
    ]
    assert write_cost({"attempts": [late, SERVED], "cost_usd": 0.012})[2] == "  spark: question, late, 0.2s, $0.000"


def test_a_refusal_costs_nothing_and_used_nothing():
    assert write_cost({"attempts": [REFUSED], "cost_usd": 0.0}) == [
        "cost        $0.000",
        "attempts",
        "  spark: upstream_refused (429), 0.1s, $0.000",
    ]


@pytest.mark.parametrize(
    ("attempts", "said"),
    [
        ([{**SERVED, "cost_usd": None}], "unknown: no price is configured for sage"),
        ([{**UNUSABLE, "cost_usd": None}, SERVED], "at least $0.012: no price is configured for spark"),
        ([{**UNUSABLE, "cost_usd": None}, {**SERVED, "cost_usd": None}], "unknown: no price is configured for sage, spark"),
        ([{key: SERVED[key] for key in ("target", "status", "error", "seconds")}], "unknown"),
        ([], "unknown"),
        (None, "unknown"),
        ("somebody else's", "unknown"),
    ],
    ids=["unpriced", "a part", "neither", "an older row", "none", "absent", "foreign"],
)
def test_an_unknown_cost_is_never_nothing_and_says_whose_price_is_missing(attempts, said):
    assert write_cost({"attempts": attempts, "cost_usd": None})[0] == f"cost        {said}"
