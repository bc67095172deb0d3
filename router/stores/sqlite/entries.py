"""The ledger on SQLite."""

import contextlib
import sqlite3
from collections.abc import Mapping

from router.contract.caller import Caller
from router.contract.clock import CLOCK
from router.contract.entry import COLUMNS, Entry
from router.contract.errors import StoreUnavailable
from router.contract.past import Fold
from router.contract.request import Json
from router.contract.stores import RETRY_AFTER_SECONDS, StoreUnusable
from router.stores.recent import Explain, RecentEntries, row_of
from router.stores.sqlite.files import FAILURES
from router.stores.sqlite.hours import settle_next
from router.stores.sqlite.migrate import forget_copies
from router.stores.sqlite.reader import SqliteReader
from router.stores.sqlite.retention import Retention
from router.stores.sqlite.rows import Row, transaction
from router.stores.sqlite.turn_worth import settle_turns
from router.stores.sqlite.writer import SqliteWriter
from router.telemetry import events

_DELETED_AT_ONCE = 1_000
_ROW_BYTES = 1_000
"""Approximate row size without JSON and texts."""
_EXPLAINED = ", ".join((*COLUMNS, "decision", "attempts"))
_FIND = f"SELECT {_EXPLAINED} FROM entries WHERE id = ? AND caller = ifnull(?, caller)"  # noqa: S608  fixed names
_INSERT = (
    f"INSERT INTO entries ({_EXPLAINED}, prompt_text, answer_text, replica)"  # noqa: S608  fixed names
    f" VALUES ({', '.join('?' * (len(COLUMNS) + 4))}, {{replica}}) ON CONFLICT (id) DO NOTHING"
)
_TOO_OLD = "SELECT sequence FROM entries WHERE at < ? LIMIT ?"


class SqliteEntries:
    """Keeps entries for `keep_days` days, with their router's name, if it has one."""

    def __init__(
        self,
        writer: SqliteWriter,
        *,
        keep_days: int,
        explain: Explain,
        fold: Fold,
        replica: str | None = None,
        is_forwarded: bool = False,
    ) -> None:
        """`is_forwarded`: rows are copied to another database; those that expire first count as lost."""
        self._writer, self._explain, self._fold = writer, explain, fold
        self._append, self._insert = writer.append, _INSERT.format(replica=_quote(replica))
        self._is_forwarded = is_forwarded
        self._retention = Retention(writer.path.name, "entries", keep_days * 86_400.0)
        self._reader = SqliteReader(writer.path)
        writer.watch(self._reader.rows)
        self._recent = RecentEntries()
        writer.attach(self, self._keep_up)

    def append(self, entry: Entry) -> None:
        decision, size = entry.decision, _ROW_BYTES
        if decision is not None:
            self._recent.add(entry)
            size += len(decision)
        if entry.answer_text is not None or entry.prompt_text is not None:
            size += len(entry.prompt_text or "") + len(entry.answer_text or "")
        self._append(Row(self._insert, row_of(entry), size))

    async def sync(self) -> None:
        """On failure the queue stays."""
        with contextlib.suppress(*FAILURES):
            await self._writer.run(lambda _: None)

    async def find_decision(self, request_id: str, caller: Caller | None) -> Mapping[str, Json] | None:
        """From memory if recent, else one keyed read. Raises `StoreUnavailable` where the row may exist."""
        recent = self._recent.find(request_id, caller, self._explain)
        if recent is not None:
            return recent
        try:
            row = await self._reader.find_row(_FIND, request_id, caller.name if caller is not None else None)
            if row is None:
                self._writer.check_written()
        except StoreUnusable as error:
            raise StoreUnavailable(
                f"the ledger cannot be asked now: {error}", retry_after_seconds=RETRY_AFTER_SECONDS
            ) from error
        return self._explain(row) if row is not None else None

    async def close(self) -> None:
        """The writer must close last, so that SQLite removes its side files."""
        await self._reader.close()
        await self._writer.detach(self)

    def _keep_up(self, database: sqlite3.Connection) -> bool:
        """Forget old rows and sum up hours, a few at a time, so that other processes can write in between."""
        oldest = self._retention.find_limit(database)
        lost, which = 0, (oldest, _DELETED_AT_ONCE)
        with transaction(database):
            if self._is_forwarded:
                from router.stores.sqlite.forwarded import note_uncopied

                lost = note_uncopied(database, _TOO_OLD, which)
            deleted = database.execute(f"DELETE FROM entries WHERE sequence IN ({_TOO_OLD})", which).rowcount  # noqa: S608  fixed
        if lost:
            events.ledger_uncopied(reason="too old", rows=lost)
        self._retention.count(deleted)
        if deleted == _DELETED_AT_ONCE:
            return True
        self._retention.conclude()
        database.execute("DELETE FROM misjudged WHERE at < ?", (oldest,))
        now = CLOCK.trusted()
        forget_copies(self._writer.path, oldest)
        return settle_next(database, now) or settle_turns(database, self._fold, now)


def _quote(replica: str | None) -> str:
    """A literal of SQL: constant, so it costs nothing per row."""
    quoted = (replica or "").replace("'", "''")
    return f"'{quoted}'" if replica is not None else "NULL"
