"""The tables in Postgres: made once, by one of many routers, and never among those of another program."""

import asyncio
import re

import pytest

from router.contract.stores import StoreUnusable

pytest.importorskip("asyncpg")

from router.stores.postgres.jobs import PostgresJobs, open_postgres_jobs
from router.stores.postgres.schema import SchemaUnusable, read_migrations
from tests.tools.jobs import MANY, make_job
from tests.tools.postgres import make_terms


def open_now(url: str) -> PostgresJobs:
    return open_postgres_jobs(make_terms(url), keep_seconds=60.0, on_failure=lambda reason: None)


async def test_routers_that_start_at_the_same_moment_make_the_tables_once(postgres):
    url = await postgres.create()
    stores = [PostgresJobs(make_terms(url), keep_seconds=60.0) for _ in range(4)]

    added = await asyncio.gather(*(store.add(make_job(f"resp_{number}"), MANY) for number, store in enumerate(stores)))

    assert added == [True] * 4
    listed = await postgres.ask(url, "SELECT number FROM tandem.migrated ORDER BY number")
    assert listed == [(number,) for number in read_migrations()]
    for store in stores:
        await store.close()


@pytest.mark.parametrize(
    ("found", "problem"),
    [
        (
            ["CREATE SCHEMA tandem", "CREATE TABLE tandem.bicycles (wheels int)"],
            r'belongs to another program \(unexpected table "bicycles"\)',
        ),
        (
            ["CREATE SCHEMA tandem", "CREATE TABLE tandem.version (number int)", "INSERT INTO tandem.version VALUES (99)"],
            r"written by a newer Tandem \(schema 99 > \d+\)",
        ),
        (
            ["CREATE SCHEMA tandem", "CREATE TABLE tandem.version (number int)", "INSERT INTO tandem.version VALUES (1)"],
            'table "jobs" is missing',
        ),
        (
            [
                "CREATE SCHEMA tandem",
                "CREATE TABLE tandem.version (number int)",
                "INSERT INTO tandem.version VALUES (1)",
                "CREATE TABLE tandem.jobs (id text)",
                "CREATE TABLE tandem.migrated (number int)",
                "INSERT INTO tandem.migrated VALUES (1), (2), (3)",
            ],
            r"was written by a Tandem before 0\.4\.0\n  hint: rename the schema",
        ),
    ],
)
async def test_a_database_that_must_not_be_touched_keeps_a_router_from_starting_and_stays_as_it_is(postgres, found, problem):
    url = await postgres.create()
    for statement in found:
        await postgres.ask(url, statement)
    tables = "SELECT relname FROM pg_class WHERE relnamespace = 'tandem'::regnamespace ORDER BY 1"
    before = await postgres.ask(url, tables)

    with pytest.raises(SchemaUnusable, match=problem):
        open_now(url)

    assert await postgres.ask(url, tables) == before


async def test_a_database_in_another_encoding_is_refused(postgres):
    await postgres.ask(postgres.url(), "CREATE DATABASE latin ENCODING 'LATIN1' TEMPLATE template0")

    with pytest.raises(StoreUnusable, match="must have the encoding UTF8, and has LATIN1"):
        open_now(postgres.url("latin"))


async def test_tables_that_are_there_are_used_as_they_are(postgres):
    url = await postgres.create()
    first = open_now(url)
    await first.add(make_job(), MANY)
    await first.close()

    second = open_now(url)

    assert await second.find("resp_1", None) is not None
    await second.close()


async def test_the_release_before_can_be_started_on_tables_that_this_one_has_migrated(postgres):
    """It compares the number with that of its own scripts, and wants the table to have this column alone."""
    url = await postgres.create()
    await open_now(url).close()

    assert await postgres.ask(url, "SELECT * FROM tandem.version") == [(min(read_migrations()),)]


async def test_scripts_that_a_later_release_has_run_are_no_reason_to_refuse(postgres):
    url = await postgres.create()
    await open_now(url).close()
    await postgres.ask(url, "INSERT INTO tandem.migrated VALUES (999)")

    store = open_now(url)

    assert await store.add(make_job(), MANY)
    await store.close()


def test_scripts_only_add_to_what_the_release_before_uses():
    takes_away = re.compile(r"\b(DROP|RENAME|TRUNCATE|DELETE|SET NOT NULL|ALTER COLUMN)\b", re.IGNORECASE)
    scripts = {number: re.sub(r"--.*|ON DELETE CASCADE", "", text) for number, text in read_migrations().items()}

    found = [number for number, text in scripts.items() if takes_away.search(text) and "UPDATE tandem.version" not in text]

    assert found == []


async def test_a_column_that_a_release_brought_without_a_script_is_added(postgres):
    url = await postgres.create()
    open_now(url)
    await postgres.ask(url, "ALTER TABLE tandem.entries DROP COLUMN cost_usd")

    open_now(url)

    kind = "SELECT data_type FROM information_schema.columns WHERE table_schema = 'tandem' AND column_name = 'cost_usd'"
    assert await postgres.ask(url, kind) == [("double precision",)]
