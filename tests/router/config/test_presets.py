import re
from pathlib import Path

import pytest

from router.config.load import check_config
from router.config.presets import Offer, Provider, read_presets
from router.contract.words import Tier
from router.wiring import known_names

PRESETS = read_presets()
VALUES = {"AZURE_OPENAI_ENDPOINT": "https://mine.openai.azure.com/", "AZURE_OPENAI_DEPLOYMENT": "my-deployment"}
GPT = Offer(PRESETS.providers["openai"], Tier.DEEP, "gpt-6.1-sol", ("gpt-*-sol", "gpt-?"), {"price": {"input": 1, "output": 2}})


def test_every_preset_is_a_good_target(monkeypatch):
    text = "tiers:\n"
    for tier in Tier:
        text += f"  {tier}:\n    targets:\n"
        for offer in PRESETS.offers[tier]:
            variable = offer.provider.keys[0] if offer.provider.keys else ""
            if variable:
                monkeypatch.setenv(variable, "x")
            text += offer.filled(VALUES).write(f"{offer.provider.name}-{tier}", variable)

    loaded = check_config(text, "presets", Path("."), known_names())

    assert len(loaded.targets) == sum(len(offers) for offers in PRESETS.offers.values())
    assert "https://mine.openai.azure.com/openai/v1" in text
    assert "my-deployment" in text


def test_every_provider_that_people_ask_for_is_there():
    wanted = "cerebras groq openai anthropic gemini deepseek kimi glm qwen openrouter azure lmstudio ollama vllm llamacpp"

    assert set(wanted.split()) <= set(PRESETS.providers)
    assert all(PRESETS.find(tier, name) for tier in Tier for name in PRESETS.providers)


@pytest.mark.parametrize("name", ["openai", "anthropic", "gemini", "glm", "qwen", "deepseek"])
def test_the_deep_model_is_not_older_than_the_fast_one(name):
    def version(tier: Tier) -> tuple[int, ...]:
        model = next(offer.model for offer in PRESETS.offers[tier] if offer.provider.name == name)
        return tuple(int(part) for part in re.findall(r"\d+", model))[:1]

    assert version(Tier.DEEP) >= version(Tier.FAST)


def test_no_model_is_named_in_the_code():
    root = Path(__file__).resolve().parents[3] / "router"
    models = {offer.model for offers in PRESETS.offers.values() for offer in offers} - {"default"}
    sources = [path for room in ("cli", "config") for path in (root / room).glob("*.py")]

    named = [(path.name, model) for path in sources for model in models if f'"{model}"' in path.read_text()]

    assert named == []


@pytest.mark.parametrize(
    ("listed", "chosen"),
    [
        (["gpt-7-sol", "gpt-6.1-sol"], "gpt-6.1-sol"),
        (["gpt-6-sol", "gpt-10-sol", "gpt-9.3-sol", "gpt-5"], "gpt-10-sol"),
        (["gpt-7-sol-2027-01-01", "gpt-7-sol"], "gpt-7-sol"),
        (["gpt-5", "gpt-4", "whisper-9"], "gpt-5"),
        (["whisper-9"], ""),
        ([], ""),
    ],
)
def test_a_model_that_exists_is_chosen_and_the_newest_of_its_kind_where_the_known_one_is_gone(listed, chosen):
    assert GPT.choose(listed) == chosen


def test_a_local_server_serves_what_its_owner_put_there():
    offer = Offer(Provider("o", "O", "openai_http", "chat", "http://127.0.0.1:1/v1"), Tier.FAST, "default")

    assert offer.choose(["mine", "other"]) == "mine"


def test_another_model_has_no_price_of_the_first():
    assert "price" not in GPT.with_model("gpt-9").write("x", "K")
    assert "price" in GPT.with_model("gpt-6.1-sol").write("x", "K")
    assert "api_key: env:K" in GPT.write("x", "K")
    assert "api_key" not in GPT.write("x", "")


def test_a_model_that_yaml_would_misread_is_quoted():
    text = GPT.with_model("no: 1 # x").write("x", "")

    assert "model: 'no: 1 # x'" in text
