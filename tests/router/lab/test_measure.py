import pytest

from router.contract.economics import FLIP_SCORES
from router.contract.target import Speed
from router.contract.words import Preference
from router.decide.yardstick import Assumptions
from router.lab.measure import (
    LONG_TO_FAST_COST,
    Judged,
    Pace,
    auroc,
    cost_curve,
    measure,
    measure_to_done,
    regret,
    reliability,
    split_by_set,
)


def judged(*entries: tuple[bool, float, bool]) -> list[Judged]:
    return [Judged("s", "r", is_long, score, is_fast, 10) for is_long, score, is_fast in entries]


def test_auroc_is_one_for_perfect_order_half_for_ties_and_none_for_one_kind():
    assert auroc([(0.1, False), (0.9, True)]) == 1.0
    assert auroc([(0.5, False), (0.5, True)]) == 0.5
    assert auroc([(0.9, False), (0.1, True)]) == 0.0
    assert auroc([(0.9, True)]) is None


def test_a_long_task_on_fast_costs_what_makes_the_flip_the_best_line_and_a_quick_edit_on_deep_one():
    found = regret(judged((True, 0.1, True), (False, 0.9, False), (True, 0.9, False), (False, 0.1, True)))

    assert found == pytest.approx((LONG_TO_FAST_COST + 1) / 4)
    assert pytest.approx(FLIP_SCORES[Preference.BALANCED]) == 1 / (1 + LONG_TO_FAST_COST)


def test_always_deep_and_always_fast_stand_beside_the_choice():
    figures = measure(judged((True, 0.9, False), (False, 0.1, True), (False, 0.2, True), (False, 0.8, False)))

    assert (figures.regret, figures.regret_always_deep, figures.regret_always_fast) == (0.25, 0.75, LONG_TO_FAST_COST / 4)
    assert (figures.quick_precision, figures.quick_recall) == (1.0, pytest.approx(2 / 3))
    assert figures.accuracy == 0.75


def test_the_curve_runs_from_always_deep_to_always_fast():
    curve = cost_curve(judged((True, 0.9, False), (False, 0.1, True)), steps=10)

    assert curve[0][1] == 0.5
    assert curve[-1][1] == LONG_TO_FAST_COST / 2
    assert min(cost for _, cost in curve) == 0.0


def test_reliability_counts_every_item_once():
    assert sum(count for _, _, count in reliability(judged((True, 1.0, False), (False, 0.0, True), (True, 0.55, False)))) == 3


def test_real_prompts_come_first_then_sessions_then_other_sets_and_all_of_them_last():
    names = ("a_book", "agent_session_x", "quiz", "real prompts: later turns", "real prompts: first turns")
    entries = [Judged(name, "r", True, 0.5, False, 1) for name in names]

    assert list(split_by_set(entries)) == [
        "real prompts: first turns",
        "real prompts: later turns",
        "agent_session_x",
        "a_book",
        "quiz",
        "all",
    ]
    assert list(split_by_set(entries[:1])) == ["a_book"]
    assert split_by_set([]) == {}


@pytest.mark.parametrize(
    ("on_fast", "share"),
    [((), 1.0), ((0,), 0.75), ((0, 1, 2, 3), 0.0)],
)
def test_long_recall_is_the_share_of_long_tasks_that_went_to_deep(on_fast, share):
    long = [(True, 0.5, number in on_fast) for number in range(4)]

    figures = measure(judged(*long, (False, 0.5, True), (False, 0.5, False)))

    assert figures.long_recall == share
    assert figures.quick_recall == 0.5


def test_without_long_tasks_there_is_no_share_of_them():
    assert measure(judged((False, 0.1, True))).long_recall is None


PACE = Pace(Speed(0.2, 1_000.0, 60_000.0), Speed(0.9, 65.0, 60_000.0), Assumptions(0.1, 0.5, 100.0))


def recorded(is_long: bool, is_fast: bool, calls: int | None) -> Judged:
    return Judged("s", "r", is_long, 0.5, is_fast, 10, calls)


def test_time_to_done_is_the_yardsticks_of_every_turn_whose_calls_were_recorded():
    entries = [recorded(False, True, 2), recorded(True, False, 20), recorded(True, True, None)]

    found = measure_to_done(entries, PACE)

    fast, deep = 0.2 + 0.199 + 0.3, 0.9 + 199 / 65 + 0.3
    quick_on_fast, long_on_fast = 2 * fast + 0.1 * (100 + 2 * deep), 20 * fast + 0.5 * (100 + 20 * deep)
    assert found.items == 2
    assert found.seconds == pytest.approx((quick_on_fast + 20 * deep) / 2)
    assert found.seconds_always_deep == pytest.approx(11 * deep)
    assert found.seconds_always_fast == pytest.approx((quick_on_fast + long_on_fast) / 2)
    assert found.against_deep == pytest.approx(found.seconds / found.seconds_always_deep)
    assert found.fast_against_deep == pytest.approx(found.seconds_always_fast / found.seconds_always_deep)


def test_wrong_first_answers_are_counted_over_all_turns():
    entries = [recorded(False, True, 2), recorded(True, False, 20), recorded(True, True, None)]

    found = measure_to_done(entries, PACE)

    assert found.wrong_per_100 == pytest.approx(100 * (0.1 + 0.5) / 3)
    assert found.wrong_per_100_always_fast == pytest.approx(100 * (0.1 + 0.5 + 0.5) / 3)


def test_without_recorded_calls_no_time_is_claimed():
    found = measure_to_done([recorded(True, True, None)], PACE)

    assert (found.items, found.seconds, found.against_deep) == (0, None, None)
