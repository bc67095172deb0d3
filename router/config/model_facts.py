"""What is known of models without asking anyone: the table of windows, prices and abilities that ships inside litellm.

litellm itself is not imported for it. The table is read only when a target leaves something out (10 ms), and not kept.
"""

import importlib.util
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from router.contract.target import Price
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
_BEDROCK = "bedrock/"
_REGIONS = re.compile(r"^(?:us|us-gov|eu|apac|jp|au|global)\.")
_WITH_CUSTOM_TOOLS = ("openai", "azure")
"""The table says nothing of custom tools. They are these providers' own invention."""


Table = dict[str, msgspec.Raw]
"""Models by name, each as the JSON that it is: read whole, three thousand of them would leave 5 MB behind for good."""


@dataclass(frozen=True, slots=True)
class ModelFacts:
    """What the table says of one model. What it does not say is None."""

    window_tokens: int | None
    price: Price | None
    accepts: frozenset[Feature]


def read_facts(models: Iterable[str]) -> dict[str, ModelFacts]:
    """Facts of those models that the table knows, by their full name or by what follows a provider's prefix."""
    wanted = set(models)
    try:
        table = _read_table() if wanted else {}
        entries = {model: _find_entry(table, model) for model in wanted}
    except (OSError, UnicodeDecodeError, msgspec.DecodeError):
        return {}  # another version of litellm may lay its files out differently, and the defaults still serve
    return {model: _read_entry(entry) for model, entry in entries.items() if entry is not None}


def _read_table() -> Table:
    library = importlib.util.find_spec("litellm")
    folders = library.submodule_search_locations if library is not None else None
    if not folders:
        return {}
    return msgspec.json.decode((Path(folders[0]) / _TABLE).read_bytes(), type=Table)


def _find_entry(table: Table, model: str) -> dict[str, Any] | None:
    for name in _names_of(model):
        entry = msgspec.json.decode(table.get(name, b"null"))
        if isinstance(entry, dict) and entry.get("mode") in _MODES:
            return entry
    return None


def _names_of(model: str) -> Iterable[str]:
    """Under which names the table may have a model: its own, and without its provider.

    Bedrock's may have a route (`bedrock/converse/…`) or a region (`bedrock/eu-west-1/…`) before it, and begin with regions.
    """
    yield model
    rest = model.partition("/")[2]
    yield rest
    if model.startswith(_BEDROCK):
        name = rest.rpartition("/")[2]
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
    """USD per million tokens; the table counts by the token."""
    costs = {
        ours: round(cost * 1_000_000, 6)
        for ours, theirs in (
            ("input", "input_cost_per_token"),
            ("output", "output_cost_per_token"),
            ("cached_input", "cache_read_input_token_cost"),
            ("cache_write", "cache_creation_input_token_cost"),
        )
        if isinstance(cost := entry.get(theirs), (int, float)) and cost >= 0
    }
    return Price(**costs) if "input" in costs and "output" in costs else None
