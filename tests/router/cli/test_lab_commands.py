import importlib.util
import json
import os
import signal
import sys
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from router.cli import main
from router.dialects.requests import Arrival
from router.house import House
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
    [
        ("{", "line 1: is not JSON"),
        ('{"label": "maybe", "prompt": "x"}', "quick"),
        ('{"label": "long", "prompt": "x"}\n{"prompt": "x"}', 'line 2: "label" is missing'),
        ("[]", "line 1: a line must hold an object"),
        ("", "no clear items"),
    ],
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


@contextmanager
def answering(status: int, body: bytes):
    """A server that says the same to everybody, and its address."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self):
            self.rfile.read(int(self.headers["content-length"]))
            self.send_response(status)
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_):
            pass

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()


@pytest.mark.parametrize(
    ("status", "body", "said"),
    [
        (200, b'{"status": "ok"}', "answered without a score and a tier"),
        (200, b'{"score": null, "tier": "fast"}', "answered without a score and a tier"),
        (200, b"[1]", "answered without a score and a tier"),
        (200, b"<html>", "answered with something other than JSON"),
        (404, b"{}", "answered 404"),
    ],
)
def test_a_server_that_is_no_router_is_named_by_its_url(data, capsys, status, body, said):
    with answering(status, body) as url:
        assert main(["eval", str(data), "--url", url]) == 1

    assert f"cannot judge: {url} {said}" in capsys.readouterr().err


def test_a_router_that_refuses_every_item_is_an_error(data, capsys):
    with answering(400, b"{}") as url:
        assert main(["eval", str(data), "--url", url]) == 1

    assert "every item is refused, the first with: status 400" in capsys.readouterr().err


def test_a_preference_is_not_mixed_with_the_figures_of_another_router(data, capsys):
    assert main(["eval", str(data), "--url", "http://127.0.0.1:9", "--preference"]) == 2
    assert "give one of the two" in capsys.readouterr().err


def test_an_item_that_is_too_long_is_left_out_and_counted(data, capsys):
    with data.open("a") as file:
        file.write("\n" + json.dumps({"label": "long", "prompt": "word " * 500_000}))

    assert main(["eval", str(data), "--json"]) == 0

    told = capsys.readouterr()
    figures = json.loads(told.out)
    assert (figures["sets"]["agent_session_x"]["items"], figures["left_out"]) == (60, 1)
    assert "left out 1 of the items" in told.err
    assert "prompt is too long" in told.err


@pytest.mark.parametrize("folder", ["turns.jsonl", "turns.jsonl/plots"])
def test_a_folder_for_plots_that_cannot_be_is_refused_before_the_work(data, capsys, folder):
    assert main(["eval", str(data), "--plots", folder]) == 2

    err = capsys.readouterr().err
    assert f"--plots {folder}: " in err
    assert "judging" not in err


def test_eval_ends_at_the_item_at_which_it_is_interrupted(data, monkeypatch):
    decide, decided = House.decide, []

    async def interrupt_at_the_third(self, arrival):
        decided.append(arrival)
        if len(decided) == 3:
            signal.raise_signal(signal.SIGINT)
        return await decide(self, arrival)

    monkeypatch.setattr(House, "decide", interrupt_at_the_third)

    assert main(["eval", str(data)]) == 130
    assert len(decided) == 3


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


def test_training_needs_clear_turns_to_be_judged_by(data, tmp_path, capsys):
    judges = tmp_path / "middle.jsonl"
    judges.write_text('{"label": "long", "prompt": "x", "band": "middle"}')

    assert main(["train", str(data), "--dev", str(judges), "--out", "w.json"]) == 2

    err = capsys.readouterr().err
    assert "middle.jsonl: holds no clear turns to judge the weights by" in err
    assert "fitting" not in err


@pytest.mark.parametrize(("out", "said"), [("missing/w.json", "missing is not a folder"), (".", "is a folder")])
def test_weights_that_could_not_be_written_are_not_fitted(data, capsys, out, said):
    assert main(["train", str(data), "--force", "--out", out]) == 2

    err = capsys.readouterr().err
    assert said in err
    assert "fitting" not in err


@pytest.mark.parametrize("trees", ["0", "-3", "many"])
def test_a_forest_has_at_least_one_tree(data, capsys, trees):
    with pytest.raises(SystemExit) as end:
        main(["train", str(data), "--force", "--out", "w.json", "--trees", trees])

    assert end.value.code == 2
    assert "--trees: must be a whole number from 1 on" in capsys.readouterr().err


def test_training_refuses_a_pipe_whose_fingerprint_would_be_of_nothing(tmp_path, capsys):
    os.mkfifo(tmp_path / "pipe")

    assert main(["train", str(tmp_path / "pipe"), "--force", "--out", str(tmp_path / "w.json")]) == 2
    assert "pipe: is not a regular file" in capsys.readouterr().err


def test_training_says_what_its_figures_are_taken_on_sessions_first(data, tmp_path, capsys):
    judges = write_data(tmp_path / "judges.jsonl")
    with judges.open("a") as file:
        file.write('\n{"source": "a_book", "label": "long", "prompt": "x"}\n{"label": "long", "prompt": "x", "band": "middle"}')

    assert main(["train", str(data), "--dev", str(judges), "--trees", "4", "--force", "--out", "w.json"]) == 0

    told = capsys.readouterr()
    assert "judged on the 61 clear turns of --dev by the weights alone, fast below a score of 0.3" in told.err
    assert [line.split()[:2] for line in told.out.splitlines()] == [
        ["agent_session_x", "new"],
        ["agent_session_x", "in"],
        ["a_book", "new"],
        ["a_book", "in"],
        ["all", "new"],
        ["all", "in"],
    ]


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
