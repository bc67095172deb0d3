"""The command line as a person meets it."""

import http.server
import importlib.util
import json
import os
import signal
import subprocess
import sys
import threading
import time

import pytest

from router.cli import COMMANDS, main
from tests.conftest import SIMULATED
from tests.tools.running import one_dialect


@pytest.fixture
def here(tmp_path, monkeypatch):
    """An empty folder without keys."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "home"))
    for name in list(os.environ):
        if name.endswith("_API_KEY") or name == "TANDEM_CONFIG":
            monkeypatch.delenv(name)
    return tmp_path


@pytest.mark.parametrize("command", [[], *([name] for name in COMMANDS)])
def test_help_of_every_command_says_what_it_does(command, capsys):
    with pytest.raises(SystemExit) as caught:
        main([*command, "--help"])

    assert caught.value.code == 0
    assert "usage: tandem" in capsys.readouterr().out


def test_no_command_prints_help_and_fails(capsys):
    assert main([]) == 2
    assert "serve" in capsys.readouterr().out


def test_check_prints_what_a_config_stands_for_and_never_a_key(here, capsys, monkeypatch):
    monkeypatch.setenv("SECRET_KEY_1", "sk-very-secret")
    target = "{name: a, base_url: 'http://h/v1', api_key: 'env:SECRET_KEY_1', model: m}"
    (here / "config.yaml").write_text(
        f"tiers: {{fast: {{targets: [{target}]}}, deep: {{targets: [{target.replace('name: a', 'name: b')}]}}}}"
    )

    assert main(["check"]) == 0
    out = capsys.readouterr().out
    assert "env:SECRET_KEY_1" in out
    assert "sk-very-secret" not in out


def test_check_prints_every_fault_and_exits_2(here, capsys):
    (here / "config.yaml").write_text("tiers: {fast: {targets: []}}\nwhat: 1\n")

    assert main(["check"]) == 2
    err = capsys.readouterr().err
    assert "tiers.fast.targets" in err
    assert "tiers.deep: missing" in err
    assert "what: no such setting" in err


def test_explain_is_readable_and_as_json(here, capsys):
    assert main(["explain", "fix the typo"]) == 0
    readable = capsys.readouterr().out
    assert main(["explain", "fix the typo", "--json"]) == 0
    decision = json.loads(capsys.readouterr().out)

    assert readable.startswith("fast  ")
    assert "would flip" in readable
    assert decision["tier"] == "fast"
    assert decision["person_text"] == "fix the typo"


def test_explain_says_what_a_request_would_lose_on_its_way(here, capsys):
    (here / "config.yaml").write_text(one_dialect("messages", "http://127.0.0.1:1"))
    request = {"model": "fast", "messages": [{"role": "user", "content": "fix the typo"}], "seed": 7, "logprobs": True}
    (here / "request.json").write_text(json.dumps(request))

    assert main(["explain", "--file", "request.json", "--dialect", "chat"]) == 0
    assert "drops       seed, logprobs (quick)" in capsys.readouterr().out


def test_explain_reads_a_file_and_headers(here, capsys):
    (here / "request.json").write_text(json.dumps({"model": "auto", "input": "fix the typo"}))

    assert main(["explain", "--file", "request.json", "--header", "x-tandem-tier: deep", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["tier"] == "deep"


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["explain"], 2, "give a text"),
        (["explain", "x", "--file", "y"], 2, "give a text"),
        (["explain", "  "], 2, "give a text"),
        (["explain", "x", "--header", "nocolon"], 1, "NAME:VALUE"),
        (["explain", "--file", "none.json"], 2, "No such file"),
        (["explain", "x", "--header", "x-tandem-tier: turbo"], 1, "fast, deep, auto"),
        (["serve", "--host", "0.0.0.0"], 2, "not loopback"),
        (["serve", "--config", "none.yaml"], 2, "No such file"),
    ],
)
def test_wrong_usage_is_said_plainly(here, capsys, arguments, code, said):
    assert main(arguments) == code
    assert said in capsys.readouterr().err


def test_init_writes_a_config_for_the_keys_that_are_here_and_never_over_another(here, capsys, monkeypatch):
    monkeypatch.setenv("CEREBRAS_API_KEY", "x")
    monkeypatch.setenv("ANTHROPIC_API_KEY", "y")

    assert main(["init"]) == 0
    assert main(["check"]) == 0
    out = capsys.readouterr().out
    assert "cerebras" in out
    assert "anthropic" in out
    assert "simulated" not in out
    assert main(["init"]) == 2
    assert "not touched" in capsys.readouterr().err
    mine = (here / "config.yaml").read_text()
    assert main(["init", "--force"]) == 0
    assert main(["init", "--force"]) == 0
    assert (here / "config.yaml.bak").read_text() == mine
    assert (here / "config.yaml.bak.1").exists()


def test_init_that_finds_nothing_leaves_an_existing_file_alone(here, capsys):
    (here / "config.yaml").write_text("mine: yes\n")

    assert main(["init", "--force"]) == 1
    assert (here / "config.yaml").read_text() == "mine: yes\n"
    assert "left as it is" in capsys.readouterr().err


def test_examples_are_in_a_dialect_that_the_config_serves(here, capsys, monkeypatch):
    monkeypatch.setenv("ANTHROPIC_API_KEY", "y")
    assert main(["init"]) == 0

    assert main(["explain", "fix the typo", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["targets"] == ["anthropic-small"]


def test_a_port_that_cannot_be_is_refused(here, capsys):
    with pytest.raises(SystemExit) as caught:
        main(["serve", "--port", "80000"])

    assert caught.value.code == 2
    assert "65535" in capsys.readouterr().err


def test_init_with_one_key_gives_both_tiers_a_target(here, capsys, monkeypatch):
    monkeypatch.setenv("GROQ_API_KEY", "x")

    assert main(["init"]) == 0
    assert main(["check"]) == 0
    out = capsys.readouterr().out
    assert "groq-deep" in out
    assert "simulated" not in out


def test_init_skips_a_provider_whose_extra_is_missing_and_names_the_extra(here, capsys, monkeypatch):
    find_spec = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name, *more: None if name == "litellm" else find_spec(name, *more))
    monkeypatch.setenv("GEMINI_API_KEY", "x")
    monkeypatch.setenv("GROQ_API_KEY", "x")

    assert main(["init"]) == 0

    assert "tandem-router[litellm]" in capsys.readouterr().err
    assert "groq" in (here / "config.yaml").read_text()


def test_init_and_check_use_a_provider_behind_litellm(here, capsys, monkeypatch):
    monkeypatch.setenv("GEMINI_API_KEY", "x")

    assert main(["init"]) == 0
    assert main(["check"]) == 0

    assert (
        "gemini/gemini-3.5-flash at litellm, key env:GEMINI_API_KEY; chat; window_tokens, price, accepts from litellm's table"
        in (capsys.readouterr().out)
    )


def test_init_without_anything_keeps_the_simulated_tiers_and_says_so(here, capsys):
    assert main(["init", "--print"]) == 0
    printed = capsys.readouterr()

    assert "simulated tiers stay" in printed.err
    assert "simulated-fast" in printed.out
    assert not (here / "config.yaml").exists()


def test_init_finds_a_local_server_and_its_model(here, capsys, monkeypatch):
    class Models(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            body = b'{"data": [{"id": "my-local-model"}]}'
            self.send_response(200)
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_):
            pass

    server = http.server.HTTPServer(("127.0.0.1", 0), Models)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    from router.cli import init

    text = init.default_text().replace("127.0.0.1:11434", f"127.0.0.1:{server.server_port}")
    monkeypatch.setattr(init, "default_text", lambda: text)

    try:
        assert main(["init"]) == 0
    finally:
        server.shutdown()
        thread.join()
        server.server_close()

    assert 'model: "my-local-model"' in (here / "config.yaml").read_text()


def start_server(folder, *more: str) -> subprocess.Popen:
    (folder / "config.yaml").write_text(SIMULATED)
    command = [sys.executable, "-m", "router.cli", "serve", "--port", "0", *more]
    return subprocess.Popen(command, cwd=folder, stderr=subprocess.PIPE, text=True)


def test_serve_says_what_a_newcomer_needs(here):
    server = start_server(here, "--log", "text")
    lines = []
    while not any("long task" in line for line in lines):
        lines.append(server.stderr.readline())
    welcome = "".join([*lines, server.stderr.readline()])

    server.send_signal(signal.SIGINT)
    assert server.wait(10) == 0
    server.stderr.close()
    assert "No model is configured (config.yaml), so simulated tiers answer" in welcome
    assert "Base URL    http://127.0.0.1:" in welcome
    assert welcome.count("curl -iN ") == 2


def test_a_port_that_is_taken_is_said_plainly(here):
    first = start_server(here, "--log", "json")
    port = json.loads(first.stderr.readline())["url"].rsplit(":", 1)[1]

    done = subprocess.run(
        [sys.executable, "-m", "router.cli", "serve", "--port", port], cwd=here, capture_output=True, text=True, timeout=20
    )

    first.terminate()
    assert first.wait(10) == 0
    first.stderr.close()
    assert done.returncode == 2
    assert "cannot listen" in done.stderr
    assert "--port" in done.stderr


def test_one_json_line_for_each_request_when_not_on_a_terminal(here):
    import urllib.request

    server = start_server(here)
    url = json.loads(server.stderr.readline())["url"]
    body = json.dumps(
        {"model": "auto", "stream": True, "messages": [{"role": "user", "content": "fix the typo secret-word"}]}
    ).encode()
    request = urllib.request.Request(
        f"{url}/v1/chat/completions", body, {"content-type": "application/json", "authorization": "Bearer sk-canary"}
    )
    with urllib.request.urlopen(request, timeout=10) as answer:
        answer.read()

    raw = server.stderr.readline()
    line = json.loads(raw)
    server.terminate()
    assert server.wait(10) == 0
    server.stderr.close()
    assert line["event"] == "request.settled"
    assert {"tier", "target", "because", "ttft_ms", "tokens_per_second", "overhead_ms", "outcome"} <= set(line)
    assert "secret-word" not in raw
    assert "sk-canary" not in raw


@pytest.mark.parametrize("signals", [1, 2])
def test_a_request_that_is_cut_by_the_end_has_its_entry(here, signals):
    import socket

    from tests.tools.http import request_bytes
    from tests.tools.running import read_entries

    config = SIMULATED.replace("tokens_per_second: 20000", "tokens_per_second: 1") + "limits: {drain_seconds: 1}\n"
    (here / "config.yaml").write_text(config)
    command = [sys.executable, "-m", "router.cli", "serve", "--port", "0", "--log", "json"]
    server = subprocess.Popen(command, cwd=here, stderr=subprocess.PIPE, text=True)
    port = int(json.loads(server.stderr.readline())["url"].rsplit(":", 1)[1])
    body = {"model": "deep", "stream": True, "messages": [{"role": "user", "content": "x"}]}
    with socket.create_connection(("127.0.0.1", port)) as caller:
        caller.sendall(request_bytes("/v1/chat/completions", body))
        caller.recv(1 << 16)
        for _ in range(signals):
            server.terminate()
            time.sleep(0.3)
        assert server.wait(10) == 0
    server.stderr.close()

    assert [row["outcome"] for row in read_entries(here / "test.db")] == ["CUT_SHORT"]


def test_sigterm_lets_a_running_request_finish_and_flushes_the_ledger(here):
    import urllib.request

    from tests.tools.running import read_entries

    server = start_server(here, "--log", "json")
    url = json.loads(server.stderr.readline())["url"]
    answers = []

    def ask() -> None:
        body = json.dumps({"model": "deep", "messages": [{"role": "user", "content": "x" * 50_000}]}).encode()
        request = urllib.request.Request(f"{url}/v1/chat/completions", body, {"content-type": "application/json"})
        with urllib.request.urlopen(request, timeout=10) as answer:
            answers.append(answer.read())

    thread = threading.Thread(target=ask)
    thread.start()
    time.sleep(0.15)
    server.terminate()

    assert server.wait(10) == 0
    thread.join()
    server.stderr.close()
    assert answers
    assert [row["outcome"] for row in read_entries(here / "test.db")] == ["SERVED"]
