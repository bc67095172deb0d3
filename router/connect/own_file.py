"""A file that is ours alone."""

from router.connect.formats import Memo, Piece, Put


def put(text: str | None, piece: Piece) -> Put:
    """Write the piece's `content`, replacing the file."""
    return Put(piece["content"], [{"before": text, "written": piece["content"]}])


def holds(text: str, piece: Piece, tiers: frozenset[str]) -> bool:
    """Whether the file is as it would be written now."""
    return text == piece["content"]


def take(text: str, memo: Memo, tiers: frozenset[str]) -> tuple[str | None, tuple[str, ...]]:
    """What was there before; a file that somebody changed since is theirs."""
    if not memo:
        return text, ()
    if text != memo[0]["written"]:
        return text, ("was changed since, and stays",)
    before = memo[0]["before"]
    return (before if isinstance(before, str) else None), ()
