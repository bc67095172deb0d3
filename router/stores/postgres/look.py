"""One look at the database that routers share, for `tandem stores`, and its migration apart from serving."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple, TypeVar

from router.contract.shared import PostgresTerms
from router.stores.look import time_trips
from router.stores.postgres.link import Link
from router.stores.postgres.schema import Schema, prepare, read_schema

Result = TypeVar("Result")
_LOOK_SECONDS = 10.0
_MIGRATE_SECONDS = 600.0
_LEDGER = 3
"""The script that made the ledger's copy."""


class PostgresLook(NamedTuple):
    version: str
    latency_ms: float
    clock_ahead_seconds: float
    schema: Schema
    rows: int | None = None
    """How many rows the copy of the ledger has. None where there is no copy yet."""
    newest_at: float | None = None
    """When the newest request arrived that is in it, in seconds since 1970."""


def look_at_postgres(terms: PostgresTerms) -> PostgresLook:
    """Ask the database, and change nothing. Raises `StoreUnusable`."""
    return asyncio.run(_with_link(terms, _LOOK_SECONDS, _look))


def migrate(terms: PostgresTerms) -> Schema:
    """Run the scripts that are missing. Answers which were there before, and which were run. Raises `StoreUnusable`."""
    return asyncio.run(_with_link(terms, _MIGRATE_SECONDS, lambda connection: prepare(connection, _MIGRATE_SECONDS)))


async def _with_link(terms: PostgresTerms, seconds: float, work: Callable[[Any], Awaitable[Result]]) -> Result:
    link = Link(terms.waiting(seconds), lambda reason: None, prepares=False)
    try:
        async with link.borrow() as connection:
            return await work(connection)
    finally:
        await link.close()


async def _look(connection: Any) -> PostgresLook:
    version = f"PostgreSQL {(await connection.fetchval('SHOW server_version')).split()[0]}"
    latency_ms = await time_trips(lambda: connection.fetchval("SELECT 1"))
    ahead = float(await connection.fetchval("SELECT extract(epoch FROM clock_timestamp())::float8")) - time.time()
    look = PostgresLook(version, latency_ms, ahead, await read_schema(connection))
    if _LEDGER not in look.schema.applied:
        return look
    rows = await connection.fetchval("SELECT count(*) FROM tandem.entries")
    return look._replace(rows=int(rows), newest_at=await connection.fetchval("SELECT max(at) FROM tandem.entries"))
