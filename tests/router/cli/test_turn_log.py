"""`tandem serve` in a terminal, as a person sees it: a line for each finished turn."""

import json
import os
import pty
import re
import subprocess
import sys
import threading
import urllib.error
import urllib.request

import pytest

from tests.conftest import SIMULATED
from tests.tools.terminal import Terminal, run_in_terminal

CALL = {
    "role": "assistant",
    "content": None,
    "tool_calls": [{"id": "c", "type": "function", "function": {"name": "shell", "arguments": "{}"}}],
}
TOOLS = [{"type": "function", "function": {"name": "shell", "parameters": {"type": "object", "properties": {}}}}]
RESULT = {"role": "tool", "tool_call_id": "c", "content": "ok"}
QUICK = {"role": "user", "content": "rename divide to div"}
LONG = {"role": "user", "content": "migrate the whole codebase to async, with tests"}
CODEX = {"user-agent": "codex_cli_rs/1", "session-id": "0199-3f2a"}
CLAUDE = {"user-agent": "claude-cli/2", "x-claude-code-session-id": "77-b81c"}
SLOW = re.sub(r"\btokens_per_second: \d+", "tokens_per_second: 25", SIMULATED)


def serve_here(folder, *more: str, columns: int = 80, config: str = SIMULATED, **environment: str):
    (folder / "config.yaml").write_text(config)
    command = [sys.executable, "-m", "router.cli", "serve", "--port", "0", *more]
    return run_in_terminal(command, folder, columns=columns, environment=environment)


def find_url(terminal: Terminal) -> str:
    lines = terminal.wait_for(lambda lines: any("Ctrl-C stops" in line for line in lines))
    return re.search(r"http://127\.0\.0\.1:\d+", "\n".join(lines))[0]


def ask(url: str, headers: dict[str, str], *messages: dict, model: str = "auto", **more) -> int:
    body = json.dumps({"model": model, "stream": True, "messages": list(messages), **more}).encode()
    request = urllib.request.Request(f"{url}/v1/chat/completions", body, {"content-type": "application/json", **headers})
    try:
        with urllib.request.urlopen(request, timeout=20) as answer:
            answer.read()
            return answer.status
    except urllib.error.HTTPError as error:
        return error.code


def until_running(url: str) -> None:
    while True:
        with urllib.request.urlopen(f"{url}/tandem/stats", timeout=20) as answer:
            if any(target["in_flight"] for target in json.load(answer)["targets"].values()):
                return


def rows(lines: list[str]) -> list[str]:
    """The lines of turns, without their times."""
    return [re.sub(r"\d+\.\ds", "0.0s", line[5:].strip()) for line in lines if re.match(r"\d\d:\d\d ", line)]


@pytest.mark.parametrize(
    ("columns", "expected"),
    [
        (
            80,
            [
                "claude b81c      1 DEEP   0.0s",
                '-                - 404   model "zz-9" is not in models:',
                "codex 3f2a       - fast   0.0s",
                "codex 3f2a       1 FAST   0.0s",
            ],
        ),
        (
            140,
            [
                "claude b81c       1  DEEP        1   0.0s   0.0s",
                '-                 -  404                                                model "zz-9" is not in models:',
                "codex 3f2a        -  fast        1   0.0s   0.0s",
                "codex 3f2a        1  FAST        2   0.0s   0.0s",
            ],
        ),
    ],
)
def test_two_clients_at_once_have_a_line_for_each_turn(here, columns, expected):
    paced = SIMULATED.replace("tokens_per_second: 50000", "tokens_per_second: 1000").replace("d: 20000", "d: 200")
    with serve_here(here, columns=columns, config=paced) as terminal:
        url = find_url(terminal)
        ask(url, CODEX, QUICK, tools=TOOLS)
        ask(url, CLAUDE, LONG)
        ask(url, CODEX, QUICK, CALL, RESULT, tools=TOOLS)
        assert ask(url, CODEX, QUICK, model="zz-9") == 404
        ask(url, CODEX, {"role": "system", "content": "You are a title generator"}, QUICK)
        terminal.wait_for(lambda lines: len(rows(lines)) == 3)  # the other may go on
        terminal.type(b"\x03")
        lines = terminal.finish()

    assert terminal.process.returncode == 0
    assert [line[: len(start)] for line, start in zip(rows(lines), expected, strict=True)] == expected
    assert max(map(len, lines)) <= columns
    assert "2 turns, 1 fast, 1 deep" in "\n".join(lines)


