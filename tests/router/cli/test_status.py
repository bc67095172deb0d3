"""`tandem status`."""

import json
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

import pytest

from router.cli import installed_version, main
from router.cli.routers import Router, note_router
from tests.conftest import SIMULATED
from tests.tools.serve import serving


def test_a_router_says_where_it_is_since_when_and_how_it_does(here, capsys):
    (here / "config.yaml").write_text(SIMULATED)
    before = time.time()
    with serving(here) as url:
        assert main(["status"]) == 0
        said = capsys.readouterr().out
        assert main(["status", "--json"]) == 0
        told = json.loads(capsys.readouterr().out)

    lines = {name: text for name, _, text in (line.partition(" ") for line in said.splitlines())}
    assert {name: text.strip() for name, text in lines.items()} == {
        "state": f"ready at {url}",
        "since": lines["since"].strip(),
        "version": installed_version(),
        "config": f"{here / 'config.yaml'} ({told['fingerprint']})",
        "ledger": str(here / "test.db"),
        "targets": "fast simulated-fast, deep simulated-deep",
        "jobs": "0 running, 0 to collect",
        "chain": "sessions, targets, superseding, responses, records, log, metrics, page, jobs",
        "off": "traces, alerts",
        "problems": "none",
    }
    assert lines["since"].endswith(f"pid {told['pid']}")
    assert before < told["started_at"] < time.time()
    assert (told["running"], told["state"], told["problems"]) == (True, "ready", [])
    assert told["stores"] == {"ledger": str(here / "test.db"), "shared": [], "away": []}


def test_files_that_cannot_be_used_are_problems_of_a_router_that_runs(here, capsys):
    (here / "config.yaml").write_text(SIMULATED.replace("test.db", "folder/test.db"))
    (here / "folder").touch()
    texts = [
        "the ledger cannot be written (Not a directory): its rows wait in memory",
        "the store of background jobs cannot be written (Not a directory): requests with background: true are answered with 503",
    ]

    with serving(here):
        assert main(["status", "--json"]) == 0
        told = json.loads(capsys.readouterr().out)
        assert main(["stop"]) == 0

    assert (told["state"], told["stores"]["away"], [one["text"] for one in told["problems"]]) == ("ready", texts, texts)


def test_after_a_reload_the_fingerprint_is_that_of_the_config_in_use(here, capsys):
    config = here / "config.yaml"
    config.write_text(SIMULATED)

    def fingerprint() -> str:
        capsys.readouterr()
        assert main(["status", "--json"]) == 0
        return json.loads(capsys.readouterr().out)["fingerprint"]

    with serving(here, "--no-ledger"):
        before = fingerprint()
        config.write_text(SIMULATED.replace("window_tokens: 400000", "window_tokens: 200000"))
        assert fingerprint() == before
        assert main(["reload"]) == 0

        assert fingerprint() != before


def test_without_a_router_it_says_so_with_the_others_that_run(here, capsys, monkeypatch):
    (here / "config.yaml").write_text(SIMULATED)
    assert main(["status"]) == 1
    assert capsys.readouterr().err == "  hint: tandem serve starts one\n"
    monkeypatch.setattr(Router, "is_running", lambda _: True)
    note_router(Router("http://127.0.0.1:1", None, time.time(), here / "other.yaml"))

    assert main(["status"]) == 1

    printed = capsys.readouterr()
    assert printed.out == f"no router is running with {here / 'config.yaml'}\n"
    assert f"another one runs at http://127.0.0.1:1, with {here / 'other.yaml'}; --url names it" in printed.err
    assert main(["status", "--json"]) == 1
    others = [{"url": "http://127.0.0.1:1", "config": str(here / "other.yaml")}]
    assert json.loads(capsys.readouterr().out) == {"running": False, "config": str(here / "config.yaml"), "others": others}


def test_a_router_that_does_not_answer_is_a_problem_and_exits_1(here, capsys):
    assert main(["status", "--url", "http://127.0.0.1:1"]) == 1

    said = capsys.readouterr().out
    assert "does not answer at http://127.0.0.1:1" in said
    assert "no router answers at http://127.0.0.1:1: [Errno" in said


def test_what_is_not_a_router_is_a_problem_too(here, capsys):
    with ThreadingHTTPServer(("127.0.0.1", 0), BaseHTTPRequestHandler) as other:
        Thread(target=other.serve_forever, daemon=True).start()
        try:
            assert main(["status", "--url", f"http://127.0.0.1:{other.server_port}"]) == 1
        finally:
            other.shutdown()

    assert "what answers there is not a Tandem router (status 501)" in capsys.readouterr().out


def test_a_router_of_another_user_with_keys_says_what_is_missing(here, capsys, monkeypatch):
    (here / "keys.yaml").write_text("callers: {}\n")
    (here / "keys.yaml").chmod(0o600)
    (here / "config.yaml").write_text(f"keys: {{file: keys.yaml}}\n{SIMULATED}")
    with serving(here) as url:
        monkeypatch.setenv("XDG_STATE_HOME", str(here / "another"))

        assert main(["status", "--url", url]) == 0

    said = capsys.readouterr().out
    assert f"ready at {url}" in said
    assert "/tandem/stats answers with status 401\n    hint: name it with --key-env, or run this as the user" in said
    assert "ledger" not in said


@pytest.mark.parametrize("command", ["status", "stop", "reload"])
def test_a_url_without_a_scheme_is_refused(here, capsys, command):
    assert main([command, "--url", "127.0.0.1:4000"]) == 2
    assert "must begin with http" in capsys.readouterr().err
