"""What providers and local engines report. Pure: `live.py` does the asking."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from router.cli.common import readable
from router.cli.figures import plural
from router.contract.request import Json, JsonObject
from router.dialects.fields import as_object

_BY_OWNER = {"llamacpp": "llamacpp", "vllm": "vllm", "library": "ollama", "organization_owner": "lmstudio"}
"""`owned_by` of engines, and their names in the presets. Ollama reports the model's owner: mostly `library`."""
_SIZE = re.compile(r"(?<![a-z0-9.])(?:(\d+)x)?(\d+(?:\.\d+)?)([bm])(?![a-z0-9])", re.IGNORECASE)
_UNITS = {"b": 1e9, "m": 1e6}
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


@dataclass(frozen=True, slots=True)
class Reached:
    """What asking a provider or target brought. `problem`, to be read after "it", is empty on success."""

    problem: str = ""
    hint: str = ""
    listed: tuple[ListedModel, ...] = ()
    """Empty without a list."""
    skew_seconds: float | None = None
    """How far this machine's clock is ahead of theirs."""
    ttft_seconds: float | None = None
    engine: Engine = field(default_factory=Engine)
    is_loading: bool = False
    """An engine still loads its model."""
    is_refused: bool = False
    """The key is useless: refused, without credit, or in an unserved region."""

    @property
    def models(self) -> tuple[str, ...]:
        return tuple(model.name for model in self.listed)


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


def describe(engine: Engine, model: str) -> list[str]:
    told = []
    if (window := engine.window_of(model)) is not None:
        told.append(f"window of {window:,} tokens")
    if engine.slots is not None:
        told.append(f"serves {plural(engine.slots, 'request')} at a time")
    return told
