"""`python -m tests.lab score`, here and against a running router."""

import importlib.util
import json
import sys
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from tests.lab.__main__ import main
from tests.lab.labelled import arrival_of, load_items
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


def test_prints_figures_for_people_and_for_programs(data, capsys):
    assert main(["score", str(data)]) == 0
    header, row = capsys.readouterr().out.splitlines()
    assert main(["score", str(data), "--json"]) == 0
    figures = json.loads(capsys.readouterr().out)["sets"]["agent_session_x"]

    assert header.split() == ["items", "AUROC", *"quick on fast long on deep".split()]
    assert row.split()[:3] == ["agent_session_x", "60", "1.000"]
    assert (figures["items"], figures["auroc"]) == (60, 1.0)
    assert row.split()[3:] == [f"{figures[name]:.3f}" for name in ("quick_recall", "long_recall")]


def test_says_when_a_router_cannot_be_reached(data, capsys):
    assert main(["score", str(data), "--url", "http://127.0.0.1:9"]) == 2
    assert "http://127.0.0.1:9 cannot be asked: " in capsys.readouterr().err


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
        assert main(["score", str(data), "--url", url]) == 2

    assert f"{url} {said}" in capsys.readouterr().err


def test_an_item_that_is_too_long_is_left_out_and_counted(data, capsys):
    with data.open("a") as file:
        file.write("\n" + json.dumps({"label": "long", "prompt": "word " * 500_000}))

    assert main(["score", str(data), "--json"]) == 0

    told = capsys.readouterr()
    figures = json.loads(told.out)
    assert (figures["sets"]["agent_session_x"]["items"], figures["left_out"]) == (60, 1)
    assert "left out 1 item that the router refused" in told.err
    assert "prompt is too long" in told.err


@pytest.mark.shared
@pytest.mark.timeout(240)
async def test_a_running_router_scores_whole_chat_bodies_as_the_lab_does(shared, simulated):
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
