"""The ledger on SQLite."""

import sqlite3
import time
from collections.abc import Callable, Mapping
from operator import attrgetter
from typing import Any

import orjson

from router.contract.caller import Caller
from router.contract.entry import Entry
from router.contract.request import Json, JsonObject
from router.contract.usage import Usage
from router.stores.recent import RecentDecisions
from router.stores.sqlite.migrate import LEDGER, forget_copies, read_columns
from router.stores.sqlite.reader import SqliteReader
from router.stores.sqlite.writer import SqliteWriter

_DELETED_AT_ONCE = 1_000
_ROW_BYTES = 1_000
"""About what a row takes without its JSON and texts."""
_OF_THE_FILE = ("sequence",)
"""Columns that SQLite fills."""
_JSON = ("decision", "attempts")
"""Columns that are written as JSON, in the order in which a row ends."""
_ELSEWHERE = {
    "caller": "caller.name",
    "streaming": "is_streaming",
    "session": "decision.turn.session",
    "turn_kind": "decision.turn.kind",
    "client": "decision.turn.client",
    "score": "decision.score",
    "tokens_estimated": "usage.is_estimated",
    **{name: f"usage.{name}" for name in Usage.__dataclass_fields__ if name.endswith("_tokens")},
}
"""Where to find the value of a column that is not a field of the entry by that name."""


class _Nothing:
    """What a request has that was not decided, or whose tokens are not known: every attribute is None."""

    def __getattr__(self, name: str) -> None:
        return None


class _NoDecision:
    score = None
    turn = _Nothing()


_NO_USAGE = _Nothing()
_NO_DECISION = _NoDecision()


class RowMaker:
    """Makes the row of an entry, for a table of any columns that it knows. Each value is found by the name of its column."""

    def __init__(self, columns: tuple[str, ...]) -> None:
        paths = {name: _ELSEWHERE.get(name, name) for name in columns if name not in (*_OF_THE_FILE, *_JSON)}
        unknown = [name for name, path in paths.items() if path.split(".")[0] not in Entry._fields]
        if unknown:
            raise TypeError(f"an entry has no value for the column {unknown[0]}")
        decided = {name: path.removeprefix("decision.") for name, path in paths.items() if path.startswith("decision.")}
        used = {name: path.removeprefix("usage.") for name, path in paths.items() if path.startswith("usage.")}
        own = {name: path for name, path in paths.items() if name not in decided and name not in used}
        names = (*own, *decided, *used, *_JSON)
        self.statement = (
            f"INSERT INTO entries ({', '.join(names)}) VALUES ({', '.join('?' * len(names))}) ON CONFLICT (id) DO NOTHING"  # noqa: S608  fixed names
        )
        self._of_entry, self._of_decision, self._of_usage = _getter(own), _getter(decided), _getter(used)

    def make(self, entry: Entry, explained: str | None) -> tuple[object, ...]:
        """The values for `statement`."""
        return (
            *self._of_entry(entry),
            *self._of_decision(entry.decision or _NO_DECISION),
            *self._of_usage(entry.usage or _NO_USAGE),
            explained,
            orjson.dumps([attempt._asdict() for attempt in entry.attempts]).decode(),
        )


def _getter(paths: Mapping[str, str]) -> Callable[[object], tuple[Any, ...]]:
    """All values at once, in C; `attrgetter` of one name alone would answer no tuple."""
    if len(paths) > 1:
        return attrgetter(*paths.values())
    getters = [attrgetter(path) for path in paths.values()]
    return lambda value: tuple(get(value) for get in getters)


class SqliteEntries:
    """Keeps entries for so many days."""

    def __init__(self, writer: SqliteWriter, *, keep_days: int, explain: Callable[[Entry], JsonObject]) -> None:
        self._writer, self._keep_days, self._explain = writer, keep_days, explain
        self._reader = SqliteReader(writer.path)
        self._recent = RecentDecisions()
        self._rows = RowMaker(read_columns(LEDGER, "entries"))
        writer.attach(self, self._forget_old)

    def append(self, entry: Entry) -> None:
        """Queue an entry, as the row that it will be.

        The row is made here and not by the writer, so that a request's many small objects are freed while they are still in
        the processor's caches: kept until the next batch they cost more than the row does.
        """
        try:
            explained = self._recent.add(entry, self._explain(entry)) if entry.decision is not None else None
            row = self._rows.make(entry, explained)
        except orjson.JSONEncodeError as error:
            self._writer.lose(type(error).__name__)
            return
        size = _ROW_BYTES + len(explained or "") + len(entry.prompt_text or "") + len(entry.answer_text or "")
        self._writer.append(self._rows.statement, row, size)

    async def find_decision(self, request_id: str, caller: Caller) -> Mapping[str, Json] | None:
        """The explanation of a request: from memory if it is recent, else one keyed read."""
        recent = self._recent.find(request_id, caller)
        if recent is not None:
            return recent
        statement = "SELECT decision FROM entries WHERE id = ? AND caller = ?"
        row = await self._reader.find_row(statement, request_id, caller.name)
        try:
            found = orjson.loads(row[0]) if row is not None and row[0] is not None else None
        except orjson.JSONDecodeError:
            return None  # anybody may have written to the file
        return found if isinstance(found, dict) else None

    async def close(self) -> None:
        """Write what is queued. Whoever writes must be the last to close: only then is nothing left in the side files."""
        await self._reader.close()
        await self._writer.detach(self)

    def _forget_old(self, database: sqlite3.Connection) -> bool:
        """A few at a time: writers of other processes get their turn in between."""
        oldest = time.time() - self._keep_days * 86_400
        statement = "DELETE FROM entries WHERE sequence IN (SELECT sequence FROM entries WHERE at < ? LIMIT ?)"
        if database.execute(statement, (oldest, _DELETED_AT_ONCE)).rowcount == _DELETED_AT_ONCE:
            return True
        database.execute("DELETE FROM misjudged WHERE at < ?", (oldest,))
        forget_copies(self._writer.path, oldest)
        return False
