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
from router.past.labelled import arrival_of, load_items
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
                "prompt": f"migrate module {number} to async, with tests" if is_long else f"rename variable {number}",
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
    assert main(["eval", str(data)]) == 0
    header, row = capsys.readouterr().out.splitlines()
    assert main(["eval", str(data), "--json"]) == 0
    figures = json.loads(capsys.readouterr().out)["sets"]["agent_session_x"]

    assert header.split() == ["items", "AUROC", *"quick on fast long on deep".split()]
    assert row.split()[:3] == ["agent_session_x", "60", "1.000"]
    assert (figures["items"], figures["auroc"]) == (60, 1.0)
    assert row.split()[3:] == [f"{figures[name]:.3f}" for name in ("quick_recall", "long_recall")]


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


def test_asks_that_could_be_either_are_not_judged(tmp_path, capsys):
    path = tmp_path / "asks.jsonl"
    path.write_text('{"text": "look at it", "label": "unclear"}\n{"text": "rename it", "label": "quick"}')

    assert main(["eval", str(path), "--json"]) == 0

    told = capsys.readouterr()
    assert "judging 1 clear item\n" in told.err
    assert json.loads(told.out)["sets"]["asks: first asks without tools"]["long_recall"] is None


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
    assert "cannot judge: http://127.0.0.1:9 cannot be asked: " in capsys.readouterr().err


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ("--min-auroc 0.9 --kind rescue", "--min-auroc cannot be combined with --kind rescue"),
        ("--min-auroc 0.9 --kind complaints", "--min-auroc cannot be combined with --kind complaints"),
        ("--url http://127.0.0.1:9 --kind rescue", "--url cannot be combined with --kind rescue"),
        ("--url ftp://x", "--url must begin with http:// or https://: ftp://x"),
    ],
)
def test_options_that_say_nothing_together_are_refused(data, capsys, options, said):
    assert main(["eval", str(data), *options.split()]) == 2
    assert said in capsys.readouterr().err


