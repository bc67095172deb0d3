"""What a Valkey or Redis server keeps of a caller is found and deleted, and nothing else."""

import asyncio

import pytest

pytest.importorskip("hiredis")

from router.contract.caller import LOCAL, Caller, SessionKey, record_name
from router.contract.stores import StoreUnusable
from router.stores.places import DELETED
from router.stores.valkey.forget import count_kept, forget_caller
from router.stores.valkey.link import Link
from router.stores.valkey.responses import ValkeyResponses
from router.stores.valkey.sessions import ValkeySessions
from tests.tools.kept import ANN, make_response

BOB = Caller("bob")
CALLERS = (ANN, BOB, LOCAL)


@pytest.fixture
async def stores(valkey):
    """A session and a response of each caller, and values that are something else."""
    terms = valkey.terms()
    link = Link(terms)
    sessions, responses = ValkeySessions(link), ValkeyResponses(link)
    await link.open()
    for caller in CALLERS:
        await sessions.swap(record_name(SessionKey(caller, "s")), 1, 0.0, b"{}")
        await responses.keep(make_response(item_ids=["msg_a"])._replace(caller=caller))
    for foreign in (b"", b"R", b"R\x94\xff", b"R\x94\x01", b"hello"):
        await link.ask("SET", link.key("r", f"other{foreign.hex()}"), foreign)
    yield terms, sessions, responses
    await link.close()


@pytest.mark.parametrize("caller", CALLERS)
async def test_what_is_kept_of_one_caller_is_counted_and_deleted(stores, caller):
    terms, sessions, responses = stores
    others = [other for other in CALLERS if other != caller]

    counted = await asyncio.to_thread(count_kept, terms, caller)
    forgotten = await asyncio.to_thread(forget_caller, terms, caller)

    assert counted == forgotten == {"sessions": 1, "responses": 1}
    assert await asyncio.to_thread(count_kept, terms, caller) == {"sessions": 0, "responses": 0}
    assert (await sessions.load(record_name(SessionKey(caller, "s")))).state is None
    assert await responses.find("resp_1", caller) is DELETED
    for other in others:
        assert (await sessions.load(record_name(SessionKey(other, "s")))).state is not None
        assert (await responses.find("resp_1", other)).response is not None


async def test_routers_are_told_to_delete_their_own_copies(stores):
    terms, _, responses = stores
    gone = asyncio.get_running_loop().create_future()
    responses.on_gone = lambda *what: gone.set_result(what)

    await asyncio.to_thread(forget_caller, terms, BOB)

    assert await gone == ("resp_1", BOB)


async def test_a_response_with_a_long_id_is_found(stores):
    terms, _, responses = stores
    await responses.keep(make_response(long_id := "resp_" + "1" * 5_000)._replace(caller=BOB))

    assert (await asyncio.to_thread(forget_caller, terms, BOB))["responses"] == 2
    assert await responses.find(long_id, BOB) is DELETED


async def test_more_than_one_page_is_looked_through(stores):
    terms, sessions, _ = stores
    for number in range(2_500):
        sessions.swap(record_name(SessionKey(BOB, str(number))), 1, 0.0, b"{}")
    await sessions.load("any")

    assert (await asyncio.to_thread(forget_caller, terms, BOB))["sessions"] == 2_501


def test_a_server_that_is_away_is_reported(valkey):
    with pytest.raises(StoreUnusable):
        forget_caller(valkey.terms(url="redis://127.0.0.1:1"), BOB)
