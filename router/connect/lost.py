"""Undoing without a record: what is ours is told by the address in it, and by the values that we would write today."""

import json
import re

from router.connect.formats import Format, Piece, is_tier
from router.connect.json_file import drop_item, drop_member, find_node

Path = tuple[str, ...]
_NUMBER = re.compile(r"\d+")


def take_without_record(
    form: str, formats: Format, text: str, piece: Piece, tiers: frozenset[str], address: re.Pattern[str]
) -> tuple[str | None, tuple[str, ...]]:
    """A file's text without what is ours. What was there before us is not known, and stays lost."""
    if form == "json":
        wanted = json.loads(piece["values"])
        for key, value in wanted.items():
            text = _take_alike(text, (key,), value, tiers, address)
        return (None if not text.strip(" \t\r\n{}") else text), ()
    if form == "own":
        return None, ()  # its name is ours
    if form == "flag":
        return (None if text == piece["content"] else text), ()
    return formats.take(text, [], tiers)


def _take_alike(text: str, path: Path, ours: object, tiers: frozenset[str], address: re.Pattern[str]) -> str:
    node = find_node(text, path)
    if node is None:
        return text
    if _is_alike(node.value, ours, tiers, address) or path[-1] == "tandem":
        return drop_member(text, path)
    if isinstance(ours, dict) and isinstance(node.value, dict):
        for key, value in ours.items():
            text = _take_alike(text, (*path, key), value, tiers, address)
    elif isinstance(ours, list) and isinstance(node.value, list):
        for item in node.value:
            if item in ours or address.search(json.dumps(item)):
                text = drop_item(text, path, item)
    left = find_node(text, path)
    is_emptied = left is not None and left.value in ({}, []) and node.value not in ({}, [])
    return drop_member(text, path) if is_emptied else text


def _is_alike(found: object, ours: object, tiers: frozenset[str], address: re.Pattern[str]) -> bool:
    """Whether a value is one that we may have written: a window or a model's name may have been another then."""
    if found == ours or (is_tier(found, tiers) and is_tier(ours, tiers)):
        return True
    if isinstance(found, int) and isinstance(ours, int):
        return not isinstance(found, bool)
    if isinstance(found, str) and isinstance(ours, str):
        return bool(address.search(found)) or bool(_NUMBER.fullmatch(found) and _NUMBER.fullmatch(ours))
    if isinstance(found, dict) and isinstance(ours, dict):
        # An object that is about the router alone, as a status line or a provider: all of its values that are plain text.
        return any(isinstance(value, str) and address.search(value) for value in found.values()) and set(found) <= set(ours)
    return False
