"""A person's key in clients' files."""

import json
import os
import re
import stat
import tomllib

import pytest
import yaml

from router.connect.change import connect, pieces, plan_connection, plan_undo, undo
from router.connect.key import with_key
from router.connect.pointing import Pointing, where_it_points
from router.connect.recipe import known_clients, load_recipe
from router.connect.store import Store
from tests.router.connect.test_change import home  # noqa: F401  a fixture
from tests.router.connect.test_recipe import FACTS

SECRET = "tdm_0a1b2c3d_" + "s" * 43
KEYED = with_key(FACTS, "MY_KEY", SECRET)
BY_VALUE = {"cline", "llm"}
"""The clients that can refer to no variable."""


def write(client, facts):
    """All that a client's files would hold."""
    return "\n".join(text for _, piece in pieces(load_recipe(client), facts, "bash") for text in piece.values())


@pytest.mark.parametrize("client", known_clients())
def test_a_client_refers_to_the_variable_and_only_two_hold_the_key_itself(client):
    written = write(client, KEYED)

    assert "MY_KEY" in written or client == "cline"
    assert (SECRET in written) == (client in BY_VALUE) == load_recipe(client).holds_key
    assert not re.search(r"(?i)(?:key|token)\W{1,5}tandem\W", written), "the key of a router that needs none"


@pytest.mark.parametrize("client", known_clients())
def test_without_a_variable_no_line_speaks_of_one(client):
    written = write(client, FACTS)

    assert not any(words in written for words in ("MY_KEY", "env_key", "apiKeyHelper", "secrets.", "{env:", "env-file"))


def test_each_client_refers_in_its_own_words():
    files = {client: pieces(load_recipe(client), KEYED, "bash") for client in known_clients()}

    assert tomllib.loads(files["codex"][1][1]["end"])["model_providers"]["tandem"]["env_key"] == "MY_KEY"
    claude = json.loads(files["claude-code"][0][1]["values"])
    assert (claude["apiKeyHelper"], claude["env"]["ANTHROPIC_AUTH_TOKEN"]) == ("printenv MY_KEY", "")
    opencode = json.loads(files["opencode"][0][1]["values"])
    assert opencode["provider"]["tandem"]["options"]["apiKey"] == "{env:MY_KEY}"
    assert {model["apiKey"] for model in yaml.safe_load(files["continue"][1][1]["items"])} == {"${{ secrets.MY_KEY }}"}
    qwen = json.loads(files["qwen-code"][0][1]["values"])
    assert ({model["envKey"] for model in qwen["modelProviders"]["openai"]}, "env" in qwen) == ({"MY_KEY"}, False)
    assert files["aider"][0][1]["content"] == "AIDER_OPENAI_API_KEY=${MY_KEY}\n"
    assert yaml.safe_load(files["aider"][1][1]["keys"])["env-file"].endswith("/.aider.tandem.env")
    assert 'OPENAI_API_KEY="$MY_KEY"' in files["env"][0][1]["lines"]
    assert 'COPILOT_PROVIDER_API_KEY="$MY_KEY"' in files["copilot"][0][1]["lines"]
    assert {model["api_key_name"] for model in yaml.safe_load(files["llm"][0][1]["items"])} == {"MY_KEY"}


@pytest.mark.parametrize("client", known_clients())
def test_a_connection_with_a_key_is_known_as_one_and_undone_without_a_trace(home, client, monkeypatch):  # noqa: F811
    monkeypatch.setenv("MY_KEY", SECRET)
    recipe, store = load_recipe(client), Store(home / ".state" / "connect")
    before = {path: path.read_bytes() for path in home.rglob("*") if path.is_file()}

    connect(recipe, plan_connection(recipe, KEYED, store, "bash"), store, "MY_KEY")

    assert where_it_points(recipe, FACTS, store, "bash") is Pointing.HERE
    undo(recipe, plan_undo(recipe, store, "bash"), store)
    assert {path: path.read_bytes() for path in home.rglob("*") if path.is_file()} == before


def test_a_file_with_the_key_itself_is_closed_to_others_even_if_it_was_open(home):  # noqa: F811
    secrets = home / ".cline" / "data" / "secrets.json"
    secrets.parent.mkdir(parents=True, exist_ok=True)
    secrets.write_text("{}")
    secrets.chmod(0o644)
    recipe, store = load_recipe("cline"), Store(home / ".state" / "connect")

    connect(recipe, plan_connection(recipe, KEYED, store, "bash"), store, "MY_KEY")

    assert json.loads(secrets.read_text())["openAiApiKey"] == SECRET
    assert stat.S_IMODE(os.stat(secrets).st_mode) == 0o600
    held = [path for path in home.rglob("*") if path.is_file() and SECRET.encode() in path.read_bytes()]
    assert all(stat.S_IMODE(path.stat().st_mode) == 0o600 for path in held)
