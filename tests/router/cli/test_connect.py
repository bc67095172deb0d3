"""`tandem connect`, as it is typed."""

import errno
import io
import json
import os
import shutil
import socket
import sys
import tomllib
from contextlib import closing

import pytest

import router.cli.connect
import router.cli.setup.facts
import router.cli.setup.reach
from router.cli import main
from router.cli.routers import is_listening
from router.connect import files
from router.connect.recipe import known_clients
from router.connect.store import Store
from router.edge.catalogue import StoredEntries
from router.sessions.clients.codex import STORED_MODELS
from tests.conftest import SIMULATED
from tests.tools.keyed import KEYS, write_keys

VARIABLES = ("CODEX_HOME", "CLAUDE_CONFIG_DIR", "XDG_STATE_HOME", "LLM_USER_PATH", "ZDOTDIR", "OPENAI_API_KEY")


@pytest.fixture
def home(home, monkeypatch):
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.delenv("XDG_CONFIG_HOME")
    monkeypatch.setenv("SHELL", "/bin/bash")
    monkeypatch.setenv("PATH", "/nowhere")
    return home


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def install_codex(home, monkeypatch, *models: dict) -> None:
    """A Codex that only prints its models."""
    told = {"models": list(models or [{"slug": "gpt-9", "visibility": "list", "base_instructions": "Codex's own " * 500}])}
    (home / "bin").mkdir(exist_ok=True)
    (home / "bin" / "codex").write_text(f"#!{sys.executable}\nprint({json.dumps(told)!r})\n")
    (home / "bin" / "codex").chmod(0o755)
    monkeypatch.setenv("PATH", str(home / "bin"))


def read_codex(home) -> dict:
    return tomllib.loads((home / ".codex" / "config.toml").read_text())


def test_codex_gets_a_provider_without_a_key_and_the_catalogue_of_the_config(home, capsys, monkeypatch):
    install_codex(home, monkeypatch)

    assert main(["connect", "codex", "--yes"]) == 0

    told, said = read_codex(home), capsys.readouterr().err
    assert told["model"] == "auto"
    assert told["model_providers"]["tandem"] == {
        "name": "Tandem",
        "base_url": "http://127.0.0.1:4000/v1",
        "wire_api": "responses",
        "supports_websockets": True,
        "env_http_headers": {"x-tandem-tier": "TANDEM_TIER"},
    }
    catalogue = json.loads((home / ".codex" / "tandem-models.json").read_text())
    assert [model["slug"] for model in catalogue["models"]] == ["auto", "fast", "deep"]
    assert told["model_catalog_json"] == str(home / ".codex" / "tandem-models.json")
    assert '+model = "auto"' in said
    assert "To undo: tandem connect codex --undo" in said
    assert "None is running now. To start it: tandem serve" in said


def test_codex_keeps_its_own_prompt_and_the_router_serves_it_too(home, capsys, monkeypatch):
    install_codex(home, monkeypatch)
    main(["connect", "codex", "--yes"])

    catalogue = json.loads((home / ".codex" / "tandem-models.json").read_text())
    assert {len(model["base_instructions"]) for model in catalogue["models"]} == {6_000}
    assert {entry["base_instructions"] for entry in StoredEntries(STORED_MODELS)().values()} == {"Codex's own " * 500}
    main(["connect", "codex", "--yes"])
    assert "is already connected" in capsys.readouterr().err
    main(["connect", "codex", "--undo", "--yes"])
    assert StoredEntries(STORED_MODELS)() == {}


def test_a_codex_that_prints_no_models_gets_no_catalogue(home, capsys):
    assert main(["connect", "codex", "--yes"]) == 0

    said = capsys.readouterr().err
    assert "model_catalog_json" not in read_codex(home)
    assert not (home / ".codex" / "tandem-models.json").exists()
    assert "codex is not installed: npm i -g @openai/codex" in said
    assert "its context windows are not set" in said


