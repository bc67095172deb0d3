"""Rows of the ledger as turns: what belongs together, and what cannot be read."""

import json

import pytest

from router.contract.past import TurnCall
from router.contract.words import ASKED_AGAIN, SAID_WRONG, Outcome, Tier
from router.past.turns import read_turns

KEPT = {"v": 3, "tier": "fast", "decided_by": "estimate", "targets": ["spark"], "prompt_tokens": 9, "usd_per_second": 0.01}
SIDE = ["spark", 0.0, 2.0, 1.0, 0.01, 0.02, True, [1.0, 1.0], 2.0]


def row(name: str, kind: str = "ask", tier: str | None = "fast", decision: str | None = None, **more) -> TurnCall:
    known = {
        "id": name,
        "at": 5.0,
        "caller": "ann",
        "session": "s",
        "turn_kind": kind,
        "outcome": "SERVED",
        "tier": tier,
        "target": "spark",
    }
    counts = {
        "score": 0.2,
        "duration_ms": 1500.0,
        "input_tokens": 10,
        "cached_tokens": 4,
        "output_tokens": 5,
    }
    kept = json.dumps(KEPT) if decision is None else decision
    return TurnCall(**{**known, **counts, "cost_usd": 0.02, "decision": kept, "should_be": None, **more})


def test_tool_calls_belong_to_the_turn_of_their_callers_session():
    rows = [row("1"), row("2", caller="bob"), row("3", session="t"), row("1b", "tool_loop"), row("4", "follow_up")]

    turns = read_turns([*rows, row("2b", "tool_loop", caller="bob")])

    assert [[call.id for call in turn.calls] for turn in turns] == [["1", "1b"], ["2", "2b"], ["3"], ["4"]]


def test_a_call_whose_ask_is_too_old_belongs_to_no_turn():
    assert read_turns([row("1b", "tool_loop")]) == []


@pytest.mark.parametrize("decision", ["", "{", "[]", '{"fast": 3}', '{"leans": [1]}', '{"deep": ["x"]}'])
def test_a_row_that_cannot_be_read_begins_no_turn_and_its_calls_belong_to_no_other(decision):
    turns = read_turns([row("1"), row("2", decision=decision), row("2b", "tool_loop"), row("3")])

    assert [[call.id for call in turn.calls] for turn in turns] == [["1"], ["3"]]


def test_the_two_sides_of_a_race_are_no_turns():
    assert read_turns([row("1", session="x:race-req_1-fast"), row("2", session="x:race-req_1-deep")]) == []


def test_a_row_has_all_that_its_decision_expected():
    kept = json.dumps({**KEPT, "fast": SIDE, "deep": [*SIDE[:2], 20.0, *SIDE[3:]], "person_text": "fix it"})

    (turn,) = read_turns([row("1", decision=kept, should_be=Tier.DEEP, outcome="ABANDONED")])

    assert (turn.fast.seconds, turn.deep.seconds, turn.score, turn.words) == (2.0, 20.0, 0.2, "fix it")
    assert (turn.should_be, turn.is_weighed, turn.says_wrong) == (Tier.DEEP, True, False)
    call = turn.calls[0]
    assert (call.tier, call.decided, call.seconds, call.usd, call.at) == (Tier.FAST, Tier.FAST, 1.5, 0.02, 5.0)
    assert (call.input_tokens, call.cached_tokens, call.output_tokens) == (10, 4, 5)
    assert (call.outcome, call.is_left, call.is_asked_for) == (Outcome.ABANDONED, True, False)


@pytest.mark.parametrize(("because", "says_wrong"), [(SAID_WRONG, True), (f"{ASKED_AGAIN}, after", True), ("a typo", False)])
def test_without_any_text_it_is_known_what_the_decision_heard(because, says_wrong):
    kept = json.dumps({**KEPT, "leans": [["learned", {"log_odds": 1.0, "because": because}]]})

    (turn,) = read_turns([row("1", decision=kept)])

    assert (turn.words, turn.says_wrong) == ("", says_wrong)


def test_failed_calls_are_known_by_what_the_decision_of_a_later_call_heard():
    kept = json.dumps({**KEPT, "leans": [["trajectory", {"log_odds": 1.0, "because": "in this turn 2 calls failed"}]]})

    (turn,) = read_turns([row("1", decision=kept), row("1b", "tool_loop", decision=kept), row("1c", "tool_loop")])

    assert [call.has_trouble for call in turn.calls] == [False, True, False]


def test_a_tier_that_the_person_asked_for_is_not_weighed():
    (turn,) = read_turns([row("1", decision=json.dumps({**KEPT, "decided_by": "override"}))])

    assert (turn.is_weighed, turn.calls[0].is_asked_for) == (False, True)


def test_a_row_of_an_older_tandem_is_read_without_expectations():
    older = json.dumps({"tier": "fast", "decided_by": "estimate", "evidence": [], "estimates": {"fast": {"seconds": 2.0}}})

    (turn,) = read_turns([row("1", decision=older)])

    assert (turn.fast, turn.deep, turn.is_weighed) == (None, None, True)
