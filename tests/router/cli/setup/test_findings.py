"""What `tandem check` finds on this machine."""

import asyncio
import sqlite3
import sys
from contextlib import closing
from types import SimpleNamespace

import pytest
from msgspec.structs import replace

from router.cli.routers import note_router, record_of
from router.cli.setup import findings
from router.cli.setup.findings import (
    NOTE,
    WARN,
    Finding,
    look_at_certificate,
    look_at_clients,
    look_at_files,
    look_at_keys,
    look_at_port,
    look_at_state,
    look_at_windows,
    say_findings,
)
from router.config.load import load_config
from router.stores.folders import make_folders
from router.stores.sqlite.migrate import prepare
from router.stores.sqlite.schemas import LEDGER
from router.wiring.build import known_names
from tests.conftest import SIMULATED
from tests.tools.certificates import LEAF, TLS, write_pair
from tests.tools.configs import load_text
from tests.tools.ports import keepable_port
from tests.tools.running import two_targets


def test_a_finding_is_a_line_with_its_hint_below_and_what_is_to_be_fixed_comes_last(capsys):
    say_findings(
        [Finding("port", "fix", "taken", "use another\n  mv a b"), Finding("x", "warn", "odd"), Finding("y", "ok", "fine")]
    )

    assert capsys.readouterr().out.splitlines() == [
        "ok    y          fine",
        "warn  x          odd",
        "fix   port       taken",
        "                 hint: use another",
        "                   mv a b",
    ]


def look_at_ledger(tmp_path, name="t.db", **more) -> Finding:
    return look_at_files(load_text(SIMULATED.replace("test.db", name), tmp_path), **more)[0]


COPY = f"before-{LEDGER.oldest + 1}"


def write_old(path) -> None:
    with closing(sqlite3.connect(path)) as database:
        database.executescript(f"{LEDGER.scripts[0]} PRAGMA user_version = {LEDGER.oldest};")


def test_a_ledger_that_can_be_written_is_good_whether_it_is_there_or_not(tmp_path):
    assert look_at_ledger(tmp_path, "new/t.db").state == "ok"
    assert not (tmp_path / "new").exists()
    sqlite3.connect(tmp_path / "old.db").close()
    assert look_at_ledger(tmp_path, "old.db").state == "ok"


def test_a_ledger_that_cannot_be_written_is_to_be_fixed_with_its_whole_path(tmp_path):
    (tmp_path / "file").write_text("")

    found = look_at_ledger(tmp_path, "file/t.db")

    assert (found.state, found.is_refusal) == ("fix", False)
    assert found.text == (
        f"{tmp_path / 'file' / 't.db'} cannot be used (Not a directory): its rows wait in memory, and callers with a budget are "
        "refused, until it can be"
    )
    assert "ledger.path" in found.hint


def test_a_damaged_ledger_is_told_with_the_command_that_puts_its_copy_in_place(tmp_path):
    for name in ("t.db", "t.db.before-2"):
        write_old(tmp_path / name)
    with (tmp_path / "t.db").open("r+b") as file:
        file.seek(4_096)
        file.write(b"\xff" * 4_096)

    found = look_at_ledger(tmp_path, in_full=True)

    assert (found.state, found.is_refusal) == ("fix", True)
    assert "t.db is damaged: " in found.text
    assert f"cp -p {tmp_path / 't.db.before-2'} {tmp_path / 't.db'}" in found.hint


@pytest.mark.parametrize(("free", "state"), [(1 << 20, "fix"), (100 << 20, "warn"), (10 << 30, "ok")])
def test_a_disk_that_is_nearly_full_is_told(tmp_path, monkeypatch, free, state):
    monkeypatch.setattr(findings.shutil, "disk_usage", lambda _: SimpleNamespace(free=free))

    assert look_at_ledger(tmp_path).state == state


@pytest.mark.parametrize(
    ("free", "state", "said"),
    [
        (
            10 << 30,
            "note",
            f"the next start migrates it from schema {LEDGER.oldest} to {LEDGER.newest}. It keeps the file as it is now in t.db.{COPY},"
            " and needs 6 MB",
        ),
        (500_000, "fix", "which needs 6 MB; 0 MB are free"),
    ],
)
def test_migrations_that_the_next_start_will_make_are_announced_with_the_room_that_they_need(
    tmp_path, monkeypatch, free, state, said
):
    write_old(tmp_path / "t.db")
    monkeypatch.setattr(findings.shutil, "disk_usage", lambda _: SimpleNamespace(free=free))

    found = look_at_ledger(tmp_path)

    assert found.state == state
    assert found.text.startswith(f"{tmp_path / 't.db'}: ")
    assert said in found.text


def test_a_file_of_a_newer_tandem_is_refused_with_the_copy_that_this_one_can_use(tmp_path):
    write_old(tmp_path / "t.db")
    prepare(tmp_path / "t.db", replace(LEDGER, scripts=(*LEDGER.scripts, "CREATE TABLE later (x);")))

    found = look_at_ledger(tmp_path)

    assert (found.state, found.is_refusal) == ("fix", True)
    assert found.text == f"t.db was written by a newer Tandem (schema {LEDGER.newest + 1} > {LEDGER.newest})"
    assert f"mv {tmp_path / 't.db'}.{COPY} {tmp_path / 't.db'}" in found.hint
    assert "serve --no-ledger" in found.hint


