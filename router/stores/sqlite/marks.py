"""Marks of misjudged turns, set by a person, in the ledger's file."""

import sqlite3
import time
from pathlib import Path
from typing import Any, NamedTuple

from router.contract.past import RecordedTurn
from router.contract.words import Tier
from router.stores.sqlite.files import open_ledger
from router.stores.sqlite.migrate import Migrated, prepare
from router.stores.sqlite.schemas import LEDGER


class Judged(NamedTuple):
    is_marked: bool
    """False where the turn went to the right tier."""
    was_unmarked: bool = False
    migrated: Migrated | None = None


def judge_turn(path: Path, turn: RecordedTurn, should_be: Tier) -> Judged:
    """Marks a wrong tier, or unmarks a right one. Raises `StoreUnusable`."""
    if should_be is turn.tier:
        return Judged(is_marked=False, was_unmarked=unmark_misjudged(path, turn))
    return Judged(is_marked=True, migrated=mark_misjudged(path, turn, should_be))


def mark_misjudged(path: Path, turn: RecordedTurn, should_be: Tier) -> Migrated | None:
    """Returns the migration an older ledger needed. Raises `StoreUnusable`."""
    with open_ledger(path, writes=True) as database:
        migrated = prepare(path, LEDGER)
        database.execute(
            "INSERT INTO misjudged (request_id, at, should_be) VALUES (?, ?, ?)"
            " ON CONFLICT (request_id) DO UPDATE SET at = excluded.at, should_be = excluded.should_be",
            (turn.id, time.time(), str(should_be)),
        )
    return migrated


def unmark_misjudged(path: Path, turn: RecordedTurn) -> bool:
    """Returns whether there was a mark. Raises `StoreUnusable`."""
    with open_ledger(path, writes=True) as database:
        try:
            return database.execute("DELETE FROM misjudged WHERE request_id = ?", (turn.id,)).rowcount > 0
        except sqlite3.OperationalError:
            return False  # an older ledger lacks the table


def has_places(path: Path, turn: RecordedTurn) -> bool:
    """Raises `StoreUnusable`."""
    with open_ledger(path, writes=True) as database:
        return database.execute("SELECT 1 FROM places WHERE request_id = ?", (turn.id,)).fetchone() is not None


def read_misjudged(database: sqlite3.Connection) -> dict[str, Tier]:
    """The right tier of each marked request."""
    rows = read_newer(database, "SELECT request_id, should_be FROM misjudged")
    return {str(name): Tier(tier) for name, tier in rows if tier in tuple(Tier)}


def count_misjudged(database: sqlite3.Connection, since: float, caller: str | None = None) -> int:
    of_caller = "(? IS NULL OR request_id IN (SELECT id FROM entries WHERE caller = ?))"
    return len(read_newer(database, f"SELECT 1 FROM misjudged WHERE at >= ? AND {of_caller}", since, caller, caller))  # noqa: S608


def read_newer(database: sqlite3.Connection, query: str, *values: float | str | None) -> list[tuple[Any, ...]]:
    """Rows of a table that older ledgers lack."""
    try:
        return database.execute(query, values).fetchall()
    except sqlite3.OperationalError:
        return []
