"""Figures that only the lab shows, and its two pictures."""

import re
import xml.etree.ElementTree as ET

import pytest

from router.contract.economics import FLIP_SCORES
from router.contract.target import Speed
from router.contract.words import Preference
from router.decide.yardstick import Assumptions
from router.past.figures import Judged
from router.past.labelled import Item
from tests.lab.measure import LONG_TO_FAST_COST, Pace, auroc_within, cost_curve, measure_all, regret, reliability
from tests.lab.plots import draw_cost_curve, draw_reliability

PACE = Pace(Speed(0.2, 1_000.0, 60_000.0), Speed(0.9, 65.0, 60_000.0), Assumptions(0.1, 0.5, 100.0))


def judged(*entries: tuple[bool, float, bool], repo: str = "r", calls: int | None = None) -> list[Judged]:
    return [
        Judged(Item("s", repo, "ten chars.", is_long, True, work_calls=calls), score, is_fast)
        for is_long, score, is_fast in entries
    ]


def test_a_long_task_on_fast_costs_what_makes_the_flip_the_best_line_and_a_quick_edit_on_deep_one():
    found = regret(judged((True, 0.1, True), (False, 0.9, False), (True, 0.9, False), (False, 0.1, True)))

    assert found == pytest.approx((LONG_TO_FAST_COST + 1) / 4)
    assert pytest.approx(FLIP_SCORES[Preference.BALANCED]) == 1 / (1 + LONG_TO_FAST_COST)


def test_the_choice_is_shown_next_to_always_deep_and_always_fast():
    figures = measure_all(judged((True, 0.9, False), (False, 0.1, True), (False, 0.2, True), (False, 0.8, False)), PACE)

    assert (figures["regret"], figures["regret_always_deep"]) == (0.25, 0.75)
    assert figures["regret_always_fast"] == LONG_TO_FAST_COST / 4
    assert (figures["quick_precision"], figures["quick_precision_at_28"], figures["accuracy"]) == (1.0, 1.0, 0.75)
    assert figures["calibration_error"] == pytest.approx((0.1 + 0.1 + 0.2 + 0.8) / 4)
    assert figures["brier"] == pytest.approx((0.01 + 0.01 + 0.04 + 0.64) / 4)
    assert figures["auroc_of_length"] == 0.5


def test_the_curve_runs_from_always_deep_to_always_fast():
    curve = cost_curve(judged((True, 0.9, False), (False, 0.1, True)), steps=10)

    assert (curve[0][1], curve[-1][1]) == (0.5, LONG_TO_FAST_COST / 2)
    assert min(cost for _, cost in curve) == 0.0


def test_reliability_counts_every_item_once():
    assert sum(count for _, _, count in reliability(judged((True, 1.0, False), (False, 0.0, True), (True, 0.55, False)))) == 3


def test_inside_a_repository_only_its_own_items_are_compared():
    right = judged(*[(number > 4, 0.1 + number / 100, True) for number in range(10)], repo="a")
    tied = judged(*[(number > 4, 0.9, True) for number in range(10)], repo="b")

    assert auroc_within([*right, *tied]) == pytest.approx(0.75)
    assert auroc_within(right[:9]) is None


def test_time_to_done_is_the_yardsticks_of_every_turn_whose_calls_were_recorded():
    recorded = [*judged((False, 0.5, True), calls=2), *judged((True, 0.5, False), calls=20)]

    found = measure_all([*recorded, *judged((True, 0.5, True))], PACE)

    fast, deep = 0.2 + 0.199 + 0.3, 0.9 + 199 / 65 + 0.3
    quick_on_fast, long_on_fast = 2 * fast + 0.1 * (100 + 2 * deep), 20 * fast + 0.5 * (100 + 20 * deep)
    assert found["timed_items"] == 2
    assert found["seconds"] == pytest.approx((quick_on_fast + 20 * deep) / 2)
    assert found["against_deep"] == pytest.approx(found["seconds"] / (11 * deep))
    assert found["fast_against_deep"] == pytest.approx((quick_on_fast + long_on_fast) / (22 * deep))
    assert found["wrong_per_100"] == pytest.approx(100 * (0.1 + 0.5) / 3)
    assert found["wrong_per_100_always_fast"] == pytest.approx(100 * (0.1 + 0.5 + 0.5) / 3)


def place(x: float, y: float) -> tuple[float, float]:
    """Where a share across and a share up are, on 320 points with an edge of 44."""
    return (44 + 232 * x, 276 - 232 * y)


def test_points_and_lines_are_where_their_figures_say_and_the_name_is_escaped():
    dots = ET.fromstring(draw_reliability([(0.25, 0.5, 20), (1.0, 0.0, 40)], "a <of> b"))
    curve = draw_cost_curve([(0.0, 0.25), (0.5, 2.0)], always_deep=0.5, chosen=[("balanced", 0.5, 2.0)], name="all")

    svg = "{http://www.w3.org/2000/svg}"
    circles = [tuple(float(dot.get(name)) for name in ("cx", "cy", "r")) for dot in dots.findall(f"{svg}circle")]
    assert circles == [(*place(0.25, 0.5), 3 + 9 / 2), (*place(1.0, 0.0), 12)]
    assert dots.find(f"{svg}title").text == "Reliability: a <of> b"
    bold, thin = (
        re.search(rf'class="{kind}" d="M([\d.]+) ([\d.]+)L([\d.]+) ([\d.]+)"', curve).groups() for kind in ("bold", "thin")
    )
    assert tuple(map(float, bold)) == (*place(0.0, 0.125), *place(0.5, 1.0))
    assert tuple(map(float, thin)) == (*place(0.0, 0.25), *place(1.0, 0.25))
    assert ">balanced</text>" in curve
