"""The last turn of the ledger, for the person at the keyboard: why it went where it did, and that this was wrong."""

import contextlib
import sqlite3
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from router.contract.entry import COLUMNS
from router.contract.words import Tier, TurnKind
from router.stores.sqlite.files import StoreUnusable, connect
from router.stores.sqlite.migrate import LEDGER, Migrated, prepare
from router.stores.sqlite.sound import see_sound_rows

_BEGINS = (TurnKind.ASK, TurnKind.FOLLOW_UP)
_COLUMNS = f"SELECT {', '.join((*COLUMNS, 'decision', 'attempts'))} FROM entries WHERE decision IS NOT NULL"  # noqa: S608  fixed names
_KIND = "SELECT turn_kind, session, caller, sequence FROM entries WHERE id = ?"
_BEGINNING = (
    f"{_COLUMNS} AND session = ? AND caller = ? AND sequence <= ? AND turn_kind IN (?, ?) ORDER BY sequence DESC LIMIT 1"
)
_LAST = f"{_COLUMNS} AND turn_kind IN (?, ?) ORDER BY sequence DESC LIMIT 1"
_ONE = f"{_COLUMNS} AND id = ?"
_UNDECIDED = "SELECT coalesce(because, error, lower(outcome)) FROM entries WHERE id = ? AND decision IS NULL"


class RecordedTurn(NamedTuple):
    """The request that began a turn, and how it was decided."""

    id: str
    at: float
    tier: Tier | None
    target: str | None
    because: str | None
    row: tuple[object, ...]
    """All that an explanation needs, as `settle.kept` takes it."""


def find_turn(path: Path, request_id: str | None) -> RecordedTurn | None:
    """The last turn of a person, or one request by its id. Raises `StoreUnusable`."""
    with _open(path) as database:
        return _read(
            database.execute(_ONE, (request_id,)).fetchone() if request_id else database.execute(_LAST, _BEGINS).fetchone()
        )


def find_undecided(path: Path, request_id: str) -> str | None:
    """Why no tier was chosen for a request: who answered it, or what was wrong with it. Raises `StoreUnusable`."""
    with _open(path) as database:
        found = database.execute(_UNDECIDED, (request_id,)).fetchone()
        return None if found is None else str(found[0])


def _read(row: tuple[Any, ...] | None) -> RecordedTurn | None:
    if row is None:
        return None
    found = dict(zip(COLUMNS, row, strict=False))
    tier = Tier(found["tier"]) if found["tier"] in tuple(Tier) else None
    return RecordedTurn(str(found["id"]), float(found["at"]), tier, found["target"], found["because"], row)


def find_beginning(path: Path, request_id: str) -> RecordedTurn | None:
    """The turn of a person that a request belongs to; None where it belongs to none. Raises `StoreUnusable`."""
    with _open(path) as database:
        found = database.execute(_KIND, (request_id,)).fetchone()
        if found is None or found[0] not in (*_BEGINS, TurnKind.TOOL_LOOP):
            return None
        return _read(database.execute(_BEGINNING, (*found[1:], *_BEGINS)).fetchone())


def mark_misjudged(path: Path, turn: RecordedTurn, should_be: Tier) -> Migrated | None:
    """Note that a turn should have gone to a tier. Said again, the newer word counts. Raises `StoreUnusable`.

    A ledger that an older Tandem began has no such table yet: it is migrated first, and that is answered.
    """
    with _open(path) as database:
        migrated = prepare(path, LEDGER)
        database.execute(
            "INSERT INTO misjudged (request_id, at, should_be) VALUES (?, ?, ?)"
            " ON CONFLICT (request_id) DO UPDATE SET at = excluded.at, should_be = excluded.should_be",
            (turn.id, time.time(), str(should_be)),
        )
    return migrated


def unmark_misjudged(path: Path, turn: RecordedTurn) -> bool:
    """Take a mark back. Answers whether there was one. Raises `StoreUnusable`."""
    with _open(path) as database:
        try:
            return database.execute("DELETE FROM misjudged WHERE request_id = ?", (turn.id,)).rowcount > 0
        except sqlite3.OperationalError:
            return False  # a ledger that an older Tandem began has no such table yet


def has_places(path: Path, turn: RecordedTurn) -> bool:
    """Whether it is still known where the words of a turn are in the table of weights. Raises `StoreUnusable`."""
    with _open(path) as database:
        return database.execute("SELECT 1 FROM places WHERE request_id = ?", (turn.id,)).fetchone() is not None


def read_misjudged(database: sqlite3.Connection) -> dict[str, Tier]:
    """Every mark: by request, the tier that would have been right."""
    try:
        rows = database.execute("SELECT request_id, should_be FROM misjudged").fetchall()
    except sqlite3.OperationalError:
        return {}  # a ledger that an older Tandem began has no such table yet
    return {str(name): Tier(tier) for name, tier in rows if tier in tuple(Tier)}


def read_places(database: sqlite3.Connection) -> dict[str, bytes]:
    """Where the words of the newest and the marked turns are in the table of weights, by request."""
    try:
        rows = database.execute("SELECT request_id, places FROM places").fetchall()
    except sqlite3.OperationalError:
        return {}  # a ledger that an older Tandem began has no such table yet
    return {str(name): places for name, places in rows if isinstance(places, bytes)}


@contextlib.contextmanager
def _open(path: Path) -> Iterator[sqlite3.Connection]:
    if not path.is_file():
        raise StoreUnusable(f"{path}: there is no ledger yet")
    try:
        with contextlib.closing(connect(path)) as database:
            database.text_factory = lambda text: text.decode("utf-8", "replace")
            see_sound_rows(database)
            yield database
    except sqlite3.Error as error:
        raise StoreUnusable(f"{path}: not a usable ledger: {error}") from error
