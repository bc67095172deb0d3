"""Looking around for keys and servers."""

import importlib.util
from dataclasses import replace

import pytest
import yaml

from router.cli.setup.around import look_around, say_litellm_keys
from router.cli.setup.presets import Presets, read_presets
from tests.router.cli.model_server import ModelServer


def presets_at(addresses: dict[str, str]) -> Presets:
    """Only these providers, at these addresses."""
    shipped = read_presets()
    return replace(shipped, providers={name: replace(shipped.providers[name], base_url=url) for name, url in addresses.items()})


def test_keys_and_servers_are_found_with_their_models(capsys):
    with ModelServer(models=("a", "b")) as server:
        found = look_around(
            presets_at(dict.fromkeys(("groq", "ollama", "kimi"), server.base_url)), {"GROQ_API_KEY": "sk"}, is_offline=False
        )

    assert {name: (entry.variable, entry.reached.models) for name, entry in found.items()} == {
        "groq": ("GROQ_API_KEY", ("a", "b")),
        "ollama": ("", ("a", "b")),
    }
    assert "found Groq: GROQ_API_KEY, 2 models" in capsys.readouterr().err


def test_the_second_name_of_a_key_counts_where_the_first_is_not_set():
    with ModelServer() as server:
        found = look_around(
            presets_at({"gemini": server.base_url}), {"GEMINI_API_KEY": " ", "GOOGLE_API_KEY": "g"}, is_offline=False
        )

    assert found["gemini"].variable == "GOOGLE_API_KEY"
    assert [key for _, _, key in server.seen] == ["Bearer g"]


def test_offline_nobody_is_asked_and_no_local_server_is_found():
    with ModelServer() as server:
        found = look_around(
            presets_at(dict.fromkeys(("groq", "ollama"), server.base_url)), {"GROQ_API_KEY": "sk"}, is_offline=True
        )

    assert list(found) == ["groq"]
    assert server.seen == []


def test_a_local_server_without_a_model_is_not_found():
    with ModelServer(models=()) as server:
        assert look_around(presets_at({"ollama": server.base_url}), {}, is_offline=False) == {}


def test_a_provider_that_refuses_the_key_is_told_as_not_used(capsys):
    with ModelServer(status=401) as server:
        found = look_around(presets_at({"groq": server.base_url}), {"GROQ_API_KEY": "sk-canary"}, is_offline=False)

    assert found["groq"].reached.models == ()
    said = capsys.readouterr().err
    assert "GROQ_API_KEY, not used: it refused the key (401)" in said
    assert "sk-canary" not in said


@pytest.mark.parametrize(
    ("variable", "model", "has_key"),
    [
        ("MISTRAL_API_KEY", "mistral/", True),
        ("COHERE_API_KEY", "cohere_chat/", True),
        ("AWS_ACCESS_KEY_ID", "bedrock/", False),
        ("AWS_BEARER_TOKEN_BEDROCK", "bedrock/", True),
        ("AZURE_API_KEY", "azure/", True),
        ("GOOGLE_APPLICATION_CREDENTIALS", "vertex_ai/", False),
    ],
)
def test_a_key_is_named_with_the_lines_to_write(capsys, variable, model, has_key):
    assert say_litellm_keys(read_presets(), {variable: "s3cret-canary"})

    told = capsys.readouterr().err
    (written,) = [line for line in told.splitlines() if line.strip().startswith("- {")]
    (target,) = yaml.safe_load(written.strip())
    assert variable in told
    assert target["model"].startswith(model)
    assert target.get("api_key") == (f"env:{variable}" if has_key else None)
    assert ("options" in target) is not has_key
    assert "canary" not in told


def test_what_to_install_is_named_where_litellm_is_missing(capsys, monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)

    say_litellm_keys(read_presets(), {"MISTRAL_API_KEY": "x"})

    assert "setup-litellm" in capsys.readouterr().err


def test_nothing_is_said_without_such_a_key(capsys):
    assert not say_litellm_keys(read_presets(), {"OPENAI_API_KEY": "x", "MISTRAL_API_KEY": " "})

    assert capsys.readouterr().err == ""
