"""Fitting what notices that a turn goes wrong."""

import pytest

from router.contract.rescue import SHIPPED
from router.contract.signals import Trajectory
from router.past.figures import measure_rescue
from router.past.labelled import RecordedTurn, load_turns
from tests.lab.rescue import fit_out_of_fold, fit_rescue
from tests.lab.train import CannotFit


def turn(number: int, calls: int, *, is_bad: bool, struggles: bool) -> RecordedTurn:
    """A turn of a project; one that struggles edits with every call and writes unevenly."""
    steps = [Trajectory(calls=at, edits=at * struggles, unevenness=2.5 if struggles else 0.5) for at in range(1, calls + 1)]
    return RecordedTurn("s", f"p{number % 6}", is_bad, tuple(steps))


@pytest.fixture
def turns() -> list[RecordedTurn]:
    """Six projects. Turns that end badly struggle; one in ten fine ones does too."""
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


@pytest.mark.shared
def test_the_shipped_weights_are_those_of_the_recorded_turns_and_catch_as_many_on_projects_left_out(shared):
    folder = shared / "routing-data" / "rescue"
    turns = load_turns([folder / "turns.jsonl", folder / "swebench.jsonl"])

    judged = list(zip(turns, fit_out_of_fold(turns), strict=True))
    figures = measure_rescue([pair for pair in judged if pair[0].source == "swebench"])

    assert fit_rescue(turns) == pytest.approx(SHIPPED, abs=0.002)
    assert figures.long.catch >= 0.40
    assert figures.long.alarm <= 0.20
