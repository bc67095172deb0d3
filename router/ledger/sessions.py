"""Session memory on disk: in the ledger's own file, written in batches by a thread, read by key on a miss."""

import sqlite3
import threading
import time
from collections.abc import Callable
from pathlib import Path

from router.ledger.files import connect

_BATCH_SECONDS = 0.5
_MAX_WAITING = 20_000
_KEPT_SECONDS = 30 * 86_400.0
_RETENTION_SECONDS = 3_600.0


class SqliteSessions:
    """The last state of each session. Of several changes within a batch only the last is written."""

    def __init__(self, path: Path, *, on_failure: Callable[[str, int], None]) -> None:
        self._path, self._on_failure = path, on_failure
        self._waiting: dict[str, tuple[float, bytes]] = {}
        self._lock = threading.Lock()
        self._reader: sqlite3.Connection | None = None
        self._stop = threading.Event()
        self._next_retention = 0.0
        self.lost = 0
        self._thread = threading.Thread(target=self._run, name="sessions", daemon=True)
        self._thread.start()

    def load(self, key: str) -> bytes | None:
        """One keyed read: microseconds, so it may stay on the loop. What waits to be written is newer than the file."""
        waiting = self._waiting.get(key)
        if waiting is not None:
            return waiting[1]
        try:
            if self._reader is None:
                self._reader = connect(self._path)
                self._reader.execute("PRAGMA busy_timeout = 20")
            row = self._reader.execute("SELECT state FROM sessions WHERE key = ?", (key,)).fetchone()
        except sqlite3.Error:
            if self._reader is not None:
                self._reader.close()
                self._reader = None
            return None
        return bytes(row[0]) if row is not None else None

    def save(self, key: str, at: float, state: bytes) -> None:
        """Take a session's state, to be written with the next batch."""
        with self._lock:
            if len(self._waiting) < _MAX_WAITING or key in self._waiting:
                self._waiting[key] = (at, state)
            else:
                self.lost += 1

    def close(self) -> None:
        """Write what is left and stop."""
        self._stop.set()
        self._thread.join(timeout=5)
        if self._reader is not None:
            self._reader.close()
            self._reader = None

    def _run(self) -> None:
        while not self._stop.wait(_BATCH_SECONDS):
            self._flush()
        self._flush()

    def _flush(self) -> None:
        with self._lock:
            batch = dict(self._waiting)
        if not batch:
            return
        try:
            database = connect(self._path)
            try:
                database.execute("BEGIN IMMEDIATE")
                rows = [(key, at, state) for key, (at, state) in batch.items()]
                database.executemany("INSERT OR REPLACE INTO sessions (key, at, state) VALUES (?, ?, ?)", rows)
                self._forget_old(database)
                database.execute("COMMIT")
            finally:
                database.close()
        except sqlite3.Error as error:
            self._on_failure(type(error).__name__, self.lost)
            return
        with self._lock:
            for key, value in batch.items():
                if self._waiting.get(key) is value:
                    del self._waiting[key]

    def _forget_old(self, database: sqlite3.Connection) -> None:
        now = time.time()
        if now >= self._next_retention:
            self._next_retention = now + _RETENTION_SECONDS
            database.execute("DELETE FROM sessions WHERE at < ?", (now - _KEPT_SECONDS,))


class NoSessions:
    """Keeps nothing: for a router without a ledger, and for dry runs."""

    def load(self, key: str) -> bytes | None:
        return None

    def save(self, key: str, at: float, state: bytes) -> None:
        pass

    def close(self) -> None:
        pass
