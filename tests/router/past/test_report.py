"""Sums over replayed turns: what changed, what it saved, what it cost."""

import json

import pytest

from router.contract.decision import Estimate
from router.contract.words import Tier, TurnKind
from router.decide.yardstick import Assumptions, Took
from router.past.cases import Case, RegretSign
from router.past.history import Size
from router.past.replay import Choice
from router.past.report import Report

FAST, DEEP = Tier.FAST, Tier.DEEP


def estimate(seconds: float, redo: float = 0.0) -> Estimate:
    return Estimate("t", seconds, None, seconds, 0.0, redo)


MEASURED = {FAST: Took(5.0, 0.01), DEEP: Took(25.0, 0.1)}
ASSUMED = Assumptions(fails_quick=0.1, fails_long=0.5, failure_seconds=75.0)
"""A failure adds 75 s and deep's 25: 10 s to a quick turn, 50 s to a long one."""


def case(size: Size | None = Size.QUICK, **more) -> Case:
    return Case("s", more.pop("client", "codex"), 1.0, size=size, words=more.pop("words", "fix the typo"), **more)


def choice(tier: Tier, *, fast: float = 10.0, deep: float = 30.0) -> Choice:
    return Choice(tier, 0.3, TurnKind.ASK, "because", {FAST: estimate(fast), DEEP: estimate(deep)}, 100)


def test_a_turn_is_counted_in_the_whole_and_in_its_kind_client_and_size():
    report = Report("before", "after")

    report.add(case(), DEEP, choice(FAST), MEASURED)
    report.add(case(Size.LONG, client="aider"), FAST, choice(DEEP), MEASURED)
    report.add(case(None), DEEP, choice(DEEP), {})

    total = report.as_json()["total"]
    assert (total["turns"], total["judged"], total["timed"], total["to_fast"], total["to_deep"]) == (3, 2, 2, 1, 1)
    assert {name: row.turns for name, row in report.by_client.items()} == {"codex": 2, "aider": 1}
    assert {name: row.turns for name, row in report.by_size.items()} == {"quick": 1, "long": 1, "unknown": 1}
    assert {name: row.turns for name, row in report.by_kind.items()} == {"ask": 3}


def test_both_sides_are_summed_by_what_the_turns_would_have_taken_on_their_tiers():
    report = Report("before", "after", ASSUMED)
    report.add(case(), DEEP, choice(FAST), MEASURED)
    report.add(case(Size.LONG), FAST, choice(DEEP), MEASURED)
    report.add(case(Size.LONG), FAST, choice(DEEP), MEASURED)

    total = report.as_json()["total"]

    assert total["before"] == {
        "fast_share": 0.6667,
        "seconds": 25.0 + 2 * 55.0,
        "redo_seconds": 100.0,
        "usd": pytest.approx(0.1 + 2 * (0.01 + 0.5 * 0.1)),
        "accuracy": 0.0,
        "wrong_per_100": pytest.approx(100 / 3, abs=0.01),
    }
    assert total["after"] == {
        "fast_share": 0.3333,
        "seconds": 15.0 + 2 * 25.0,
        "redo_seconds": 10.0,
        "usd": pytest.approx(0.01 + 0.1 * 0.1 + 2 * 0.1),
        "accuracy": 1.0,
        "wrong_per_100": pytest.approx(10 / 3, abs=0.01),
    }
    assert (total["all_deep"]["seconds"], total["all_fast"]["seconds"]) == (75.0, 15.0 + 2 * 55.0)
    assert (total["all_deep"]["wrong_per_100"], total["all_fast"]["fast_share"]) == (0.0, 1.0)
    assert total["seconds_saved"] == 70.0
    assert report.as_json()["assumed"] == {"fails_quick": 0.1, "fails_long": 0.5, "failure_seconds": 75.0}


def test_without_a_price_the_money_is_not_known():
    report = Report("before", "after")
    report.add(case(), DEEP, choice(FAST), {FAST: Took(5.0), DEEP: Took(25.0, 0.1)})

    total = report.as_json()["total"]

    assert (total["after"]["usd"], total["before"]["usd"]) == (None, 0.1)


def test_nothing_is_claimed_where_nothing_is_known():
    report = Report("before", "after")
    report.add(case(None), DEEP, choice(FAST), {})

    side = report.as_json()["total"]["after"]

    assert (side["accuracy"], side["wrong_per_100"], side["seconds"]) == (None, None, 0.0)
    assert Report("a", "b").as_json()["total"]["after"]["fast_share"] is None


def test_a_turn_in_the_middle_is_right_on_neither_side_and_fails_half_way_between():
    report = Report("before", "after")
    report.add(case(Size.MIDDLE), DEEP, choice(FAST), MEASURED)

    assert (report.total.judged, report.total.after.right) == (0, 0)
    assert report.total.after.wrong == pytest.approx(0.15)


def test_signs_of_regret_are_counted_by_their_name():
    report = Report("before", "after")
    for regrets in ((RegretSign.INTERRUPTED, RegretSign.ASKED_AGAIN), (RegretSign.ASKED_AGAIN,)):
        report.add(case(regrets=regrets), DEEP, choice(DEEP), {})

    assert report.as_json()["regrets"] == {"asked_again": 2, "interrupted": 1}


def test_only_changed_turns_with_words_are_shown_and_those_that_save_most():
    report = Report("before", "after")
    report.show(case(words="stays"), DEEP, choice(DEEP), 2)
    report.show(case(words=""), DEEP, choice(FAST), 2)
    for words, deep in (("saves 5", 15.0), ("saves 90", 100.0), ("saves 20", 30.0)):
        report.show(case(words=words), DEEP, choice(FAST, deep=deep), 2)

    assert [(example.words, example.saved_seconds) for example in report.examples] == [("saves 90", 90.0), ("saves 20", 20.0)]


def test_no_example_is_kept_unless_some_were_asked_for_and_none_is_in_the_json():
    report = Report("before", "after")
    report.show(case(words="CANARY"), DEEP, choice(FAST), 0)
    assert report.examples == []

    report.show(case(words="CANARY"), DEEP, choice(FAST), 1)
    assert "CANARY" not in json.dumps(report.as_json())
