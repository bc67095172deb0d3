"""`tandem connect --keep-login`: a client's own login with a plan stays in use."""

import json
import os
import socket
import sys
import tomllib
from contextlib import closing

import pytest

import router.cli.setup.reach
from router.cli import main
from router.edge.catalogue import StoredEntries
from router.sessions.clients.codex import STORED_MODELS
from tests.conftest import SIMULATED
from tests.router.cli.test_connect import Terminal, install_codex
from tests.tools.keyed import KEYS, write_keys

PLAN = """
tiers:
  fast:
    targets:
      - {name: quick, adapter: simulated}
  deep:
    targets:
      - {name: claude-plan, adapter: anthropic_http, dialect: messages, base_url: "https://api.anthropic.com",
         model: claude-opus-5-5, api_key: caller, billing: plan}
"""
CHATGPT = (
    PLAN.replace("anthropic_http", "openai_http")
    .replace("dialect: messages", "dialect: responses")
    .replace("https://api.anthropic.com", "https://chatgpt.com/backend-api/codex")
)
STATUS = {
    "claude": ("auth", {"loggedIn": True, "authMethod": "claude.ai"}, {"loggedIn": True, "authMethod": "api_key"}),
    "codex": ("login", "Logged in using ChatGPT", "Logged in using an API key - sk-***"),
}
LOGINS = {"claude": ".claude/.credentials.json", "codex": ".codex/auth.json"}
TRACES = {"claude": ".claude.json", "codex": ".codex/log"}
CLIENTS = {"claude": "claude-code", "codex": "codex"}


@pytest.fixture
def home(home, monkeypatch):
    for name in ("XDG_CONFIG_HOME", "XDG_STATE_HOME"):
        monkeypatch.delenv(name)
    monkeypatch.setenv("SHELL", "/bin/bash")
    monkeypatch.setenv("PATH", str(home / "bin"))
    (home / "bin").mkdir()
    (home / "config.yaml").write_text(PLAN)
    return home


def install(home, command: str, *, logged_in: bool = True, reports: bool = True) -> None:
    """A client that reports its login, if it can, and notes how it was started. Reading its login would block forever."""
    group, yes, no = STATUS[command]
    told = yes if logged_in else no
    said = (
        {f"{group} --help": "Commands:\n  status  Show login status\n", f"{group} status": json.dumps(told)} if reports else {}
    )
    (home / "bin" / command).write_text(
        f"#!{sys.executable}\nimport sys\nopen({str(home / 'started')!r}, 'a').write(' '.join(sys.argv[1:]) + '\\n')\n"
        f"print({said!r}.get(' '.join(sys.argv[1:]), 'Usage: {command} [options] [prompt]'))\n"
    )
    (home / "bin" / command).chmod(0o755)
    for name in (LOGINS[command], TRACES[command]):
        (home / name).parent.mkdir(exist_ok=True)
    (home / TRACES[command]).write_text("{}")
    os.mkfifo(home / LOGINS[command])


def settings(home) -> dict:
    return json.loads((home / ".claude" / "settings.json").read_text())


def snapshot(home) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in home.rglob("*") if path.is_file() and path.name != "started"}


def test_claude_code_gets_the_address_and_nothing_that_would_end_its_login(home, capsys):
    install(home, "claude")

    assert main(["connect", "claude-code", "--keep-login", "--yes"]) == 0

    told = settings(home)
    assert told["env"] == {"ANTHROPIC_BASE_URL": "http://127.0.0.1:4000", "ANTHROPIC_AUTH_TOKEN": "", "ANTHROPIC_API_KEY": ""}
    assert set(told) == {"env", "apiKeyHelper", "statusLine"}
    assert told["apiKeyHelper"] == ""
    said = capsys.readouterr().err
    assert "It keeps its login. The router passes it to the plan's own vendor, and where accepts_keys_of names it." in said
    assert "is not logged in" not in said
    main(["connect"])
    assert "claude-code  installed      connected\n" in capsys.readouterr().out


def test_codex_gets_a_provider_that_it_takes_for_its_own_and_keeps_the_plans_models(home, capsys):
    install(home, "codex")
    (home / "config.yaml").write_text(CHATGPT)

    assert main(["connect", "codex", "--keep-login", "--yes"]) == 0

    told = tomllib.loads((home / ".codex" / "config.toml").read_text())
    assert told == {
        "model_provider": "tandem",
        "model_providers": {
            "tandem": {
                "name": "OpenAI",
                "base_url": "http://127.0.0.1:4000/v1",
                "wire_api": "responses",
                "requires_openai_auth": True,
                "supports_websockets": True,
                "env_http_headers": {"x-tandem-key": "TANDEM_KEY", "x-tandem-tier": "TANDEM_TIER"},
            }
        },
    }
    assert not (home / ".codex" / "tandem-models.json").exists()
    assert "models" not in (home / "started").read_text()
    assert main(["connect", "codex", "--yes"]) == 0
    assert "is already connected" in capsys.readouterr().err