@pytest.mark.parametrize(("mode", "state", "words"), [(0o755, NOTE, "list"), (0o777, WARN, "rename and replace")])
def test_a_state_folder_that_others_can_get_at_is_told(tmp_path, monkeypatch, mode, state, words):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    make_folders(folder := tmp_path / "tandem")
    assert look_at_state() == []

    folder.chmod(mode)
    (finding,) = look_at_state()

    assert (finding.state, finding.hint) == (state, f"chmod 700 {folder}")
    assert f"other users can {words} what is in it (mode {mode:04o})" in finding.text


def test_no_ledger_is_noted(tmp_path):
    assert look_at_ledger(tmp_path, "''").state == "note"


async def test_a_router_that_runs_already_is_recognised(simulated, tmp_path):
    loaded = load_text(f"server: {{port: {simulated.port}}}\n{SIMULATED}", tmp_path)

    found = await asyncio.to_thread(look_at_port, loaded)

    assert found == Finding("port", "ok", f"127.0.0.1:{simulated.port}: a Tandem router is running there")


@pytest.mark.parametrize(
    ("config", "fingerprint", "state", "text"),
    [
        ("config.yaml", "", "ok", "a Tandem router is running there with this config"),
        ("config.yaml", "older", "warn", "a Tandem router is running there with this config as it was before"),
        ("elsewhere.yaml", "", "warn", "a Tandem router is running there with another config, {tmp_path}/elsewhere.yaml"),
        (None, "", "warn", "a Tandem router is running there with another config, the built-in default"),
    ],
)
async def test_a_router_that_runs_with_another_config_is_told_apart(
    simulated, tmp_path, monkeypatch, config, fingerprint, state, text
):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    file = tmp_path / "config.yaml"
    file.write_text(f"server: {{port: {simulated.port}}}\n{SIMULATED}")
    loaded = load_config(file, known_names())
    path = tmp_path / config if config else None
    record = record_of(loaded, path, simulated.url, "", has_ledger=False)
    note_router(record._replace(fingerprint=fingerprint or loaded.fingerprint))

    found = await asyncio.to_thread(look_at_port, loaded)

    assert (found.state, found.text) == (state, f"127.0.0.1:{simulated.port}: {text.format(tmp_path=tmp_path)}")
    assert bool(found.hint) is (state == "warn")


async def test_a_router_of_this_config_at_another_address_is_named(simulated, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    file = tmp_path / "config.yaml"
    file.write_text(f"server: {{port: {keepable_port()}}}\n{SIMULATED}")
    loaded = load_config(file, known_names())
    note_router(record_of(loaded, file, simulated.url, "", has_ledger=False))

    found = await asyncio.to_thread(look_at_port, loaded)

    assert found.text.endswith(f" is free; a router with this config is running at {simulated.url}")


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


@pytest.mark.parametrize(("days_left", "state"), [(100, "ok"), (13, "warn"), (-1, "fix")])
def test_a_certificate_is_to_be_renewed_two_weeks_before_its_end(tmp_path, days_left, state):
    write_pair(tmp_path, LEAF)
    loaded = load_text(SIMULATED + TLS, tmp_path)

    (found,) = look_at_certificate(loaded, 4_733_510_400 - days_left * 86_400)

    assert (found.about, found.state, bool(found.hint)) == ("tls", state, state != "ok")
    assert "for localhost, 127.0.0.1; expire" in found.text


def test_a_certificate_of_a_ca_itself_is_a_warning(tmp_path):
    write_pair(tmp_path)

    good, found = look_at_certificate(load_text(SIMULATED + TLS, tmp_path), 0)

    assert (good.state, found.state) == ("ok", "warn")
    assert "cert.pem is a CA's own certificate: Codex and other clients with rustls refuse it" in found.text
    assert "docs/run/teams.md" in found.hint


def test_without_a_certificate_nothing_is_said_of_one(tmp_path):
    assert look_at_certificate(load_text(SIMULATED, tmp_path), 0) == []


@pytest.mark.parametrize(
    ("fast", "deep", "named", "instead"),
    [
        (8192, 400_000, "spark (8,192 tokens). ", "only sage can serve them"),
        (4096, 4096, "spark (4,096 tokens), sage (4,096 tokens). ", "no target here can serve them"),
        (21_332, 400_000, "spark (21,332 tokens). ", "only sage can serve them"),  # three quarters are for the prompt
    ],
)
def test_small_windows_are_named_with_who_serves_coding_agents_instead(tmp_path, fast, deep, named, instead):
    text = two_targets("http://h/v1", "http://h/v1", fast_extra=f"window_tokens: {fast},")

    (found,) = look_at_windows(load_text(text.replace("window_tokens: 400000", f"window_tokens: {deep}"), tmp_path))

    assert f"too small for coding agents: {named}" in found.text
    assert found.text.endswith(f"; {instead}")


@pytest.mark.parametrize("text", [two_targets("http://h", "http://h", fast_extra="window_tokens: 21333,"), SIMULATED])
def test_windows_that_coding_agents_fit_into_and_simulated_ones_are_not_remarked_on(tmp_path, text):
    assert look_at_windows(load_text(text, tmp_path)) == []
