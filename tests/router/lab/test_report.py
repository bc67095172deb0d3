"""Sums over replayed turns: what changed, what it saved, what it cost."""

import json

import pytest

from router.contract.decision import Estimate
from router.contract.words import Tier, TurnKind
from router.lab.cases import Case, Regret
from router.lab.past import Size
from router.lab.replay import Choice
from router.lab.report import Report, regret_of

FAST, DEEP = Tier.FAST, Tier.DEEP


def estimate(seconds: float, redo: float = 0.0) -> Estimate:
    return Estimate("t", seconds, None, seconds, 0.0, redo)


MEASURED = {FAST: estimate(40.0, 30.0), DEEP: estimate(25.0)}


def case(size: Size | None = Size.QUICK, **more) -> Case:
    return Case("s", more.pop("client", "codex"), 1.0, size=size, words=more.pop("words", "fix the typo"), **more)


def choice(tier: Tier, *, fast: float = 10.0, deep: float = 30.0) -> Choice:
    return Choice(tier, 0.3, 0.0, 0.5, TurnKind.ASK, "because", {FAST: estimate(fast), DEEP: estimate(deep)}, 100)


@pytest.mark.parametrize(
    ("tier", "size", "regret"),
    [
        (FAST, Size.LONG, 3.0),
        (DEEP, Size.QUICK, 1.0),
        (FAST, Size.QUICK, 0.0),
        (DEEP, Size.LONG, 0.0),
        (FAST, Size.MIDDLE, 0.0),
    ],
)
def test_a_long_task_on_fast_costs_thrice_what_a_quick_edit_on_deep_does(tier, size, regret):
    assert regret_of(tier, size) == regret


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
    report = Report("before", "after")
    report.add(case(), DEEP, choice(FAST), MEASURED)
    report.add(case(Size.LONG), FAST, choice(DEEP), MEASURED)
    report.add(case(Size.LONG), FAST, choice(DEEP), MEASURED)

    total = report.as_json()["total"]

    assert total["before"] == {
        "fast_share": 0.6667,
        "seconds": 105.0,
        "redo_seconds": 60.0,
        "accuracy": 0.0,
        "regret_per_100": pytest.approx(100 * 7 / 3, abs=0.1),
    }
    assert total["after"] == {
        "fast_share": 0.3333,
        "seconds": 90.0,
        "redo_seconds": 30.0,
        "accuracy": 1.0,
        "regret_per_100": 0.0,
    }
    assert total["seconds_saved"] == 15.0


def test_nothing_is_claimed_where_nothing_is_known():
    report = Report("before", "after")
    report.add(case(None), DEEP, choice(FAST), {})

    side = report.as_json()["total"]["after"]

    assert (side["accuracy"], side["regret_per_100"], side["seconds"]) == (None, None, 0.0)
    assert Report("a", "b").as_json()["total"]["after"]["fast_share"] is None


def test_a_turn_in_the_middle_is_right_on_neither_side_and_regretted_on_neither():
    report = Report("before", "after")
    report.add(case(Size.MIDDLE), DEEP, choice(FAST), MEASURED)

    assert (report.total.judged, report.total.after.right, report.total.after.regret) == (0, 0, 0.0)


def test_signs_of_regret_are_counted_by_their_name():
    report = Report("before", "after")
    for regrets in ((Regret.INTERRUPTED, Regret.ASKED_AGAIN), (Regret.ASKED_AGAIN,)):
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
