import importlib.util
import json
import sys
from pathlib import Path

import pytest

from router.cli import main
from router.dialects.requests import Arrival
from router.lab.items import arrival_of, load_items
from tests.tools.http import call


def write_data(path: Path, count: int = 60) -> Path:
    lines = []
    for number in range(count):
        is_long = number % 2 == 0
        calls = [20, 25, 18] if is_long else [1, 0, 2]
        context = {"has_tools": True, "prior_turns": 3, "prior_tool_calls": calls, "prior_edits": [0, 0, 0], "prev_prompt": "x"}
        label = "long" if is_long else "quick"
        lines.append(
            {
                "source": "agent_session_x",
                "repo": f"r{number % 6}",
                "prompt": f"do {number}",
                "label": label,
                "context": context,
            }
        )
    path.write_text("\n".join(map(json.dumps, lines)))
    return path


@pytest.fixture
def data(tmp_path, monkeypatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return write_data(tmp_path / "turns.jsonl")


def test_eval_prints_figures_for_people_and_for_programs(data, capsys):
    assert main(["eval", str(data), "--preference", "--plots", "plots"]) == 0
    table = capsys.readouterr().out
    assert main(["eval", str(data), "--json"]) == 0
    figures = json.loads(capsys.readouterr().out)

    assert "agent_session_x" in table
    assert "preference: speed" in table
    assert figures["sets"]["agent_session_x"]["auroc"] == 1.0
    assert {path.name for path in Path("plots").iterdir()} == {"reliability.svg", "cost-curve.svg"}
    assert all(path.read_text().startswith("<svg") for path in Path("plots").iterdir())


def test_without_calls_the_history_tells_nothing(data, capsys):
    assert main(["eval", str(data), "--without-calls", "--json"]) == 0

    assert json.loads(capsys.readouterr().out)["sets"]["agent_session_x"]["auroc"] < 0.8


@pytest.mark.parametrize(
    ("lines", "said"),
    [("{", "line 1"), ('{"label": "maybe", "prompt": "x"}', "quick"), ("[]", "object"), ("", "no clear items")],
)
def test_bad_data_is_named_with_its_line(tmp_path, capsys, lines, said):
    path = tmp_path / "bad.jsonl"
    path.write_text(lines)

    assert main(["eval", str(path)]) == 2
    assert said in capsys.readouterr().err


def test_eval_says_when_a_router_cannot_be_reached(data, capsys):
    assert main(["eval", str(data), "--url", "http://127.0.0.1:9"]) == 1
    assert main(["eval", str(data), "--url", "ftp://x"]) == 1
    assert "cannot judge" in capsys.readouterr().err


def test_training_is_repeatable_and_writes_weights(data, capsys):
    arguments = ["train", str(data), "--dev", str(data), "--trees", "4", "--force"]

    assert main([*arguments, "--out", "one.json"]) == 0
    assert main([*arguments, "--out", "two.json"]) == 0

    assert Path("one.json").read_bytes() == Path("two.json").read_bytes()
    assert json.loads(Path("one.json").read_bytes())["trained_on"]["items"] == 60


def test_training_refuses_to_write_what_is_worse_and_what_nobody_judged(data, tmp_path, capsys):
    judges = write_data(tmp_path / "judges.jsonl")
    wrong = judges.read_text().replace('"long"', '"?"').replace('"quick"', '"long"').replace('"?"', '"quick"')
    (tmp_path / "wrong.jsonl").write_text(wrong)

    assert main(["train", "wrong.jsonl", "--dev", str(judges), "--trees", "4", "--out", "w.json"]) == 1
    assert "not written" in capsys.readouterr().err
    assert main(["train", str(data), "--out", "w.json"]) == 2
    assert not Path("w.json").exists()


def test_training_needs_both_kinds(tmp_path, capsys):
    path = tmp_path / "one.jsonl"
    path.write_text('{"label": "long", "prompt": "x", "repo": "a"}')

    assert main(["train", str(path), "--force"]) == 2
    assert "too little data" in capsys.readouterr().err


@pytest.mark.shared
@pytest.mark.timeout(240)
async def test_a_running_router_scores_whole_chat_bodies_as_the_evaluation_does(shared, simulated):
    """Both renderings of an item, ours and the data's own, over HTTP and in process."""
    spec = importlib.util.spec_from_file_location("render", shared / "routing-data" / "render.py")
    render = importlib.util.module_from_spec(spec)
    keep, sys.dont_write_bytecode = sys.dont_write_bytecode, True
    spec.loader.exec_module(render)
    sys.dont_write_bytecode = keep
    path = shared / "routing-data" / "dev.jsonl"
    raws = [json.loads(line) for line in path.read_text().splitlines()]
    differing = []
    for raw, item in zip(raws, load_items([path]), strict=True):
        arrival: Arrival = arrival_of(item)
        ours = await call(simulated.port, "/tandem/explain", json.loads(arrival.raw))
        theirs = await call(simulated.port, "/tandem/explain", render.chat_body(raw))
        if ours.json["score"] != theirs.json["score"]:
            differing.append(raw["id"])

    assert differing == []