def test_a_favicon_and_a_websocket_are_no_lines(here):
    with serve_here(here) as terminal:
        url = find_url(terminal)
        upgrade = {"upgrade": "websocket", "connection": "upgrade"}
        for path, headers in (("/favicon.ico", {}), ("/v1/responses", upgrade), ("/nowhere", {})):
            with pytest.raises(urllib.error.HTTPError):
                urllib.request.urlopen(urllib.request.Request(f"{url}{path}", headers=headers), timeout=20)
        terminal.wait_for(lambda lines: any("nowhere" in line for line in lines))
        terminal.type(b"\x03")
        lines = terminal.finish()

    assert not any("favicon" in line or " 426 " in line for line in lines)  # a port may have these digits
    (row,) = [line for line in lines if "nowhere" in line]
    assert re.fullmatch(r"\d\d:\d\d - +- 404 +.*/nowhere.*", row)
    assert "no turns, 1 refused" in "\n".join(lines)


def test_no_color_and_no_utf_8_are_obeyed(here):
    with serve_here(here, NO_COLOR="1", PYTHONIOENCODING="ascii", LC_ALL="C") as terminal:
        url = find_url(terminal)
        ask(url, CODEX, LONG)
        lines = terminal.wait_for(lambda lines: len(rows(lines)) == 1)

    assert "".join(lines).isascii()


def test_ctrl_c_says_what_still_runs_and_then_how_it_went(here):
    with serve_here(here, config=f"{SLOW}limits: {{drain_seconds: 20}}\n") as terminal:
        url = find_url(terminal)
        thread = threading.Thread(target=ask, args=(url, CODEX, QUICK))
        thread.start()
        until_running(url)
        terminal.type(b"\x03")
        lines = terminal.finish()
        thread.join()

    assert terminal.process.returncode == 0
    assert any("finishing 1 request within 20 s; Ctrl-C again stops at once" in line for line in lines)
    assert any(line.startswith("1 turn, 1 fast") for line in lines)


def test_a_port_that_the_config_does_not_have_is_in_the_command_that_connects(tmp_path):
    with serve_here(tmp_path) as terminal:
        url = find_url(terminal)

        assert f"Client      tandem connect codex --url {url}" in terminal.screen.text()


LEADER = """
import os, signal, subprocess, sys
signal.signal(signal.SIGHUP, lambda *_: None)   # as make does: it waits for what it started
child = subprocess.Popen(sys.argv[1:])
open("child", "w").write(str(child.pid))
open("ended", "w").write(str(child.wait()))
"""


def test_a_router_whose_terminal_is_closed_stops_though_nobody_tells_it(here):
    (here / "config.yaml").write_text(SIMULATED)
    (here / "leader.py").write_text(LEADER)
    serve = [sys.executable, "-m", "router.cli", "serve", "--port", "0"]
    master, slave = pty.openpty()
    leader = subprocess.Popen(
        ["setsid", "--ctty", sys.executable, "leader.py", *serve], cwd=here, stdin=slave, stdout=slave, stderr=slave
    )
    os.close(slave)
    shown = b""
    while b"Ctrl-C stops" not in shown:
        shown += os.read(master, 65536)

    os.close(master)

    assert leader.wait(30) == 0
    assert (here / "ended").read_text() == "0"
