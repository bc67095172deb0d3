"""One look at the database, and its migration apart from serving."""

import asyncio

import pytest

pytest.importorskip("asyncpg")

from router.contract.stores import StoreUnusable
from router.stores.postgres.look import look_at_postgres, migrate
from router.stores.postgres.schema import SchemaUnusable, read_migrations
from tests.tools.postgres import make_terms


async def test_a_look_changes_nothing_and_a_migration_makes_the_tables_once(postgres):
    terms, everything = make_terms(url := await postgres.create()), tuple(read_migrations())

    before = await asyncio.to_thread(look_at_postgres, terms)
    assert await postgres.ask(url, "SELECT to_regnamespace('tandem')::text") == [(None,)]
    first, second = [await asyncio.to_thread(migrate, terms) for _ in range(2)]
    after = await asyncio.to_thread(look_at_postgres, terms)

    assert before.version.startswith("PostgreSQL ")
    assert (before.schema, before.rows) == (((), everything), None)
    assert [first, second] == [((), everything), (everything, ())]
    assert (after.schema, after.rows, after.newest_at) == ((everything, ()), 0, None)


async def test_a_database_of_another_program_is_not_migrated(postgres):
    url = await postgres.create()
    await postgres.ask(url, "CREATE SCHEMA tandem")
    await postgres.ask(url, "CREATE TABLE tandem.bicycles (wheels int)")

    for ask in (look_at_postgres, migrate):
        with pytest.raises(SchemaUnusable, match="belongs to another program"):
            await asyncio.to_thread(ask, make_terms(url))


async def test_a_database_that_is_away_says_so():
    with pytest.raises(StoreUnusable, match="cannot be reached"):
        await asyncio.to_thread(look_at_postgres, make_terms("postgresql://tandem@/x?host=/nowhere/at/all"))
