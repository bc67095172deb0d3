"""`tandem train` as a person meets it: what it reads, refuses, writes and leaves alone."""

import contextlib
import io
import json
import os
import sys
from importlib.resources import files
from pathlib import Path

import pytest
from threadpoolctl import threadpool_limits

from router.cli import main
from tests.conftest import SIMULATED

SMALL = ("rename the {}", "fix the typo in the {}", "bump the {}", "what is the {}?", "add a comment to the {}")
LARGE = ("implement the {} from scratch", "refactor all of the {}", "migrate the {}", "build a new {}", "rewrite the whole {}")


@pytest.fixture(scope="module", autouse=True)
def _one_thread():
    """Threads that wait for each other make a small fit several times slower on a busy machine."""
    import sklearn.linear_model  # noqa: F401  loaded before its threads are limited; it costs 1.6 s, so not by every worker

    with threadpool_limits(1):
        yield


def write_data(path: Path, count: int = 60, *, things: str = "part", is_reversed: bool = False) -> Path:
    """Asks of two groups, half of them quick; reversed, what sounds small is said to be long."""
    lines = []
    for number in range(count):
        is_large = bool(number % 2)
        words = (LARGE if is_large else SMALL)[number // 2 % 5].format(f"{things}{number}")
        label = "long" if is_large is not is_reversed else "quick"
        lines.append(json.dumps({"id": f"a{number}", "text": words, "label": label, "setting": "agent"}))
    path.write_text("\n".join(lines))
    return path


@pytest.fixture
def data(tmp_path, monkeypatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return write_data(tmp_path / "asks.jsonl")


class Trained:
    """A folder in which weights were trained twice on data that says the opposite of the shipped weights."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        write_data(folder / "asks.jsonl", is_reversed=True)
        judges = write_data(folder / "judges.jsonl", 150, things="thing", is_reversed=True)
        first = (folder / "asks.jsonl").read_text().splitlines()[0]
        judges.write_text(f"{judges.read_text()}\n{first}")
        self.shipped = read_shipped()
        self.codes, self.out, self.err = [], "", ""

    def train(self, *more: str) -> None:
        out, err = io.StringIO(), io.StringIO()
        with contextlib.chdir(self.folder), contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            self.codes.append(main(["train", "asks.jsonl", *more]))
        self.out, self.err = out.getvalue(), err.getvalue()


def read_shipped() -> bytes:
    return files("policies").joinpath("learned.weights").read_bytes()


@pytest.fixture(scope="module")
def trained(tmp_path_factory) -> Trained:
    found = Trained(tmp_path_factory.mktemp("trained"))
    found.train()
    found.train("--dev", "judges.jsonl")
    return found


def test_weights_are_written_where_one_stands_and_never_over_the_shipped_ones(trained):
    names = {path.name for path in trained.folder.iterdir()}

    assert trained.codes == [0, 0]
    assert names == {"asks.jsonl", "judges.jsonl", "learned.weights", "learned.weights.bak"}
    assert read_shipped() == trained.shipped
    assert (trained.folder / "learned.weights").read_bytes() != trained.shipped


def test_the_same_data_gives_the_same_bytes_and_an_older_file_is_kept(trained):
    old, new = trained.folder / "learned.weights.bak", trained.folder / "learned.weights"

    assert old.read_bytes() == new.read_bytes()
    assert "kept the old file as learned.weights.bak" in trained.err


def test_it_is_said_what_was_written_and_how_a_config_uses_it(trained):
    size = (trained.folder / "learned.weights").stat().st_size

    assert f"wrote learned.weights, {size} bytes" in trained.err
    assert "learned.weights}}" in trained.err


def test_the_figures_are_of_what_was_not_fitted_the_new_weights_next_to_the_shipped_ones(trained):
    header, *lines = trained.out.splitlines()
    again = next(index for index, line in enumerate(lines) if line.split() == header.split())
    own, judged = lines[:again], lines[again + 1 :]

    assert header.split() == ["items", "AUROC", "quick", "on", "fast", "long", "on", "deep"]
    assert [line.split("tools")[0] for line in own] == ["asks: first asks with "]
    assert own[0].split("tools")[1].split()[0] == "60"
    (new, shipped) = (line.split("tools")[1].split() for line in judged)
    assert (new[:2], shipped[:2]) == (["new", "150"], ["shipped", "150"])
    assert float(new[2]) > 0.9, "the new weights have learnt what the data says"
    assert float(shipped[2]) < 0.5, "and the shipped ones say the opposite"


def test_a_few_words_that_are_fitted_too_are_left_out_and_it_is_said(trained):
    assert "left out 1 of 151 items of judges.jsonl that are in the training data too" in trained.err


def score(config: Path, words: str, capsys) -> float:
    assert main(["explain", words, "--json", "--config", str(config)]) == 0
    return json.loads(capsys.readouterr().out)["score"]


def test_a_config_that_names_the_weights_decides_by_them(trained, tmp_path, capsys):
    (tmp_path / "mine.weights").write_bytes((trained.folder / "learned.weights").read_bytes())
    (tmp_path / "shipped.yaml").write_text(SIMULATED)
    (tmp_path / "own.yaml").write_text(f"{SIMULATED}policies: [override, {{learned: {{weights: mine.weights}}}}]\n")

    by_shipped, by_own = (score(tmp_path / name, "fix the typo in the part", capsys) for name in ("shipped.yaml", "own.yaml"))

    assert by_shipped < 0.3 < 0.5 < by_own


def test_a_file_that_is_fitted_may_not_judge(data, capsys):
    assert main(["train", str(data), "--dev", str(data)]) == 2

    err = capsys.readouterr().err
    assert "asks.jsonl: 60 of 60 items are in the training data too, so the test would be biased" in err
    assert "hint: divide the data" in err
    assert "fitting" not in err
    assert not Path("learned.weights").exists()


@pytest.mark.parametrize(("count", "is_refused"), [(99, True), (100, False)])
def test_one_in_a_hundred_words_may_be_fitted_too(data, capsys, monkeypatch, count, is_refused):
    monkeypatch.setitem(sys.modules, "sklearn", None)  # what is asked here is settled before anything is fitted
    judges = write_data(Path("judges.jsonl"), count - 1, things="thing")
    judges.write_text(f"{judges.read_text()}\n{data.read_text().splitlines()[0]}")

    assert main(["train", str(data), "--dev", "judges.jsonl"]) == 2

    err = capsys.readouterr().err
    assert ("the test would be biased" in err) is is_refused
    assert ("left out 1 of 100 items" in err) is not is_refused


def test_without_scikit_learn_it_is_said_how_to_get_it(data, capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "sklearn", None)

    assert main(["train", str(data)]) == 2

    assert "training needs scikit-learn\n  hint: pip install 'tandem-router[train]'" in capsys.readouterr().err
    assert not Path("learned.weights").exists()


@pytest.mark.parametrize(
    "lines",
    [
        ['{"label": "long", "text": "x", "id": "a1"}', '{"label": "long", "text": "x", "id": "a99"}'],
        ['{"label": "long", "text": "x", "id": "a1"}', '{"label": "quick", "text": "y", "id": "a2"}'],
        ['{"label": "long", "text": "x", "id": "a1"}', '{"label": "unclear", "text": "y", "id": "a99"}'],
    ],
    ids=["one kind", "one group", "one that is clear"],
)
def test_both_kinds_of_two_groups_are_needed(tmp_path, capsys, lines):
    (tmp_path / "few.jsonl").write_text("\n".join(lines))

    assert main(["train", str(tmp_path / "few.jsonl"), "--out", str(tmp_path / "w")]) == 2
    assert "too little data" in capsys.readouterr().err


def test_clear_turns_are_needed_to_be_judged_by(data, capsys):
    Path("middle.jsonl").write_text('{"label": "long", "prompt": "x", "band": "middle"}')

    assert main(["train", str(data), "--dev", "middle.jsonl"]) == 2

    err = capsys.readouterr().err
    assert "middle.jsonl: no clear turns to test the weights on" in err
    assert "fitting" not in err


@pytest.mark.parametrize(("out", "said"), [("missing/w", "missing is not a folder"), (".", "is a folder")])
def test_weights_that_could_not_be_written_are_not_fitted(data, capsys, out, said):
    assert main(["train", str(data), "--out", out]) == 2

    err = capsys.readouterr().err
    assert said in err
    assert "fitting" not in err


def test_a_pipe_is_refused_because_its_fingerprint_would_be_of_nothing(tmp_path, capsys):
    os.mkfifo(tmp_path / "pipe")

    assert main(["train", str(tmp_path / "pipe"), "--out", str(tmp_path / "w")]) == 2
    assert "pipe: is not a regular file" in capsys.readouterr().err


@pytest.mark.parametrize("which", ["data", "--dev"])
def test_a_line_that_cannot_be_read_is_named(data, capsys, which):
    Path("bad.jsonl").write_text('{"label": "maybe", "text": "x"}')

    assert main(["train", "bad.jsonl"] if which == "data" else ["train", str(data), "--dev", "bad.jsonl"]) == 2
    assert "bad.jsonl line 1: label must be" in capsys.readouterr().err
