"""What `doctor` checks, and how it reports."""

import asyncio
import socket
import sqlite3
import sys
from contextlib import closing
from types import SimpleNamespace

import pytest

from router.cli.setup import findings
from router.cli.setup.findings import (
    Finding,
    all_faults,
    find_host_fault,
    look_at_certificate,
    look_at_clients,
    look_at_keys,
    look_at_ledger,
    look_at_port,
    say_findings,
)
from router.config.faults import Fault
from router.config.load import ConfigError
from router.stores.sqlite.migrate import LEDGER
from tests.conftest import SIMULATED
from tests.tools.certificates import TLS, write_pair
from tests.tools.configs import load_text
from tests.tools.running import two_targets


def test_a_finding_is_a_line_with_its_hint_below(capsys):
    say_findings([Finding("port", "fix", "taken", "use another"), Finding("x", "ok", "fine")])

    assert capsys.readouterr().out == "fix   port       taken\n                 hint: use another\nok    x          fine\n"


def test_a_ledger_that_can_be_written_is_good_whether_it_is_there_or_not(tmp_path):
    assert look_at_ledger(tmp_path / "new" / "t.db")[0].state == "ok"
    assert not (tmp_path / "new").exists()
    sqlite3.connect(tmp_path / "old.db").close()
    assert look_at_ledger(tmp_path / "old.db")[0].state == "ok"


def test_a_ledger_that_cannot_be_written_is_to_be_mended_with_its_whole_path(tmp_path):
    (tmp_path / "file").write_text("")
    (tmp_path / "text.db").write_text("this is no database, and long enough for SQLite to look at it" * 20)
    (below_file,) = look_at_ledger(tmp_path / "file" / "t.db")
    (no_database,) = look_at_ledger(tmp_path / "text.db")
    (nowhere,) = look_at_ledger(findings.Path("/proc/nowhere/t.db"))

    assert [found.state for found in (below_file, no_database, nowhere)] == ["fix"] * 3
    assert str(tmp_path / "file" / "t.db") in below_file.text
    assert "is not a folder" in below_file.text
    assert "not a database" in no_database.text
    assert "cannot be written to" in nowhere.text
    assert "--ledger off" in nowhere.hint


def test_a_damaged_ledger_is_told_with_the_command_that_puts_its_copy_in_place(tmp_path):
    for name in ("t.db", "t.db.before-2"):
        with closing(sqlite3.connect(tmp_path / name)) as database:
            database.executescript(LEDGER[0] + "PRAGMA user_version = 1;")
    with (tmp_path / "t.db").open("r+b") as file:
        file.seek(4_096)
        file.write(b"\xff" * 4_096)

    (found,) = look_at_ledger(tmp_path / "t.db")

    assert found.state == "fix"
    assert "t.db is damaged: " in found.text
    assert f"cp -p {tmp_path / 't.db.before-2'} {tmp_path / 't.db'}" in found.hint


@pytest.mark.parametrize(("free", "state"), [(1 << 20, "fix"), (100 << 20, "note"), (10 << 30, "ok")])
def test_a_disk_that_is_nearly_full_is_told(tmp_path, monkeypatch, free, state):
    monkeypatch.setattr(findings.shutil, "disk_usage", lambda _: SimpleNamespace(free=free))

    assert look_at_ledger(tmp_path / "t.db")[0].state == state


@pytest.mark.parametrize(
    ("free", "state", "said"), [(10 << 30, "note", "from schema 1 to"), (500_000, "fix", "needs 2 MB; 0 MB")]
)
def test_a_migration_that_the_next_start_will_make_is_announced_with_the_room_that_it_needs(
    tmp_path, monkeypatch, free, state, said
):
    with closing(sqlite3.connect(tmp_path / "t.db")) as database:
        database.executescript(LEDGER[0] + "PRAGMA user_version = 1;")
    monkeypatch.setattr(findings.shutil, "disk_usage", lambda _: SimpleNamespace(free=free))

    (found,) = look_at_ledger(tmp_path / "t.db")

    assert found.state == state
    assert said in found.text


def test_no_ledger_is_noted():
    assert look_at_ledger(None)[0].state == "note"


def test_a_port_is_free_taken_by_a_stranger_or_by_tandem():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port = listener.getsockname()[1]
        listener.listen()

        taken = look_at_port("127.0.0.1", port)
    free = look_at_port("127.0.0.1", port)

    assert (taken.state, free.state) == ("fix", "ok")
    assert "serve --port" in taken.hint
    assert "is free" in free.text
    assert look_at_port("0.0.0.0", 1).state == "fix"


