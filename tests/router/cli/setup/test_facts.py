"""What a client is told of the router."""

import asyncio
import json
import os

import pytest
from msgspec.structs import replace

from router.cli import Ended
from router.cli.routers import is_listening
from router.cli.setup import facts
from router.cli.setup.facts import ask_codex, point_command, read_facts
from router.cli.setup.reach import ClientKey
from router.connect.key import with_key
from router.dialects.table import SPECS
from tests.conftest import SIMULATED
from tests.tools.configs import load_text


def load(tmp_path, more: str = ""):
    return load_text(f"{more}\n{SIMULATED}", tmp_path)


@pytest.mark.parametrize(
    ("server", "url", "address"),
    [
        ("", None, "http://127.0.0.1:4000"),
        ('server: {host: "::1", port: 4321}', None, "http://[::1]:4321"),
        ("server: {port: 0}", "http://127.0.0.1:1/v1/", "http://127.0.0.1:1"),
    ],
)
def test_the_address_is_that_of_the_config_or_of_the_flag(tmp_path, server, url, address):
    told = read_facts(load(tmp_path, server), url)

    assert (told["url"], told["base"]) == (address, f"{address}/v1")


def test_a_port_that_the_system_picks_needs_the_flag(tmp_path):
    with pytest.raises(Ended, match="hint: --url http://127.0.0.1:PORT"):
        read_facts(load(tmp_path, "server: {port: 0}"), None)


@pytest.mark.parametrize(
    "url", ["nonsense", "http://a b", "http://127.0.0.1:4000\n", 'http://a"', "http://[::1", "http://a:99999", "http://a${B}"]
)
def test_an_address_that_cannot_be_one_is_refused(tmp_path, url):
    with pytest.raises(Ended, match=r"should be like http://127\.0\.0\.1:4000"):
        read_facts(load(tmp_path), url)


CODEX = [{"slug": "gpt-9", "visibility": "list", "base_instructions": "Codex's own"}]


def test_windows_and_models_are_those_of_the_config(tmp_path):
    told = read_facts(load(tmp_path), None, CODEX)

    windows = {model["slug"]: str(model["context_window"]) for model in json.loads(told["catalogue"])["models"]}
    assert windows == {"auto": told["window"], "fast": told["window_fast"], "deep": told["window_deep"]}
    assert {model["base_instructions"] for model in json.loads(told["catalogue"])["models"]} == {"Codex's own"}


def test_without_codexs_own_entries_there_is_no_catalogue(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))

    assert read_facts(load(tmp_path), None)["catalogue"] == ""


async def test_a_router_that_runs_is_asked_for_its_own(start, tmp_path):
    tandem = await start(SIMULATED.replace("window_tokens: 400000", "window_tokens: 300000"))

    told = await asyncio.to_thread(read_facts, load(tmp_path), tandem.url, CODEX)

    served = {model["slug"]: model["context_window"] for model in json.loads(told["catalogue"])["models"]}
    windows = [plan.target.window_tokens for plan in tandem.loaded.targets if plan.target.tier == "deep"]
    assert (int(told["window_deep"]), served["auto"]) == (max(windows), max(windows))
    assert await asyncio.to_thread(is_listening, tandem.url)


def test_claude_code_is_told_which_of_its_models_are_behind_ours(tmp_path):
    target = "{name: %s, adapter: anthropic_http, base_url: http://127.0.0.1:1, model: %s}"
    config = "tiers:\n  fast: {targets: [%s]}\n  deep: {targets: [%s]}\n"

    def told(fast: str, deep: str) -> str:
        text = config % (target % ("quick", fast), target % ("slow", deep))
        return read_facts(load_text(text, tmp_path), None)["claude_models"]

    both = {"claude-opus-5-5": "auto", "claude-opus-5-5[1m]": "deep"}
    assert json.loads(told("claude-haiku-5-5", "claude-opus-5-5")) == {**both, "claude-haiku-5-5": "fast"}
    assert json.loads(told("quick-model", "claude-opus-5-5")) == both
    assert told("claude-haiku-5-5", "other") == ""


def test_where_no_router_answers_the_config_counts_and_that_is_said(tmp_path, capsys):
    told = read_facts(load(tmp_path), "http://127.0.0.1:1")

    assert int(told["window"]) > 0
    assert "no router answers at http://127.0.0.1:1" in capsys.readouterr().err
    assert not is_listening("http://127.0.0.1:1")


def test_a_websocket_is_promised_where_a_dialects_spec_serves_it(tmp_path, monkeypatch):
    assert read_facts(load(tmp_path), None)["websockets"] == "true"

    monkeypatch.setattr(facts, "SPECS", {dialect: replace(spec, has_socket=False) for dialect, spec in SPECS.items()})

    assert read_facts(load(tmp_path), None)["websockets"] == "false"


