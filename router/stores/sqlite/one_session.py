"""The newest calls of one session, for a status line. Nothing heavy is imported: clients ask all the time."""

import contextlib
import sqlite3
from pathlib import Path

_MAX_ENTRIES = 5_000
"""How many of the newest requests are looked through: an older ledger has no index by session, and may hold years."""
_READ_SECONDS = 0.05
_ROWS = (
    "SELECT turn_kind, tier, because FROM entries WHERE sequence > (SELECT max(sequence) FROM entries) - ? AND session = ?"
    " AND turn_kind IN ('ask', 'follow_up', 'tool_loop') AND tier IS NOT NULL ORDER BY sequence"
)


def read_session(path: str, session: str) -> list[tuple[str, str, str]]:
    """Kind, tier and reason of each call of a person's turns, oldest first. Nothing where the ledger cannot be read."""
    address = f"{Path(path).absolute().as_uri()}?mode=ro"
    try:
        with contextlib.closing(sqlite3.connect(address, uri=True, timeout=_READ_SECONDS)) as database:
            return database.execute(_ROWS, (_MAX_ENTRIES, session)).fetchall()
    except sqlite3.Error:
        return []
