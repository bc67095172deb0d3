"""One look at the stores that routers share, and the database's migration apart from serving."""

import asyncio

import pytest

pytest.importorskip("asyncpg")
pytest.importorskip("hiredis")

from router.contract.stores import StoreUnusable
from router.stores.look import look_at_postgres, look_at_valkey, migrate, time_trips
from router.stores.postgres.schema import SchemaUnusable, read_migrations
from tests.tools.postgres import make_terms


async def test_one_slow_trip_does_not_count(monkeypatch):
    moments = iter([0.0, 0.001, 1.0, 1.001, 2.0, 2.5, 3.0, 3.001, 4.0, 4.002])
    monkeypatch.setattr("time.perf_counter", lambda: next(moments))

    async def trip() -> None:
        pass

    assert round(await time_trips(trip), 3) == 1.0


async def test_a_look_at_postgres_changes_nothing_and_a_migration_makes_the_tables_once(postgres):
    terms, everything = make_terms(url := await postgres.create()), tuple(read_migrations())

    before = await asyncio.to_thread(look_at_postgres, terms)
    assert await postgres.ask(url, "SELECT to_regnamespace('tandem')::text") == [(None,)]
    first, second = [await asyncio.to_thread(migrate, terms) for _ in range(2)]
    after = await asyncio.to_thread(look_at_postgres, terms)

    assert before.version.startswith("PostgreSQL ")
    assert before[3:] == ((), everything, None, None)
    assert [first, second] == [((), everything), (everything, ())]
    assert after[3:] == (everything, (), 0, None)


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


async def test_a_look_at_valkey_counts_the_routers_that_were_there_lately(valkey):
    terms = valkey.terms()
    seconds = int(valkey.send("TIME").split(b"\r\n")[2])
    valkey.send("ZADD", f"{terms.prefix}:x", str(seconds), "one", str(seconds), "two", str(seconds - 60), "gone")

    look = await asyncio.to_thread(look_at_valkey, terms)

    assert look.version.startswith(("redis ", "valkey "))
    assert look.latency_ms > 0
    assert int(look.clock_ahead_seconds) == 0
    assert look.routers == 2


async def test_a_server_that_cannot_be_used_says_why(valkey, own_valkey):
    own_valkey.send("CONFIG", "SET", "maxmemory", "1")
    problems = {
        valkey.terms(url="unix:///nowhere/at/all"): "cannot be reached",
        valkey.terms(url=valkey.url("locked", "wrong")): "refused the user name or the password",
        own_valkey.terms(): "its memory is full",
    }

    for terms, problem in problems.items():
        with pytest.raises(StoreUnusable, match=problem):
            await asyncio.to_thread(look_at_valkey, terms)
