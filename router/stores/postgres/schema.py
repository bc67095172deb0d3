"""The tables in Postgres schema `tandem`, and the numbered scripts that create them.

During an upgrade two releases share the database, so scripts only add, and an older release ignores what it does not know:
`tandem.migrated` lists the scripts run. `tandem.version` is the newest script a release must know. It rises only with a script
that drops something no running release needs; that script sets it.
"""

from collections.abc import Mapping
from importlib import resources
from typing import Any, NamedTuple

from router.contract.entry import column_types
from router.contract.stores import SharedUnusable

_SQL: dict[type, str] = {str: "TEXT", float: "DOUBLE PRECISION", int: "BIGINT", bool: "BIGINT"}
LIMIT_SECONDS = 5.0
"""Limit for preparing the tables, and for waiting while another router does."""
_LOCK = 0x74616E64
"""Held while a router creates or migrates the tables."""
_TABLES = "SELECT relname FROM pg_class WHERE relnamespace = to_regnamespace('tandem') AND relkind IN ('r', 'p', 'v', 'm', 'f')"


class SchemaUnusable(SharedUnusable):
    """The database is reachable, but of a Tandem that is newer or from before 0.4.0, or of another program."""


class Schema(NamedTuple):
    applied: tuple[int, ...]
    pending: tuple[int, ...]


def read_migrations() -> Mapping[int, str]:
    folder = resources.files("router.stores.postgres") / "migrations"
    found = sorted((item for item in folder.iterdir() if item.name.endswith(".sql")), key=lambda item: item.name)
    return {int(item.name.removesuffix(".sql")): item.read_text(encoding="utf-8") for item in found}


async def read_schema(connection: Any) -> Schema:
    """Raises `SchemaUnusable` for a database that must not be used."""
    applied = await _read_applied(connection)
    return Schema(tuple(sorted(applied)), tuple(number for number in read_migrations() if number not in applied))


async def prepare(connection: Any, limit_seconds: float = LIMIT_SECONDS) -> Schema:
    """Returns the schema as found. Raises `SchemaUnusable`, changing nothing."""
    found = await read_schema(connection)
    if not found.pending and not await _missing_columns(connection):
        return found
    async with connection.transaction():
        await connection.execute(f"SET LOCAL statement_timeout = {int(limit_seconds * 1_000)}")
        await connection.execute("SELECT pg_advisory_xact_lock($1)", _LOCK)
        found = await read_schema(connection)  # another router may have been faster
        if not found.applied:
            await _begin(connection)
        await connection.execute("CREATE TABLE IF NOT EXISTS tandem.migrated (number INTEGER PRIMARY KEY)")
        scripts = read_migrations()
        for number in found.pending:
            await connection.execute(scripts[number])
        for name, kind in (await _missing_columns(connection)).items():
            await connection.execute(f"ALTER TABLE tandem.entries ADD COLUMN {name} {kind}")
        listed = "INSERT INTO tandem.migrated SELECT unnest($1::int[]) ON CONFLICT DO NOTHING"
        await connection.execute(listed, [*found.applied, *found.pending])
    return found


async def _missing_columns(connection: Any) -> dict[str, str]:
    """Ledger columns that need no script, with their types."""
    columns = "SELECT attname FROM pg_attribute WHERE attrelid = to_regclass('tandem.entries') AND attnum > 0"
    known = {name for (name,) in await connection.fetch(columns)}
    return {name: _SQL[kind] for name, (kind, _) in column_types().items() if name not in known}


async def _read_applied(connection: Any) -> set[int]:
    """Empty without tables."""
    tables = {name for (name,) in await connection.fetch(_TABLES)}
    if not tables:
        return set()
    columns = "SELECT attname FROM pg_attribute WHERE attrelid = to_regclass('tandem.version') AND attnum > 0"
    if [name for (name,) in await connection.fetch(columns)] != ["number"]:
        first = min(tables)
        raise SchemaUnusable(f'the schema "tandem" of the database belongs to another program (unexpected table "{first}")')
    needed, scripts = int(await connection.fetchval("SELECT number FROM tandem.version") or 0), read_migrations()
    if needed > max(scripts):
        raise SchemaUnusable(f"the database was written by a newer Tandem (schema {needed} > {max(scripts)})")
    if needed and "jobs" not in tables:
        raise SchemaUnusable('the schema "tandem" of the database is not complete (table "jobs" is missing)')
    listed = await connection.fetch("SELECT number FROM tandem.migrated") if "migrated" in tables else ()
    applied = {number for (number,) in listed}
    if needed and min(scripts) not in applied:
        what_to_do = 'rename the schema "tandem", and new tables are made'
        raise SchemaUnusable(f"the database was written by a Tandem before 0.4.0\n  hint: {what_to_do}")
    return applied


async def _begin(connection: Any) -> None:
    if (encoding := await connection.fetchval("SHOW server_encoding")) != "UTF8":
        raise SchemaUnusable(f"the database must have the encoding UTF8, and has {encoding}")
    if await connection.fetchval("SELECT to_regnamespace('tandem')") is None:  # made in advance, it needs no right to create
        await connection.execute("CREATE SCHEMA tandem")
    await connection.execute("CREATE TABLE tandem.version (number INTEGER NOT NULL)")
    await connection.execute("INSERT INTO tandem.version VALUES ($1)", min(read_migrations()))
