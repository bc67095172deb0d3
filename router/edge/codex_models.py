"""What Codex knows of models, and which of it is true of our names.

Codex takes the system prompt, the tools and the efforts of a model from its catalogue. So ours are copies of the installed
Codex's own entries, which `tandem connect codex` stores in the state folder. Without them there is no catalogue: a prompt of
ours in place of Codex's own would make it worse than it was.
"""

import contextlib
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

import orjson

from router.config.folders import NoHome, state_folder
from router.contract.request import Json, JsonObject

STORED = Path("connect", "codex", "models.json")
"""Below the state folder."""
_LEVELS: list[Json] = [
    {"effort": effort, "description": words}
    for effort, words in (("low", "Quick"), ("medium", "Balanced"), ("high", "Thorough"))
]
_PUBLIC: JsonObject = {"use_responses_lite": False, "tool_mode": None, "availability_nux": None, "upgrade": None}
"""Codex packs tools for OpenAI's own servers in an internal form. The public one is understood by every target."""
_UNKNOWN: JsonObject = {
    "default_reasoning_level": "medium",
    "supported_reasoning_levels": _LEVELS,
    "additional_speed_tiers": [],
    "service_tiers": [],
}
"""What is promised of a model that Codex does not know: no more than most have."""


def choose_entries(models: Sequence[JsonObject], behind: Mapping[str, str]) -> dict[str, JsonObject]:
    """The entry of Codex's catalogue that is nearest to each name of ours. `behind` has the model behind each name."""
    usable = [model for model in models if model.get("base_instructions") and model.get("visibility") == "list"]
    if not usable:
        return {}
    # The ones without OpenAI's internal forms have a prompt that fits tools in the public form.
    plain = next((model for model in usable if not model.get("tool_mode") and not model.get("use_responses_lite")), usable[0])
    chosen: dict[str, JsonObject] = {}
    for name, model in behind.items():
        known = next((entry for entry in usable if _is_same(model, str(entry.get("slug")))), None)
        chosen[name] = {**plain, **_PUBLIC, **_UNKNOWN} if known is None else {**known, **_PUBLIC}
    return chosen


def _is_same(model: str, slug: str) -> bool:
    """Whether a target's model is one that Codex knows, also with a provider before it or a date after it."""
    return re.fullmatch(rf"(?:.*/)?{re.escape(slug)}(?:-\d{{4}}.*)?", model) is not None


class StoredModels:
    """The entries that `tandem connect codex` stored, read again when they change."""

    def __init__(self) -> None:
        self._stamp: tuple[int, int] | None = None
        self._entries: dict[str, JsonObject] = {}

    def __call__(self) -> dict[str, JsonObject]:
        """By our names; empty where nothing is stored, or nothing that can be read."""
        with contextlib.suppress(OSError, NoHome, orjson.JSONDecodeError):
            path = state_folder() / STORED
            now = path.stat()
            if self._stamp != (now.st_mtime_ns, now.st_ino):
                told = orjson.loads(path.read_bytes())
                self._entries = {name: entry for name, entry in told.items() if isinstance(entry, dict)}
                self._stamp = (now.st_mtime_ns, now.st_ino)
            return self._entries
        return {}


def write_entry(known: JsonObject, title: str, description: str, name: str, *, window: int, takes_patches: bool) -> JsonObject:
    """An entry for one of our names: all that Codex says of the model, with our name and window."""
    return {
        **known,
        "slug": name,
        "display_name": title,
        "description": description,
        "visibility": "list",
        "supported_in_api": True,
        "apply_patch_tool_type": known.get("apply_patch_tool_type") if takes_patches else None,
        "context_window": window,
        "max_context_window": window,
    }
