"""Keys that only litellm can use, and what `tandem init` says of them."""

import importlib.util

import pytest
import yaml

from router.cli.setup.litellm_keys import say_litellm_keys
from router.config.presets import read_presets


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
