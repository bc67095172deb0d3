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


def without_removed(content: Mapping[str, object]) -> tuple[Mapping[str, object], list[str]]:
    """A config without the settings that were removed, and a line for each."""
    lines: list[str] = []
    return _prune(content, "", lines), lines


def _prune(node: Any, place: str, lines: list[str]) -> Any:
    """Names in lists have the place of their list: `policies.boundary.edits_to_move`."""
    if isinstance(node, list):
        return [_prune(entry, place, lines) for entry in node]
    if not isinstance(node, dict):
        return node
    kept = {}
    for name, value in node.items():
        inner = f"{place}.{name}".lstrip(".")
        if line := say_removed("setting", inner):
            lines.append(line)
        else:
            kept[name] = _prune(value, inner, lines)
    return kept
