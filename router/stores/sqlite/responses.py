"""Responses on disk. Everything passes the writer in order, so that no write overtakes its deletion."""

import json
import sqlite3
from collections.abc import Callable, Collection
from typing import Any

from router.contract.caller import Caller
from router.contract.clock import CLOCK
from router.contract.stores import StoredResponse, StoreUnusable
from router.stores.sqlite.files import FAILURES, cause_of
from router.stores.sqlite.migrate import forget_copies
from router.stores.sqlite.reader import SqliteReader
from router.stores.sqlite.retention import Retention
from router.stores.sqlite.rows import Row
from router.stores.sqlite.writer import SqliteWriter

_KEPT_SECONDS = 30 * 86_400.0
"""OpenAI's own minimum."""
_KEEP = "INSERT OR REPLACE INTO transcripts (id, caller, target, at, content) VALUES (?, ?, ?, ?, ?)"
_FIND = "SELECT id, target, at, content FROM transcripts WHERE id = ? AND caller = ? AND at >= ?"
_FIND_OTHERS = "SELECT 1 FROM transcripts WHERE id = ? AND caller != ?"
_LIST = "SELECT rowid, caller, id FROM transcripts WHERE rowid > ? AND at >= ? ORDER BY rowid LIMIT ?"
_FIND_ITEMS = "SELECT json_group_array(id) FROM items WHERE response = ? AND caller = ?"
_FORGET = "DELETE FROM transcripts WHERE id = ? AND caller = ?"
_KEEP_ITEMS = "INSERT OR IGNORE INTO items (id, caller, response) SELECT value, ?, ? FROM json_each(?)"
_FIND_HOLDER = """
    SELECT t.id, t.target, t.at, t.content FROM transcripts t
    JOIN items i ON i.response = t.id AND i.caller = t.caller
    WHERE i.id IN (SELECT value FROM json_each(?)) AND i.caller = ? AND t.at >= ? ORDER BY t.at DESC LIMIT 1
"""


class SqliteResponses:
    def __init__(self, writer: SqliteWriter, *, clock: Callable[[], float] = CLOCK.trusted) -> None:
        self._writer, self._clock = writer, clock
        self._reader = SqliteReader(writer.path)
        writer.watch(self._reader.rows)
        self._retention = Retention(writer.path.name, "transcripts", _KEPT_SECONDS, clock=clock)
        writer.attach(self, self._forget_old)

    def keep(self, response: StoredResponse, *, for_long: bool) -> None:
        values = (response.id, response.caller.name, response.target, response.at, response.raw)
        self._writer.append(Row(_KEEP, values, len(response.raw)))
        if response.item_ids:
            ids = json.dumps(sorted(response.item_ids))
            self._writer.append(Row(_KEEP_ITEMS, (response.caller.name, response.id, ids), len(ids)))

    async def find(self, response_id: str, caller: Caller) -> StoredResponse | None:
        """Off the loop: a long conversation takes milliseconds."""
        row = await self._find_row(_FIND, response_id, caller.name, self._clock() - _KEPT_SECONDS)
        return StoredResponse(row[0], caller, *row[1:]) if row is not None else None

    async def find_holder(self, item_ids: Collection[str], caller: Caller) -> StoredResponse | None:
        wanted = json.dumps(sorted(item_ids))
        row = await self._find_row(_FIND_HOLDER, wanted, caller.name, self._clock() - _KEPT_SECONDS)
        return StoredResponse(row[0], caller, *row[1:]) if row is not None else None

    async def list_rows(self, after: int, limit: int) -> list[tuple[int, tuple[Caller, str]]]:
        """Caller and id of rows after a number. Raises `StoreUnusable`."""
        values = (after, self._clock() - _KEPT_SECONDS, limit)
        try:
            rows = await self._writer.run(lambda database: database.execute(_LIST, values).fetchall())
        except FAILURES as error:
            raise self._unusable("cannot be read", error) from error
        return [(number, (Caller(caller), name)) for number, caller, name in rows]

    async def load(self, response_id: str, caller: Caller) -> StoredResponse | None:
        found = await self.find(response_id, caller)
        items = await self._find_row(_FIND_ITEMS, response_id, caller.name) if found is not None else None
        return found._replace(item_ids=frozenset(json.loads(items[0]))) if found is not None and items is not None else found

    async def forget(self, response_id: str, caller: Caller) -> bool:
        """Returns once deleted. Raises `StoreUnusable`."""
        try:
            return await self._writer.run(lambda database: database.execute(_FORGET, (response_id, caller.name)).rowcount > 0)
        except UnicodeEncodeError:
            return False  # a lone surrogate cannot have been written
        except FAILURES as error:
            raise self._unusable("cannot be written to", error) from error

    async def is_denied(self, response_id: str, caller: Caller) -> bool:
        """Whether another caller has this id. Deleted ids are not remembered."""
        return await self._find_row(_FIND_OTHERS, response_id, caller.name) is not None

    async def close(self) -> None:
        await self._reader.close()
        await self._writer.detach(self)

    async def _find_row(self, statement: str, *values: object) -> tuple[Any, ...] | None:
        """The first row after queued writes; if those fail, as on disk. Raises `StoreUnusable` where it may be waiting."""
        try:
            return await self._writer.run(lambda database: database.execute(statement, values).fetchone())
        except UnicodeEncodeError:
            return None
        except FAILURES as error:
            if (row := await self._reader.find_row(statement, *values)) is None:
                raise self._unusable("cannot be used", error) from error
            return row

    def _unusable(self, what: str, error: Exception) -> StoreUnusable:
        path = self._writer.path
        return StoreUnusable(f"{path.name} {what}: {cause_of(error, path)}")

    def _forget_old(self, database: sqlite3.Connection) -> bool:
        oldest = self._retention.find_limit(database)
        self._retention.count(database.execute("DELETE FROM transcripts WHERE at < ?", (oldest,)).rowcount)
        self._retention.conclude()
        forget_copies(self._writer.path, oldest)
        return False
