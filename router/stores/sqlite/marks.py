"""Marks of misjudged turns, set by a person, in the ledger's file.

A mark holds what it teaches from, without text, and stays after its request's row is gone.
"""

import sqlite3
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from router.contract.features import HASHING
from router.contract.past import MarkedTurn, Marks, RecordedTurn
from router.contract.words import Tier, TurnKind
from router.stores.sqlite.files import open_ledger
from router.stores.sqlite.lock import find_owner
from router.stores.sqlite.migrate import Migrated, prepare
from router.stores.sqlite.schemas import LEDGER

_MARK = """
    INSERT INTO misjudged
        (request_id, at, should_be, asked_at, caller, session, client, turn_kind, tier, decision, places, hashing)
    SELECT id, :now, :should_be, at, caller, session, client, turn_kind, tier,
        CASE WHEN typeof(decision) = 'text' AND json_valid(decision) THEN json_remove(decision, '$.person_text') END,
        (SELECT places FROM places WHERE request_id = entries.id), :hashing
    FROM entries WHERE id = :id
    ON CONFLICT (request_id) DO UPDATE SET at = excluded.at, should_be = excluded.should_be, asked_at = excluded.asked_at,
        caller = excluded.caller, session = excluded.session, client = excluded.client, turn_kind = excluded.turn_kind,
        tier = excluded.tier, decision = excluded.decision, places = coalesce(excluded.places, places),
        hashing = CASE WHEN excluded.places IS NULL THEN hashing ELSE excluded.hashing END
"""
_UNMARK = """
    UPDATE misjudged SET at = :now, should_be = '', session = NULL, client = NULL, decision = NULL, places = NULL
    WHERE request_id = :id AND should_be != ''
"""
_TEACHES = f"""
    SELECT places IS NOT NULL OR EXISTS (
        SELECT 1 FROM entries WHERE id = request_id AND turn_kind = '{TurnKind.ASK}'
            AND CASE WHEN json_valid(decision) THEN json_extract(decision, '$.person_text') END != ''
    ) FROM misjudged WHERE request_id = ?
"""  # noqa: S608  a fixed name
_MARKED = """
    SELECT request_id, asked_at, should_be, caller, session, client, turn_kind, tier, decision,
        CASE WHEN hashing = ? THEN places END
    FROM misjudged
"""
_HELD_SECONDS = 86_400.0
_ROUTER_SECONDS, _LOOK_SECONDS = 1.0, 0.05
"""A router looks for marks several times a second."""


class Judged(NamedTuple):
    is_marked: bool
    """False where the turn went to the right tier."""
    was_unmarked: bool = False
    teaches: bool = False
    """Whether similar turns can be recognised: the ledger has the places of its words, or its text."""
    migrated: Migrated | None = None


def judge_turn(path: Path, turn: RecordedTurn, should_be: Tier) -> Judged:
    """Marks a wrong tier, or unmarks a right one. Raises `StoreUnusable`."""
    if should_be is turn.tier:
        return Judged(is_marked=False, was_unmarked=unmark_misjudged(path, turn))
    return mark_misjudged(path, turn, should_be)


def mark_misjudged(path: Path, turn: RecordedTurn, should_be: Tier) -> Judged:
    """Migrates an older ledger first. Raises `StoreUnusable`."""
    with open_ledger(path, writes=True) as database:
        migrated = prepare(path, LEDGER)
        database.execute(_MARK, {"id": turn.id, "now": time.time(), "should_be": str(should_be), "hashing": HASHING})
        return Judged(is_marked=True, teaches=_wait_to_teach(path, database, turn), migrated=migrated)


def _wait_to_teach(path: Path, database: sqlite3.Connection, turn: RecordedTurn) -> bool:
    """A running router has the places of recent turns in memory, and writes them once it sees the mark."""
    is_recent, deadline = time.time() - turn.at < _HELD_SECONDS, time.monotonic() + _ROUTER_SECONDS
    while True:
        if (teaches := database.execute(_TEACHES, (turn.id,)).fetchone()) is not None and teaches[0]:
            return True
        if not is_recent or time.monotonic() > deadline or find_owner(path) is None:
            return False
        time.sleep(_LOOK_SECONDS)


def unmark_misjudged(path: Path, turn: RecordedTurn) -> bool:
    """Returns whether there was a mark. Raises `StoreUnusable`."""
    with open_ledger(path, writes=True) as database:
        if not read_newer(database, "SELECT 1 FROM misjudged WHERE request_id = ? AND should_be != ''", turn.id):
            return False
        prepare(path, LEDGER)
        return database.execute(_UNMARK, {"id": turn.id, "now": time.time()}).rowcount > 0


def keep_places(path: Path, found: Mapping[str, bytes]) -> None:
    """Keep the places of marked turns that are known from text, which will be gone one day. Raises `StoreUnusable`."""
    with open_ledger(path, writes=True) as database:
        prepare(path, LEDGER)
        statement = "UPDATE misjudged SET places = ?, hashing = ? WHERE request_id = ? AND should_be != ''"
        database.executemany(statement, [(places, HASHING, name) for name, places in found.items()])


def read_misjudged(database: sqlite3.Connection) -> dict[str, Tier]:
    """The right tier of each marked request."""
    rows = read_newer(database, "SELECT request_id, should_be FROM misjudged")
    return {str(name): Tier(tier) for name, tier in rows if tier in tuple(Tier)}


def read_marks(database: sqlite3.Connection) -> Marks:
    """Empty for a ledger of an older schema, whose marks end with their rows."""
    marked, removed = [], []
    for name, at, should_be, caller, session, client, kind, tier, decision, places in read_newer(database, _MARKED, HASHING):
        if should_be == "":
            removed.append(str(name))
        elif should_be in tuple(Tier) and isinstance(at, float) and isinstance(decision, str):
            served = Tier(tier) if tier in tuple(Tier) else None
            known = places if isinstance(places, bytes) else b""
            own = (str(caller or ""), str(session or ""), str(client or ""), str(kind or ""))
            marked.append(MarkedTurn(str(name), at, Tier(should_be), *own, served, decision, known))
    return Marks(marked, frozenset(removed))


def read_newer(database: sqlite3.Connection, query: str, *values: float | str | None) -> list[tuple[Any, ...]]:
    """Rows of a table that older ledgers lack."""
    try:
        return database.execute(query, values).fetchall()
    except sqlite3.OperationalError:
        return []
