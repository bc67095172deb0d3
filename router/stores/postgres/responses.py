"""Responses with `store: true` in the shared database, for thirty days."""

import time
from collections.abc import Callable, Collection
from typing import Any

from router.contract.caller import Caller
from router.contract.clock import CLOCK
from router.contract.stores import StoredResponse, StoreUnusable
from router.loop.tasks import spawn
from router.stores.job_records import is_writable
from router.stores.places import DELETED, OTHERS, UNKNOWN, Key, Known
from router.stores.postgres.link import Link

_KEPT_SECONDS = 30 * 86_400.0
"""OpenAI's own minimum."""
_FORGET_SECONDS = 600.0
_DELETED_AT_ONCE = 100
_KEEP = """
    INSERT INTO tandem.responses AS old (id, caller, target, at, content) VALUES ($1, $2, $3, $4, $5)
    ON CONFLICT (id, caller) DO UPDATE SET target = $3, at = $4, content = $5 WHERE old.content IS NOT NULL AND old.at <= $4
    RETURNING 1
"""
"""A slow or late write replaces neither a deletion's mark nor a newer response."""
_KEEP_ITEMS = "INSERT INTO tandem.items (id, caller, response) SELECT unnest($3::text[]), $2, $1 ON CONFLICT DO NOTHING"
_LOOK = "SELECT caller, target, at, content FROM tandem.responses WHERE id = $1 ORDER BY caller = $2 DESC LIMIT 1"
_FIND_HOLDER = """
    SELECT r.id, r.target, r.at, r.content FROM tandem.responses r
    JOIN tandem.items i ON i.response = r.id AND i.caller = r.caller
    WHERE i.id = ANY($1::text[]) AND i.caller = $2 AND r.content IS NOT NULL AND r.at >= $3 ORDER BY r.at DESC LIMIT 1
"""
_STATES = """
    SELECT r.caller, r.id, r.content IS NULL FROM tandem.responses r
    JOIN unnest($1::text[], $2::text[]) AS asked (caller, id) ON r.id = asked.id AND r.caller = asked.caller
"""
_BURY = """
    INSERT INTO tandem.responses (id, caller, target, at, content) VALUES ($1, $2, '', $3, NULL)
    ON CONFLICT (id, caller) DO UPDATE SET target = '', at = $3, content = NULL
"""
_BURY_ITEMS = "DELETE FROM tandem.items WHERE response = $1 AND caller = $2"
_FORGET_OLD = """
    DELETE FROM tandem.responses WHERE ctid = ANY(ARRAY(SELECT ctid FROM tandem.responses WHERE at < $1 LIMIT $2))
"""


class PostgresResponses:
    def __init__(self, link: Link, clock: Callable[[], float] = CLOCK.trusted) -> None:
        self._link, self._clock = link, clock
        self._forgotten_at = 0.0

    async def keep(self, response: StoredResponse, *, is_late: bool = False) -> None:
        """Deletes expired responses first, now and then."""
        name, caller = response.id, response.caller.name
        if not (is_writable(name) and is_writable(caller)):
            raise StoreUnusable("the id is not valid text")
        items = [item_id for item_id in response.item_ids if is_writable(item_id)]
        async with self._link.borrow() as connection, connection.transaction():
            await self._forget_old(connection)
            values = (name, caller, response.target, response.at, response.raw)
            if await connection.fetchval(_KEEP, *values) and items:
                await connection.execute(_KEEP_ITEMS, name, caller, items)

    async def find(self, response_id: str, caller: Caller) -> Known:
        if not (is_writable(response_id) and is_writable(caller.name)):
            return UNKNOWN
        row = await self._fetch(_LOOK, response_id, caller.name)
        if row is None:
            return UNKNOWN
        owner, target, at, content = row
        if owner != caller.name:
            return OTHERS
        if content is None:
            return DELETED
        return Known(StoredResponse(response_id, caller, target, at, content)) if at >= self._oldest() else UNKNOWN

    async def find_holder(self, item_ids: Collection[str], caller: Caller) -> StoredResponse | None:
        wanted = [item_id for item_id in item_ids if is_writable(item_id)]
        if not (wanted and is_writable(caller.name)):
            return None
        row = await self._fetch(_FIND_HOLDER, wanted, caller.name, self._oldest())
        return StoredResponse(row[0], caller, *row[1:]) if row is not None else None

    async def delete(self, response_id: str, caller: Caller) -> None:
        if not (is_writable(response_id) and is_writable(caller.name)):
            return
        async with self._link.borrow() as connection, connection.transaction():
            await connection.execute(_BURY, response_id, caller.name, self._clock())
            await connection.execute(_BURY_ITEMS, response_id, caller.name)

    async def sort_out(self, keys: Collection[Key]) -> tuple[list[Key], list[Key]]:
        asked = [(caller.name, name) for caller, name in keys if is_writable(name) and is_writable(caller.name)]
        async with self._link.borrow() as connection:
            rows = await connection.fetch(_STATES, [caller for caller, _ in asked], [name for _, name in asked])
        known = {(caller, name): is_deleted for caller, name, is_deleted in rows}
        missing = [(Caller(caller), name) for caller, name in asked if (caller, name) not in known]
        return missing, [(Caller(caller), name) for (caller, name), is_deleted in known.items() if is_deleted]

    async def _fetch(self, statement: str, *values: object) -> Any:
        """A request that never waited is no task, and only a task can have a time limit."""

        async def fetch() -> Any:
            async with self._link.borrow() as connection:
                return await connection.fetchrow(statement, *values)

        return await spawn(fetch(), name="find response")

    def _oldest(self) -> float:
        return self._clock() - _KEPT_SECONDS

    async def _forget_old(self, connection: Any) -> None:
        """A few at a time, during writes."""
        if time.monotonic() < self._forgotten_at:
            return
        done = await connection.execute(_FORGET_OLD, self._oldest(), _DELETED_AT_ONCE)
        if done != f"DELETE {_DELETED_AT_ONCE}":
            self._forgotten_at = time.monotonic() + _FORGET_SECONDS
