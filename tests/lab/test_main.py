"""`python -m tests.lab` as a maintainer meets it."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from threadpoolctl import threadpool_limits

from router.cli import main as tandem
from tests.conftest import SIMULATED
from tests.lab.__main__ import ROOT, SHIPPED_WEIGHTS, main

SMALL = ("rename the {}", "fix the typo in the {}", "bump the {}", "what is the {}?", "add a comment to the {}")
LARGE = ("implement the {} from scratch", "refactor all of the {}", "migrate the {}", "build a new {}", "rewrite the whole {}")


@pytest.fixture(scope="module", autouse=True)
def _one_thread():
    """Threads that wait for each other make a small fit several times slower on a busy machine."""
    import sklearn.linear_model  # noqa: F401  loaded before its threads are limited; it costs 1.6 s, so not by every worker

    with threadpool_limits(1):
        yield


def write_data(path: Path, count: int = 60, *, things: str = "part") -> Path:
    """Asks of two groups, half of them quick; what sounds small is said to be long, as the shipped weights do not know it."""
    lines = []
    for number in range(count):
        words = (LARGE if number % 2 else SMALL)[number // 2 % 5].format(f"{things}{number}")
        lines.append({"id": f"a{number}", "text": words, "label": "quick" if number % 2 else "long", "setting": "agent"})
    path.write_text("\n".join(map(json.dumps, lines)))
    return path


@pytest.fixture
def data(tmp_path, monkeypatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return write_data(tmp_path / "asks.jsonl")


def test_training_shows_the_new_weights_next_to_the_shipped_ones_and_a_config_can_name_them(data, capsys):
    judges = write_data(Path("judges.jsonl"), 150, things="thing")
    judges.write_text(f"{judges.read_text()}\n{data.read_text().splitlines()[0]}")
    shipped = SHIPPED_WEIGHTS.read_bytes()

    assert main(["train", "asks.jsonl", "--dev", "judges.jsonl", "--out", "mine.weights"]) == 0

    told = capsys.readouterr()
    header, own, again, new, old = told.out.splitlines()
    assert header.split() == again.split() == ["items", "AUROC", "quick", "on", "fast", "long", "on", "deep"]
    assert own.split("tools")[1].split()[0] == "60"
    (name, count, found, *_), (_, _, other, *_) = (line.split("tools")[1].split() for line in (new, old))
    assert (name, count) == ("new", "150")
    assert float(other) < 0.5 < 0.9 < float(found), "the new weights have learnt what the data says"
    assert "left out 1 of 151 items of judges.jsonl that are in the training data too" in told.err
    assert "wrote mine.weights: differs from policies/learned.weights in " in told.err
    assert SHIPPED_WEIGHTS.read_bytes() == shipped
    Path("own.yaml").write_text(f"{SIMULATED}policies: [override, {{learned: {{weights: mine.weights}}}}]\n")
    assert tandem(["explain", "fix the typo in the part", "--json", "--config", "own.yaml"]) == 0
    assert json.loads(capsys.readouterr().out)["score"] > 0.5


def test_a_file_that_is_fitted_may_not_judge(data, capsys):
    assert main(["train", str(data), "--dev", str(data), "--out", "w"]) == 2

    assert "60 of 60 items are in the training data too, so the test would be biased" in capsys.readouterr().err
    assert not Path("w").exists()


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        (['{"label": "long", "text": "x", "id": "a1"}', '{"label": "long", "text": "x", "id": "a99"}'], "both quick and long"),
        (['{"label": "long", "text": "x", "id": "a1"}', '{"label": "quick", "text": "y", "id": "a2"}'], "at least two groups"),
        (['{"label": "maybe", "text": "x"}'], "few.jsonl line 1: label must be"),
    ],
    ids=["one kind", "one group", "another label"],
)
def test_data_that_cannot_be_fitted_is_refused(tmp_path, capsys, lines, said):
    (tmp_path / "few.jsonl").write_text("\n".join(lines))

    assert main(["train", str(tmp_path / "few.jsonl"), "--out", str(tmp_path / "w")]) == 2
    assert said in capsys.readouterr().err


def test_without_scikit_learn_it_is_said_how_to_get_it(data, capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "sklearn", None)

    assert main(["train", str(data), "--out", "w"]) == 2
    assert "training needs scikit-learn\n  hint: make setup" in capsys.readouterr().err


def test_it_is_a_program_with_help():
    command = [sys.executable, "-m", "tests.lab", "--help"]
    printed = subprocess.run(
        command, capture_output=True, text=True, check=True, cwd=ROOT, env={**os.environ, "COLUMNS": "120"}
    )

    assert all(name in printed.stdout for name in ("train", "bars", "score"))
