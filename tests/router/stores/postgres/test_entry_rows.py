"""The statements of the ledger's copy."""

import time

import pytest

pytest.importorskip("asyncpg")

import asyncpg

from router.stores.postgres import entry_rows
from router.stores.postgres.schema import prepare
from router.stores.sqlite.files import connect
from router.stores.sqlite.forwarded import FORWARDED, read_next
from tests.tools.kept import make_entry, open_entries
from tests.tools.running import read_entries


@pytest.fixture
async def connection(postgres):
    opened = await asyncpg.connect(await postgres.create_used())
    await prepare(opened)
    await opened.execute("TRUNCATE tandem.entries")
    yield opened
    await opened.close()


async def insert(connection, rows) -> None:
    async with connection.transaction():
        await entry_rows.insert(connection, rows)


async def rows_of(path, **more) -> list[tuple]:
    store = open_entries(path, [], replica="web-1")
    store.append(make_entry(**more))
    await store.close()
    database = connect(path)
    found = [row[1:] for row in read_next(database, 0, 10)]
    database.close()
    return found


async def test_a_copy_has_every_column_of_the_file_with_its_value(connection, tmp_path):
    rows = await rows_of(
        tmp_path / "a.db",
        key="k",
        job="resp_1",
        cost_usd=0.5,
        error="late",
        prompt_text="asked",
        answer_text="said",
        billing="mixed",
        list_usd=0.25,
        combined="deep looked it over: fine",
    )

    await insert(connection, rows)

    (copied,) = await connection.fetch("SELECT * FROM tandem.entries")
    (original,) = read_entries(tmp_path / "a.db")
    assert {**dict(copied), "sequence": 1} == original
    assert {"sequence", "worker", *FORWARDED} == set(original)


async def test_a_row_that_is_there_stays_as_it_is(connection, tmp_path):
    rows = await rows_of(tmp_path / "a.db", model="first")
    await insert(connection, rows)

    await insert(connection, [[("second" if value == "first" else value) for value in rows[0]]])

    assert [row["model"] for row in await connection.fetch("SELECT model FROM tandem.entries")] == ["first"]


@pytest.mark.parametrize("first", [1, None])
async def test_what_the_tokens_really_were_replaces_an_estimate_and_not_the_other_way_round(connection, tmp_path, first):
    estimate = await rows_of(tmp_path / "a.db", tokens_estimated=first, outcome="INTERRUPTED", cost_usd=0.5)
    exact = await rows_of(tmp_path / "b.db", tokens_estimated=0, outcome="SERVED", cost_usd=0.25)

    kept = []
    for rows in (estimate, exact, estimate):
        await insert(connection, rows)
        kept += await connection.fetch("SELECT outcome, cost_usd, tokens_estimated FROM tandem.entries")

    assert [tuple(row) for row in kept] == [("INTERRUPTED", 0.5, first), ("SERVED", 0.25, 0), ("SERVED", 0.25, 0)]


async def test_a_character_0_is_replaced_since_postgres_has_none(connection, tmp_path):
    await insert(connection, await rows_of(tmp_path / "a.db", because="a\0b"))

    assert await connection.fetchval("SELECT because FROM tandem.entries") == "a\N{REPLACEMENT CHARACTER}b"


@pytest.mark.parametrize(
    ("column", "value", "is_fit"),
    [("at", "noon", False), ("caller", None, False), ("status", b"x", False), ("error", None, True), ("score", 1, True)],
)
async def test_only_rows_whose_values_fit_their_columns_are_copied(tmp_path, column, value, is_fit):
    row = list((await rows_of(tmp_path / "a.db"))[0])
    good = list(row)
    row[FORWARDED.index(column)] = value

    assert entry_rows.find_unfit([good, row, good]) == (set() if is_fit else {1})


async def test_old_rows_are_deleted_a_few_at_a_time(connection, tmp_path):
    for number in range(3):
        await insert(connection, await rows_of(tmp_path / f"{number}.db", name=f"req_{number}", at=float(number)))

    answers = [await entry_rows.forget_old(connection, 1.5, 1) for _ in range(3)]

    assert answers == [True, True, False]
    assert [row["id"] for row in await connection.fetch("SELECT id FROM tandem.entries")] == ["req_2"]


async def test_a_database_has_one_name_and_the_time(connection):
    home, now = await entry_rows.read_home(connection)

    assert (await entry_rows.read_home(connection))[0] == home != ""
    assert int(now - time.time()) // 60 in (-1, 0)
