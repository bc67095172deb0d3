"""What every file format can do: add our piece to a text, check for it, and remove it again."""

from collections.abc import Mapping
from typing import NamedTuple, Protocol

Memo = list[dict[str, object]]
"""What was there before, where the text itself cannot hold it. It is kept in a record of ours, as JSON."""
Piece = Mapping[str, str]
"""What a recipe wants in a file, by the names that its format knows."""


class CannotEdit(Exception):
    """A file that cannot be edited safely. Names the line, if there is one."""

    def __init__(self, reason: str, line: int | None = None) -> None:
        super().__init__(f"line {line}: {reason}" if line else reason)


class Put(NamedTuple):
    """A text with our piece in it, and what must be remembered to take it out."""

    text: str
    memo: Memo


class Format(Protocol):
    """A kind of file. Texts have no byte order mark, and every line ends as in the file."""

    def put(self, text: str | None, piece: Piece) -> Put:
        """Add the piece to a text without ours; None means that the file does not exist. Raises `CannotEdit`."""
        ...

    def holds(self, text: str, piece: Piece, tiers: frozenset[str]) -> bool:
        """Whether a text already says all that the piece says; one of `tiers` is as good as another."""
        ...

    def take(self, text: str, memo: Memo, tiers: frozenset[str]) -> tuple[str | None, tuple[str, ...]]:
        """The text without our piece, and notes on what was left since somebody changed it. None: nothing is left of a file.

        A value that was changed to another of `tiers`, the client's names for tiers, is still ours. Raises `CannotEdit`.
        """
        ...


def includes(found: object, wanted: object, tiers: frozenset[str]) -> bool:
    """Whether one value says all that another does: objects by their keys, arrays by their items."""
    if isinstance(wanted, dict) and isinstance(found, dict):
        return all(key in found and includes(found[key], value, tiers) for key, value in wanted.items())
    if isinstance(wanted, list) and isinstance(found, list):
        return all(item in found for item in wanted)
    return found == wanted or (is_tier(wanted, tiers) and is_tier(found, tiers))


def is_tier(value: object, tiers: frozenset[str]) -> bool:
    """Whether a value is one of the client's names for tiers."""
    return isinstance(value, str) and value in tiers


def line_end(text: str) -> str:
    """How the lines of a text end."""
    first = text.find("\n")
    return "\r\n" if first > 0 and text[first - 1] == "\r" else "\n"


def line_of(text: str, offset: int) -> int:
    """The number of the line at an offset, as editors count."""
    return text.count("\n", 0, offset) + 1
