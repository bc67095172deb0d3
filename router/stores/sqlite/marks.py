"""The person's word that a turn was misjudged, in the ledger's file."""

import sqlite3
import time
from pathlib import Path
from typing import Any, NamedTuple

from router.contract.past import RecordedTurn
from router.contract.words import Tier
from router.stores.sqlite.files import open_ledger
from router.stores.sqlite.migrate import LEDGER, Migrated, prepare


class Judged(NamedTuple):
    """What a person's word about a turn changed."""

    is_marked: bool
    """Whether the turn is marked now. It is not where it went to the right tier."""
    was_unmarked: bool = False
    """Whether a mark that it had was removed."""
    migrated: Migrated | None = None


def judge_turn(path: Path, turn: RecordedTurn, should_be: Tier) -> Judged:
    """Mark a turn as sent to the wrong tier, or remove its mark if it went to the right one. Raises `StoreUnusable`."""
    if should_be is turn.tier:
        return Judged(is_marked=False, was_unmarked=unmark_misjudged(path, turn))
    return Judged(is_marked=True, migrated=mark_misjudged(path, turn, should_be))


def mark_misjudged(path: Path, turn: RecordedTurn, should_be: Tier) -> Migrated | None:
    """Note that a turn should have gone to a tier. The newest mark counts. Raises `StoreUnusable`.

    A ledger that an older Tandem began has no such table yet: it is migrated first, and that is returned.
    """
    with open_ledger(path, writes=True) as database:
        migrated = prepare(path, LEDGER)
        database.execute(
            "INSERT INTO misjudged (request_id, at, should_be) VALUES (?, ?, ?)"
            " ON CONFLICT (request_id) DO UPDATE SET at = excluded.at, should_be = excluded.should_be",
            (turn.id, time.time(), str(should_be)),
        )
    return migrated


def unmark_misjudged(path: Path, turn: RecordedTurn) -> bool:
    """Take a mark back. Returns whether there was one. Raises `StoreUnusable`."""
    with open_ledger(path, writes=True) as database:
        try:
            return database.execute("DELETE FROM misjudged WHERE request_id = ?", (turn.id,)).rowcount > 0
        except sqlite3.OperationalError:
            return False  # a ledger that an older Tandem began has no such table yet


def has_places(path: Path, turn: RecordedTurn) -> bool:
    """Whether it is still known where the words of a turn are in the table of weights. Raises `StoreUnusable`."""
    with open_ledger(path, writes=True) as database:
        return database.execute("SELECT 1 FROM places WHERE request_id = ?", (turn.id,)).fetchone() is not None


def read_misjudged(database: sqlite3.Connection) -> dict[str, Tier]:
    """Every mark: by request, the tier that would have been right."""
    rows = read_newer(database, "SELECT request_id, should_be FROM misjudged")
    return {str(name): Tier(tier) for name, tier in rows if tier in tuple(Tier)}


def count_misjudged(database: sqlite3.Connection, since: float, caller: str | None = None) -> int:
    of_caller = "(? IS NULL OR request_id IN (SELECT id FROM entries WHERE caller = ?))"
    return len(read_newer(database, f"SELECT 1 FROM misjudged WHERE at >= ? AND {of_caller}", since, caller, caller))  # noqa: S608


def read_newer(database: sqlite3.Connection, query: str, *values: float | str | None) -> list[tuple[Any, ...]]:
    """Rows of a table that a ledger of an older Tandem does not have yet."""
    try:
        return database.execute(query, values).fetchall()
    except sqlite3.OperationalError:
        return []