def test_the_status_line_is_asked_for_with_the_address_alone_wherever_its_ledger_is(tmp_path):
    told = read_facts(load(tmp_path), None)["statusline"]

    assert told.endswith(" statusline --url http://127.0.0.1:4000")


def test_the_status_line_of_a_person_with_a_key_asks_for_their_budget_once(tmp_path):
    told = read_facts(load(tmp_path), None, key=ClientKey("MINE", "tdm_1"), asks=False)

    assert told["statusline"].endswith(" statusline --url http://127.0.0.1:4000 --key-env MINE")
    assert with_key(told, "OTHER", "")["statusline"].endswith(" statusline --url http://127.0.0.1:4000 --key-env OTHER")


@pytest.mark.parametrize(
    ("model", "auto", "temperature", "copilot"),
    [
        ("gpt-5.5", "gpt-5.5", "false", ("openai", "responses", "/v1")),
        ("claude-opus-5-5", "claude-opus-5-5", "true", ("anthropic", "responses", "")),
        ("qwen3-coder", "auto", "true", ("openai", "responses", "/v1")),
        ("fast", "auto", "true", ("openai", "responses", "/v1")),
    ],
)
def test_auto_has_the_name_of_the_model_behind_it_where_the_router_understands_it(tmp_path, model, auto, temperature, copilot):
    target = f"adapter: openai_http, dialect: responses, base_url: http://127.0.0.1:1/v1, model: {model}"
    config = f"tiers: {{fast: {{targets: [{{name: quick, {target}}}]}}, deep: {{targets: [{{name: slow, {target}}}]}}}}\n"

    told = read_facts(load_text(config, tmp_path), None)

    assert (told["auto"], told["aider_temperature"]) == (auto, temperature)
    assert (told["copilot_type"], told["copilot_wire"], told["copilot_path"]) == copilot


@pytest.fixture
def install(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")

    def write(script: str) -> None:
        (tmp_path / "codex-test").write_text(f"#!/bin/sh\n{script}\n")
        (tmp_path / "codex-test").chmod(0o755)

    return write


def test_the_catalogue_that_ships_with_it_is_read(install):
    install(f"[ \"$*\" = 'debug models --bundled' ] && echo '{json.dumps({'models': [{'slug': 'gpt-9'}]})}'")

    assert ask_codex("codex-test") == [{"slug": "gpt-9"}]


def test_one_without_the_flag_is_asked_without_it_and_what_is_ours_is_left_out(install):
    told = json.dumps({"models": [{"slug": "auto"}, {"slug": "gpt-9"}]})
    install(f"[ \"$*\" = 'debug models' ] || exit 2; echo '{told}'")

    assert ask_codex("codex-test") == [{"slug": "gpt-9"}]


@pytest.mark.parametrize("script", ["exit 1", "echo nonsense", "echo '{}'", "echo '{\"models\": [1]}'"])
def test_one_that_prints_none_is_no_error(install, script):
    install(script)

    assert ask_codex("codex-test") == []


def test_one_that_is_not_installed_is_no_error():
    assert ask_codex("codex-that-is-not-here") == []


def point(tmp_path, *command: str) -> tuple[list[str], dict[str, str]]:
    return point_command(load_text(SIMULATED), "http://127.0.0.1:9", list(command), None, tmp_path)


def test_any_command_finds_the_router_in_the_usual_variables(tmp_path, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "mine")
    monkeypatch.delenv("ANTHROPIC_API_KEY", raising=False)

    command, variables = point(tmp_path, "/bin/agent", "the task")

    assert command == ["/bin/agent", "the task"]
    assert variables == {
        "OPENAI_BASE_URL": "http://127.0.0.1:9/v1",
        "OPENAI_API_BASE": "http://127.0.0.1:9/v1",
        "ANTHROPIC_BASE_URL": "http://127.0.0.1:9",
        "TANDEM_URL": "http://127.0.0.1:9",
        "OPENAI_API_KEY": "mine",
        "ANTHROPIC_API_KEY": "tandem",
    }
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("program", ["codex", "/opt/bin/codex"])
def test_a_known_client_is_pointed_by_its_recipe_before_its_own_arguments(tmp_path, monkeypatch, program):
    monkeypatch.setenv("PATH", str(tmp_path))  # no client is asked for its models

    command, _ = point(tmp_path, program, "exec", "the task")

    assert command[0] == program
    assert command[-2:] == ["exec", "the task"]
    assert any("http://127.0.0.1:9/v1" in argument for argument in command[1:-2])
