"""Turns out of the ledger: the last one, one by its id, all of them; and the person's word that one was misjudged."""

import sqlite3
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from router.contract.entry import COLUMNS, read_line
from router.contract.past import RecentCalls, RecordedCall, RecordedTurn
from router.contract.words import Tier, TurnKind
from router.stores.sqlite.files import open_ledger
from router.stores.sqlite.migrate import LEDGER, Migrated, prepare
from router.stores.sqlite.pages import LINE, PERSONS

_BEGINS = (TurnKind.ASK, TurnKind.FOLLOW_UP)
_ROW = ", ".join((*COLUMNS, "decision", "attempts"))
_COLUMNS = f"SELECT {_ROW} FROM entries WHERE decision IS NOT NULL"  # noqa: S608  fixed names
_KIND = "SELECT turn_kind, session, caller, sequence FROM entries WHERE id = ?"
_BEGINNING = (
    f"{_COLUMNS} AND session = ? AND caller = ? AND sequence <= ? AND turn_kind IN (?, ?) ORDER BY sequence DESC LIMIT 1"
)
_OWN = "AND (:caller IS NULL OR +caller = :caller)"
_LAST = f"{_COLUMNS} AND turn_kind IN ('{TurnKind.ASK}', '{TurnKind.FOLLOW_UP}') {_OWN} ORDER BY sequence DESC LIMIT 1"
_ONE = f"{_COLUMNS} AND id = :id {_OWN}"
_UNDECIDED = f"SELECT coalesce(because, error, lower(outcome)) FROM entries WHERE id = :id AND decision IS NULL {_OWN}"  # noqa: S608
_CALLS = f"""
    SELECT {{texts}}, decision, {LINE} FROM entries
    WHERE sequence > :cut AND at >= :since AND (:caller IS NULL OR caller = :caller)
        AND session IS NOT NULL AND decision IS NOT NULL AND turn_kind IN {PERSONS} ORDER BY sequence
"""  # noqa: S608  fixed names
_OLDER = "SELECT sequence, at FROM entries ORDER BY sequence DESC LIMIT 1 OFFSET ?"


def find_turn(database: sqlite3.Connection, request_id: str | None, caller: str | None = None) -> RecordedTurn | None:
    """The last turn of a person, or one request by its id; of one caller, if it is named."""
    return _read(database.execute(_ONE if request_id else _LAST, {"id": request_id, "caller": caller}).fetchone())


def find_undecided(database: sqlite3.Connection, request_id: str, caller: str | None = None) -> str | None:
    """Why no tier was chosen for a request: who answered it, or what was wrong with it."""
    found = database.execute(_UNDECIDED, {"id": request_id, "caller": caller}).fetchone()
    return None if found is None else str(found[0])


def find_beginning(database: sqlite3.Connection, request_id: str) -> RecordedTurn | None:
    """The turn of a person that a request belongs to; None where it belongs to none."""
    found = database.execute(_KIND, (request_id,)).fetchone()
    if found is None or found[0] not in (*_BEGINS, TurnKind.TOOL_LOOP):
        return None
    return _read(database.execute(_BEGINNING, (*found[1:], *_BEGINS)).fetchone())


def read_history(database: sqlite3.Connection) -> Iterator[RecordedCall]:
    """Every call with its text, oldest first."""
    places = dict(_read_newer(database, "SELECT request_id, places FROM places"))
    for call in _read_calls(database, "prompt_text", cut=0, since=0.0, caller=None):
        yield call._replace(places=found if isinstance(found := places.get(call.line.id), bytes) else b"")


def read_recent_calls(database: sqlite3.Connection, since: float, rows: int, caller: str | None) -> RecentCalls:
    """The calls among the newest rows."""
    cut, at = database.execute(_OLDER, (rows,)).fetchone() or (0, since)  # the newest row that is not looked at
    is_complete = at <= since
    calls = list(_read_calls(database, "NULL", cut=cut, since=since, caller=caller))
    return RecentCalls(calls, since if is_complete else at, is_complete)


def _read_calls(database: sqlite3.Connection, texts: str, **which: float | str | None) -> Iterator[RecordedCall]:
    should_be = read_misjudged(database)
    for text, decision, *values in database.execute(_CALLS.format(texts=texts), which):
        if (line := read_line(values)) is not None:
            yield RecordedCall(line, decision, should_be.get(line.id), text)


def _read(row: tuple[Any, ...] | None) -> RecordedTurn | None:
    if row is None:
        return None
    found = dict(zip(COLUMNS, row, strict=False))
    tier = Tier(found["tier"]) if found["tier"] in tuple(Tier) else None
    return RecordedTurn(
        str(found["id"]), float(found["at"]), tier, found["target"], found["because"], row, str(found["caller"])
    )


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
    rows = _read_newer(database, "SELECT request_id, should_be FROM misjudged")
    return {str(name): Tier(tier) for name, tier in rows if tier in tuple(Tier)}


def count_misjudged(database: sqlite3.Connection, since: float, caller: str | None = None) -> int:
    of_caller = "(? IS NULL OR request_id IN (SELECT id FROM entries WHERE caller = ?))"
    return len(_read_newer(database, f"SELECT 1 FROM misjudged WHERE at >= ? AND {of_caller}", since, caller, caller))  # noqa: S608


def _read_newer(database: sqlite3.Connection, query: str, *values: float | str | None) -> list[tuple[Any, ...]]:
    """Rows of a table that a ledger of an older Tandem does not have yet."""
    try:
        return database.execute(query, values).fetchall()
    except sqlite3.OperationalError:
        return []