@pytest.mark.parametrize("command", CLIENTS)
def test_connect_and_undo_leave_every_file_as_it_was(home, command):
    install(home, command)
    (home / ".claude").mkdir(exist_ok=True)
    (home / ".codex").mkdir(exist_ok=True)
    (home / ".claude" / "settings.json").write_text('{"model": "opus",\n "apiKeyHelper": "mine", "env": {"A": "1"}}')
    (home / ".codex" / "config.toml").write_text('model = "gpt-6.1-sol"\nmodel_provider = "mine"')
    before = snapshot(home)

    assert main(["connect", CLIENTS[command], "--keep-login", "--yes", "--url", "http://127.0.0.1:9"]) == 0
    assert snapshot(home) != before
    assert main(["connect", CLIENTS[command], "--undo", "--yes"]) == 0

    assert snapshot(home) == before
    assert (home / LOGINS[command]).is_fifo()


def test_an_undo_without_its_record_takes_out_what_keeps_a_login_too(home, monkeypatch):
    key = write_keys(home, ada="")["ada"]
    (home / "config.yaml").write_text(KEYS + PLAN)
    monkeypatch.setenv("MY_KEY", key.text)
    install(home, "claude")
    (home / ".claude" / "settings.json").write_text('{"permissions": {"allow": ["x"]}}')
    main(["connect", "claude-code", "--keep-login", "--key-env", "MY_KEY", "--yes"])
    (home / ".local" / "state" / "tandem" / "connect" / "claude-code" / "record.json").unlink()

    assert main(["connect", "claude-code", "--undo", "--yes"]) == 0

    assert settings(home) == {"permissions": {"allow": ["x"]}}


def test_a_key_of_the_router_is_sent_next_to_the_login_and_never_shown(home, monkeypatch, capsys):
    key = write_keys(home, ada="")["ada"]
    (home / "config.yaml").write_text(KEYS + PLAN)
    monkeypatch.setenv("MY_KEY", key.text)
    install(home, "claude")

    assert main(["connect", "claude-code", "--keep-login", "--key-env", "MY_KEY", "--yes"]) == 0
    assert main(["connect", "claude-code", "--keep-login", "--key-env", "MY_KEY", "--print"]) == 0

    assert settings(home)["env"]["ANTHROPIC_CUSTOM_HEADERS"] == f"x-tandem-key: {key.text}"
    assert (home / ".claude" / "settings.json").stat().st_mode & 0o777 == 0o600
    told = capsys.readouterr()
    assert key.text not in told.out + told.err
    assert '"ANTHROPIC_CUSTOM_HEADERS": "x-tandem-key: $MY_KEY"' in told.out


@pytest.mark.parametrize(("answer", "keeps"), [("\ny\n", True), ("y\ny\n", True), ("n\ny\n", False)])
def test_plain_connect_notices_a_login_and_asks_which_connection_is_meant(home, monkeypatch, capsys, answer, keeps):
    install(home, "claude")
    monkeypatch.setattr(sys, "stdin", Terminal(answer))

    assert main(["connect", "claude-code"]) == 0

    said = capsys.readouterr().err
    assert "Claude Code is logged in with a plan. Keep this login, for the router to pass on? [Y/n] " in said
    assert (settings(home)["env"]["ANTHROPIC_AUTH_TOKEN"] == "") is keeps
    main(["connect", "claude-code"])
    assert "is already connected" in capsys.readouterr().err, "the choice stays, and is not asked for again"


@pytest.mark.parametrize(
    ("config", "options", "keeps", "words"),
    [
        (PLAN, [], True, "keeps this login (--no-keep-login connects it without)"),
        (PLAN, ["--no-keep-login"], False, "is connected to"),
        (
            SIMULATED,
            [],
            False,
            "To use it through the router: tandem init --force --plan claude (docs/use/subscription.md)",
        ),
    ],
    ids=["a config with the plan", "a person who wants none of it", "a config without the plan"],
)
def test_a_script_gets_what_the_config_is_made_for(home, capsys, config, options, keeps, words):
    install(home, "claude")
    (home / "config.yaml").write_text(config)

    assert main(["connect", "claude-code", "--yes", *options]) == 0

    assert ("model" not in settings(home)) is keeps
    assert words in capsys.readouterr().err


@pytest.mark.parametrize("command", CLIENTS)
@pytest.mark.parametrize(("logged_in", "reports"), [(True, True), (False, True), (True, False)])
def test_a_login_is_noticed_by_the_clients_own_report_or_else_by_its_file(home, capsys, command, logged_in, reports):
    install(home, command, logged_in=logged_in, reports=reports)
    (home / "config.yaml").write_text(SIMULATED)

    assert main(["connect", CLIENTS[command], "--yes"]) == 0

    assert ("is logged in with a plan" in capsys.readouterr().err) is logged_in
    started = (home / "started").read_text().splitlines()
    assert (f"{STATUS[command][0]} status" in started) is reports, "a client without this command would take it for a prompt"


def test_a_client_that_was_never_started_is_not_asked(home):
    install(home, "claude")
    (home / ".claude.json").unlink()
    (home / ".claude" / ".credentials.json").unlink()

    main(["connect", "claude-code", "--yes"])

    assert not (home / "started").exists()


