"""The ledger on SQLite: entries are queued, and one thread writes them in batches."""

import contextlib
import sqlite3
import threading
import time
from collections import OrderedDict, deque
from collections.abc import Callable, Mapping
from importlib import resources
from pathlib import Path

import orjson

from router.contract.entry import Entry
from router.contract.request import Json, JsonObject
from router.ledger.files import connect, create_private, prepare

SCHEMA_VERSION = 1
_MAX_QUEUED = 50_000
_MAX_REMEMBERED = 512
_REMEMBERED_SECONDS = 3_600.0
_BATCH_ENTRIES = 500
_BATCH_SECONDS = 0.2
_RETENTION_SECONDS = 3_600.0
_DELETED_AT_ONCE = 500
_LAST_TRIES = 3
"""How often the last batch is tried when the ledger closes."""
_COLUMNS = """
    id at caller session turn_kind client dialect model streaming outcome status error tier target because score
    decision attempts overhead_ms ttft_ms duration_ms tokens_per_second input_tokens cached_tokens output_tokens
    reasoning_tokens tokens_estimated cost_usd prompt_text answer_text
""".split()
_INSERT = f"INSERT OR IGNORE INTO entries ({', '.join(_COLUMNS)}) VALUES ({', '.join('?' * len(_COLUMNS))})"  # noqa: S608  fixed names


class RecentDecisions:
    """The last decisions, in memory, as JSON: at most so many, and none for longer than an hour."""

    def __init__(self) -> None:
        self._known: OrderedDict[str, tuple[str, float, str, str | None]] = OrderedDict()

    def add(self, entry: Entry, explained: str, person_text: str | None) -> None:
        """Remember a decision, and beside it what the person typed."""
        self._known[entry.id] = (entry.caller, entry.at, explained, person_text)
        oldest = next(iter(self._known.values()))
        if len(self._known) > _MAX_REMEMBERED or entry.at - oldest[1] > _REMEMBERED_SECONDS:
            self._known.popitem(last=False)

    def find(self, request_id: str, caller: str) -> JsonObject | None:
        """The decision, if it is still remembered and this caller's own."""
        known = self._known.get(request_id)
        if known is None or known[0] != caller:
            return None
        found: JsonObject = orjson.loads(known[2])
        return {**found, "person_text": known[3]}

    def clear(self) -> None:
        """Forget everything."""
        self._known.clear()


