"""Stored responses in Postgres: how long they stay, and that what was deleted does not come back."""

import time

import pytest

pytest.importorskip("asyncpg")

from router.contract.caller import Caller
from router.contract.stores import StoreUnusable
from router.stores.places import DELETED, UNKNOWN
from router.stores.postgres.link import Link
from router.stores.postgres.responses import PostgresResponses
from tests.tools.kept import ANN, BOB, make_response
from tests.tools.postgres import make_terms

DAY = 86_400.0


@pytest.fixture
async def link(postgres):
    link = Link(make_terms(await postgres.create_used()), lambda reason: None)
    yield link
    await link.close()


async def test_a_response_is_found_for_thirty_days_and_deleted_after_them(postgres, link):
    now = time.time()
    before = PostgresResponses(link, clock=lambda: now)
    await before.keep(make_response("resp_old", at=now, item_ids=["msg_a"]))
    assert (await before.find("resp_old", ANN)).response is not None

    after = PostgresResponses(link, clock=lambda: now + 31 * DAY)

    assert await after.find("resp_old", ANN) == UNKNOWN
    assert await after.find_holder(["msg_a"], ANN) is None
    await after.keep(make_response("resp_new", at=now + 31 * DAY))
    async with link.borrow() as connection:
        assert [name for (name,) in await connection.fetch("SELECT id FROM tandem.responses")] == ["resp_new"]
        assert await connection.fetchval("SELECT count(*) FROM tandem.items") == 0


async def test_a_deleted_response_leaves_its_id_and_nothing_that_was_said(link):
    place = PostgresResponses(link)
    await place.keep(make_response(item_ids=["msg_a"]))

    await place.delete("resp_1", ANN)

    async with link.borrow() as connection:
        rows = [tuple(row) for row in await connection.fetch("SELECT id, caller, target, content FROM tandem.responses")]
        assert rows == [("resp_1", "ann", "", None)]
        assert await connection.fetchval("SELECT count(*) FROM tandem.items") == 0
    assert await place.find("resp_1", ANN) == DELETED


@pytest.mark.parametrize("is_late", [False, True])
async def test_a_write_that_is_slow_or_late_does_not_bring_back_what_was_deleted_meanwhile(link, is_late):
    place = PostgresResponses(link)
    await place.delete("resp_1", ANN)

    await place.keep(make_response(item_ids=["msg_a"]), is_late=is_late)

    assert await place.find("resp_1", ANN) == DELETED
    assert await place.find_holder(["msg_a"], ANN) is None


async def test_a_write_that_comes_late_does_not_replace_a_newer_one(link):
    place, now = PostgresResponses(link), time.time()
    await place.keep(make_response(text="new", at=now))

    await place.keep(make_response(text="old", at=now - 1), is_late=True)

    assert (await place.find("resp_1", ANN)).response.read()[0].items == ["new"]


async def test_what_the_database_lacks_and_could_hold_is_told_apart_from_what_was_deleted(link):
    place = PostgresResponses(link)
    await place.keep(make_response("resp_there"))
    await place.delete("resp_gone", ANN)

    asked = [(ANN, "resp_there"), (ANN, "resp_gone"), (BOB, "resp_there"), (ANN, "a\0b")]

    assert await place.sort_out(asked) == ([(BOB, "resp_there")], [(ANN, "resp_gone")])
    assert await place.sort_out([]) == ([], [])


async def test_an_id_or_a_name_that_the_database_cannot_hold_is_never_known(link):
    place, thread = PostgresResponses(link), Caller("ann\0threads")

    for response in (make_response()._replace(id="\ud800"), make_response(caller=thread)):
        with pytest.raises(StoreUnusable):
            await place.keep(response)
        assert await place.find(response.id, response.caller) == UNKNOWN
        await place.delete(response.id, response.caller)
    assert await place.find_holder(["\ud800", "a\0b"], BOB) is None
