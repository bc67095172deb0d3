"""`tandem serve`, as a process of its own."""

import json
import re
import signal
import socket
import subprocess
import sys
import urllib.request

import pytest

from router.cli import main
from router.edge.server import open_listener
from tests.conftest import SIMULATED
from tests.tools.certificates import EXPIRED, client_context, write_pair
from tests.tools.http import request_bytes
from tests.tools.running import read_entries


def start_server(folder, *more: str, config: str = SIMULATED) -> subprocess.Popen:
    (folder / "config.yaml").write_text(config)
    command = [sys.executable, "-m", "router.cli", "serve", "--port", "0", *more]
    return subprocess.Popen(command, cwd=folder, stderr=subprocess.PIPE, text=True)


def test_serve_says_what_a_newcomer_needs(here, heard_signals):
    server = start_server(here, "--log", "text")
    lines = []
    while not any("long task" in line for line in lines):
        lines.append(server.stderr.readline())
    welcome = "".join([*lines, server.stderr.readline()])

    server.send_signal(signal.SIGINT)
    assert server.wait(20) == 0
    server.stderr.close()
    assert "No model is configured (config.yaml), so simulated tiers answer" in welcome
    assert "Base URL    http://127.0.0.1:" in welcome
    assert re.search(r"Page        http://127\.0\.0\.1:\d+/\n", welcome)
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
    assert f"a Tandem router is already running at http://127.0.0.1:{port}" in done.stderr
    assert "serve --port 4001" in done.stderr


def test_a_port_of_another_program_is_said_plainly(here):
    with socket.create_server(("127.0.0.1", 0)) as other:
        done = subprocess.run(
            [sys.executable, "-m", "router.cli", "serve", "--port", str(other.getsockname()[1])],
            cwd=here,
            capture_output=True,
            text=True,
            timeout=20,
        )

    assert done.returncode == 2
    assert "another program uses this port; try tandem serve --port 4001" in done.stderr


def test_one_json_line_for_each_request_when_not_on_a_terminal(here):
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
    assert server.wait(20) == 0
    server.stderr.close()
    assert line["event"] == "request.settled"
    assert {"tier", "target", "because", "ttft_ms", "tokens_per_second", "overhead_ms", "outcome"} <= set(line)
    assert "secret-word" not in raw
    assert "sk-canary" not in raw


def ask_for_stream(port: int) -> socket.socket:
    """A caller whose answer has begun."""
    caller = socket.create_connection(("127.0.0.1", port), timeout=20)
    body = {"model": "deep", "stream": True, "messages": [{"role": "user", "content": "x"}]}
    caller.sendall(request_bytes("/v1/chat/completions", body))
    assert caller.recv(1 << 16).startswith(b"HTTP/1.1 200")
    return caller


def read_until(server: subprocess.Popen, words: str) -> str:
    """The line of a server's log that holds these words."""
    for line in server.stderr:
        if words in line:
            return line
    raise AssertionError(f"the server ended without a word of {words!r}")


@pytest.mark.parametrize("signals", [1, 2])
def test_a_request_that_is_cut_by_the_end_has_its_entry(here, signals):
    # One signal cuts the request off after the drain, a second one at once: the drain is longer than the test may take.
    config = SIMULATED.replace("tokens_per_second: 20000", "tokens_per_second: 1")
    server = start_server(here, "--log", "text", config=f"{config}limits: {{drain_seconds: {1 if signals == 1 else 600}}}\n")
    url = re.search(r"http://127\.0\.0\.1:(\d+)", read_until(server, "Base URL"))
    with ask_for_stream(int(url[1])):
        server.terminate()
        read_until(server, "finishing 1 request")
        if signals == 2:
            server.terminate()
        assert server.wait(20) == 0
    server.stderr.close()

    assert [row["outcome"] for row in read_entries(here / "test.db")] == ["CUT_SHORT"]


def test_sigterm_lets_a_running_request_finish_and_flushes_the_ledger(here):
    config = SIMULATED.replace("tokens_per_second: 20000", "tokens_per_second: 100")
    server = start_server(here, "--log", "json", config=config)
    port = int(json.loads(server.stderr.readline())["url"].rsplit(":", 1)[1])
    with ask_for_stream(port) as caller:
        server.terminate()
        answer = b"".join(iter(lambda: caller.recv(1 << 16), b""))

    assert server.wait(20) == 0
    server.stderr.close()
    assert b"data: [DONE]" in answer
    assert [row["outcome"] for row in read_entries(here / "test.db")] == ["SERVED"]


