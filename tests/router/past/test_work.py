"""Finished turns out of the ledger: which entries make one, and which turns say nothing of a target's own way of working."""

import json

import pytest

from router.contract.entry import FinishedWork
from router.contract.words import Tier
from router.past.work import read_work
from router.stores.sqlite.marks import judge_turn
from router.stores.sqlite.past import SqliteEntryReader
from tests.tools.ledgers import write_ledger

LONG_AFTER = 10_000.0
"""A time at which every session of these tests has been silent for long."""
LOOP = {"turn_kind": "tool_loop"}
SIDE = (0.0, 2.0, 1.0, 0.01, 0.02, True)


@pytest.fixture
def read(tmp_path):
    """The finished turns of a ledger with these entries."""

    def read_it(*rows: dict, now: float = LONG_AFTER) -> list[FinishedWork]:
        return read_work(SqliteEntryReader(write_ledger(tmp_path / "test.db", *rows)), now)

    return read_it


@pytest.mark.parametrize("quiet_seconds", [0.0, 599.0, 600.0])
def test_a_turn_that_may_still_be_running_is_not_finished(read, quiet_seconds):
    assert read({"at": 1_000.0}, {**LOOP, "at": 2_000.0}, now=2_000.0 + quiet_seconds) == []


def test_after_ten_quiet_minutes_a_turn_is_finished(read):
    assert len(read({"at": 1_000.0}, {**LOOP, "at": 2_000.0}, now=2_601.0)) == 1


@pytest.mark.parametrize("outcome", ["FAILED", "CUT_SHORT", "ABANDONED", "REFUSED"])
@pytest.mark.parametrize("place", [0, 1])
def test_a_turn_in_which_something_went_wrong_says_nothing(read, outcome, place):
    rows = [{}, dict(LOOP), {"session": "other"}]
    rows[place]["outcome"] = outcome

    assert read(*rows) == [FinishedWork("spark", 0.2, 1, 100)]


def test_a_turn_that_was_moved_counts_for_who_began_it_with_what_it_took_until_then(read):
    moved = {**LOOP, "target": "sage", "tier": "deep"}

    assert read({}, LOOP, moved, LOOP) == [FinishedWork("spark", 0.2, 2, 200, has_failed=True)]


def test_a_turn_that_another_fast_target_finished_was_not_redone(read):
    assert read({}, LOOP, {**LOOP, "target": "flint"}) == [FinishedWork("spark", 0.2, 2, 200)]


def test_a_turn_after_which_the_person_asked_for_deep_has_failed(read):
    asked = {"tier": "deep", "target": "sage", "decision": {"decided_by": "override", "tier": "deep"}}

    assert [work.has_failed for work in read({"decision": decided()}, asked)] == [True]


def decided(fast="spark", deep="sage", **more):
    return json.dumps({"decided_by": "estimate", "fast": [fast, *SIDE], "deep": [deep, *SIDE], **more}, separators=(",", ":"))


def test_a_turn_after_which_the_person_is_not_content_has_failed(read):
    first, second = read({"decision": decided()}, LOOP, {"decision": decided(asked_again=True)})

    assert (first.deep_target, first.has_failed, second.has_failed) == ("sage", True, False)


def test_what_is_said_in_one_session_says_nothing_of_another(read):
    found = read({"decision": decided()}, {"decision": decided(asked_again=True), "session": "other"})

    assert not any(work.has_failed for work in found)


@pytest.mark.parametrize(("tier", "has_failed"), [(Tier.DEEP, True), (Tier.FAST, False)])
def test_a_turn_that_was_marked_as_one_for_deep_has_failed(tmp_path, tier, has_failed):
    path = write_ledger(tmp_path / "test.db", {"id": "req_1", "decision": decided()})
    judge_turn(path, SqliteEntryReader(path).find_turn("req_1"), tier)

    assert [work.has_failed for work in read_work(SqliteEntryReader(path), LONG_AFTER)] == [has_failed]


def test_a_turn_that_deep_served_belongs_to_no_pair(read):
    assert [work.deep_target for work in read({"decision": decided(), "target": "sage"})] == [""]


@pytest.mark.parametrize("place", [0, 1])
def test_a_turn_with_an_answer_that_nobody_counted_says_nothing(read, place):
    rows = [{}, dict(LOOP)]
    rows[place]["output_tokens"] = None

    assert read(*rows) == []


@pytest.mark.parametrize("decided_by", ["insist", "rule_out", None])
def test_a_turn_that_was_asked_for_there_says_nothing(read, decided_by):
    asked = {"decision": {"decided_by": decided_by}}

    assert read(asked, LOOP, {"session": "other"}) == [FinishedWork("spark", 0.2, 1, 100)]


def test_the_calls_of_a_turn_that_stays_where_it_began_do_not_spoil_it(read):
    assert read({}, {**LOOP, "decision": {"decided_by": "insist"}}) == [FinishedWork("spark", 0.2, 2, 200)]


@pytest.mark.parametrize("column", ["session", "score"])
def test_an_entry_that_lacks_what_is_needed_is_passed_over(read, column):
    assert read({column: None}) == []


def test_a_decision_that_cannot_be_read_costs_its_own_turn_alone(read):
    found = read({"decision": "{", "score": 0.9}, {"session": "other", "score": 0.1})

    assert [work.score for work in found] == [0.1]


def call(**decision):
    return {**LOOP, "decision": {"tier": "fast", **decision}}
