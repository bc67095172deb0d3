"""Files that need no parser: one that is ours alone, one that only has to exist, and a shell's start-up file."""

from router.connect import marks
from router.connect.formats import Memo, Piece, Put


class OwnFile:
    """A file that is ours alone."""

    def put(self, text: str | None, piece: Piece) -> Put:
        return Put(piece["content"], [{"before": text, "written": piece["content"]}])

    def holds(self, text: str, piece: Piece, tiers: frozenset[str]) -> bool:
        return text == piece["content"]

    def take(self, text: str, memo: Memo, tiers: frozenset[str]) -> tuple[str | None, tuple[str, ...]]:
        """What was there before. A file that was changed since stays: it is the person's now."""
        if not memo:
            return text, ()
        if text != memo[0]["written"]:
            return text, ("was changed since, and stays",)
        before = memo[0]["before"]
        return (before if isinstance(before, str) else None), ()


class FlagFile:
    """A file that only has to exist: it tells a client to skip the questions of a first start."""

    def put(self, text: str | None, piece: Piece) -> Put:
        return Put(piece["content"], [{"written": piece["content"]}]) if text is None else Put(text, [])

    def holds(self, text: str, piece: Piece, tiers: frozenset[str]) -> bool:
        return True

    def take(self, text: str, memo: Memo, tiers: frozenset[str]) -> tuple[str | None, tuple[str, ...]]:
        return (None if memo and text == memo[0]["written"] else text), ()


class ShellFile:
    """A shell's start-up file: one marked block at its end, which is found wherever it was moved to."""

    def put(self, text: str | None, piece: Piece) -> Put:
        marks.check(text or "")
        return Put(marks.add_last(text or "", piece["lines"]), marks.note(piece["lines"]))

    def holds(self, text: str, piece: Piece, tiers: frozenset[str]) -> bool:
        return marks.lines_of(text) == [line.strip() for line in piece["lines"].strip("\n").splitlines()]

    def take(self, text: str, memo: Memo, tiers: frozenset[str]) -> tuple[str | None, tuple[str, ...]]:
        return (marks.remove(text, memo) if marks.has_block(text) else text), ()
