"""Looking around for keys and servers."""

import importlib.util
from dataclasses import replace

import pytest
import yaml

from router.cli.setup.around import (
    Found,
    add_quotas,
    look_around,
    offer_locals,
    say_litellm_keys,
    say_windows,
    with_local_model,
)
from router.cli.setup.engines import Engine, ListedModel, Reached
from router.cli.setup.presets import Presets, read_presets
from router.contract.words import Tier
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


PRESETS = read_presets()


def server(
    name: str, *models: str, slots: int | None = None, windows: dict[str, int] | None = None, kind: str = "llamacpp"
) -> Found:
    provider = replace(PRESETS.providers[kind], name=name, base_url=f"http://{name}/v1")
    listed = tuple(ListedModel(model) for model in models)
    return Found(provider, "", Reached(listed=listed, engine=Engine(kind, slots, windows or {})))


def proposed(*servers: Found, is_alone: bool = True) -> tuple[list[str], list[str]]:
    offers = offer_locals(PRESETS, {one.provider.name: one for one in servers}, is_alone=is_alone)
    fast, deep = ([offer.provider.name for offer in offers.proposed[tier]] for tier in (Tier.FAST, Tier.DEEP))
    return fast, deep


@pytest.mark.parametrize(
    ("servers", "fast", "deep"),
    [
        ([server("a", "x-7b")], ["a"], []),
        ([server("a", "x-70b"), server("b", "y-7b")], ["b"], ["a"]),
        ([server("a", "x-70b"), server("b", "y-7b"), server("c", "z-14b")], ["b", "c"], ["a"]),
        ([server("a", "x-7b"), server("b", "y-7b")], ["a", "b"], ["a", "b"]),
        ([server("a", "x"), server("b", "y-7b")], ["a", "b"], ["a", "b"]),
        ([server("a", "x-7b"), server("b", "x-7b")], ["a", "b"], ["b", "a"]),
        ([server("a", "/one/x-7b.gguf"), server("b", "/two/x-7b.gguf")], ["a", "b"], ["b", "a"]),
    ],
)
def test_the_largest_model_is_proposed_for_deep_where_that_can_be_told(servers, fast, deep):
    assert proposed(*servers) == (fast, deep)


def test_next_to_other_providers_local_servers_are_proposed_for_fast_the_smallest_first():
    assert proposed(server("a", "x-70b"), server("b", "y-7b"), is_alone=False) == (["b", "a"], [])


def test_of_equal_models_the_one_with_the_larger_window_is_preferred_for_deep():
    small, large = server("a", "m-7b", windows={"m-7b": 32_000}), server("b", "m-7b", windows={"m-7b": 4_096})

    assert proposed(small, large) == (["b", "a"], ["a", "b"])


def test_a_model_brings_its_own_window_and_keeps_what_was_thought_where_it_has_none():
    found = server("a", "x-7b", "y-7b", "z-7b", windows={"x-7b": 4_096, "y-7b": 8_192}, kind="lmstudio")
    (offer,) = offer_locals(PRESETS, {"a": found}, is_alone=True).all

    assert (offer.model, offer.facts["window_tokens"]) == ("x-7b", 4_096)
    assert with_local_model(offer, "y-7b", found).facts["window_tokens"] == 8_192
    assert with_local_model(offer, "z-7b", found).facts["window_tokens"] == 4_096


def test_slots_are_written_for_both_tiers_and_a_wait_for_fast_alone():
    found = {"a": server("a", "x-7b", slots=4), "b": server("b", "y-70b")}
    offers = offer_locals(PRESETS, found, is_alone=True)
    chosen = {tier: list(offers.proposed[tier]) for tier in Tier}

    add_quotas(chosen, found)

    assert chosen[Tier.FAST][0].facts["quota"] == {"in_flight": 4, "max_wait_seconds": 5}
    assert "quota" not in chosen[Tier.DEEP][0].facts


def test_a_server_without_another_one_to_go_to_may_be_waited_for_longer():
    found = {"a": server("a", "x-7b", slots=1)}
    (offer,) = offer_locals(PRESETS, found, is_alone=True).all
    chosen = {Tier.FAST: [offer], Tier.DEEP: [offer]}

    add_quotas(chosen, found)

    assert chosen[Tier.FAST][0].facts["quota"] == {"in_flight": 1, "max_wait_seconds": 60}
    assert chosen[Tier.DEEP][0].facts["quota"] == {"in_flight": 1}


def test_a_window_that_is_a_guess_is_said_once(capsys):
    found = {"a": server("a", "x-7b"), "b": server("b", "y-7b", windows={"y-7b": 8_192})}
    offers = offer_locals(PRESETS, found, is_alone=True).all

    say_windows({Tier.FAST: offers, Tier.DEEP: offers}, found)

    told = capsys.readouterr().err
    assert told.count("is a guess") == 1
    assert "the window of x-7b: 32000 is a guess" in told
