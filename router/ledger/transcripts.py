"""Transcripts on disk: one SQLite file, for its owner's eyes only (0600), touched by one thread.

Everything goes through that thread in order, so that a deletion can never be overtaken by the write that it undoes.
"""

import asyncio
import sqlite3
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

from router.contract.transcript import StoredResponse
from router.ledger.files import LedgerUnusable, connect, create_private, prepare

_SCHEMA_VERSION = 1
_SCHEMA = """
CREATE TABLE IF NOT EXISTS transcripts (
    caller   TEXT NOT NULL,
    id       TEXT NOT NULL,
    target   TEXT NOT NULL,
    at       REAL NOT NULL,
    content  BLOB NOT NULL,
    UNIQUE (id, caller)
);
CREATE INDEX IF NOT EXISTS transcripts_at ON transcripts (at);
"""
_KEPT_SECONDS = 30 * 86_400.0
"""As long as OpenAI keeps a response at least."""
_RETENTION_SECONDS = 3_600.0
_MAX_WAITING_BYTES = 128 << 20


class SqliteResponses:
    """Keeps transcripts for thirty days."""

    def __init__(self, path: Path, *, on_failure: Callable[[str, int], None], clock: Callable[[], float] = time.time) -> None:
        self._path, self._on_failure, self._clock = path, on_failure, clock
        self._inode = 0
        self._create()
        self._database: sqlite3.Connection | None = None
        self._waiting_bytes = 0
        self._waiting_lock = threading.Lock()
        self._next_retention = 0.0
        self._is_closed = False
        self.lost = 0
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="transcripts")

    def keep(self, transcript: StoredResponse, *, for_long: bool) -> None:
        """Queue a transcript. Behind more than 128 MB that are not yet written it is lost, and counted."""
        if self._is_closed or self._waiting_bytes > _MAX_WAITING_BYTES:
            self._lose("Closed" if self._is_closed else "QueueFull")
            return
        size = len(transcript.content)
        with self._waiting_lock:
            self._waiting_bytes += size
        self._thread.submit(self._write, transcript).add_done_callback(lambda done: self._written(done, size))

    async def find(self, response_id: str, caller: str) -> StoredResponse | None:
        """One keyed read, off the loop: a long conversation takes milliseconds."""
        return await asyncio.get_running_loop().run_in_executor(self._thread, self._read, response_id, caller)

    async def forget(self, response_id: str, caller: str) -> bool:
        """Delete, and answer once it is done."""
        return await asyncio.get_running_loop().run_in_executor(self._thread, self._delete, response_id, caller)

    async def is_denied(self, response_id: str, caller: str) -> bool:
        """Whether somebody else has a response of that id. What was deleted is not known any more."""
        return await asyncio.get_running_loop().run_in_executor(self._thread, self._is_anothers, response_id, caller)

    def close(self) -> None:
        """Write what is queued and stop."""
        if not self._is_closed:
            self._is_closed = True
            self._thread.submit(self._disconnect)
            self._thread.shutdown(wait=True)

    def _create(self) -> None:
        self._inode = create_private(self._path)
        prepare(self._path, _SCHEMA, _SCHEMA_VERSION)

    def _open(self) -> sqlite3.Connection:
        """The thread's connection. A file that was moved away under it is made anew."""
        try:
            is_ours = self._path.stat().st_ino == self._inode
        except OSError:
            is_ours = False
        if not is_ours:
            self._disconnect()
            self._create()
        if self._database is None:
            self._database = connect(self._path)
            self._database.execute("PRAGMA synchronous = NORMAL")
        return self._database

    def _disconnect(self) -> None:
        if self._database is not None:
            self._database.close()
            self._database = None

    def _write(self, transcript: StoredResponse) -> None:
        statement = "INSERT OR REPLACE INTO transcripts (id, caller, target, at, content) VALUES (?, ?, ?, ?, ?)"
        now = self._clock()
        try:
            self._open().execute(statement, transcript)
            if now >= self._next_retention:
                self._next_retention = now + _RETENTION_SECONDS
                self._open().execute("DELETE FROM transcripts WHERE at < ?", (now - _KEPT_SECONDS,))
        except sqlite3.Error:
            self._disconnect()  # the next one gets a fresh connection
            raise

    def _written(self, done: "Future[None]", size: int) -> None:
        with self._waiting_lock:
            self._waiting_bytes -= size
        error = done.exception()
        if error is not None:
            self._lose(type(error).__name__)

    def _read(self, response_id: str, caller: str) -> StoredResponse | None:
        statement = "SELECT id, caller, target, at, content FROM transcripts WHERE id = ? AND caller = ? AND at >= ?"
        row = self._ask(statement, (response_id, caller, self._clock() - _KEPT_SECONDS))
        return StoredResponse(*row) if row is not None else None

    def _is_anothers(self, response_id: str, caller: str) -> bool:
        return self._ask("SELECT 1 FROM transcripts WHERE id = ? AND caller != ?", (response_id, caller)) is not None

    def _ask(self, statement: str, values: tuple[object, ...]) -> Any:
        """The first row. A file that cannot be read knows nothing, and the operator hears of it."""
        try:
            return self._open().execute(statement, values).fetchone()
        except (sqlite3.Error, LedgerUnusable) as error:
            self._disconnect()
            self._on_failure(type(error).__name__, self.lost)
            return None

    def _delete(self, response_id: str, caller: str) -> bool:
        statement = "DELETE FROM transcripts WHERE id = ? AND caller = ?"
        return self._open().execute(statement, (response_id, caller)).rowcount > 0

    def _lose(self, reason: str) -> None:
        self.lost += 1
        self._on_failure(reason, self.lost)
