"""Routers count each other: each reports itself, one that leaves is gone at once, and one that fell silent after five seconds."""

import pytest

pytest.importorskip("hiredis")

from router.contract.shared import SharedTerms
from router.stores.shared import Shared
from router.stores.valkey.alive import GONE_SECONDS, Alive
from router.stores.valkey.link import Link
from tests.tools.waiting import until

BEAT_SECONDS = 0.02


class Router:
    """What a router has of this, with a heart that beats quickly."""

    def __init__(self, terms):
        self.link = Link(terms)
        self.alive = Alive(self.link, "web", BEAT_SECONDS)

    @property
    def count(self):
        return self.alive.count

    async def close(self):
        self.alive.close()
        await self.link.close()


@pytest.fixture
async def start(own_valkey):
    """Starts routers that share one server, all with the same name."""
    terms, started = own_valkey.terms(), []

    async def start_one():
        started.append(router := Router(terms))
        await router.link.open()
        return router

    yield start_one
    for router in started:
        await router.close()


def test_a_router_without_a_shared_server_is_one():
    assert Shared(SharedTerms("web")).replicas == 1


async def test_routers_of_one_name_are_counted_each(start):
    one, two, three = await start(), await start(), await start()

    await until(lambda: (one.count, two.count, three.count) == (3, 3, 3))
    assert one.alive.names == {"web"}


async def test_a_router_that_stops_is_not_counted_any_more(start):
    one, two = await start(), await start()
    await until(lambda: one.count == 2)

    await two.close()

    await until(lambda: one.count == 1)


async def test_a_router_that_fell_silent_is_forgotten_by_the_clock_of_the_server(start, own_valkey):
    one, silent = await start(), "another/0"
    seconds = float(own_valkey.send("TIME").split(b"\r\n")[2])

    own_valkey.send("ZADD", one.link.key("x"), str(seconds), silent)
    await until(lambda: one.count == 2)
    own_valkey.send("ZADD", one.link.key("x"), str(seconds - GONE_SECONDS - 1), silent)

    await until(lambda: one.count == 1)


async def test_the_last_count_holds_while_the_server_is_away(start, own_valkey):
    one, _ = await start(), await start()
    await until(lambda: one.count == 2)

    own_valkey.kill()
    await until(lambda: not one.link.is_up)

    assert one.count == 2


async def test_a_value_of_another_program_under_our_key_leaves_the_count_as_it_was(start, own_valkey):
    one, _ = await start(), await start()
    await until(lambda: one.count == 2)

    own_valkey.send("SET", one.link.key("x"), "words")
    before = one.link.trips
    await until(lambda: one.link.trips > before + 1)

    assert one.count == 2
    assert one.link.is_up


async def test_what_a_router_shares_includes_the_count(valkey):
    terms = valkey.terms()
    one, two = Shared(SharedTerms("a", terms)), Shared(SharedTerms("b", terms))
    await one.connect()
    await two.connect()

    await until(lambda: two.replicas == 2)
    await one.close()
    await two.close()
