"""Marks of turns that went to the wrong tier, set by a person, in the ledger's file. They go with their turns."""

import sqlite3
import time
from pathlib import Path
from typing import NamedTuple

from router.contract.past import RecordedTurn
from router.contract.words import Tier
from router.stores.sqlite.files import open_ledger
from router.stores.sqlite.migrate import Migrated, prepare
from router.stores.sqlite.schemas import LEDGER

_MARK = """
    INSERT INTO misjudged (request_id, at, should_be) VALUES (?, ?, ?)
    ON CONFLICT (request_id) DO UPDATE SET at = excluded.at, should_be = excluded.should_be
"""
_UNMARK = "DELETE FROM misjudged WHERE request_id = ?"


class Judged(NamedTuple):
    is_marked: bool
    """False where the turn went to the right tier."""
    was_unmarked: bool = False
    migrated: Migrated | None = None


def judge_turn(path: Path, turn: RecordedTurn, should_be: Tier) -> Judged:
    """Marks a wrong tier, or unmarks a right one. Migrates an older ledger first. Raises `StoreUnusable`."""
    with open_ledger(path, writes=True) as database:
        migrated = prepare(path, LEDGER)
        if should_be is turn.tier:
            return Judged(is_marked=False, was_unmarked=database.execute(_UNMARK, (turn.id,)).rowcount > 0, migrated=migrated)
        database.execute(_MARK, (turn.id, time.time(), str(should_be)))
    return Judged(is_marked=True, migrated=migrated)


def read_misjudged(database: sqlite3.Connection) -> dict[str, Tier]:
    """The right tier of each marked request."""
    rows = database.execute("SELECT request_id, should_be FROM misjudged").fetchall()
    return {str(name): Tier(tier) for name, tier in rows if tier in tuple(Tier)}