class SqliteLedger:
    """Keeps entries in one file, for its owner's eyes only (0600)."""

    def __init__(
        self,
        path: Path,
        *,
        keep_days: int,
        explain: Callable[[Entry], JsonObject],
        on_failure: Callable[[str, int], None],
    ) -> None:
        self._path, self._keep_days, self._explain, self._on_failure = path, keep_days, explain, on_failure
        self._queue: deque[tuple[object, ...]] = deque()
        self._recent = RecentDecisions()
        self._wake = threading.Event()
        self._is_closing = False
        self.lost = 0
        self._inode = 0
        self._create()
        self._thread = threading.Thread(target=self._run, name="ledger", daemon=True)
        self._thread.start()

    def record(self, entry: Entry) -> None:
        """Queue an entry, as the row that it will be. A queue that is full drops the new one and counts it.

        The row is made here and not by the writer, so that a request's many small objects are freed while they are still in
        the processor's caches: kept until the next batch they cost more than the row does.
        """
        row = self._row(entry)
        if len(self._queue) >= _MAX_QUEUED:
            self.lost += 1
            return
        self._queue.append(row)
        if len(self._queue) >= _BATCH_ENTRIES:
            self._wake.set()

    def find_decision(self, request_id: str, caller: str) -> Mapping[str, Json] | None:
        """The explanation of a request: from memory if it is recent, else one keyed read."""
        recent = self._recent.find(request_id, caller)
        if recent is not None:
            return recent
        try:
            # Read only: a file that is gone must not be made again by someone who merely looks.
            with contextlib.closing(
                sqlite3.connect(f"{self._path.resolve().as_uri()}?mode=ro", uri=True, timeout=0.2)
            ) as database:
                row = database.execute(
                    "SELECT decision FROM entries WHERE id = ? AND caller = ?", (request_id, caller)
                ).fetchone()
        except sqlite3.Error:
            return None
        if row is None or row[0] is None:
            return None
        found = orjson.loads(row[0])
        return found if isinstance(found, dict) else None

    def close(self) -> None:
        """Write what is queued and stop."""
        self._is_closing = True
        self._wake.set()
        self._thread.join(timeout=10)

    def _create(self) -> None:
        self._inode = create_private(self._path)
        schema = (resources.files("router.ledger") / "schema.sql").read_text(encoding="utf-8")
        prepare(self._path, schema, SCHEMA_VERSION)

    def _run(self) -> None:
        """The writer's thread: a batch now and then, a fresh connection whenever the old one failed."""
        database: sqlite3.Connection | None = None
        next_retention = time.monotonic()
        tries_left = _LAST_TRIES
        while tries_left:
            self._wake.wait(_BATCH_SECONDS)
            self._wake.clear()
            closing = self._is_closing
            try:
                database = database or self._open()
                self._write(database)
                if time.monotonic() >= next_retention and not closing:
                    next_retention = time.monotonic() + _RETENTION_SECONDS
                    self._forget_old(database)
                tries_left = 0 if closing else _LAST_TRIES
            except Exception as error:  # noqa: BLE001  the writer must outlive a locked or vanished file
                self._on_failure(type(error).__name__, self.lost)
                if database is not None:
                    database.close()
                    database = None
                tries_left -= closing
        if database is not None:
            database.close()

    def _open(self) -> sqlite3.Connection:
        if not self._is_ours():
            self._create()
        database = connect(self._path)
        database.execute("PRAGMA synchronous = NORMAL")
        return database

    def _is_ours(self) -> bool:
        """Whether the file is there, and still the one that was opened."""
        try:
            return self._path.stat().st_ino == self._inode
        except OSError:
            return False

    def _write(self, database: sqlite3.Connection) -> None:
        if self._queue and not self._is_ours():
            raise FileNotFoundError(self._path.name)
        while self._queue:
            rows = [self._queue[index] for index in range(min(len(self._queue), _BATCH_ENTRIES))]
            database.execute("BEGIN IMMEDIATE")
            try:
                database.executemany(_INSERT, rows)
                database.execute("COMMIT")
            except BaseException:
                database.execute("ROLLBACK")
                raise
            for _ in rows:
                self._queue.popleft()

    def _forget_old(self, database: sqlite3.Connection) -> None:
        oldest = time.time() - self._keep_days * 86_400
        statement = "DELETE FROM entries WHERE sequence IN (SELECT sequence FROM entries WHERE at < ? LIMIT ?)"
        while database.execute(statement, (oldest, _DELETED_AT_ONCE)).rowcount == _DELETED_AT_ONCE:
            time.sleep(0.05)  # between small deletions, writers of other processes get their turn
        database.execute("DELETE FROM misjudged WHERE at < ?", (oldest,))

    def _row(self, entry: Entry) -> tuple[object, ...]:
        decision, usage = entry.decision, entry.usage
        explained = _write_decision(self._explain(entry), entry, self._recent) if decision is not None else None
        attempts = [attempt._asdict() for attempt in entry.attempts]
        return (
            entry.id,
            entry.at,
            entry.caller,
            decision.turn.session if decision else None,
            str(decision.turn.kind) if decision else None,
            decision.turn.client if decision else None,
            str(entry.dialect),
            entry.model,
            int(entry.is_streaming),
            str(entry.outcome),
            entry.status,
            entry.error,
            str(entry.tier) if entry.tier else None,
            entry.target,
            entry.because,
            decision.score if decision else None,
            explained,
            orjson.dumps(attempts).decode(),
            entry.overhead_ms,
            entry.ttft_ms,
            entry.duration_ms,
            entry.tokens_per_second,
            usage.input_tokens if usage else None,
            usage.cached_tokens if usage else None,
            usage.output_tokens if usage else None,
            usage.reasoning_tokens if usage else None,
            int(usage.is_estimated) if usage else None,
            entry.cost_usd,
            entry.prompt_text,
            entry.answer_text,
        )


def _write_decision(explained: JsonObject, entry: Entry, recent: RecentDecisions) -> str:
    """The decision as JSON, written once and remembered. No text goes to disk unless the operator asked for it."""
    person_text = explained.get("person_text")
    if entry.prompt_text is None:
        explained["person_text"] = None
    written = orjson.dumps(explained).decode()
    recent.add(entry, written, person_text if isinstance(person_text, str) else None)
    return written


class NoLedger:
    """Keeps nothing but the last decisions, in memory."""

    def __init__(self, explain: Callable[[Entry], JsonObject]) -> None:
        self._explain = explain
        self._recent = RecentDecisions()

    def record(self, entry: Entry) -> None:
        if entry.decision is not None:
            _write_decision(self._explain(entry), entry, self._recent)

    def find_decision(self, request_id: str, caller: str) -> Mapping[str, Json] | None:
        return self._recent.find(request_id, caller)

    def close(self) -> None:
        pass