@pytest.mark.parametrize(
    ("config", "arguments", "words"),
    [
        (PLAN, ["aider", "--keep-login"], "hint: clients that have one: claude-code, codex"),
        (PLAN, ["claude-code", "--keep-login", "--undo"], "--undo takes no --keep-login"),
        (PLAN, ["--keep-login"], "name a client"),
        (PLAN, ["codex", "--keep-login"], "no target for the login of Codex CLI\n  hint: tandem init --force --plan chatgpt"),
        (SIMULATED, ["claude-code", "--keep-login"], "no target for the login of Claude Code\n  hint: tandem init --force"),
    ],
)
def test_what_cannot_keep_a_login_is_told(home, capsys, config, arguments, words):
    (home / "config.yaml").write_text(config)

    assert main(["connect", *arguments, "--yes"]) == 2

    assert words in capsys.readouterr().err
    assert not (home / ".claude").exists()


@pytest.mark.parametrize("url", ["http://router.invalid:4000", "https://router.invalid:4000", "http://localhost:9"])
def test_a_login_that_would_travel_unencrypted_is_warned_of(home, capsys, monkeypatch, url):
    install(home, "claude")
    monkeypatch.setattr(router.cli.setup.reach, "_ASK_SECONDS", 0.05)

    assert main(["connect", "claude-code", "--keep-login", "--yes", "--url", url]) == 0

    warning = f"{url} is not encrypted: anybody on the way can read the login. Use https"
    assert (warning in capsys.readouterr().err) is (url == "http://router.invalid:4000")


def test_a_client_without_a_login_is_connected_and_told_how_to_log_in(home, capsys):
    install(home, "claude", logged_in=False)

    assert main(["connect", "claude-code", "--keep-login", "--yes"]) == 0

    assert "Claude Code is not logged in with a plan: claude auth login" in capsys.readouterr().err


def test_a_connection_changes_from_one_kind_to_the_other_and_back_without_a_trace(home):
    install(home, "claude")
    (home / ".claude" / "settings.json").write_text('{"model": "opus"}')

    for option in ("--no-keep-login", "--keep-login", "--no-keep-login", "--keep-login"):
        assert main(["connect", "claude-code", option, "--yes"]) == 0
        assert settings(home)["model"] == ("opus" if option == "--keep-login" else "auto")
    assert set(settings(home)) == {"model", "env", "apiKeyHelper", "statusLine"}
    main(["connect", "claude-code", "--undo", "--yes"])

    assert (home / ".claude" / "settings.json").read_text() == '{"model": "opus"}'


def test_codexs_list_of_models_goes_with_the_connection_that_needs_it(home, monkeypatch):
    install_codex(home, monkeypatch)
    (home / "config.yaml").write_text(CHATGPT)
    (home / ".codex").mkdir()
    (home / ".codex" / "config.toml").write_text('model = "gpt-6.1-sol"')
    before = snapshot(home)

    main(["connect", "codex", "--no-keep-login", "--yes"])
    assert (home / ".codex" / "tandem-models.json").exists()
    assert StoredEntries(STORED_MODELS)() != {}
    main(["connect", "codex", "--keep-login", "--yes"])

    assert not (home / ".codex" / "tandem-models.json").exists()
    assert StoredEntries(STORED_MODELS)() == {}
    main(["connect", "codex", "--undo", "--yes"])
    assert snapshot(home) == before


def test_a_client_that_is_connected_without_the_login_that_a_target_takes_is_told(home, check_clients):
    install(home, "claude")
    main(["connect", "claude-code", "--no-keep-login", "--yes"])

    said = check_clients()
    assert "note client Claude Code: connected, without its login, which a target of the config would take" in said
    assert "hint: tandem connect claude-code --keep-login" in said
    main(["connect", "claude-code", "--keep-login", "--yes"])
    assert "ok client Claude Code: connected" in check_clients()


@pytest.fixture
def check_clients(capsys):
    """Runs `tandem check`; answers what was said, on one line."""

    def run() -> str:
        capsys.readouterr()
        main(["check"])
        return " ".join("".join(capsys.readouterr()).split())

    return run


def test_a_run_keeps_the_login_unless_the_settings_point_here_without_it(home, capsys):
    install(home, "claude")
    with closing(socket.create_server(("127.0.0.1", 0))) as server:
        (home / "config.yaml").write_text(f"server: {{port: {server.getsockname()[1]}}}\n{PLAN}")

        assert main(["connect", "--run", "claude-code", "--keep-login", "--", "-p", "hi"]) == 0
        (*_, run) = (home / "started").read_text().splitlines()
        assert not (home / ".claude" / "settings.json").exists()
        main(["connect", "claude-code", "--no-keep-login", "--yes"])
        assert main(["connect", "--run", "claude-code", "--keep-login", "--", "-p", "hi"]) == 2

    assert run.startswith("--settings /")
    assert run.endswith("/settings.json -p hi")
    assert "point it here without its login\n  hint: tandem connect claude-code --keep-login" in capsys.readouterr().err
