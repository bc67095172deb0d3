"""A ledger for a reader: rows that somebody changed by hand, and that no router writes, are passed over.

A temporary view takes the place of the table in one connection, so that every query of it reads sound rows alone. Nothing is
changed in the file.
"""

import contextlib
import sqlite3
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from router.contract.stores import AskedTooMuch, StoreUnusable
from router.contract.words import Outcome
from router.stores.sqlite.files import WRITE_SECONDS, connect, connect_to_read

_LAST_SECOND = 253_402_300_799
"""Of the year 9999: no later time has a date."""
_NUMBERS = ("score", "ttft_ms", "tokens_per_second", "input_tokens", "cached_tokens", "output_tokens", "cost_usd")
_TEXTS = ("session", "turn_kind", "client", "error", "tier", "target", "because")
# A plus keeps SQLite from using an index for a condition that nearly every row meets. SQLite sorts numbers before texts, and
# texts before blobs, so a range also checks the type, in half the time of `typeof`.
_SOUND = " AND ".join(
    (
        f"+at BETWEEN 0 AND {_LAST_SECOND} AND duration_ms BETWEEN 0 AND 1e12",
        "typeof(id) = 'text' AND typeof(caller) = 'text' AND typeof(model) = 'text' AND typeof(status) = 'integer'",
        f"+outcome IN ({', '.join(repr(str(outcome)) for outcome in Outcome)})",
        *(f"ifnull({name}, 0) BETWEEN -1e15 AND 1e15" for name in _NUMBERS),
        *(f"ifnull({name}, '') >= '' AND ifnull({name}, '') < x''" for name in _TEXTS),
    )
)
_VIEW = "CREATE TEMP VIEW entries AS SELECT *{more} FROM main.entries{where}"
_NEWER = ("key", "job")
"""Columns of the entries that a ledger of an older Tandem does not have yet: they are read as null."""
ANSWER_SECONDS = 60.0
"""How long a question may take, of however many years: its snapshot keeps the log from being emptied."""
_STEPS = 10_000
"""Of SQLite's machine, between two looks at the clock: about a millisecond."""
_LOOKED_AT = 20_000
_decode = partial(str, encoding="utf-8", errors="replace")
_COUNT = f"SELECT count(*) FROM (SELECT * FROM main.entries ORDER BY sequence DESC LIMIT ?) WHERE NOT ({_SOUND})"  # noqa: S608  ours


@contextlib.contextmanager
def open_ledger(
    path: Path,
    lock_seconds: float = WRITE_SECONDS,
    *,
    sees_all: bool = False,
    writes: bool = False,
    within_seconds: float = ANSWER_SECONDS,
) -> Iterator[sqlite3.Connection]:
    """A connection for one question. Raises `StoreUnusable` where there is no ledger, and for what goes wrong in the block.

    `sees_all` is for queries that take any row as it is. A question that takes longer than `within_seconds` is given up.
    """
    if not path.is_file():
        raise StoreUnusable(f"{path}: there is no ledger yet")
    try:
        with contextlib.closing((connect if writes else connect_to_read)(path, lock_seconds)) as database:
            database.text_factory = _decode
            deadline = time.monotonic() + within_seconds
            database.set_progress_handler(lambda: time.monotonic() > deadline, _STEPS)
            if not writes:
                _set_view(database, sees_all=sees_all)
            yield database
    except sqlite3.Error as error:
        if getattr(error, "sqlite_errorcode", 0) == sqlite3.SQLITE_INTERRUPT:
            raise AskedTooMuch(f"{path}: no answer within {within_seconds:g} s\n  hint: ask for less, with --since") from error
        raise StoreUnusable(f"{path}: not a usable ledger: {error}") from error


def _set_view(database: sqlite3.Connection, *, sees_all: bool) -> None:
    """Let a reader see sound rows alone, with every column, whichever Tandem wrote the file."""
    there = {name for (name,) in database.execute("SELECT name FROM pragma_table_info('entries')")}
    lacking = [name for name in _NEWER if name not in there]
    if there and (lacking or not sees_all):  # without the table, the query itself says what is wrong
        more = "".join(f", NULL AS {name}" for name in lacking)
        database.execute(_VIEW.format(more=more, where="" if sees_all else f" WHERE {_SOUND}"))


def count_unsound(database: sqlite3.Connection) -> int:
    """How many of the newest rows are passed over."""
    return int(database.execute(_COUNT, (_LOOKED_AT,)).fetchone()[0])