@pytest.mark.parametrize("umask", [0o000, 0o022])
def test_keys_in_a_file_are_copied_for_nobody_else_to_read(home, umask):
    (home / ".codex").mkdir()
    (home / ".codex" / "config.toml").write_text('experimental_bearer_token = "sk-SECRET"\n')
    (home / ".codex" / "config.toml").chmod(0o600)
    mask = os.umask(umask)
    try:
        main(["connect", "codex", "--yes"])
    finally:
        os.umask(mask)

    holders = [path for path in home.rglob("*") if path.is_file() and b"sk-SECRET" in path.read_bytes()]
    assert len(holders) == 2
    assert {path.stat().st_mode & 0o777 for path in holders} == {0o600}
    assert (home / ".local" / "state" / "tandem" / "connect").stat().st_mode & 0o777 == 0o700


def test_claude_code_gets_the_window_its_models_and_a_status_line(home):
    assert main(["connect", "claude", "--yes"]) == 0

    told = json.loads((home / ".claude" / "settings.json").read_text())
    assert told["env"]["ANTHROPIC_BASE_URL"] == "http://127.0.0.1:4000"
    assert int(told["env"]["CLAUDE_CODE_MAX_CONTEXT_TOKENS"]) > 100_000
    assert [option["model"] for option in told["modelPicker"]["options"]] == ["auto", "fast", "deep"]
    assert told["statusLine"]["command"].endswith(" statusline --url http://127.0.0.1:4000")


def test_a_second_run_says_so_and_an_undo_leaves_what_was(home, capsys):
    (home / ".codex").mkdir()
    (home / ".codex" / "config.toml").write_text('model = "gpt-5.5"')
    main(["connect", "codex", "--yes"])
    capsys.readouterr()

    assert main(["connect", "codex", "--yes"]) == 0
    assert capsys.readouterr().err == "Codex CLI is already connected (http://127.0.0.1:4000)\n"
    assert main(["connect", "codex", "--undo", "--yes"]) == 0
    assert "Codex CLI is no longer connected" in capsys.readouterr().err
    assert (home / ".codex" / "config.toml").read_text() == 'model = "gpt-5.5"'
    assert sorted(entry.name for entry in home.iterdir()) == [".codex", "config.yaml"]
    assert main(["connect", "codex", "--undo", "--yes"]) == 0
    assert "nothing to undo" in capsys.readouterr().err


@pytest.mark.parametrize(("answer", "code"), [("y\n", 0), ("\n", 0), ("n\n", 1), ("", 1)])
def test_on_a_terminal_it_asks(home, monkeypatch, capsys, answer, code):
    monkeypatch.setattr(sys, "stdin", Terminal(answer))

    assert main(["connect", "codex"]) == code

    assert (home / ".codex").exists() == (code == 0)
    assert "Point Codex CLI at http://127.0.0.1:4000? [Y/n] " in capsys.readouterr().err


WAITS = "While no router is running there, aider waits a minute or more before it reports an error."


@pytest.fixture
def systemctl(home, monkeypatch):
    """Notes its arguments."""
    (home / "bin").mkdir()
    (home / "bin" / "systemctl").write_text(f'#!/bin/sh\necho "$@" >> {home}/steps\n')
    (home / "bin" / "systemctl").chmod(0o755)
    monkeypatch.setenv("PATH", f"{home / 'bin'}:/bin:/usr/bin")
    monkeypatch.setattr(sys, "platform", "linux")
    return home / ".config" / "systemd" / "user" / "tandem.service"


@pytest.mark.parametrize("is_running", [True, False])
def test_the_last_question_offers_the_service(home, systemctl, monkeypatch, capsys, is_running):
    monkeypatch.setattr(router.cli.connect, "is_listening", lambda url: is_running)
    monkeypatch.setattr(sys, "stdin", Terminal("y\ny\n"))

    assert main(["connect", "aider"]) == 0

    err = capsys.readouterr().err
    assert WAITS in err
    assert ("None is running now. To start it: tandem serve" in err) is not is_running
    assert "Install a service that starts it at login, and with the first request if it is not running? [y/N] " in err
    assert systemctl.exists()
    assert (home / "steps").read_text().splitlines()[-1] == "--user start tandem.socket tandem.service"


