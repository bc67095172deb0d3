"""What is known of each client."""

import json
import tomllib

import pytest
import yaml

from router.connect.change import FORMATS
from router.connect.key import key_facts
from router.connect.recipe import expand, fill, installed_clients, known_clients, load_recipe, read_recipe

FACTS = {
    "url": "http://127.0.0.1:4000",
    "base": "http://127.0.0.1:4000/v1",
    **key_facts(),
    "auto": "gpt-5.5",
    "window": "400000",
    "window_fast": "128000",
    "window_deep": "400000",
    "catalogue": "{}",
    "claude_models": '{"claude-opus-5-5": "auto"}',
    "websockets": "false",
    "aider_temperature": "true",
    "copilot_path": "/v1",
    "copilot_type": "openai",
    "copilot_wire": "completions",
    "copilot_model": "auto",
    "statusline": 'a "b" \\c',
    "logins": "",
    "folder": "/f",
    "catalogue_file": "/f/m.json",
    "mcp": "tandem",
    "mcp_program": "/bin/tandem",
    "mcp_arguments": '["mcp"]',
    "mcp_command": '["/bin/tandem", "mcp"]',
    "mcp_variables": '["XDG_STATE_HOME"]',
}


@pytest.mark.parametrize("client", known_clients())
def test_every_recipe_is_whole_and_every_piece_is_valid_in_its_format(client):
    recipe = load_recipe(client)

    assert all((recipe.name, recipe.choose, recipe.files))
    assert bool(recipe.command) == bool(recipe.install) == (recipe.run is not None)
    for file in recipe.files:
        text = FORMATS[file.format].put(None, {key: fill(value, FACTS) for key, value in file.piece.items()}).text
        {"toml": tomllib.loads, "yaml": yaml.safe_load, "json": json.loads}.get(file.format, str)(text)
    for text in [*recipe.run.arguments, *recipe.run.environment.values()] if recipe.run else []:
        assert "{{" not in fill(text, FACTS)


def test_a_client_without_a_recipe_is_not_known():
    with pytest.raises(KeyError):
        load_recipe("emacs")


def test_a_client_is_here_when_its_command_is_on_the_path(tmp_path, monkeypatch):
    (tmp_path / "codex").write_text("#!/bin/sh\n")
    (tmp_path / "codex").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))

    assert [recipe.client for recipe in installed_clients()] == ["codex"]


def test_a_path_heeds_a_variable_and_the_home(monkeypatch):
    monkeypatch.setenv("HOME", "/home/ann")
    monkeypatch.delenv("CODEX_HOME", raising=False)
    assert str(expand("${CODEX_HOME:-~/.codex}/config.toml")) == "/home/ann/.codex/config.toml"
    monkeypatch.setenv("CODEX_HOME", "/elsewhere")
    assert str(expand("${CODEX_HOME:-~/.codex}/config.toml")) == "/elsewhere/config.toml"


def test_the_file_that_is_there_counts(tmp_path):
    told = f'name = "a"\nchoose = "b"\n[[files]]\npath = "{tmp_path}/a.json"\nor_else = ["{tmp_path}/a.jsonc"]\nformat = "json"\nvalues = "{{}}"\n'
    (file,) = read_recipe("a", told).files

    assert file.find().name == "a.json"
    (tmp_path / "a.jsonc").touch()
    assert file.find().name == "a.jsonc"


def test_a_shells_own_file_counts_and_else_the_common_one():
    recipe = load_recipe("env")

    assert [file.paths[0] for file in recipe.files_here("zsh")] == ["${ZDOTDIR:-~}/.zshrc"]
    assert [file.paths[0] for file in recipe.files_here("tcsh")] == ["~/.profile"]


def test_a_file_that_is_not_a_start_up_file_counts_for_every_shell():
    recipe = load_recipe("copilot")

    for shell in ("bash", "fish", "tcsh"):
        found = [file.paths[0] for file in recipe.files_here(shell)]
        assert len(found) == 2
        assert found[1] == "~/.copilot/mcp-config.json"


def test_clients_that_speak_mcp_say_where_its_servers_are_written():
    able = [client for client in known_clients() if load_recipe(client).takes_mcp]

    assert able == ["claude-code", "cline", "codex", "copilot", "opencode", "qwen-code"]


@pytest.mark.parametrize("client", [client for client in known_clients() if load_recipe(client).takes_mcp])
def test_without_its_facts_a_recipe_writes_nothing_of_mcp(client):
    facts = {name: fact for name, fact in FACTS.items() if not name.startswith("mcp")}
    wanted = [file for file in load_recipe(client).files if file.is_wanted(facts)]

    assert not any("mcp" in fill(text, facts) for file in wanted for text in file.piece.values())


def test_facts_are_filled_in_plain_or_quoted():
    assert fill("x = {{statusline|json}} # {{local_key}}", FACTS) == 'x = "a \\"b\\" \\\\c" # tandem'


def test_a_line_with_a_fact_that_may_be_absent_goes_with_it():
    text = "a = 1\nb = {{b|json?}}\nc = {{c}}\n"

    assert fill(text, {"b": "x", "c": "2"}) == 'a = 1\nb = "x"\nc = 2\n'
    assert fill(text, {"c": "2"}) == fill(text, {"b": "", "c": "2"}) == "a = 1\nc = 2\n"
    with pytest.raises(KeyError):
        fill(text, {})


def test_a_file_that_needs_an_absent_fact_is_left_out():
    catalogue, config = load_recipe("codex").files

    assert not catalogue.is_wanted({"catalogue": ""})
    assert catalogue.is_wanted({"catalogue": "{}"})
    assert config.is_wanted({})
