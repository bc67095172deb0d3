"""A file that only has to exist: it tells a client to skip the questions of a first start."""

from router.connect.formats import Memo, Piece, Put


def put(text: str | None, piece: Piece) -> Put:
    """Create the file with the piece's `content`, unless it exists."""
    return Put(piece["content"], [{"written": piece["content"]}]) if text is None else Put(text, [])


def holds(text: str, piece: Piece, tiers: frozenset[str]) -> bool:
    """It is enough that the file exists."""
    return True


def take(text: str, memo: Memo, tiers: frozenset[str]) -> tuple[str | None, tuple[str, ...]]:
    """Remove the file if we made it."""
    return (None if memo and text == memo[0]["written"] else text), ()
