"""What a local engine reports, and where its target's config disagrees. Pure: `live.py` does the asking."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from router.cli.common import readable
from router.config.targets import TargetPlan
from router.contract.request import Json, JsonObject
from router.contract.signals import reserve_tokens
from router.dialects.fields import as_object
from router.screen.figures import plural

_BY_OWNER = {"llamacpp": "llamacpp", "vllm": "vllm", "library": "ollama", "organization_owner": "lmstudio"}
"""`owned_by` of engines, and their names in the presets. Ollama reports the model's owner: mostly `library`."""
_SIZE = re.compile(r"(?<![a-z0-9.])(?:(\d+)x)?(\d+(?:\.\d+)?)([bm])(?![a-z0-9])", re.IGNORECASE)
_UNITS = {"b": 1e9, "m": 1e6}
_AGENT_TOKENS = 16_000
"""Less room for a prompt is too small for coding agents: Codex's first one has 10,000 to 14,000 tokens."""
_LEAST_WINDOW = 256


@dataclass(frozen=True, slots=True)
class ListedModel:
    name: str
    owner: str = ""
    window_tokens: int | None = None
    """For prompt and answer together, if listed."""
    parameters: float | None = None


@dataclass(frozen=True, slots=True)
class Engine:
    kind: str = ""
    """Its name in the presets; empty if unknown."""
    slots: int | None = None
    """How many requests it serves at once, if reported."""
    windows: Mapping[str, int] = field(default_factory=dict)
    """A request's window by model. Ollama and LM Studio report it only for loaded models."""

    def window_of(self, model: str) -> int | None:
        """The window for a model. llama.cpp with one model serves it under any name."""
        if self.kind == "llamacpp" and len(self.windows) == 1:
            return next(iter(self.windows.values()))
        return self.windows.get(model)


def read_listed(entry: JsonObject) -> ListedModel | None:
    name = entry.get("id") or entry.get("name")
    if not isinstance(name, str):
        return None
    meta, owner = as_object(entry.get("meta")), entry.get("owned_by")
    # With several slots, n_ctx is that of each: half of --ctx-size with two.
    window = _window(meta.get("n_ctx")) or _window(entry.get("max_model_len"))
    count = meta.get("n_params")
    known = float(count) if isinstance(count, int) and count > 0 else None
    return ListedModel(name.removeprefix("models/"), owner if isinstance(owner, str) else "", window, known)


def engine_kind(listed: tuple[ListedModel, ...], server: str) -> str:
    """Empty if unknown."""
    if server.startswith("llama.cpp"):
        return "llamacpp"
    return next((_BY_OWNER[model.owner] for model in listed if model.owner in _BY_OWNER), "")


def windows_of(listed: tuple[ListedModel, ...]) -> dict[str, int]:
    return {model.name: model.window_tokens for model in listed if model.window_tokens}


def read_props(told: Json) -> int | None:
    """The slots in llama.cpp's `/props`."""
    slots = as_object(told).get("total_slots")
    return slots if isinstance(slots, int) and slots > 0 else None


def read_running(told: Json) -> dict[str, int]:
    """The windows in Ollama's `/api/ps`, which lists loaded models."""
    return _read_windows(as_object(told).get("models"), "name", "context_length")


def read_loaded(told: Json) -> dict[str, int]:
    """The windows in LM Studio's `/api/v0/models`: as loaded, not the largest possible."""
    return _read_windows(as_object(told).get("data"), "id", "loaded_context_length")


def _read_windows(entries: Json, name: str, length: str) -> dict[str, int]:
    found = {}
    for entry in map(as_object, entries if isinstance(entries, list) else ()):
        model, window = entry.get(name), _window(entry.get(length))
        if isinstance(model, str) and window:
            found[model] = window
    return found


def _window(value: Json) -> int | None:
    return value if isinstance(value, int) and value >= _LEAST_WINDOW else None


def size_of(model: str, listed: tuple[ListedModel, ...]) -> float | None:
    """As the engine reports, else by name (`7b`, `8x7B`, `135M`); None if unknown."""
    known = next((entry.parameters for entry in listed if entry.name == model and entry.parameters), None)
    if known is not None:
        return known
    found = [float(times or 1) * float(number) * _UNITS[unit.lower()] for times, number, unit in _SIZE.findall(readable(model))]
    return max(found, default=None)


def _serves_at_once(slots: int) -> str:
    return f"serves {plural(slots, 'request')} at a time"


class Remark(NamedTuple):
    text: str
    hint: str
    is_wrong: bool = False


def compare(plan: TargetPlan, engine: Engine) -> list[Remark]:
    target, found = plan.target, []
    true = engine.window_of(plan.endpoint.model)
    if true is not None and target.window_tokens > true:
        text = f"its window_tokens is {target.window_tokens:,}, but its engine's window is {true:,} tokens"
        found.append(Remark(text, f"set window_tokens: {true}, or start the engine with a larger window", is_wrong=True))
    allowed = target.quota.in_flight if target.quota is not None else None
    if engine.slots is not None and (allowed is None or allowed > engine.slots):
        text = (
            f"its engine {_serves_at_once(engine.slots)}, and the config {f'allows {allowed}' if allowed else 'sets no limit'}"
        )
        found.append(Remark(text, f"set quota.in_flight: {engine.slots}, so that other requests go elsewhere or queue fairly"))
    return found


def describe(engine: Engine, model: str) -> list[str]:
    told = []
    if (window := engine.window_of(model)) is not None:
        told.append(f"window of {window:,} tokens")
    if engine.slots is not None:
        told.append(_serves_at_once(engine.slots))
    return told


def find_small_windows(plans: Sequence[TargetPlan]) -> Remark | None:
    models = [plan for plan in plans if plan.is_model]
    small = [plan for plan in models if room_for_prompt(plan.target.window_tokens) < _AGENT_TOKENS]
    if not small:
        return None
    named = ", ".join(f"{plan.target.name} ({plan.target.window_tokens:,} tokens)" for plan in small)
    others = [plan.target.name for plan in models if plan not in small]
    instead = f"only {', '.join(others)} can serve them" if others else "no target here can serve them"
    text = (
        f"window too small for coding agents: {named}. Claude Code and Codex send 10,000 tokens or more of "
        f"instructions and tools with every request; {instead}"
    )
    hint = (
        "start the engine with a larger window (llama-server --ctx-size 65536, OLLAMA_CONTEXT_LENGTH=65536 ollama serve), "
        "and set window_tokens"
    )
    return Remark(text, hint)


def room_for_prompt(window_tokens: int) -> int:
    return window_tokens - reserve_tokens(window_tokens)