def test_what_happens_while_the_router_is_away_is_said_without_a_question_too(home, systemctl, capsys):
    assert main(["connect", "aider", "--yes"]) == 0

    err = capsys.readouterr().err
    assert WAITS in err
    assert "To have it started at login, and with the first request if it is not running: tandem service install" in err
    assert not systemctl.exists()


def test_a_client_of_another_machines_router_is_not_offered_a_service(home, systemctl, monkeypatch, capsys):
    monkeypatch.setattr(sys, "stdin", Terminal("y\ny\n"))

    assert main(["connect", "aider", "--url", "http://127.0.0.1:9"]) == 0

    err = capsys.readouterr().err
    assert WAITS in err
    assert "service" not in err


def test_with_the_service_a_client_is_told_that_it_starts_the_router(home, systemctl, capsys):
    main(["service", "install"])

    assert main(["connect", "aider", "--yes"]) == 0

    err = capsys.readouterr().err
    assert "The service starts the router at login, and with the first request if it is not running." in err
    assert WAITS not in err


@pytest.mark.parametrize("order", [["codex", "--url", "U"], ["--url", "U", "codex"]])
def test_what_follows_the_dashes_is_the_clients_wherever_the_options_are(home, capsys, monkeypatch, order):
    install_codex(home, monkeypatch)
    with closing(socket.create_server(("127.0.0.1", 0))) as server:
        url = f"http://127.0.0.1:{server.getsockname()[1]}"
        monkeypatch.setattr(
            router.cli.connect, "run_client", lambda recipe, facts, arguments: print(recipe.client, *arguments) or 0
        )
        monkeypatch.setattr(router.cli.setup.reach, "_ASK_SECONDS", 0.05)

        assert main(["connect", "--run", *[url if word == "U" else word for word in order], "--", "exec", "--json", "hi"]) == 0

    assert capsys.readouterr().out == "codex exec --json hi\n"


def test_without_a_terminal_a_script_must_say_yes(home, monkeypatch, capsys):
    monkeypatch.setattr(sys, "stdin", io.StringIO("y\n"))

    assert main(["connect", "codex"]) == 1

    assert "hint: --yes changes the files without asking" in capsys.readouterr().err
    assert not (home / ".codex").exists()


def test_print_only_prints(home, capsys):
    assert main(["connect", "env", "--print"]) == 0

    assert 'export OPENAI_BASE_URL="http://127.0.0.1:4000/v1"' in capsys.readouterr().out
    assert [entry.name for entry in home.iterdir()] == ["config.yaml"]


def test_a_run_that_is_under_way_elsewhere_is_told(home, capsys):
    store = Store(home / ".local" / "state" / "tandem" / "connect")
    with store.locked():
        assert main(["connect", "codex", "--yes"]) == 1

    said = capsys.readouterr().err
    assert "another tandem connect is running" in said
    assert said.endswith("\nnothing was changed\n")


def test_alone_it_lists_every_client(home, capsys):
    main(["connect", "codex", "--yes"])
    capsys.readouterr()

    assert main(["connect"]) == 0

    rows = dict(line.split(maxsplit=1) for line in capsys.readouterr().out.splitlines())
    assert tuple(rows) == known_clients()
    assert rows["codex"] == "not installed  connected"
    assert rows["aider"] == "not installed  not connected"


