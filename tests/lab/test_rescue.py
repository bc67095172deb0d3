"""Fitting what notices that a turn goes wrong."""

from dataclasses import replace

import pytest

from router.contract.rescue import SHIPPED
from router.contract.signals import Trajectory
from router.past.figures import measure_rescue
from router.past.labelled import RecordedTurn, load_turns
from tests.lab.left_out import judge_left_out, judge_served, list_rescue_figures, save_seconds
from tests.lab.rescue import fit_out_of_fold, fit_rescue
from tests.lab.train import CannotFit


def turn(number: int, calls: int, *, is_bad: bool, struggles: bool) -> RecordedTurn:
    """A turn of a project; one that struggles edits with each of 30 calls and writes unevenly."""
    steps = [
        Trajectory(calls=at, edits=min(at, 30) * struggles, unevenness=2.5 if struggles else 0.5) for at in range(1, calls + 1)
    ]
    return RecordedTurn("s", f"p{number % 5}", is_bad, tuple(steps))


@pytest.fixture
def turns() -> list[RecordedTurn]:
    """Five projects. Turns that end badly struggle; one in ten fine ones does too."""
    return [
        turn(number, 34 + number % 11, is_bad=number % 3 == 0, struggles=number % 3 == 0 or number % 10 == 7)
        for number in range(120)
    ]


def test_the_fit_finds_what_sets_bad_turns_apart(turns):
    weights = fit_rescue(turns)

    figures = measure_rescue([(each, weights) for each in turns])

    assert figures.auroc[20] > 0.9
    assert figures.long.catch == 1.0
    assert 0.05 < figures.long.alarm < 0.2


def test_out_of_fold_a_turn_is_judged_without_its_project(turns):
    own = fit_out_of_fold(turns)

    assert own[0] == fit_rescue([each for each in turns if each.group != "p0"])


@pytest.mark.parametrize(
    ("calls", "said"), [(5, "turns of more than 20 calls"), (29, "no turn of 30 calls or more ended well")]
)
def test_turns_that_are_all_short_cannot_be_fitted(calls, said):
    with pytest.raises(CannotFit, match=said):
        fit_rescue([turn(0, calls, is_bad=is_bad, struggles=is_bad) for is_bad in (True, False)])


def test_each_project_is_judged_by_choices_that_do_not_depend_on_it(turns):
    told, other = [], []
    judged = judge_left_out(turns, told.append)
    turned = [replace(each, is_bad=not each.is_bad) if each.group == "p0" else each for each in turns]

    again = judge_left_out(turned, other.append)

    assert {one.at for one in judged if one.turn.is_bad} != {None}
    assert [(one.highest, one.at) for one in judged if one.turn.group == "p0"] == [
        (one.highest, one.at) for one in again if one.turn.group == "p0"
    ]
    assert sum(before != after for before, after in zip(told, other, strict=True)) > 0


def test_an_alarm_that_finds_a_lost_turn_saves_time_and_a_false_one_costs_the_hop_and_slower_calls():
    lost, fine = (turn(0, 60, is_bad=is_bad, struggles=True) for is_bad in (True, False))

    assert save_seconds(lost, 30) > 0 > save_seconds(fine, 30)
    assert save_seconds(fine, 30) < save_seconds(fine, 50) < -6.0


@pytest.mark.shared
def test_the_shipped_weights_are_those_of_the_recorded_turns(shared):
    folder = shared / "routing-data" / "rescue"

    assert fit_rescue(load_turns([folder / "turns.jsonl", folder / "swebench.jsonl"])) == pytest.approx(SHIPPED, abs=0.002)


@pytest.mark.shared
def test_on_projects_left_out_of_every_choice_the_counts_are_as_weak_as_the_docs_say(shared):
    folder = shared / "routing-data" / "rescue"
    turns = load_turns([folder / "turns.jsonl", folder / "swebench.jsonl"])

    figures = {figure.name: figure for figure in list_rescue_figures(judge_left_out(turns, lambda _: None))}

    published = {"turns: catch": 0.08, "turns: alarm": 0.05, "swebench: catch": 0.30, "swebench: alarm": 0.15}
    assert {name: figures[name].value for name in published} == pytest.approx(published, abs=0.01)
    assert {name: figures[f"{name}: seconds saved in a turn"].value for name in ("turns", "swebench")} == pytest.approx(
        {"turns": -4.0, "swebench": 0.2}, abs=0.5
    )


@pytest.mark.shared
def test_as_served_a_move_up_is_rarer_in_fine_turns_than_in_bad_ones(shared):
    folder = shared / "routing-data" / "rescue"
    turns = load_turns([folder / "turns.jsonl", folder / "swebench.jsonl"])

    figures = {figure.name: figure.value for figure in list_rescue_figures(judge_served(turns))}

    assert figures["turns: alarm"] <= 0.06 < figures["turns: catch"]
    assert figures["swebench: alarm"] <= 0.25 < 0.4 <= figures["swebench: catch"]
    assert figures["swebench: seconds saved in a turn"] > 0.0
