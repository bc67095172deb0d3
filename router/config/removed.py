"""Settings, commands and options that were removed: `removed.txt` says what to do instead."""

import functools
from collections.abc import Mapping
from pathlib import Path
from typing import Any


@functools.cache
def read_removed() -> Mapping[str, str]:
    """What to do instead, by kind and name: `setting server.workers`, `command top`, `option serve --workers`."""
    lines = Path(__file__).with_suffix(".txt").read_text(encoding="utf-8").splitlines()
    entries = (line.partition(": ") for line in lines if line and not line.startswith("#"))
    return {name: instead for name, _, instead in entries}


def say_removed(kind: str, name: str) -> str:
    """The line for a name, or nothing if it was not removed."""
    instead = read_removed().get(f"{kind} {name}")
    return f"{name} was removed: {instead}" if instead is not None else ""


def without_removed(content: Mapping[str, object]) -> tuple[Mapping[str, object], dict[str, object]]:
    """A config without the settings that were removed, and their values by their names."""
    removed: dict[str, object] = {}
    return _prune(content, "", removed), removed


def _prune(node: Any, place: str, removed: dict[str, object]) -> Any:
    """Names in lists have the place of their list: `policies.boundary.edits_to_move`."""
    if isinstance(node, list):
        return [_prune(entry, place, removed) for entry in node]
    if not isinstance(node, dict):
        return node
    kept = {}
    for name, value in node.items():
        inner = f"{place}.{name}".lstrip(".")
        if f"setting {inner}" in read_removed():
            removed[inner] = value
        else:
            kept[name] = _prune(value, inner, removed)
    return kept
