"""Windows, prices and abilities of models, from the table that ships with litellm.

litellm is not imported. The table is read only if a target leaves something out (10 ms), and not kept.
"""

import importlib.util
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import msgspec
from msgspec import Struct

from router.contract.target import LEAST_STEP_TOKENS, Price, PriceStep
from router.contract.words import Feature

_TABLE = "model_prices_and_context_window_backup.json"
_MODES = ("chat", "responses")
_LEAST_WINDOW_TOKENS = 1_000
_ABILITIES = {
    Feature.TOOLS: "supports_function_calling",
    Feature.IMAGES: "supports_vision",
    Feature.FILES: "supports_pdf_input",
    Feature.JSON_SCHEMA: "supports_response_schema",
    Feature.REASONING: "supports_reasoning",
}
_PROVIDERS = {
    "api.cerebras.ai": "cerebras",
    "api.groq.com": "groq",
    "generativelanguage.googleapis.com": "gemini",
    "api.deepseek.com": "deepseek",
    "api.moonshot.ai": "moonshot",
    "api.moonshot.cn": "moonshot",
    "api.z.ai": "zai",
    "dashscope-intl.aliyuncs.com": "dashscope",
    "dashscope.aliyuncs.com": "dashscope",
    "api.x.ai": "xai",
    "openrouter.ai": "openrouter",
    "api.mistral.ai": "mistral",
    "api.together.xyz": "together_ai",
    "api.fireworks.ai": "fireworks_ai",
}
"""The table's provider names by API host. OpenAI's and Anthropic's models have none."""
_COSTS = (
    ("input", "input_cost_per_token"),
    ("output", "output_cost_per_token"),
    ("cached_input", "cache_read_input_token_cost"),
    ("cache_write", "cache_creation_input_token_cost"),
)
_STEP = re.compile(r"input_cost_per_token_above_(\d+)k_tokens")
_BEDROCK = "bedrock/"
_REGIONS = re.compile(r"^(?:us|us-gov|eu|apac|jp|au|global)\.")
_WITH_CUSTOM_TOOLS = ("openai", "azure")
"""The table lacks custom tools, which only these providers have."""


Table = dict[str, msgspec.Raw]
"""Models as raw JSON: three thousand parsed ones would take 5 MB for good."""


class ModelFacts(Struct, frozen=True):
    """What the table says of a model, None if nothing."""

    window_tokens: int | None
    price: Price | None
    accepts: frozenset[Feature]


def provider_of(base_url: str) -> str:
    """The table's name for the provider at an address; empty if unknown."""
    host = urlsplit(base_url).hostname or ""
    return "azure" if host.endswith(".azure.com") else _PROVIDERS.get(host, "")


def read_facts(models: Iterable[tuple[str, str]]) -> dict[tuple[str, str], ModelFacts]:
    """Facts of the models in the table, by provider (or none) and model name."""
    wanted = set(models)
    try:
        table = _read_table() if wanted else {}
        entries = {model: _find_entry(table, *model) for model in wanted}
    except (OSError, UnicodeDecodeError, msgspec.DecodeError):
        return {}  # other versions of litellm may differ; the defaults still serve
    return {model: _read_entry(entry) for model, entry in entries.items() if entry is not None}


def _read_table() -> Table:
    library = importlib.util.find_spec("litellm")
    folders = library.submodule_search_locations if library is not None else None
    if not folders:
        return {}
    return msgspec.json.decode((Path(folders[0]) / _TABLE).read_bytes(), type=Table)


def _find_entry(table: Table, provider: str, model: str) -> dict[str, Any] | None:
    for name in _names_of(provider, model):
        entry = msgspec.json.decode(table.get(name, b"null"))
        if isinstance(entry, dict) and entry.get("mode") in _MODES:
            return entry
    return None


def _names_of(provider: str, model: str) -> Iterable[str]:
    """Names under which the table may have a model: at its provider, plain, and without a prefix.

    OpenRouter writes versions of Anthropic's models with dots. Bedrock's may have a route (`bedrock/converse/…`) or a region
    (`bedrock/eu-west-1/…`) in front, and begin with regions.
    """
    bare = model.partition("/")[2]
    if provider:
        yield f"{provider}/{model}"
    yield from (model, bare) if provider != "openrouter" else (bare, bare.replace(".", "-"))
    if model.startswith(_BEDROCK):
        name = bare.rpartition("/")[2]
        yield name
        yield _REGIONS.sub("", name)


def _read_entry(entry: dict[str, Any]) -> ModelFacts:
    window = entry.get("max_input_tokens")
    accepts = {feature for feature, key in _ABILITIES.items() if entry.get(key) is True}
    if Feature.TOOLS in accepts and entry.get("litellm_provider") in _WITH_CUSTOM_TOOLS:
        accepts.add(Feature.CUSTOM_TOOLS)
    return ModelFacts(
        window_tokens=window if isinstance(window, int) and window >= _LEAST_WINDOW_TOKENS else None,
        price=_read_price(entry),
        accepts=frozenset(accepts),
    )


def _read_price(entry: dict[str, Any]) -> Price | None:
    """USD per million tokens; the table counts single tokens."""
    costs = _read_costs(entry)
    if "input" not in costs or "output" not in costs:
        return None
    lengths = sorted(int(found[1]) for key in entry if (found := _STEP.fullmatch(key)))
    steps = [
        PriceStep(above_tokens=length * 1_000, **step)
        for length in lengths
        if {"input", "output"} <= (step := _read_costs(entry, f"_above_{length}k_tokens", costs)).keys()
    ]
    return Price(
        costs["input"],
        costs["output"],
        costs.get("cached_input"),
        costs.get("cache_write"),
        steps=tuple(step for step in steps if step.above_tokens >= LEAST_STEP_TOKENS),
    )


def _read_costs(entry: dict[str, Any], suffix: str = "", usual: Mapping[str, float] | None = None) -> dict[str, float]:
    """The table's costs; for longer prompts only those that it also has for short ones.

    Rows with free cache writes do not bill them apart: those tokens are paid as input.
    """
    return {
        ours: round(cost * 1_000_000, 6)
        for ours, theirs in _COSTS
        if isinstance(cost := entry.get(theirs + suffix), (int, float))
        and (cost > 0 or (cost == 0 and ours != "cache_write"))
        and (usual is None or ours in usual)
    }
