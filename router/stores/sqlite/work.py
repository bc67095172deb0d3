"""Finished turns out of the ledger: who did them, what was expected, and what they took."""

import contextlib
import sqlite3
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from router.contract.entry import FinishedWork
from router.contract.words import Outcome, TurnKind
from router.stores.sqlite.files import connect_to_read

_MAX_ENTRIES = 4_000
"""The newest: enough to tell how a target works, and read in a few milliseconds."""
_LEAST_QUIET_SECONDS = 600.0
"""A session that has been silent for so long has finished its turn."""
_ESTIMATE = "estimate"
"""Who decided, where no tier was asked for."""
_QUERY = f"""
    SELECT session, caller, at, turn_kind, outcome, target, score, output_tokens,
        CASE WHEN turn_kind != '{TurnKind.TOOL_LOOP}' AND json_valid(decision) THEN json_extract(decision, '$.decided_by') END
    FROM entries WHERE sequence > (SELECT max(sequence) - {_MAX_ENTRIES} FROM entries)
        AND session IS NOT NULL AND score IS NOT NULL AND turn_kind IN (?, ?, ?) ORDER BY sequence
"""  # noqa: S608  fixed names


@dataclass(slots=True)
class _Running:
    """A turn while its entries come by. Spoilt once it holds something that says nothing of its target's own way of working."""

    target: str
    score: float
    at: float
    calls: int = 0
    output_tokens: int = 0
    is_spoilt: bool = False
    has_moved: bool = False

    def add(self, at: float, outcome: str, target: str | None, output_tokens: int | None) -> None:
        self.at = at
        # A turn that was moved up counts with what it took until then: else a target's largest turns would be left out.
        self.has_moved |= target != self.target
        if self.has_moved:
            return
        self.calls += 1
        self.output_tokens += output_tokens or 0
        self.is_spoilt |= outcome != Outcome.SERVED or output_tokens is None


def read_finished_work(path: Path, now: float) -> list[FinishedWork]:
    """The newest finished turns. Nothing where there is no ledger, or it cannot be read: an estimate can do without."""
    try:
        with contextlib.closing(connect_to_read(path, timeout_seconds=1.0)) as database:
            database.execute("PRAGMA cache_size = -256")  # kB: every row is read once
            return _collect(database.execute(_QUERY, (TurnKind.ASK, TurnKind.FOLLOW_UP, TurnKind.TOOL_LOOP)), now)
    except sqlite3.Error:
        return []


def _collect(rows: Iterable[tuple[Any, ...]], now: float) -> list[FinishedWork]:
    """The turns of entries that come by in their order. A turn whose beginning was cut off does not count."""
    running: dict[tuple[str, str], _Running] = {}
    finished: list[FinishedWork] = []
    for session, caller, at, kind, outcome, target, score, output_tokens, decided_by in rows:
        key = (caller, session)
        if kind != TurnKind.TOOL_LOOP:
            _finish(running.pop(key, None), finished)
            running[key] = _Running(target or "", score, at, is_spoilt=decided_by != _ESTIMATE)
        if key in running:
            running[key].add(at, outcome, target, output_tokens)
    for turn in running.values():
        if now - turn.at > _LEAST_QUIET_SECONDS:
            _finish(turn, finished)
    return finished


def _finish(turn: _Running | None, finished: list[FinishedWork]) -> None:
    if turn is not None and not turn.is_spoilt:
        finished.append(FinishedWork(turn.target, turn.score, turn.calls, turn.output_tokens))