async def test_a_router_that_runs_already_is_recognised(simulated):
    found = await asyncio.to_thread(look_at_port, "127.0.0.1", simulated.port)

    assert found == Finding("port", "ok", f"127.0.0.1:{simulated.port}: a Tandem router is running there")


def test_a_key_is_told_by_where_it_comes_from(tmp_path, monkeypatch):
    monkeypatch.setenv("A_TEST_KEY", "sk-canary")
    (tmp_path / ".env").write_text("B_TEST_KEY=sk-canary\n")
    text = two_targets(
        "http://h/v1", "http://h/v1", fast_extra="api_key: env:A_TEST_KEY,", deep_extra="api_key: env:B_TEST_KEY,"
    )

    found = look_at_keys(load_text(text, tmp_path))

    assert [finding.text for finding in found] == ["env:A_TEST_KEY, from the environment", "env:B_TEST_KEY, from .env"]


def test_clients_that_do_not_point_here_come_with_the_command_that_makes_them(tmp_path, monkeypatch):
    for name in ("codex", "claude"):
        (tmp_path / name).write_text("#!/bin/sh\n")
        (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("CODEX_HOME", str(tmp_path))
    monkeypatch.setenv("CLAUDE_CONFIG_DIR", str(tmp_path))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    monkeypatch.delenv("ANTHROPIC_BASE_URL", raising=False)
    (tmp_path / "config.toml").write_text('openai_base_url = "http://localhost:4000/v1"')

    found = look_at_clients(load_text(SIMULATED, tmp_path))

    assert [(finding.state, finding.text, finding.hint) for finding in found] == [
        ("note", "Claude Code: not connected", "tandem connect claude-code"),
        ("ok", "Codex CLI: connected, by settings of your own", ""),
    ]


def test_where_every_start_has_another_address_no_client_is_looked_at(tmp_path):
    (found,) = look_at_clients(load_text(f"server: {{port: 0}}\n{SIMULATED}", tmp_path))

    assert (found.state, found.hint) == ("note", "set server.port for clients")


def test_the_interpreter_and_the_tokenizer_are_told(monkeypatch):
    assert ".".join(map(str, sys.version_info[:2])) in findings.look_at_python().text
    monkeypatch.setattr(findings, "find_vocabulary", lambda: None)
    assert findings.look_at_tokenizer().state == "note"
    monkeypatch.setattr(findings.sysconfig, "get_config_var", lambda _: "--with-pydebug")
    assert findings.look_at_python().state == "note"
    monkeypatch.setattr(findings.sysconfig, "get_config_var", lambda _: "'--enable-optimizations'")
    assert findings.look_at_python().state == "ok"


def test_a_long_hint_is_broken_between_words_on_a_narrow_terminal(monkeypatch, capsys):
    monkeypatch.setattr(findings, "columns_here", lambda: 60)

    say_findings([Finding("port", "fix", "127.0.0.1:4000 is taken", "start with another one, as in tandem serve --port 4001")])

    assert capsys.readouterr().out.splitlines() == [
        "fix   port       127.0.0.1:4000 is taken",
        "                 hint: start with another one, as in tandem",
        "                 serve --port 4001",
    ]


def test_only_a_host_that_is_not_loopback_has_a_fault():
    assert find_host_fault("127.0.0.1") is None
    assert find_host_fault("0.0.0.0").path == "server.host"


@pytest.mark.parametrize("content", [{}, {"server": 3}, {"server": {"host": 3}}, {"server": {"host": "::1"}}])
def test_a_host_that_nobody_can_judge_adds_no_fault(content):
    fault = Fault("x", "wrong")

    assert all_faults(ConfigError("test", [fault], content)) == [fault]


def test_the_fault_of_a_host_joins_the_others():
    assert [fault.path for fault in all_faults(ConfigError("test", [Fault("x", "wrong")], {"server": {"host": "::"}}))] == [
        "x",
        "server.host",
    ]


@pytest.mark.parametrize(("days_left", "state"), [(100, "ok"), (13, "note"), (-1, "fix")])
def test_a_certificate_is_to_be_renewed_two_weeks_before_its_end(tmp_path, days_left, state):
    write_pair(tmp_path)
    loaded = load_text(SIMULATED + TLS, tmp_path)

    (found,) = look_at_certificate(loaded, 4_733_510_400 - days_left * 86_400)

    assert (found.about, found.state, bool(found.hint)) == ("tls", state, state != "ok")
    assert "for localhost, 127.0.0.1; expire" in found.text


def test_without_a_certificate_nothing_is_said_of_one(tmp_path):
    assert look_at_certificate(load_text(SIMULATED, tmp_path), 0) == []
