"""The responses of one socket."""

from router.stores.memory import socket_responses
from router.stores.memory.responses import MemoryResponses
from router.stores.memory.socket_responses import SocketResponses
from tests.tools.kept import ANN, BOB, make_response


async def test_a_sockets_own_responses_come_before_those_of_all():
    shared = MemoryResponses()
    shared.keep(make_response("resp_2", ANN), for_long=False)
    own = SocketResponses(shared)
    own.keep(make_response("resp_1", ANN), for_long=False)

    assert (await own.find("resp_1", ANN)).id == "resp_1"
    assert (await own.find("resp_2", ANN)).id == "resp_2"
    assert await own.find("resp_2", BOB) is None
    assert await shared.find("resp_1", ANN) is None


async def test_nobody_else_is_asked_for_a_response_that_is_not_here():
    assert await SocketResponses(MemoryResponses()).is_denied("resp_9", ANN)


async def test_those_used_the_longest_ago_are_forgotten(monkeypatch):
    monkeypatch.setattr(socket_responses, "_MAX_RESPONSES", 2)
    own = SocketResponses(MemoryResponses())
    for name in ("resp_1", "resp_2"):
        own.keep(make_response(name, ANN), for_long=False)
    await own.find("resp_1", ANN)
    own.keep(make_response("resp_3", ANN), for_long=False)

    assert [name for name in ("resp_1", "resp_2", "resp_3") if await own.find(name, ANN)] == ["resp_1", "resp_3"]


async def test_the_newest_stays_however_large_it_is(monkeypatch):
    monkeypatch.setattr(socket_responses, "_MAX_BYTES", 10)
    own = SocketResponses(MemoryResponses())
    own.keep(make_response("resp_1", ANN), for_long=False)
    own.keep(make_response("resp_2", ANN), for_long=False)

    assert await own.find("resp_1", ANN) is None
    assert await own.find("resp_2", ANN) is not None


async def test_what_is_forgotten_or_closed_is_gone():
    shared = MemoryResponses()
    own = SocketResponses(shared)
    for store in (own, shared):
        store.keep(make_response("resp_1", ANN), for_long=False)

    assert await own.forget("resp_1", ANN)
    assert await own.find("resp_1", ANN) is None
    own.keep(make_response("resp_2", ANN), for_long=False)
    await own.close()
    assert await own.find("resp_2", ANN) is None
