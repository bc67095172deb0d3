"""`tandem statusline`: one line, quickly, and never an error."""

import io
import json
import socket
import subprocess
import sys
import threading
from contextlib import closing

import pytest

from router.cli import main
from router.cli.statusline import describe, say_left
from tests.tools.ledgers import write_ledger

SESSION = "claude-code:abc"
QUICK = "looks like a quick edit: fix, typo"


@pytest.fixture
def url():
    with closing(socket.create_server(("127.0.0.1", 0))) as server:
        yield f"http://127.0.0.1:{server.getsockname()[1]}"


def line(monkeypatch, capsys, *arguments: str, told: object = None) -> str:
    monkeypatch.setattr(sys, "stdin", io.StringIO(json.dumps(told or {"session_id": "abc"}) if told != "" else ""))
    assert main(["statusline", *arguments]) == 0
    return capsys.readouterr().out


def test_it_tells_the_tier_the_reason_and_the_turn_of_this_session(url, folder, monkeypatch, capsys):
    ledger = write_ledger(
        folder / "t.db",
        {"session": SESSION, "because": "looks like a long task: migrate", "tier": "deep"},
        {"session": SESSION, "because": QUICK},
        {"session": SESSION, "turn_kind": "tool_loop", "because": "1 tool call into a turn on fast"},
        {"session": SESSION, "turn_kind": "side", "tier": "deep", "because": "a title"},
        {"session": "claude-code:other", "tier": "deep", "because": "another"},
    )

    assert line(monkeypatch, capsys, "--url", url, "--ledger", str(ledger)) == "tandem: fast · quick edit: fix, typo · turn 2\n"


def test_a_turn_that_moved_up_tells_why(url):
    moved = "moved up at call 12: it grew"

    assert describe([("ask", "fast", QUICK), ("tool_loop", "deep", moved)]) == f"deep · {moved} · turn 1"


def test_a_long_reason_is_cut():
    told = describe([("ask", "deep", "looks like a long task: " + "migrate, " * 20)])

    assert len(told) < 90
    assert told.endswith("… · turn 1")


@pytest.mark.parametrize(("told", "words"), [({"session_id": "new"}, "no turn yet"), ("", "no turn yet"), ([1], "no turn yet")])
def test_a_session_without_a_turn_is_no_error(url, folder, monkeypatch, capsys, told, words):
    ledger = write_ledger(folder / "t.db", {"session": SESSION})

    assert line(monkeypatch, capsys, "--url", url, "--ledger", str(ledger), told=told) == f"tandem: running, {words}\n"


def test_no_router_no_ledger_and_a_broken_ledger_are_no_errors(url, folder, monkeypatch, capsys):
    (folder / "broken.db").write_bytes(b"no database" * 100)

    assert line(monkeypatch, capsys, "--url", "http://127.0.0.1:1") == "tandem: not running\n"
    assert line(monkeypatch, capsys, "--url", "nonsense") == "tandem: not running\n"
    assert line(monkeypatch, capsys, "--url", url, "--ledger", "none.db") == "tandem: running, without a ledger\n"
    assert line(monkeypatch, capsys, "--url", url, "--ledger", "broken.db") == "tandem: running, no turn yet\n"


def test_without_flags_the_config_is_asked(home, monkeypatch, capsys):
    (home / "config.yaml").write_text("tiers: 1\n")
    assert line(monkeypatch, capsys) == "tandem: not running\n"


def test_it_imports_nothing_heavy():
    code = (
        "import sys; from router.cli import main; main(['statusline', '--url', 'http://127.0.0.1:1']);"
        "print([name for name in ('pydantic', 'yaml', 'msgspec', 'asyncio', 'fastapi', 'orjson') if name in sys.modules])"
    )

    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=20)

    assert done.stdout.splitlines() == ["tandem: not running", "[]"]


class Router:
    """Answers one request with this, and remembers it."""

    def __init__(self, body: bytes) -> None:
        self.server, self.body, self.heard = socket.create_server(("127.0.0.1", 0)), body, b""
        self.url = f"http://127.0.0.1:{self.server.getsockname()[1]}"
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def _serve(self) -> None:
        while not self.heard:  # the first connection only looks whether anybody is there
            with self.server.accept()[0] as connection:
                self.heard = connection.recv(65_536)
                if self.heard:
                    head = b"HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: %d\r\n\r\n" % len(self.body)
                    connection.sendall(head + self.body)

    def close(self) -> None:
        self._thread.join(10)
        self.server.close()


def test_with_a_key_it_says_what_is_left_of_the_days_budget_without_a_ledger(folder, monkeypatch, capsys):
    monkeypatch.setenv("OUR_KEY", "tdm_0_secret")
    budget = {"day": {"left_usd": 3.456, "limit_usd": 5.0}, "month": {"left_usd": 40, "limit_usd": 50}}
    with closing(Router(json.dumps({"budget": budget}).encode())) as router:
        told = line(monkeypatch, capsys, "--url", router.url, "--key-env", "OUR_KEY")

    assert told == "tandem: 3.46 of 5.00 USD left today\n"
    assert b"GET /tandem/stats" in router.heard
    assert b"tdm_0_secret" in router.heard
    assert "secret" not in told


def test_the_budget_comes_after_the_turn_where_both_are_known(folder, monkeypatch, capsys):
    monkeypatch.setenv("OUR_KEY", "tdm_0_secret")
    ledger = write_ledger(folder / "t.db", {"session": SESSION, "because": QUICK})
    with closing(Router(b'{"budget": {"month": {"left_usd": 0.0123, "limit_usd": 50}}}')) as router:
        told = line(monkeypatch, capsys, "--url", router.url, "--ledger", str(ledger), "--key-env", "OUR_KEY")

    assert told == "tandem: fast · quick edit: fix, typo · turn 1 · 0.012 of 50.00 USD left this month\n"


def test_of_day_and_month_the_one_with_less_left_is_shown():
    day, month = {"left_usd": 2.0, "limit_usd": 2.0}, {"left_usd": 0.5, "limit_usd": 20.0}

    assert say_left({"day": day, "month": month}) == "0.50 of 20.00 USD left this month"


@pytest.mark.parametrize("body", [b"", b"[]", b"{}", b'{"budget": {}}', b'{"budget": {"day": {"left_usd": "x"}}}', b"<html>"])
def test_a_router_that_says_nothing_of_a_budget_is_no_error(folder, monkeypatch, capsys, body):
    monkeypatch.setenv("OUR_KEY", "tdm_0_secret")
    with closing(Router(body)) as router:
        assert line(monkeypatch, capsys, "--url", router.url, "--key-env", "OUR_KEY") == "tandem: running, without a ledger\n"


def test_without_the_variable_nobody_is_asked(url, folder, monkeypatch, capsys):
    monkeypatch.delenv("OUR_KEY", raising=False)

    assert line(monkeypatch, capsys, "--url", url, "--key-env", "OUR_KEY") == "tandem: running, without a ledger\n"
