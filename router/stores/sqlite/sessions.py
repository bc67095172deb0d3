"""Session memory on disk, in the ledger's file."""

import sqlite3
from collections.abc import Sequence
from contextlib import suppress

from router.contract.stores import StoreUnusable, Versioned
from router.stores.sqlite.reader import RowReader
from router.stores.sqlite.retention import Retention
from router.stores.sqlite.writer import SqliteWriter

_KEPT_SECONDS = 30 * 86_400.0
_LOCK_SECONDS = 0.02
"""How long the loop may wait for a locked file."""
_MAX_VERSIONS, _STRIDE = 8_192, 1 << 32
_NAME_BYTES = 1 << 16
_SAVE = "INSERT OR REPLACE INTO sessions (key, at, state) VALUES (?, ?, ?)"


class _Names:
    """Remembers names in 64 KB. Among 10,000, one in fifty others is taken for one of them."""

    def __init__(self, times_shut: int = 0) -> None:
        self._bits, self.times_shut = bytearray(_NAME_BYTES), times_shut

    def add(self, name: str) -> None:
        code = hash(name)
        self._bits[code // 8 % _NAME_BYTES] |= 1 << code % 8

    def __contains__(self, name: str) -> bool:
        code = hash(name)
        return self._bits[code // 8 % _NAME_BYTES] >> code % 8 & 1 == 1


class SqliteSessions:
    """The last state of each session; a batch writes only the last of several changes.

    Versions are counted in memory, as only this process writes to the file (`lock.py`). A version no longer known counts as
    changed, and the next load gets an unused number.
    """

    is_shared = False

    def __init__(self, writer: SqliteWriter) -> None:
        self._writer, self._reader = writer, RowReader(writer.path, lock_seconds=_LOCK_SECONDS)
        writer.watch(self._reader)
        self._retention = Retention(writer.path.name, "sessions", _KEPT_SECONDS, warns=False)  # the file's entries warn
        writer.attach(self, self._forget_old)
        self._put = writer.put
        self._versions: dict[str, int] = {}
        self._newest_version = 0
        self._begun = _Names()
        self._listed: _Names | None = None
        """Of the file, once they were read: most sessions are new, and need not be looked up there."""

    async def load(self, key: str) -> Versioned:
        """The unwritten state, else one keyed read: 10 µs on the loop, where a thread could wait milliseconds."""
        row = None
        if (waiting := self._writer.find_waiting(key)) is not None:
            row = waiting[2:]
        elif self._may_hold(key):
            with suppress(StoreUnusable):  # which the writer reports: the session begins again
                row = self._reader.find_row("SELECT state FROM sessions WHERE key = ?", key)
        version = self._versions.get(key)
        if version is None:
            if row is not None:
                self._newest_version += _STRIDE
            version = self._versions[key] = 0 if row is None else self._newest_version
            if len(self._versions) > _MAX_VERSIONS:
                del self._versions[next(iter(self._versions))]
        return Versioned(None if row is None else bytes(row[0]), version)

    async def load_all(self, keys: Sequence[str]) -> Sequence[Versioned]:
        return [await self.load(key) for key in keys]

    def swap(self, key: str, version: int, at: float, state: bytes) -> bool:
        """False if the session changed since this version."""
        if self._versions.get(key) != version:
            return False
        self._versions[key] = version + 1
        if not version:
            self._begun.add(key)
        self._put(_SAVE, key, (key, at, state), len(state))
        return True

    def _may_hold(self, key: str) -> bool:
        listed = self._listed
        return listed is None or listed.times_shut != self._reader.times_shut or key in listed or key in self._begun

    async def close(self) -> None:
        """The writer must close last, so that SQLite removes its side files."""
        self._reader.close()
        await self._writer.detach(self)

    def _forget_old(self, database: sqlite3.Connection) -> bool:
        oldest = self._retention.find_limit(database)
        self._retention.count(database.execute("DELETE FROM sessions WHERE at < ?", (oldest,)).rowcount)
        self._retention.conclude()
        if self._listed is None or self._listed.times_shut != self._reader.times_shut:
            listed = _Names(self._reader.times_shut)
            for (key,) in database.execute("SELECT key FROM sessions"):
                listed.add(key)
            self._listed = listed
        return False
