"""One session's newest calls, for a status line. Imports stay light: clients call it constantly."""

import contextlib
import sqlite3
from pathlib import Path

_MAX_ENTRIES = 5_000
"""Newest requests searched: a session may hold years."""
_READ_SECONDS = 0.05
_ROWS = (
    "SELECT turn_kind, tier, because FROM entries WHERE sequence > (SELECT max(sequence) FROM entries) - ? AND session = ?"
    " AND turn_kind IN ('ask', 'follow_up', 'tool_loop') AND tier IS NOT NULL ORDER BY sequence"
)


def read_session(path: str, session: str) -> list[tuple[str, str, str]]:
    """Kind, tier and reason of each call in a person's turns, oldest first; empty where the ledger is unreadable."""
    address = f"{Path(path).absolute().as_uri()}?mode=ro"
    try:
        with contextlib.closing(sqlite3.connect(address, uri=True, timeout=_READ_SECONDS)) as database:
            return database.execute(_ROWS, (_MAX_ENTRIES, session)).fetchall()
    except sqlite3.Error:
        return []