def test_a_run_needs_the_router_and_a_client_that_starts(home, capsys, monkeypatch):
    assert main(["connect", "--run", "codex", "--", "exec", "hi"]) == 1
    assert "the router is not running at http://127.0.0.1:4000: tandem serve" in capsys.readouterr().err

    with closing(socket.create_server(("127.0.0.1", 0))) as server:
        url = f"http://127.0.0.1:{server.getsockname()[1]}"
        (home / "config.yaml").write_text(f"server: {{port: {server.getsockname()[1]}}}\n{SIMULATED}")
        assert is_listening(url)
        assert main(["connect", "--run", "codex", "--", "exec", "-m", "deep"]) == 127
        assert "codex is not installed: npm i -g @openai/codex" in capsys.readouterr().err
        (broken := home / "bin" / "codex").parent.mkdir(exist_ok=True)
        broken.write_bytes(b"\x7fELF is cut short")
        broken.chmod(0o755)
        monkeypatch.setenv("PATH", str(broken.parent), prepend=os.pathsep)
        assert main(["connect", "--run", "codex"]) == 126
    assert "codex: Exec format error" in capsys.readouterr().err
    assert main(["connect", "--run", "env"]) == 2


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["codx"], 'unknown client "codx"\n  hint: did you mean codex? known: aider'),
        (["emacs"], "hint: known: aider, claude-code"),
        (["codex", "exec"], "only --run takes arguments"),
        (["codex", "--undo", "--print"], "use only one of --undo, --print and --run"),
        (["--undo"], "name a client, as in tandem connect codex"),
    ],
)
def test_wrong_usage_is_told(home, capsys, arguments, words):
    assert main(["connect", *arguments]) == 2

    assert words in capsys.readouterr().err


@pytest.mark.parametrize("is_cut", [True, False], ids=["a record that is cut short", "a state folder that is lost"])
def test_an_undo_without_its_record_says_so_and_takes_out_what_bears_our_address(home, capsys, is_cut):
    (home / ".claude").mkdir()
    settings = home / ".claude" / "settings.json"
    settings.write_text('{"model": "opus", "permissions": {"allow": ["x"]}}')
    main(["connect", "claude-code", "--yes"])
    folder = home / ".local" / "state" / "tandem" / "connect"
    if is_cut:
        (folder / "claude-code" / "record.json").write_text('{"files": {"/a": {"for')
    else:
        shutil.rmtree(folder)
    capsys.readouterr()

    assert main(["connect", "claude-code", "--undo", "--yes"]) == 0

    said = capsys.readouterr().err
    assert "the record of what tandem connect changed is missing" in said
    assert json.loads(settings.read_text()) == {"permissions": {"allow": ["x"]}}
    assert (f"a copy of the file as it was before: {folder}/claude-code/0-settings.json" in said) == is_cut
    assert main(["connect", "claude-code", "--undo", "--yes"]) == 0
    assert "nothing to undo" in capsys.readouterr().err


@pytest.mark.parametrize("arguments", [["--yes"], ["--undo", "--yes"]], ids=["connect", "undo"])
def test_a_record_that_cannot_be_read_stops_connect_before_anything_is_changed(home, capsys, arguments):
    (home / ".claude").mkdir()
    settings = home / ".claude" / "settings.json"
    settings.write_text('{"model": "opus"}')
    main(["connect", "claude-code", "--yes"])
    before = settings.read_text()
    record = home / ".local" / "state" / "tandem" / "connect" / "claude-code" / "record.json"
    record.rename(kept := record.with_name("kept"))
    record.mkdir()
    capsys.readouterr()

    assert main(["connect", "claude-code", *arguments]) == 1
    assert "record.json cannot be used: Is a directory\nnothing was changed" in capsys.readouterr().err
    main(["connect"])
    assert "not known: the record of what was changed cannot be read" in capsys.readouterr().out
    record.rmdir()
    kept.rename(record)

    assert settings.read_text() == before
    assert main(["connect", "claude-code", "--undo", "--yes"]) == 0
    assert settings.read_text() == '{"model": "opus"}'


@pytest.mark.parametrize("room", range(5))
def test_a_disk_that_is_full_from_any_write_on_leaves_codex_connected_or_unchanged(home, capsys, monkeypatch, room):
    install_codex(home, monkeypatch)
    (home / ".codex").mkdir()
    (settings := home / ".codex" / "config.toml").write_text('model = "gpt-9"\n')
    written, write = [], files.write

    def write_with_little_room(path, raw, **more):
        if "state" in path.parts:
            written.append(path.name)
            if len(written) > room:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))
        return write(path, raw, **more)

    monkeypatch.setattr(files, "write", write_with_little_room)
    is_connected = main(["connect", "codex", "--yes"]) == 0

    said = capsys.readouterr().err
    assert is_connected == ("tandem" in settings.read_text()) == ("nothing was changed" not in said)
    monkeypatch.setattr(files, "write", write)
    assert is_connected == (room >= 3)
    assert main(["connect", "codex", "--undo", "--yes"]) == 0
    assert settings.read_text() == 'model = "gpt-9"\n'


