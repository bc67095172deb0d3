"""`tandem statusline`: one line, quickly, and never an error."""

import io
import json
import socket
import subprocess
import sys
from contextlib import closing

import pytest

from router.cli import main
from router.cli.statusline import describe
from tests.router.stores.rows import write_ledger

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
        {"session": SESSION, "turn_kind": "tool_loop", "because": "call 1 of a turn on fast"},
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
