"""`tandem eval` as a person meets it, here and against a running router."""

import importlib.util
import json
import signal
import sys
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from router.cli import main
from router.house import House
from router.lab.items import arrival_of, load_items
from tests.tools.http import request_bytes
from tests.tools.raw import Caller


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


def test_a_few_columns_tell_most_and_all_of_them_are_shown_when_asked(data, capsys):
    assert main(["eval", str(data)]) == 0
    few = capsys.readouterr()
    assert main(["eval", str(data), "--all"]) == 0
    every = capsys.readouterr()

    header, row = few.out.splitlines()
    assert header.split() == ["items", "AUROC", *"quick on fast long on deep to done of deep wrong in 100".split()]
    assert row.split()[:3] == ["agent_session_x", "60", "1.000"]
    assert every.out.splitlines()[0].startswith(header)
    assert {"regret", "within", "accuracy", "precision", "prec@28%"} <= set(every.out.split())
    assert "regret: mean cost of a choice" in every.err
    assert "regret" not in few.out + few.err


def test_each_set_has_its_own_row_and_real_prompts_come_first(data, capsys):
    meaning = data.with_name("meaning.jsonl")
    first = json.loads(data.read_text().splitlines()[0])
    data.with_name("named.jsonl").write_text(json.dumps({**first, "id": "n1"}))
    meaning.write_text('{"id": "n1", "file": "named.jsonl", "label": "long"}')
    data.with_name("asks.jsonl").write_text('{"text": "rename it", "label": "quick", "setting": "agent"}')

    assert main(["eval", str(data), "asks.jsonl", "meaning.jsonl", "--json"]) == 0

    sets = json.loads(capsys.readouterr().out)["sets"]
    assert {name: figures["items"] for name, figures in sets.items()} == {
        "real prompts: later turns": 1,
        "agent_session_x": 60,
        "asks: first asks with tools": 1,
        "all": 62,
    }
    assert list(sets) == ["real prompts: later turns", "agent_session_x", "asks: first asks with tools", "all"]


def test_a_set_below_the_least_auroc_is_named_and_the_status_is_1(data, capsys):
    lines = [json.loads(line) for line in data.read_text().splitlines()]
    swapped = [
        {**line, "source": "agent_session_y", "label": {"quick": "long", "long": "quick"}[line["label"]]} for line in lines
    ]
    data.with_name("swapped.jsonl").write_text("\n".join(map(json.dumps, swapped)))

    assert main(["eval", str(data), "--min-auroc", "0.9"]) == 0
    assert "min-auroc" not in capsys.readouterr().err
    assert main(["eval", str(data), "swapped.jsonl", "--min-auroc", "0.9", "--json"]) == 1

    told = capsys.readouterr()
    assert json.loads(told.out)["sets"]["agent_session_y"]["auroc"] == 0.0
    assert "agent_session_y: the AUROC is 0.0000, below the 0.9 of --min-auroc" in told.err
    assert "agent_session_x:" not in told.err


def test_a_least_auroc_is_missed_where_none_can_be_measured(data, capsys):
    data.write_text(data.read_text().splitlines()[0])

    assert main(["eval", str(data), "--min-auroc", "0.5"]) == 1

    assert "a set needs both quick and long items" in capsys.readouterr().err


@pytest.mark.parametrize("other", ["--rescue", "--complaints"])
def test_a_least_auroc_is_refused_where_something_else_is_measured(data, capsys, other):
    assert main(["eval", str(data), "--min-auroc", "0.9", other]) == 2
    assert "--min-auroc cannot be combined" in capsys.readouterr().err


def test_asks_that_could_be_either_are_not_judged(tmp_path, capsys):
    path = tmp_path / "asks.jsonl"
    path.write_text('{"text": "look at it", "label": "unclear"}\n{"text": "rename it", "label": "quick"}')

    assert main(["eval", str(path), "--json"]) == 0

    told = capsys.readouterr()
    assert "judging 1 clear items" in told.err
    assert json.loads(told.out)["sets"]["asks: first asks without tools"]["long_recall"] is None


def test_without_calls_the_history_tells_nothing(data, capsys):
    assert main(["eval", str(data), "--without-calls", "--json"]) == 0

    assert json.loads(capsys.readouterr().out)["sets"]["agent_session_x"]["auroc"] < 0.8


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        ("{", "line 1: is not JSON"),
        ('{"label": "maybe", "prompt": "x"}', "quick"),
        ('{"label": "long", "prompt": "x"}\n{"prompt": "x"}', 'line 2: "label" is missing'),
        ("[]", "line 1: a line must be a JSON object"),
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

    assert "every item was refused. The first: status 400" in capsys.readouterr().err


