"""What the ledger says of the demo: every figure that is shown is read from there."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

from msgspec.structs import asdict

from router.contract.request import JsonObject
from router.contract.words import Outcome, Tier
from router.stores.sqlite.past import SqliteEntryReader

_WRITTEN_SECONDS = 10.0
_LOOK_SECONDS = 0.05
_ALL = 1_000
"""More turns than the demo has."""
Row = dict[str, Any]


class RowsMissing(Exception):
    """The ledger has no row of a request that was made."""


@dataclass(frozen=True, slots=True)
class TurnAccount:
    """A turn by its rows."""

    words: str
    because: str
    """Why the turn went where it went last: of the call on which its tier changed, else of its first."""
    tiers: tuple[str, ...]
    """The tiers that served it, in order: two where it was moved."""
    rows: tuple[Row, ...]
    has_failed: bool = False
    """Whether its tests were still red at the end. The ledger cannot know that: the agent does."""

    @property
    def first_token_seconds(self) -> float:
        """From the first request on, with what was waited for after a refusal."""
        row = next(row for row in self.rows if row["ttft_ms"] is not None)
        return float(row["at"] - self.rows[0]["at"] + row["ttft_ms"] / 1000)

    @property
    def took_seconds(self) -> float:
        last = self.rows[-1]
        return float(last["at"] - self.rows[0]["at"] + last["duration_ms"] / 1000)

    @property
    def was_hung_up(self) -> bool:
        return bool(self.rows[-1]["outcome"] == Outcome.ABANDONED)

    def as_json(self) -> JsonObject:
        return {
            "words": self.words,
            "tiers": list(self.tiers),
            "because": self.because,
            "first_token_seconds": round(self.first_token_seconds, 3),
            "took_seconds": round(self.took_seconds, 3),
            "tests_failed": self.has_failed,
            "outcome": self.rows[-1]["outcome"],
            "requests": [row["id"] for row in self.rows],
        }


def account_of(words: str, rows: Sequence[Row], *, has_failed: bool = False) -> TurnAccount:
    """The account of one turn, from its rows in order."""
    served = [row for row in rows if row["ttft_ms"] is not None]
    moved = [row for before, row in pairwise(served) if row["tier"] != before["tier"]]
    told = [served[0], *moved]
    return TurnAccount(words, told[-1]["because"], tuple(row["tier"] for row in told), tuple(rows), has_failed)


async def find_rows(ledger: Path, ids: Sequence[str], within_seconds: float = _WRITTEN_SECONDS) -> list[Row]:
    """The rows of these requests in their order, as soon as all are written. Raises `RowsMissing`."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + within_seconds
    while True:
        rows = {call.line.id: asdict(call.line) for call in SqliteEntryReader(ledger).read_newest(0.0, _ALL)[0]}
        if rows.keys() >= set(ids):
            return [rows[name] for name in ids]
        if loop.time() > deadline:
            raise RowsMissing(f"the ledger has no row of {', '.join(sorted(set(ids) - rows.keys()))}")
        await asyncio.sleep(_LOOK_SECONDS)


@dataclass(frozen=True, slots=True)
class Sums:
    """A run of the whole afternoon: how long it took, and what is left to do."""

    turns: int
    requests: int
    on_fast: int
    """Turns that fast finished."""
    failed: int
    took_seconds: float
    redo_seconds: float
    """What it takes deep to do the failed turns again."""

    @property
    def done_seconds(self) -> float:
        return self.took_seconds + self.redo_seconds

    def as_json(self) -> JsonObject:
        return {
            "requests": self.requests,
            "took_seconds": round(self.took_seconds, 3),
            "failed_turns": self.failed,
            "redo_seconds": round(self.redo_seconds, 3),
            "done_seconds": round(self.done_seconds, 3),
        }


def add_up(turns: Sequence[TurnAccount], on_deep: Sequence[TurnAccount]) -> Sums:
    """Sum up a run. A turn whose tests are still red is done again by deep, and takes what it took in the run on deep alone."""
    redone = [deep.took_seconds for turn, deep in zip(turns, on_deep, strict=True) if turn.has_failed]
    return Sums(
        turns=len(turns),
        requests=sum(len(turn.rows) for turn in turns),
        on_fast=sum(turn.tiers[-1] == Tier.FAST for turn in turns),
        failed=len(redone),
        took_seconds=sum(turn.took_seconds for turn in turns),
        redo_seconds=sum(redone),
    )