@pytest.fixture
def keyed(home, monkeypatch):
    """A config that asks for keys, and a variable with one."""
    key = write_keys(home, ada="")["ada"]
    (home / "config.yaml").write_text(KEYS + SIMULATED)
    monkeypatch.setenv("MY_KEY", key.text)
    return key.text


def test_a_config_that_asks_for_keys_needs_the_variable(home, keyed, capsys):
    assert main(["connect", "codex", "--yes"]) == 2

    assert (
        "asks callers for a key\n  hint: put your key into an environment variable, then --key-env NAME"
        in capsys.readouterr().err
    )


def test_a_key_is_written_by_reference_listed_as_connected_and_undone(home, keyed, capsys, monkeypatch):
    assert main(["connect", "codex", "--key-env", "MY_KEY", "--yes"]) == 0

    said = capsys.readouterr().err
    assert read_codex(home)["model_providers"]["tandem"]["env_key"] == "MY_KEY"
    assert "It reads the key from MY_KEY, which must be set where it is started." in said
    main(["connect"])
    assert "codex        not installed  connected\n" in capsys.readouterr().out
    assert main(["connect", "codex", "--undo", "--yes"]) == 0
    assert not (home / ".codex").exists()


def test_a_client_that_can_refer_to_no_variable_gets_the_key_which_is_never_shown(home, keyed, capsys):
    assert main(["connect", "cline", "--key-env", "MY_KEY", "--yes"]) == 0
    assert main(["connect", "cline", "--key-env", "MY_KEY", "--print"]) == 0

    told = capsys.readouterr()
    assert keyed in (home / ".cline" / "data" / "secrets.json").read_text()
    assert keyed not in told.out + told.err
    assert '"openAiApiKey": "$MY_KEY"' in told.out
    assert f"the key itself is in {home}/.cline/data/secrets.json, which only you can read" in told.err


def test_what_needs_the_key_itself_says_which_variable_to_set(home, keyed, capsys, monkeypatch):
    monkeypatch.delenv("MY_KEY")

    assert main(["connect", "cline", "--key-env", "MY_KEY", "--yes"]) == 2
    assert "hint: export MY_KEY=tdm_…, then run this again" in capsys.readouterr().err
    assert main(["connect", "--run", "codex", "--key-env", "MY_KEY"]) == 2
    assert "MY_KEY is not set" in capsys.readouterr().err
    assert main(["connect", "codex", "--key-env", "MY_KEY", "--yes"]) == 0
    assert "MY_KEY is not set here, so the key was not checked" in capsys.readouterr().err


def test_an_address_without_a_port_and_with_a_path_is_connected_and_found_again(home, capsys):
    url = "https://router.invalid/tandem"

    assert main(["connect", "claude-code", "--url", url, "--yes"]) == 0
    (home / ".local" / "state" / "tandem" / "connect" / "claude-code" / "record.json").unlink()
    assert main(["connect", "claude-code", "--url", url, "--undo", "--yes"]) == 0

    assert not (home / ".claude" / "settings.json").exists()


MCP = ["mcp", "--url", "http://127.0.0.1:4000"]
MCP_ENTRIES = {
    "claude-code": (".claude.json", lambda told: told["mcpServers"]["tandem"]),
    "cline": (".cline/data/settings/cline_mcp_settings.json", lambda told: told["mcpServers"]["tandem"]),
    "codex": (".codex/config.toml", lambda told: told["mcp_servers"]["tandem"]),
    "copilot": (".copilot/mcp-config.json", lambda told: told["mcpServers"]["tandem"]),
    "opencode": (".config/opencode/opencode.json", lambda told: told["mcp"]["tandem"]),
    "qwen-code": (".qwen/settings.json", lambda told: told["mcpServers"]["tandem"]),
}
"""By client: the file with its MCP servers, and ours in it."""


