"""Session memory on disk, in the ledger's file."""

import sqlite3

from router.stores.sqlite.reader import RowReader
from router.stores.sqlite.retention import Retention
from router.stores.sqlite.writer import SqliteWriter

_KEPT_SECONDS = 30 * 86_400.0
_LOCK_SECONDS = 0.02
"""How long the loop may wait for a file that somebody has locked whole."""
_SAVE = "INSERT OR REPLACE INTO sessions (key, at, state) VALUES (?, ?, ?)"


class SqliteSessions:
    """The last state of each session. Of several changes within a batch only the last is written."""

    def __init__(self, writer: SqliteWriter) -> None:
        self._writer, self._reader = writer, RowReader(writer.path, lock_seconds=_LOCK_SECONDS)
        writer.watch(self._reader)
        self._retention = Retention(writer.path.name, "sessions", _KEPT_SECONDS, warns=False)  # the entries of the same file do
        writer.attach(self, self._forget_old)

    async def load(self, key: str) -> bytes | None:
        """What waits to be written, which is newer than the file; else one keyed read.

        The read stays on the loop: it takes 10 µs, and a busy loop would make a thread wait for milliseconds.
        """
        waiting = self._writer.find_waiting(key)
        if waiting is not None:
            return bytes(waiting[2])
        row = self._reader.find_row("SELECT state FROM sessions WHERE key = ?", key)
        return bytes(row[0]) if row is not None else None

    def save(self, key: str, at: float, state: bytes) -> None:
        """Queue a session's state."""
        self._writer.put(_SAVE, key, (key, at, state), len(state))

    async def close(self) -> None:
        """Write what is queued. Whoever writes must be the last to close: only then is nothing left in the side files."""
        self._reader.close()
        await self._writer.detach(self)

    def _forget_old(self, database: sqlite3.Connection) -> bool:
        oldest = self._retention.find_limit(database)
        self._retention.count(database.execute("DELETE FROM sessions WHERE at < ?", (oldest,)).rowcount)
        self._retention.conclude()
        return False