def test_a_preference_is_not_mixed_with_the_figures_of_another_router(data, capsys):
    assert main(["eval", str(data), "--url", "http://127.0.0.1:9", "--preference"]) == 2
    assert "cannot be combined" in capsys.readouterr().err


def test_an_item_that_is_too_long_is_left_out_and_counted(data, capsys):
    with data.open("a") as file:
        file.write("\n" + json.dumps({"label": "long", "prompt": "word " * 500_000}))

    assert main(["eval", str(data), "--json"]) == 0

    told = capsys.readouterr()
    figures = json.loads(told.out)
    assert (figures["sets"]["agent_session_x"]["items"], figures["left_out"]) == (60, 1)
    assert "left out 1 item that the router refused" in told.err
    assert "prompt is too long" in told.err


@pytest.mark.parametrize("folder", ["turns.jsonl", "turns.jsonl/plots"])
def test_a_folder_for_plots_that_cannot_be_is_refused_before_the_work(data, capsys, folder):
    assert main(["eval", str(data), "--plots", folder]) == 2

    err = capsys.readouterr().err
    assert f"--plots {folder}: " in err
    assert "judging" not in err


def test_eval_ends_at_the_item_at_which_it_is_interrupted(data, monkeypatch, heard_signals):
    decide, decided = House.decide, []

    async def interrupt_at_the_third(self, arrival):
        decided.append(arrival)
        if len(decided) == 3:
            signal.raise_signal(signal.SIGINT)
        return await decide(self, arrival)

    monkeypatch.setattr(House, "decide", interrupt_at_the_third)

    assert main(["eval", str(data)]) == 130
    assert len(decided) == 3


@pytest.mark.shared
@pytest.mark.timeout(240)
async def test_a_running_router_scores_whole_chat_bodies_as_the_evaluation_does(shared, simulated):
    """Our rendering of an item in process, and the data's own over HTTP."""
    spec = importlib.util.spec_from_file_location("render", shared / "routing-data" / "render.py")
    render = importlib.util.module_from_spec(spec)
    keep, sys.dont_write_bytecode = sys.dont_write_bytecode, True
    spec.loader.exec_module(render)
    sys.dont_write_bytecode = keep
    path = shared / "routing-data" / "dev.jsonl"
    raws = [json.loads(line) for line in path.read_text().splitlines()]
    differing = []
    async with Caller(simulated.port) as caller:
        for raw, item in zip(raws, load_items([path]), strict=True):
            ours = (await simulated.house.decide(arrival_of(item))).decision
            await caller.send(request_bytes("/tandem/explain", render.chat_body(raw)))
            theirs = await caller.reply(60)
            if theirs.json["score"] != round(ours.score, 6):
                differing.append(raw["id"])

    assert differing == []


SAID = [("fix the footer", "still red", "bad"), ("fix the footer", "thanks, works", "fine"), ("", "commit this", "fine")]


def write_remarks(folder) -> str:
    path = folder / "remarks.jsonl"
    lines = (json.dumps({"asked": asked, "says": says, "label": label}) for asked, says, label in SAID)
    path.write_text("\n".join(lines))
    return str(path)


def test_how_many_complaints_are_heard_is_printed_for_a_person_and_for_a_program(tmp_path, capsys):
    path = write_remarks(tmp_path)

    assert main(["eval", "--complaints", path]) == 0
    assert "catch        1.000  1 of 1" in capsys.readouterr().out
    assert main(["eval", "--complaints", path, "--json"]) == 0

    told = json.loads(capsys.readouterr().out)
    assert told == {"catch": 1.0, "false_alarm": 0.0, "bad": 1, "fine": 2, "caught": 1, "alarms": 0}


def test_a_file_without_remarks_says_what_a_line_needs(tmp_path, capsys):
    path = tmp_path / "asks.jsonl"
    path.write_text('{"text": "fix it", "label": "quick"}\n')

    assert main(["eval", "--complaints", str(path)]) == 2
    assert '"asked", "says"' in capsys.readouterr().err


def test_a_label_that_is_not_known_is_named_with_its_line(tmp_path, capsys):
    path = tmp_path / "remarks.jsonl"
    path.write_text('{"asked": "a", "says": "b", "label": "wrong"}\n')

    assert main(["eval", "--complaints", str(path)]) == 2
    assert 'line 1: says must be text, and label must be "bad" or "fine"' in capsys.readouterr().err
