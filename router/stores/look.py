"""Checks of the shared stores for `tandem check --live`, and the database's migration on its own.

Only here are packages of the extra `shared` imported: `ModuleNotFoundError` names the missing one.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable
from statistics import median
from typing import Any, NamedTuple, TypeVar

from router.contract.shared import PostgresTerms, ValkeyTerms

Result = TypeVar("Result")
_TRIPS = 5
_VALKEY_SECONDS, _POSTGRES_SECONDS, _MIGRATE_SECONDS = 5.0, 10.0, 600.0
_GONE_SECONDS = 5.0
"""Silence after which a router counts as gone."""


class ValkeyLook(NamedTuple):
    version: str
    latency_ms: float
    clock_ahead_seconds: float
    routers: int


class PostgresLook(NamedTuple):
    version: str
    latency_ms: float
    clock_ahead_seconds: float
    migrations_applied: tuple[int, ...]
    migrations_missing: tuple[int, ...]
    ledger_rows: int | None = None
    """None: there is no copy yet."""
    ledger_newest_at: float | None = None
    """Arrival of its newest request, in seconds since 1970."""


async def time_trips(trip: Callable[[], Awaitable[object]]) -> float:
    """Median round trip in milliseconds."""
    took = []
    for _ in range(_TRIPS):
        began = time.perf_counter()
        await trip()
        took.append((time.perf_counter() - began) * 1_000)
    return median(took)


def look_at_valkey(terms: ValkeyTerms) -> ValkeyLook:
    """Raises `StoreUnusable`."""
    from router.stores.valkey.link import Link

    async def look() -> ValkeyLook:
        link = Link(terms.waiting(_VALKEY_SECONDS))
        try:
            await link.connect()
            latency_ms = await time_trips(lambda: link.ask("PING"))
            seconds, microseconds = await link.ask("TIME")
            now = int(seconds) + int(microseconds) / 1e6
            routers = await link.ask("ZCOUNT", link.key("x"), f"{now - _GONE_SECONDS:.3f}", "+inf")
            await link.ask("SET", link.key("x", "look"), "", "PX", 1_000)  # a full server answers reads but refuses this
            return ValkeyLook(link.version, latency_ms, now - time.time(), int(routers))
        finally:
            await link.close()

    return asyncio.run(look())


def look_at_postgres(terms: PostgresTerms) -> PostgresLook:
    """Read only. Raises `StoreUnusable`."""
    from router.stores.postgres.schema import read_schema

    async def look(connection: Any) -> PostgresLook:
        version = f"PostgreSQL {(await connection.fetchval('SHOW server_version')).split()[0]}"
        latency_ms = await time_trips(lambda: connection.fetchval("SELECT 1"))
        ahead = float(await connection.fetchval("SELECT extract(epoch FROM clock_timestamp())::float8")) - time.time()
        found = PostgresLook(version, latency_ms, ahead, *await read_schema(connection))
        if not found.migrations_applied:
            return found
        rows, newest = await connection.fetchrow("SELECT count(*), max(at) FROM tandem.entries")
        return found._replace(ledger_rows=rows, ledger_newest_at=newest)

    return asyncio.run(_with_link(terms, _POSTGRES_SECONDS, look))


def migrate(terms: PostgresTerms) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Returns the scripts present before and those run. Raises `StoreUnusable`."""
    from router.stores.postgres.schema import prepare

    return asyncio.run(_with_link(terms, _MIGRATE_SECONDS, lambda connection: prepare(connection, _MIGRATE_SECONDS)))


async def _with_link(terms: PostgresTerms, seconds: float, work: Callable[[Any], Awaitable[Result]]) -> Result:
    from router.stores.postgres.link import Link

    link = Link(terms.waiting(seconds), lambda reason: None, prepares=False)
    try:
        async with link.borrow() as connection:
            return await work(connection)
    finally:
        await link.close()
