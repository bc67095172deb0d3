"""File formats: adding our piece to a text, checking for it, and removing it."""

from collections.abc import Mapping
from typing import NamedTuple, Protocol

Memo = list[dict[str, object]]
"""What was there before, if the text cannot hold it. Stored as JSON in our record."""
Piece = Mapping[str, str]
"""What a recipe wants in a file, by names of its format."""


class CannotEdit(Exception):
    """A file that cannot be edited safely, with the line if known."""

    def __init__(self, reason: str, line: int | None = None) -> None:
        super().__init__(f"line {line}: {reason}" if line else reason)


class Put(NamedTuple):
    text: str
    memo: Memo


class Format(Protocol):
    """A file format. Texts have no byte order mark and keep their line ends."""

    def put(self, text: str | None, piece: Piece) -> Put:
        """The text has nothing of ours; None if the file does not exist. Raises `CannotEdit`."""
        ...

    def holds(self, text: str, piece: Piece, tiers: frozenset[str]) -> bool:
        """All of `tiers` are equivalent."""
        ...

    def take(self, text: str, memo: Memo, tiers: frozenset[str]) -> tuple[str | None, tuple[str, ...]]:
        """The text without our piece (None if nothing is left), and notes on what stays because it was changed.

        A value changed to another of `tiers`, the client's names for tiers, is still ours. Raises `CannotEdit`.
        """
        ...


def includes(found: object, wanted: object, tiers: frozenset[str]) -> bool:
    """Whether a value contains another: objects by keys, arrays by items."""
    if isinstance(wanted, dict) and isinstance(found, dict):
        return all(key in found and includes(found[key], value, tiers) for key, value in wanted.items())
    if isinstance(wanted, list) and isinstance(found, list):
        return all(item in found for item in wanted)
    return found == wanted or (is_tier(wanted, tiers) and is_tier(found, tiers))


def is_tier(value: object, tiers: frozenset[str]) -> bool:
    return isinstance(value, str) and value in tiers


def line_end(text: str) -> str:
    first = text.find("\n")
    return "\r\n" if first > 0 and text[first - 1] == "\r" else "\n"


def line_of(text: str, offset: int) -> int:
    return text.count("\n", 0, offset) + 1
