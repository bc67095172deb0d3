"""Fitting and measuring what notices that a turn goes wrong."""

import json
from pathlib import Path

import pytest

from router.contract.rescue import SHIPPED
from router.lab.items import BadData
from router.lab.rescue import fit_out_of_fold, fit_rescue, load_turns, measure_rescue, read_at, score
from router.lab.train import CannotFit


def call(number: int, kind: str = "shell", said: int = 60) -> list:
    return [kind, 0, 0, f"{number:08x}", f"f{number % 4}", 120, said]


def steady(calls: int) -> list[list]:
    return [call(number) for number in range(calls)]


def struggling(calls: int) -> list[list]:
    """Silent edits, and every tenth time a long reflection."""
    return [call(number, "edit", 3_000 if number % 10 == 0 else 0) for number in range(calls)]


def write_turns(path: Path, *turns: dict) -> Path:
    path.write_text("\n".join(map(json.dumps, turns)))
    return path


@pytest.fixture
def projects(tmp_path) -> Path:
    """Six projects. Turns that end badly struggle; one in ten fine ones does too."""
    turns = []
    for number in range(120):
        is_bad = number % 3 == 0
        calls = 34 + number % 11
        rows = struggling(calls) if is_bad or number % 10 == 7 else steady(calls)
        turns.append({"task": f"p{number % 6}__{number}", "label": "bad" if is_bad else "fine", "calls": rows})
    return write_turns(tmp_path / "runs.jsonl", *turns)


def test_both_ways_to_say_how_a_turn_ended_are_read(tmp_path):
    path = write_turns(tmp_path / "a.jsonl", {"label": "bad", "calls": steady(2)}, {"bad": False, "calls": steady(1)})

    turns = load_turns([path])

    assert [(turn.is_bad, turn.calls, turn.source) for turn in turns] == [(True, 2, "a"), (False, 1, "a")]


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ('{"label": "bad"}', '"calls" is missing'),
        ('{"calls": []}', '"label" is missing'),
        ('{"label": "sad", "calls": []}', 'label must be "bad" or "fine"'),
        ('{"label": "bad", "calls": [["dance", 0, 0, "a", "", 1, 2]]}', "a call must be .kind, failed, red, call"),
        ('{"label": "bad", "calls": [["read"]]}', "a call must be .kind, failed, red, call"),
        ("[1]", "a line must be a JSON object"),
        ("{", "is not JSON"),
    ],
)
def test_a_line_that_cannot_be_read_is_named(tmp_path, line, problem):
    path = tmp_path / "bad.jsonl"
    path.write_text(line)

    with pytest.raises(BadData, match=f"line 1: .*{problem}"):
        load_turns([path])


def test_a_turn_is_judged_from_call_20_to_the_one_before_its_last(tmp_path):
    path = write_turns(tmp_path / "a.jsonl", *({"label": "fine", "calls": steady(calls)} for calls in (19, 20, 21, 40)))

    assert [len(score(turn)) for turn in load_turns([path])] == [0, 0, 1, 20]


def test_the_fit_finds_what_sets_bad_turns_apart(projects):
    turns = load_turns([projects])

    weights = fit_rescue(turns)
    figures = measure_rescue(turns, [weights] * len(turns))

    assert figures.auroc[20] > 0.9
    assert figures.long_catch == 1.0
    assert 0.05 < figures.long_alarm < 0.2
    assert (figures.turns, figures.bad, figures.long_turns, figures.long_bad) == (120, 40, 120, 40)


def test_out_of_fold_a_turn_is_judged_without_its_project(projects):
    turns = load_turns([projects])
    odd = [turn for turn in turns if turn.group != "p0"]

    own = fit_out_of_fold(turns)

    assert own[0] == fit_rescue(odd)
    assert turns[0].group == "p0"


def test_what_cannot_be_shown_is_none(tmp_path):
    turns = load_turns([write_turns(tmp_path / "a.jsonl", {"label": "fine", "calls": steady(12)})])

    figures = measure_rescue(turns, [SHIPPED])

    assert (figures.catch, figures.alarm, figures.long_catch, figures.long_alarm) == (None, 0.0, None, None)
    assert figures.auroc == {10: None, 20: None, 30: None}
    assert figures.turns_after == {10: 1, 20: 0, 30: 0}


def test_turns_that_are_all_short_cannot_be_fitted(tmp_path):
    path = write_turns(tmp_path / "a.jsonl", {"label": "fine", "calls": steady(5)}, {"label": "bad", "calls": steady(5)})

    with pytest.raises(CannotFit, match="turns of more than 20 calls"):
        fit_rescue(load_turns([path]))


def test_the_alarm_is_where_the_score_is_zero(tmp_path):
    (turn,) = load_turns([write_turns(tmp_path / "a.jsonl", {"label": "bad", "calls": struggling(40)})])

    seen = turn.trajectories[29]

    assert read_at(turn, 30, SHIPPED) == pytest.approx(SHIPPED.read(seen.edits, seen.unevenness) - SHIPPED.alarm)
    assert seen.edits == 30


@pytest.mark.shared
def test_the_shipped_weights_are_those_of_the_recorded_turns(shared):
    folder = shared / "routing-data" / "rescue"
    turns = load_turns([folder / "turns.jsonl", folder / "swebench.jsonl"])

    assert fit_rescue(turns) == pytest.approx(SHIPPED, abs=0.002)


@pytest.mark.shared
def test_on_projects_left_out_four_of_ten_bad_long_runs_are_caught_at_an_alarm_of_a_fifth(shared):
    folder = shared / "routing-data" / "rescue"
    turns = load_turns([folder / "turns.jsonl", folder / "swebench.jsonl"])
    judged = [(turn, own) for turn, own in zip(turns, fit_out_of_fold(turns), strict=True) if turn.source == "swebench"]

    figures = measure_rescue([turn for turn, _ in judged], [own for _, own in judged])

    assert figures.long_catch >= 0.40
    assert figures.long_alarm <= 0.20