def test_with_a_certificate_the_router_serves_https_and_says_so_everywhere(here):
    write_pair(here)
    settings = "server: {tls: {cert: cert.pem, key: key.pem}, stop_listening_after_seconds: 600}\n"
    server = start_server(here, "--log", "text", config=SIMULATED + settings)
    address = re.search(r"https://127\.0\.0\.1:\d+", read_until(server, "Base URL"))[0]
    with urllib.request.urlopen(f"{address}/v1/models", timeout=20, context=client_context()) as answer:
        status = answer.status
    second = subprocess.run(
        [sys.executable, "-m", "router.cli", "serve", "--port", address.rsplit(":", 1)[1]],
        cwd=here,
        capture_output=True,
        text=True,
        timeout=60,
    )

    server.terminate()
    said = read_until(server, "Ctrl-C again")
    server.terminate()
    assert server.wait(20) == 0
    server.stderr.close()
    assert status == 200
    assert f"a Tandem router is already running at {address}" in second.stderr
    assert "serving new requests for 600 s more, then finishing what runs within 30 s" in said


def test_a_router_whose_certificate_has_expired_starts_with_a_warning(here):
    write_pair(here, EXPIRED)
    server = start_server(here, config=f"{SIMULATED}server: {{tls: {{cert: cert.pem, key: key.pem}}}}\n")
    warned = json.loads(read_until(server, "config.warned"))
    server.terminate()

    assert server.wait(20) == 0
    server.stderr.close()
    assert warned["warning"] == "server.tls.cert: for localhost, 127.0.0.1; expired on 2021-01-01"


def test_without_a_ledger_nothing_is_written(here):
    server = start_server(here, "--log", "json", "--no-ledger")
    url = json.loads(server.stderr.readline())["url"]
    with urllib.request.urlopen(f"{url}/v1/models", timeout=20) as answer:
        assert answer.status == 200
    server.terminate()

    assert server.wait(20) == 0
    server.stderr.close()
    assert [path.name for path in here.rglob("*") if path.is_file()] == ["config.yaml"]


def test_a_start_that_fails_closes_its_listener(here, monkeypatch, capsys):
    listeners = []

    def note(*address, **how):
        listeners.append(open_listener(*address, **how))
        return listeners[0]

    monkeypatch.setattr("router.cli.serve.open_listener", note)
    (here / "config.yaml").write_text(SIMULATED)
    (here / "test.db").write_text("not a database" * 100)

    code = main(["serve", "--port", "0"])

    assert code == 2
    said = capsys.readouterr().err
    assert "not a usable database" in said
    assert "start with --no-ledger" in said
    assert [listener.fileno() for listener in listeners] == [-1]


def test_a_ledger_whose_folder_cannot_be_written_to_is_told_with_its_whole_path_and_requests_are_served(here):
    server = start_server(here, "--log", "json", config=f"{SIMULATED.replace('path: test.db', 'path: /proc/nowhere/test.db')}")
    url = json.loads(read_until(server, "server.started"))["url"]
    warned = json.loads(read_until(server, "config.warned"))

    with urllib.request.urlopen(f"{url}/v1/models", timeout=20) as answer:
        assert answer.status == 200
    server.terminate()
    assert server.wait(20) == 0
    server.stderr.close()
    assert warned["warning"].startswith("/proc/nowhere/test.db cannot be used (")
    assert "--no-ledger" in warned["warning"]


def test_a_second_router_on_the_same_ledger_is_refused_with_who_has_it_and_others_may_look(here):
    first = start_server(here, "--log", "json")
    url = json.loads(first.stderr.readline())["url"]
    with urllib.request.urlopen(f"{url}/v1/models", timeout=20) as answer:
        assert answer.status == 200

    def tandem(*arguments: str) -> subprocess.CompletedProcess:
        return subprocess.run(
            [sys.executable, "-m", "router.cli", *arguments], cwd=here, capture_output=True, text=True, timeout=60
        )

    second = tandem("serve", "--port", "0")
    checked, run, log = tandem("check"), tandem("run", "--", "true"), tandem("log")

    first.kill()
    first.communicate()
    who = f"test.db is in use by another Tandem router ({url}, pid {first.pid}, since "
    assert (second.returncode, second.stdout) == (2, "")
    assert who in second.stderr
    assert "ledger.path" in second.stderr
    assert f"in use by the router {url}, pid {first.pid}" in checked.stdout
    assert run.returncode == 0, run.stderr
    assert "no turns in the ledger yet" in log.stderr
    assert who in run.stderr
    assert "no record of this run" in run.stderr

    third = start_server(here, "--log", "json")
    assert json.loads(third.stderr.readline())["event"] == "server.started"
    third.terminate()
    assert third.wait(20) == 0
    third.stderr.close()
