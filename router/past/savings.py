"""What Tandem was worth over a span of the ledger, by day, person, client and target, with the turns behind each figure."""

from pathlib import Path
from typing import NamedTuple

from router.contract.past import TurnEvidence, TurnKindSums
from router.contract.request import Json, JsonObject
from router.contract.stores import StoreUnusable
from router.past.worth import Redone, Worth, fold
from router.stores.sqlite.past import SqliteEntryReader
from router.stores.sqlite.turn_worth import TurnSums

_MAX_NAMED = 50
_GROUPS = ("by_day", "by_caller", "by_client", "by_target")
"""A turn belongs where its first call does."""
_ROUNDED = {"seconds": 3, "usd": 8, "saved_seconds": 3, "saved_usd": 8}


class Savings(NamedTuple):
    worth: Worth
    since: float
    kinds: list[TurnKindSums]

    def as_json(self) -> JsonObject:
        return {"since": self.since, "from": self.since, "complete": True, **self.worth.as_json()}

    def kinds_as_json(self) -> list[Json]:
        """The most frequent first."""
        return [
            {
                "kind": of.idea,
                "target": of.target,
                "deep_target": of.deep_target or None,
                "turns": of.turns,
                "accepted": of.turns - sum(ends.values()),
                **ends,
            }
            for of, ends in ((of, {str(sign): getattr(of, sign) for sign in Redone}) for of in self.kinds)
        ]


def add_up(ledger: SqliteEntryReader, since: float, caller: str | None = None) -> Savings:
    """Blocks. Raises `StoreUnusable`."""
    with ledger.open_worth(fold, since, caller) as sums:
        return _read_total(sums, since)


def read_worth(path: Path | None, since: float) -> Worth | None:
    """None without a ledger that can be read. Blocks."""
    try:
        return add_up(SqliteEntryReader(path), since).worth if path is not None else None
    except StoreUnusable:
        return None


def add_up_groups(
    ledger: SqliteEntryReader, since: float, caller: str | None = None, client: str | None = None, target: str | None = None
) -> JsonObject:
    """`GET /tandem/savings`, of turns with this client or target. Blocks. Raises `StoreUnusable`."""
    with ledger.open_worth(fold, since, caller, client, target) as sums:
        savings = _read_total(sums, since)
        groups: dict[str, Json] = {
            group: {name: Worth.of(of).as_json() for name, of in sorted(sums.read(group).items())} for group in _GROUPS
        }
        redone, saving = (sums.read_evidence(kind, _MAX_NAMED) for kind in ("redone", "saving"))
    evidence: dict[str, Json] = {
        "redone_turns": [_show(turn) for turn in redone],
        "saving_turns": [_show(turn) for turn in saving],
    }
    return {**savings.as_json(), **groups, "kinds": savings.kinds_as_json(), **evidence}


def _read_total(sums: TurnSums, since: float) -> Savings:
    worth = [Worth.of(of) for of in sums.read("total").values()]
    kinds = sorted(sums.read_kinds(), key=lambda of: (-of.turns, of[:3]))
    return Savings(worth[0] if worth else Worth(), since, kinds)


def _show(turn: TurnEvidence) -> JsonObject:
    rounded = {name: round(getattr(turn, name), places) for name, places in _ROUNDED.items()}
    return {**turn._asdict(), "redone": turn.redone or None, **rounded}
