"""Progress of copying a ledger to the shared database. Rows sent twice after a crash are ignored there."""

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

from router.contract.entry import COLUMNS
from router.contract.stores import StoreUnusable
from router.stores.sqlite.files import connect_to_read
from router.stores.sqlite.rows import transaction

FORWARDED = (*COLUMNS, "decision", "attempts", "prompt_text", "answer_text", "replica")
_NEXT = f"SELECT sequence, {', '.join(FORWARDED)} FROM entries WHERE sequence > ? ORDER BY sequence LIMIT ?"  # noqa: S608  fixed
_WAITING = "SELECT count(*) FROM entries WHERE sequence > ?"
_OLDEST = "SELECT at + duration_ms / 1000.0 FROM entries WHERE sequence > ? AND typeof(at) = 'real' ORDER BY sequence LIMIT 1"
_TEXTS = tuple(1 + FORWARDED.index(name) for name in ("decision", "attempts", "prompt_text", "answer_text"))
_MAX_LETTERS = 4_000_000
_READ_SECONDS = 5.0


class Mark(NamedTuple):
    """Rows up to `sequence` are copied to `home`; `lost` could not be."""

    home: str = ""
    sequence: int = 0
    lost: int = 0


class Waiting(NamedTuple):
    rows: int
    since: float | None
    lost: int


def read_mark(database: sqlite3.Connection) -> Mark:
    row = database.execute("SELECT home, sequence, lost FROM forwarded").fetchone()
    return Mark(*row) if row is not None else Mark()


def keep_mark(database: sqlite3.Connection, mark: Mark, last_id: str, refused: int = 0) -> None:
    """Skipped if the last row is no longer the copied one: its number may be reused, so rows are sent again."""
    with transaction(database):
        if database.execute("SELECT id FROM entries WHERE sequence = ?", (mark.sequence,)).fetchone() != (last_id,):
            return
        lost = read_mark(database).lost + refused
        database.execute("DELETE FROM forwarded")
        database.execute("INSERT INTO forwarded (home, sequence, lost) VALUES (?, ?, ?)", (mark.home, mark.sequence, lost))


def read_next(database: sqlite3.Connection, after: int, rows: int) -> list[tuple[Any, ...]]:
    """Number, then columns, up to some megabytes. Text that is not UTF-8 is converted."""
    try:
        database.text_factory = str
        return _read_some(database, after, rows)
    except sqlite3.OperationalError as error:
        if "UTF-8" not in str(error):
            raise
        database.text_factory = lambda raw: raw.decode("utf-8", "replace")  # slow: called for each text
        return _read_some(database, after, rows)


def _read_some(database: sqlite3.Connection, after: int, rows: int) -> list[tuple[Any, ...]]:
    found: list[tuple[Any, ...]] = []
    size = 0
    with closing(database.execute(_NEXT, (after, rows))) as cursor:
        for row in cursor:
            found.append(row)
            size += sum([len(row[place]) for place in _TEXTS if type(row[place]) is str])
            if size >= _MAX_LETTERS:
                break
    return found


def read_ids(database: sqlite3.Connection, after: int, last: int) -> list[Any]:
    found = database.execute("SELECT id FROM entries WHERE sequence > ? AND sequence <= ? ORDER BY sequence", (after, last))
    return [name for (name,) in found]


def note_uncopied(database: sqlite3.Connection, which: str, values: tuple[object, ...]) -> int:
    """Count uncopied rows as lost before deletion; `which` selects their numbers. Needs a transaction."""
    mark = read_mark(database)
    counting = f"SELECT count(*) FROM ({which}) WHERE sequence > ?"  # noqa: S608  fixed
    lost = int(database.execute(counting, (*values, mark.sequence)).fetchone()[0])
    if lost:
        statement = "INSERT INTO forwarded (home, sequence, lost) VALUES (?, ?, ?) ON CONFLICT (home) DO UPDATE SET lost = ?"
        database.execute(statement, (*mark[:2], mark.lost + lost, mark.lost + lost))
    return lost


def look_at_waiting(path: Path) -> Waiting:
    """Raises `StoreUnusable` if the file is unreadable."""
    try:
        with closing(connect_to_read(path, _READ_SECONDS)) as database:
            mark = read_mark(database)
            oldest = database.execute(_OLDEST, (mark.sequence,)).fetchone()
            rows = int(database.execute(_WAITING, (mark.sequence,)).fetchone()[0])
            return Waiting(rows, oldest[0] if oldest else None, mark.lost)
    except (sqlite3.Error, OSError) as error:
        raise StoreUnusable(f"{path}: {error}") from error