def read_told(path) -> dict:
    text = path.read_text()
    return tomllib.loads(text) if path.suffix == ".toml" else json.loads(text)


@pytest.mark.parametrize("client", MCP_ENTRIES)
def test_tools_are_added_with_the_connection_and_go_with_it(home, capsys, client):
    name, find = MCP_ENTRIES[client]

    assert main(["connect", "--mcp", client, "--yes"]) == 0

    entry = find(read_told(home / name))
    command = entry["command"] if client == "opencode" else [entry["command"], *entry["args"]]
    assert command[-3:] == MCP
    assert "tools to delegate" in capsys.readouterr().err
    assert main(["connect", "--mcp", client, "--yes"]) == 0
    assert "is already connected" in capsys.readouterr().err
    assert main(["connect", client, "--undo", "--yes"]) == 0
    assert not (home / name).exists()


def test_tools_are_added_to_a_client_that_is_connected_and_stay_when_it_is_connected_again(home):
    main(["connect", "codex", "--yes"])
    assert "mcp_servers" not in read_codex(home)

    main(["connect", "--mcp", "codex", "--yes"])
    main(["connect", "codex", "--yes", "--url", "http://127.0.0.1:4001"])

    told = read_codex(home)
    assert told["mcp_servers"]["tandem"]["args"][-1] == "http://127.0.0.1:4001"
    assert told["model_providers"]["tandem"]["base_url"] == "http://127.0.0.1:4001/v1"


def test_servers_and_settings_of_ones_own_stay_next_to_the_tools(home):
    (home / ".claude.json").write_text('{"numStartups": 3, "mcpServers": {"own": {"command": "x"}}}')

    main(["connect", "--mcp", "claude-code", "--yes"])
    told = read_told(home / ".claude.json")
    (home / ".claude.json").write_text(json.dumps({**told, "numStartups": 4}))  # as Claude Code does all the time
    main(["connect", "claude-code", "--undo", "--yes"])

    assert set(told["mcpServers"]) == {"own", "tandem"}
    assert read_told(home / ".claude.json") == {"numStartups": 4, "mcpServers": {"own": {"command": "x"}}}


@pytest.mark.parametrize("client", ["codex", "claude-code"])
def test_tools_are_taken_out_without_a_record_too(home, client):
    name, _ = MCP_ENTRIES[client]
    (home / name).parent.mkdir(exist_ok=True)
    (home / name).write_text('[mcp_servers.own]\ncommand = "x"\n' if client == "codex" else '{"mcpServers": {"own": {}}}')
    before = read_told(home / name)
    main(["connect", "--mcp", client, "--yes"])
    shutil.rmtree(home / ".local" / "state" / "tandem" / "connect")

    assert main(["connect", client, "--undo", "--yes"]) == 0
    assert read_told(home / name) == before


def test_the_key_is_named_to_the_tools_and_to_a_client_that_hands_on_only_named_variables(home, keyed):
    assert main(["connect", "--mcp", "codex", "--yes", "--key-env", "MY_KEY"]) == 0

    entry = read_codex(home)["mcp_servers"]["tandem"]
    assert entry["args"][-2:] == ["--key-env", "MY_KEY"]
    assert entry["env_vars"] == ["XDG_STATE_HOME", "MY_KEY"]
    assert keyed not in (home / ".codex" / "config.toml").read_text()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--mcp", "aider"], "cannot add MCP tools to aider\n  hint: it can to claude-code, cline, codex"),
        (["--mcp"], "name a client"),
        (["--mcp", "codex", "--undo"], "--mcp cannot be used with --undo"),
        (["--mcp", "codex", "--run"], "--mcp cannot be used with --run"),
    ],
)
def test_tools_where_they_make_no_sense_are_refused(home, capsys, arguments, words):
    assert main(["connect", *arguments]) == 2
    assert words in capsys.readouterr().err
    assert not (home / ".local" / "state" / "tandem" / "connect").exists()
