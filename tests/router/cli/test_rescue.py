"""`tandem eval --rescue` and `tandem train --rescue` as a person meets them."""

import json

import pytest

from router.cli import main
from router.contract.rescue import SHIPPED
from tests.router.lab.test_rescue import projects, steady, struggling, write_turns

__all__ = ["projects"]


def test_eval_prints_figures_for_people_and_for_programs(projects, capsys):
    assert main(["eval", "--rescue", str(projects)]) == 0
    told = capsys.readouterr()
    assert main(["eval", "--rescue", str(projects), "--json"]) == 0
    figures = json.loads(capsys.readouterr().out)

    assert told.out.splitlines()[0].split() == "turns bad after 10 after 20 after 30 catch alarm".split()
    assert "runs, 30 calls and more" in told.out
    assert "It says nothing\nbefore call 20" in told.err
    assert set(figures["auroc"]) == {"10", "20", "30"}
    assert figures["turns_after"] == {"10": 120, "20": 120, "30": 120}
    assert figures["catch"] == figures["from_30_calls"]["catch"] == 1.0
    assert 0.05 < figures["alarm"] < 0.2
    assert list(figures["files"]) == ["runs"]


def test_several_files_are_shown_each_and_together(tmp_path, capsys):
    first = write_turns(tmp_path / "first.jsonl", {"bad": True, "calls": struggling(40)})
    second = write_turns(tmp_path / "second.jsonl", {"bad": False, "calls": steady(8)}, {"bad": False, "calls": steady(40)})

    assert main(["eval", "--rescue", str(first), str(second), "--json"]) == 0
    figures = json.loads(capsys.readouterr().out)

    assert {name: found["turns"] for name, found in figures["files"].items()} == {"first": 1, "second": 2}
    assert (figures["turns"], figures["catch"], figures["alarm"]) == (3, 1.0, 0.0)


def test_train_shows_what_it_is_worth_on_other_projects_and_the_weights(projects, capsys):
    assert main(["train", "--rescue", str(projects)]) == 0
    told = capsys.readouterr()

    assert "fitted without its project" in told.err
    assert "fitted:  unevenness=" in told.out
    assert f"shipped: unevenness={SHIPPED.unevenness}, edits={SHIPPED.edits}" in told.out


@pytest.mark.parametrize("command", ["eval", "train"])
@pytest.mark.parametrize(("content", "problem"), [("", "these files contain no turns"), ("{}", 'line 1: "calls" is missing')])
def test_data_that_cannot_be_used_is_refused(command, content, problem, tmp_path, capsys):
    path = tmp_path / "x.jsonl"
    path.write_text(content)

    assert main([command, "--rescue", str(path)]) == 2

    assert problem in capsys.readouterr().err


def test_train_says_what_is_missing(tmp_path, capsys):
    path = write_turns(tmp_path / "x.jsonl", {"bad": True, "calls": steady(5)})

    assert main(["train", "--rescue", str(path)]) == 2

    assert "too little data" in capsys.readouterr().err
