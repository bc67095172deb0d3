"""What Tandem was worth over a span of the ledger, by day, person, client and target, with the turns behind each figure."""

import time
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NamedTuple

from router.contract.past import SpentCall
from router.contract.request import Json, JsonObject
from router.contract.stores import StoreUnusable
from router.contract.words import Tier
from router.past.worth import Account, Redone, Turn, Worth
from router.stores.sqlite.past import SqliteEntryReader

MAX_CALLS = 1_000_000
"""Newest calls that are added up: years of one person's work, and seconds of this machine's."""
_MAX_NAMED = 50
_GROUPS: dict[str, Callable[[SpentCall], str]] = {
    "by_day": lambda ask: time.strftime("%Y-%m-%d", time.localtime(ask.at)),
    "by_caller": lambda ask: ask.caller,
    "by_client": lambda ask: ask.client or "unknown",
    "by_target": lambda ask: ask.target or "none",
}
"""A turn belongs where its first call does."""


class Kinds:
    """How turns that Tandem sent to fast ended, by what they were about and the pair of targets."""

    def __init__(self) -> None:
        self._ends: dict[tuple[str, str, str], Counter[Redone | None]] = {}

    def add(self, turn: Turn) -> None:
        """Turns of older versions say nothing: it is not known what they were about."""
        if turn.idea and turn.is_persons and turn.is_on_fast and turn.is_chosen:
            pair = (turn.idea, turn.ask.target or "", turn.deep_target)
            self._ends.setdefault(pair, Counter())[turn.sign] += 1

    def as_json(self) -> list[Json]:
        """The most frequent first."""
        return [
            {
                "kind": idea,
                "target": fast,
                "deep_target": deep or None,
                "turns": ends.total(),
                "accepted": ends[None],
                **{str(sign): ends[sign] for sign in Redone},
            }
            for (idea, fast, deep), ends in sorted(self._ends.items(), key=lambda found: (-found[1].total(), found[0]))
        ]


class Savings(NamedTuple):
    worth: Worth
    since: float
    begins_at: float
    """Every call since then was added."""
    kinds: Kinds

    def as_json(self) -> JsonObject:
        return {"since": self.since, "from": self.begins_at, "complete": self.begins_at <= self.since, **self.worth.as_json()}


def add_up(ledger: SqliteEntryReader, since: float, caller: str | None = None, calls: int = MAX_CALLS) -> Savings:
    """Blocks. Raises `StoreUnusable`."""
    worth, kinds = Worth(), Kinds()

    def end(turn: Turn) -> None:
        turn.add_to(worth)
        kinds.add(turn)

    return Savings(worth, since, _read(ledger, end, since, caller, calls), kinds)


def read_worth(path: Path | None, since: float) -> Worth | None:
    """None without a ledger that can be read. Blocks."""
    try:
        return add_up(SqliteEntryReader(path), since).worth if path is not None else None
    except StoreUnusable:
        return None


def add_up_groups(ledger: SqliteEntryReader, since: float, caller: str | None = None, **of: str) -> JsonObject:
    """`GET /tandem/savings`, of turns with this `client` or `target`. Blocks. Raises `StoreUnusable`."""
    worth, kinds, turns = Worth(), Kinds(), list[Turn]()
    groups: dict[str, dict[str, Worth]] = {name: {} for name in _GROUPS}

    def end(turn: Turn) -> None:
        if any(getattr(turn.ask, name) != value for name, value in of.items()):
            return
        turn.add_to(worth)
        kinds.add(turn)
        for group, name_of in _GROUPS.items():
            turn.add_to(groups[group].setdefault(name_of(turn.ask), Worth()))
        if turn.is_on_fast:
            turns.append(turn)

    begins_at = _read(ledger, end, since, caller, MAX_CALLS)
    redone = sorted((turn for turn in turns if turn.sign is not None), key=lambda turn: -turn.ask.at)
    saving = sorted((turn for turn in turns if turn.saved()[0] > 0), key=lambda turn: -turn.saved()[0])
    shown: dict[str, Json] = {
        group: {name: of.as_json() for name, of in sorted(names.items())} for group, names in groups.items()
    }
    evidence: dict[str, Json] = {
        "redone_turns": [turn.as_json() for turn in redone[:_MAX_NAMED]],
        "saving_turns": [turn.as_json() for turn in saving[:_MAX_NAMED]],
    }
    return {**Savings(worth, since, begins_at, kinds).as_json(), **shown, "kinds": kinds.as_json(), **evidence}


def _read(ledger: SqliteEntryReader, end: Callable[[Turn], None], since: float, caller: str | None, calls: int) -> float:
    """Add the calls of a span. Returns the moment since which all are added."""
    accounts: list[Account] = []

    def begin(marks: Mapping[str, Tier]) -> Callable[[SpentCall], None]:
        accounts.append(Account(marks, end))
        return accounts[0].add

    begins_at = ledger.read_spent_calls(begin, since, calls, caller)
    accounts[0].close()
    return begins_at