@contextmanager
def answering(status: int, body: bytes | None):
    """A server that gives everybody this answer, and its address. Without a body it is not a router."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self):
            self.rfile.read(int(self.headers["content-length"]))
            self.send_response(status)
            self.send_header("content-length", str(len(body or b"")))
            if body is not None:
                self.send_header("x-tandem-request-id", "req_1")
            self.end_headers()
            self.wfile.write(body or b"")

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
        (200, b"[1]", "cannot be asked: what answers there is not a Tandem router (no JSON object)"),
        (200, b"<html>", "cannot be asked: what answers there is not a Tandem router (no JSON object)"),
        (404, b"{}", "answered 404"),
        (404, None, "cannot be asked: what answers there is not a Tandem router (status 404)"),
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


def test_an_item_that_is_too_long_is_left_out_and_counted(data, capsys):
    with data.open("a") as file:
        file.write("\n" + json.dumps({"label": "long", "prompt": "word " * 500_000}))

    assert main(["eval", str(data), "--json"]) == 0

    told = capsys.readouterr()
    figures = json.loads(told.out)
    assert (figures["sets"]["agent_session_x"]["items"], figures["left_out"]) == (60, 1)
    assert "left out 1 item that the router refused" in told.err
    assert "prompt is too long" in told.err


def test_eval_ends_at_the_item_at_which_it_is_interrupted(data, monkeypatch, heard_signals):
    explain, decided = House.explain, []

    async def interrupt_at_the_third(self, arrival, plan=None):
        decided.append(arrival)
        if len(decided) == 3:
            signal.raise_signal(signal.SIGINT)
        return await explain(self, arrival, plan)

    monkeypatch.setattr(House, "explain", interrupt_at_the_third)

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


REMARKS = """
{"asked": "fix the footer", "says": "still red", "label": "bad"}
{"asked": "fix the footer", "says": "thanks, works", "label": "fine"}
{"says": "commit this", "label": "fine"}
"""


def test_how_many_complaints_are_heard_is_printed_for_a_person_and_for_a_program(tmp_path, capsys):
    path = tmp_path / "remarks.jsonl"
    path.write_text(REMARKS)

    assert main(["eval", str(path), "--kind", "complaints"]) == 0
    assert "catch        1.000  1 of 1" in capsys.readouterr().out
    assert main(["eval", str(path), "--kind", "complaints", "--json"]) == 0

    told = json.loads(capsys.readouterr().out)
    assert told == {"catch": 1.0, "false_alarm": 0.0, "bad": 1, "fine": 2, "caught": 1, "alarms": 0}


@pytest.mark.parametrize(
    ("kind", "because", "caught"),
    [
        ("lean", "the last turn seems to have gone wrong", 1),
        ("insist", "the last turn seems to have gone wrong", 0),
        ("lean", "a long task", 0),
    ],
)
def test_a_running_router_is_asked_which_complaints_it_hears(tmp_path, capsys, kind, because, caught):
    path = tmp_path / "remarks.jsonl"
    path.write_text(REMARKS.splitlines()[1])
    told = {"score": 0.5, "tier": "deep", "evidence": [{"kind": "rule_out"}, {"kind": kind, "because": because}]}

    with answering(200, json.dumps(told).encode()) as url:
        assert main(["eval", str(path), "--kind", "complaints", "--url", url, "--json"]) == 0

    assert json.loads(capsys.readouterr().out)["caught"] == caught


def write_calls(path: Path, *, is_bad: bool, is_uneven: bool, turns: int = 1, calls: int = 40) -> Path:
    """Turns of silent edits with a long reflection now and then, or of one line before each command."""
    rows = [
        ["edit", 0, 0, f"{number:08x}", f"f{number % 4}", 120, 3_000 if number % 10 == 0 else 0]
        if is_uneven
        else ["shell", 0, 0, f"{number:08x}", "", 120, 60]
        for number in range(calls)
    ]
    path.write_text("\n".join([json.dumps({"bad": is_bad, "calls": rows})] * turns))
    return path


def test_turns_that_end_badly_are_measured_by_file_and_together(tmp_path, capsys):
    bad = write_calls(tmp_path / "bad.jsonl", is_bad=True, is_uneven=True)
    fine = write_calls(tmp_path / "fine.jsonl", is_bad=False, is_uneven=False, turns=2)

    assert main(["eval", str(bad), str(fine), "--kind", "rescue"]) == 0
    table, *_ = told = capsys.readouterr()
    assert main(["eval", str(bad), str(fine), "--kind", "rescue", "--json"]) == 0
    figures = json.loads(capsys.readouterr().out)

    assert table.splitlines()[0].split() == "turns bad after 10 after 20 after 30 catch alarm".split()
    assert [line.split("  ")[0] for line in table.splitlines()[1:]] == [
        *("bad", "bad, 30 calls and more", "fine", "fine, 30 calls and more", "all", "all, 30 calls and more")
    ]
    assert "It says nothing\nbefore call 20" in told[1]
    assert {name: found["turns"] for name, found in figures["files"].items()} == {"bad": 1, "fine": 2}
    assert (figures["turns"], figures["bad"], figures["catch"], figures["alarm"]) == (3, 1, 1.0, 0.0)
    assert figures["turns_after"] == {"10": 3, "20": 3, "30": 3}
    assert figures["auroc"]["30"] == 1.0
    assert figures["from_30_calls"] == {"turns": 3, "bad": 1, "catch": 1.0, "alarm": 0.0}


@pytest.mark.parametrize(
    ("kind", "content", "said"),
    [
        ("complaints", "", "these files contain no remarks"),
        (
            "complaints",
            '{"text": "fix it", "label": "quick"}',
            'line 1: "says" is missing\n  hint: a line of --kind complaints has says, asked, and the label bad or fine\n',
        ),
        ("rescue", "", "these files contain no turns"),
        ("rescue", "{}", 'line 1: "calls" is missing'),
        ("turns", '{"says": "still red", "label": "bad"}', "use --kind complaints"),
    ],
)
def test_a_file_of_another_kind_is_named(tmp_path, capsys, kind, content, said):
    path = tmp_path / "x.jsonl"
    path.write_text(content)

    assert main(["eval", str(path), "--kind", kind]) == 2
    assert said in capsys.readouterr().err
