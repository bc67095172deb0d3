"""A shell's start-up file: one marked block at its end."""

from router.connect import marks
from router.connect.formats import Memo, Piece, Put


def put(text: str | None, piece: Piece) -> Put:
    """Add the piece's `lines`."""
    marks.check(text or "")
    return Put(marks.add_last(text or "", piece["lines"]), marks.note(piece["lines"]))


def holds(text: str, piece: Piece, tiers: frozenset[str]) -> bool:
    """Whether our block is there as it would be written now, wherever in the file."""
    return marks.lines_of(text) == [line.strip() for line in piece["lines"].strip("\n").splitlines()]


def take(text: str, memo: Memo, tiers: frozenset[str]) -> tuple[str | None, tuple[str, ...]]:
    """Remove the block."""
    return (marks.remove(text, memo) if marks.has_block(text) else text), ()
