"""Connections to a database that is wrong, away, or slow."""

import asyncio
import signal

import pytest

from router.contract.stores import StoreUnusable

asyncpg = pytest.importorskip("asyncpg")

from router.stores.postgres.jobs import open_postgres_jobs  # noqa: E402
from router.stores.postgres.link import Link, explain  # noqa: E402
from tests.tools.postgres import LOCKED_USER, PASSWORD, make_terms  # noqa: E402


async def try_to_borrow(url: str) -> str:
    """Why no connection can be opened."""
    link = Link(make_terms(url), lambda reason: None)
    with pytest.raises(StoreUnusable) as caught:
        async with link.borrow():
            pass
    await link.close()
    return str(caught.value)


async def test_what_is_wrong_is_said_without_the_address(postgres, tmp_path):
    await postgres.ask(postgres.url(), f"CREATE ROLE {LOCKED_USER} LOGIN PASSWORD '{PASSWORD}'")

    reasons = [
        await try_to_borrow(postgres.url(user=LOCKED_USER, password="wr0ng")),
        await try_to_borrow(postgres.url("nowhere")),
        await try_to_borrow(f"postgresql://u:wr0ng@/d?host={tmp_path}"),
        await try_to_borrow("postgresql://u:wr0ng@h/d?sslmode=sometimes"),
    ]

    assert reasons == [
        "the database refused the user name or the password (28P01)",
        "the server has no database of this name (3D000)",
        "the database cannot be reached (FileNotFoundError)",
        "the address cannot be used (ClientConfigurationError)",
    ]


async def test_a_database_that_is_away_at_the_start_is_reported_and_keeps_nothing_from_starting(tmp_path):
    reported = []

    store = open_postgres_jobs(make_terms(f"postgresql://u@/d?host={tmp_path}"), keep_seconds=60.0, on_failure=reported.append)

    assert reported == ["the database cannot be reached (FileNotFoundError)"]
    with pytest.raises(StoreUnusable):
        await store.find("resp_1", None)
    await store.close()


async def test_a_statement_that_takes_too_long_is_cut_off_and_the_next_one_gets_a_new_connection(postgres):
    link = Link(make_terms(await postgres.create(), 0.5), lambda reason: None)

    with pytest.raises(StoreUnusable, match="did not answer in time"):
        async with link.borrow() as connection:
            await connection.execute("SELECT pg_sleep(60)")
    async with link.borrow() as other:
        assert await other.fetchval("SELECT 1") == 1
        assert connection.is_closed()

    await link.close()


async def test_a_database_that_no_longer_runs_is_waited_for_no_longer_than_the_limit(postgres):
    link = Link(make_terms(await postgres.create(), 0.5), lambda reason: None)
    async with link.borrow():
        pass

    postgres.signal_all(signal.SIGSTOP)
    try:
        failed = await asyncio.gather(_ask(link), _ask(link), return_exceptions=True)
    finally:
        postgres.signal_all(signal.SIGCONT)

    assert [str(error) for error in failed] == ["the database did not answer in time (TimeoutError)"] * 2
    await link.close()


async def _ask(link: Link) -> None:
    async with link.borrow() as connection:
        await connection.execute("SELECT 1")


async def test_a_failure_is_reported_once_until_it_is_over(postgres):
    reported = []
    url = await postgres.create()
    link = Link(make_terms(url), reported.append)
    async with postgres.refusing(url):
        for _ in range(3):
            with pytest.raises(StoreUnusable):
                await _ask(link)
    await _ask(link)
    async with postgres.refusing(url):
        with pytest.raises(StoreUnusable):
            await _ask(link)
    await link.close()

    assert len(reported) == 2


async def test_tables_that_somebody_dropped_are_made_again(postgres):
    url = await postgres.create()
    link = Link(make_terms(url), lambda reason: None)
    await _ask(link)
    await postgres.ask(url, "DROP SCHEMA tandem CASCADE")
    with pytest.raises(StoreUnusable, match="tables in the database are gone"):
        async with link.borrow() as connection:
            await connection.execute("SELECT 1 FROM tandem.jobs")

    async with link.borrow() as connection:
        assert await connection.fetchval("SELECT count(*) FROM tandem.jobs") == 0

    await link.close()


def test_an_unknown_error_is_named_by_its_code():
    assert explain(asyncpg.DivisionByZeroError("x")) == "the database reported an error (22012)"
