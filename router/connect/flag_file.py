"""A file that only has to be there: a client's sign that it need not ask the questions of a first start."""

from router.connect.formats import Memo, Piece, Put


def put(text: str | None, piece: Piece) -> Put:
    """Make the file with the piece's `content`, where there is none."""
    return Put(piece["content"], [{"written": piece["content"]}]) if text is None else Put(text, [])


def holds(text: str, piece: Piece, tiers: frozenset[str]) -> bool:
    """A file that is there is enough."""
    return True


def take(text: str, memo: Memo, tiers: frozenset[str]) -> tuple[str | None, tuple[str, ...]]:
    """Remove the file if we made it."""
    return (None if memo and text == memo[0]["written"] else text), ()
