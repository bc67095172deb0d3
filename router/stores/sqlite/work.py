"""What the ledger teaches a router: finished turns with their work, and calls that show targets' speed."""

import contextlib
import json
import sqlite3
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from router.contract.entry import Attempt, FinishedWork, PastCall
from router.contract.words import ASKED_AGAIN, SAID_WRONG, Outcome, Tier, TurnKind
from router.stores.sqlite.turns import read_misjudged

_MAX_ENTRIES = 4_000
"""Enough to know a target, and read in a few milliseconds."""
_MAX_PACES = 2_000
"""Days of one person's use."""
_LEAST_QUIET_SECONDS = 600.0
"""A session silent this long has finished its turn."""
_ESTIMATE = "estimate"
"""`decided_by` if no tier was asked for."""
_BEGINS = f"turn_kind != '{TurnKind.TOOL_LOOP}' AND json_valid(decision)"
_QUERY = f"""
    SELECT session, caller, at, turn_kind, outcome, target, score, output_tokens, id,
        CASE WHEN {_BEGINS} THEN json_extract(decision, '$.decided_by', '$.fast[0]', '$.deep[0]') END,
        {_BEGINS} AND (instr(decision, '"because":"{SAID_WRONG}') OR instr(decision, '"because":"{ASKED_AGAIN}'))
    FROM entries WHERE sequence > (SELECT max(sequence) - {_MAX_ENTRIES} FROM entries)
        AND session IS NOT NULL AND score IS NOT NULL AND turn_kind IN (?, ?, ?) ORDER BY sequence
"""  # noqa: S608  fixed names
_PACES = f"""
    SELECT at, attempts FROM entries
    WHERE sequence > (SELECT max(sequence) - {_MAX_PACES} FROM entries) AND instr(attempts, '"pace"') ORDER BY sequence
"""  # noqa: S608  fixed names
_decode = msgspec.json.Decoder(list[Attempt]).decode


@dataclass(slots=True)
class _InFlight:
    """A turn while its entries come by. `is_spoilt`: some say nothing of its target's own work."""

    target: str
    score: float
    at: float
    calls: int = 0
    output_tokens: int = 0
    is_spoilt: bool = False
    has_moved: bool = False
    deep_target: str = ""
    is_called_wrong: bool = False

    def add(self, at: float, outcome: str, target: str | None, output_tokens: int | None) -> None:
        self.at = at
        # A turn that moved up counts until then: else a target's largest turns would be left out.
        self.has_moved |= target != self.target
        if self.has_moved:
            return
        self.calls += 1
        self.output_tokens += output_tokens or 0
        self.is_spoilt |= outcome != Outcome.SERVED or output_tokens is None


def read_finished_work(database: sqlite3.Connection, now: float) -> list[FinishedWork]:
    database.execute("PRAGMA cache_size = -256")  # kB: every row is read once
    rows = database.execute(_QUERY, (TurnKind.ASK, TurnKind.FOLLOW_UP, TurnKind.TOOL_LOOP))
    return _collect(rows, read_misjudged(database), now)


def _collect(rows: Iterable[tuple[Any, ...]], misjudged: Mapping[str, Tier], now: float) -> list[FinishedWork]:
    """Turns of entries in order. A turn without its beginning does not count."""
    running: dict[tuple[str, str], _InFlight] = {}
    finished: list[FinishedWork] = []
    for session, caller, at, kind, outcome, target, score, output_tokens, name, decided, says_wrong in rows:
        key = (caller, session)
        if kind != TurnKind.TOOL_LOOP:
            if says_wrong and key in running:
                running[key].is_called_wrong = True
            _finish(running.pop(key, None), finished)
            decided_by, fast, deep = json.loads(decided) if decided else (None, None, None)
            turn = running[key] = _InFlight(target or "", score, at, is_spoilt=decided_by != _ESTIMATE)
            turn.deep_target = str(deep or "") if target and target == fast else ""
            turn.is_called_wrong = misjudged.get(name) is Tier.DEEP
        if key in running:
            running[key].add(at, outcome, target, output_tokens)
    for turn in running.values():
        if now - turn.at > _LEAST_QUIET_SECONDS:
            _finish(turn, finished)
    return finished


def _finish(turn: _InFlight | None, finished: list[FinishedWork]) -> None:
    if turn is not None and not turn.is_spoilt:
        has_failed = turn.has_moved or turn.is_called_wrong
        work = FinishedWork(turn.target, turn.score, turn.calls, turn.output_tokens, turn.deep_target, has_failed)
        finished.append(work)


def read_past_calls(database: sqlite3.Connection) -> list[PastCall]:
    found: list[PastCall] = []
    database.execute("PRAGMA cache_size = -256")  # kB: every row is read once
    for at, attempts in database.execute(_PACES):
        with contextlib.suppress(msgspec.DecodeError):  # of another version, or not ours
            found += (PastCall(at, attempt, attempt.pace) for attempt in _decode(attempts) if attempt.pace is not None)
    return found
