"""Which router has an `Idempotency-Key`: one of many, until it says what it answered, or that it did not."""

import asyncio

import pytest
from structlog.testing import capture_logs

pytest.importorskip("hiredis")

from router.contract.stores import HeldKey, StoreUnusable
from router.loop.tasks import spawn
from router.stores.valkey.repeats import ValkeyRepeats
from tests.tools.unreliable import FAULTS, UnreliableLink
from tests.tools.waiting import until

SLOT, ASKED, OTHER = b"s" * 32, b"a" * 32, b"b" * 32


class Routers:
    """Opens stores on one server, each as another router."""

    def __init__(self, terms, fault: str = "") -> None:
        self._terms, self._fault, self.links = terms, fault, []

    async def open(self) -> ValkeyRepeats:
        self.links.append(UnreliableLink(self._terms, self._fault))
        store = ValkeyRepeats(self.links[-1])
        await self.links[-1].open()
        return store

    async def catch_up(self) -> None:
        """Return when everything that was sent so far has been carried out and heard."""
        for link in self.links:
            await link.ask("PING")
        for link in self.links:
            await link.ask("PING")


@pytest.fixture(params=["", *FAULTS])
async def routers(request, valkey):
    opened = Routers(valkey.terms(), request.param)
    yield opened
    for link in opened.links:
        await link.close()


async def test_one_of_many_routers_gets_a_slot_and_the_others_learn_what_was_asked(routers):
    stores = [await routers.open() for _ in range(3)]

    found = await asyncio.gather(*(store.claim(SLOT, ASKED) for store in stores))

    assert sorted(found, key=str) == [HeldKey(ASKED, None), HeldKey(ASKED, None), None]


async def test_an_answer_is_found_by_every_router_and_those_that_waited_are_told(routers):
    one, other = await routers.open(), await routers.open()
    await one.claim(SLOT, ASKED)
    waiting = spawn(other.wait(SLOT, 600), name="wait")
    await asyncio.sleep(0)

    one.finish(SLOT, b"the answer")
    await waiting

    assert await other.claim(SLOT, OTHER) == HeldKey(ASKED, b"the answer")
    assert await one.claim(SLOT, OTHER) == HeldKey(ASKED, b"the answer")


async def test_waiting_for_a_slot_that_is_over_already_ends_at_once(routers):
    one, other = await routers.open(), await routers.open()
    await one.claim(SLOT, ASKED)
    one.finish(SLOT, None)
    await routers.catch_up()

    await other.wait(SLOT, 600)

    assert await other.claim(SLOT, OTHER) is None


async def test_an_answer_is_kept_although_the_server_lost_its_slot_meanwhile(valkey, routers):
    one, other = await routers.open(), await routers.open()
    await one.claim(SLOT, ASKED)
    valkey.send("FLUSHALL")

    one.finish(SLOT, b"the answer")
    await routers.catch_up()

    assert await other.claim(SLOT, OTHER) == HeldKey(ASKED, b"the answer")


async def test_a_router_that_lost_its_slot_to_another_changes_nothing_when_it_finishes(valkey, routers):
    one, other = await routers.open(), await routers.open()
    await one.claim(SLOT, ASKED)
    valkey.send("FLUSHALL")  # as if its time had run out
    await other.claim(SLOT, OTHER)

    one.finish(SLOT, b"late")
    await routers.catch_up()

    assert await one.claim(SLOT, ASKED) == HeldKey(OTHER, None)


async def test_a_claim_that_is_cut_off_leaves_the_slot_free(routers):
    one, other = await routers.open(), await routers.open()
    claiming = spawn(one.claim(SLOT, ASKED), name="claim")
    await asyncio.sleep(0)

    claiming.cancel()
    await asyncio.wait([claiming])
    await routers.catch_up()

    assert await other.claim(SLOT, OTHER) is None


async def test_what_is_answered_while_the_server_is_away_is_known_when_it_is_back(own_valkey):
    routers = Routers(own_valkey.terms(timeout_seconds=0.1))
    one, other = await routers.open(), await routers.open()
    await one.claim(SLOT, ASKED)
    own_valkey.pause()
    with pytest.raises(StoreUnusable):
        await other.claim(b"x" * 32, ASKED)
    while routers.links[0].is_up:
        with pytest.raises(StoreUnusable):
            await routers.links[0].ask("PING")
    one.finish(SLOT, b"the answer")

    own_valkey.resume()
    await until(lambda: all(link.is_up for link in routers.links))
    await routers.catch_up()

    assert await other.claim(SLOT, ASKED) == HeldKey(ASKED, b"the answer")
    assert await other.claim(b"x" * 32, OTHER) is None
    assert routers.links[1].blind == {"repeats": 1}
    for link in routers.links:
        await link.close()


async def test_a_server_that_lost_its_data_gets_slots_and_answers_back(own_valkey):
    routers = Routers(own_valkey.terms())
    one, other = await routers.open(), await routers.open()
    answered, free = b"t" * 32, b"u" * 32
    one.restore_from(lambda: [(answered, HeldKey(ASKED, b"the answer"), 60.0)])
    await one.claim(SLOT, ASKED)
    await one.claim(free, ASKED)

    own_valkey.kill()
    one.finish(free, None)
    own_valkey.start()
    await until(lambda: all(link.losses and link.is_up for link in routers.links))
    await routers.catch_up()
    await until(lambda: own_valkey.send("EXISTS", routers.links[0].key("i", answered.hex())) == b":1\r\n")

    assert await other.claim(SLOT, ASKED) == HeldKey(ASKED, None)
    assert await other.claim(answered, ASKED) == HeldKey(ASKED, b"the answer")
    assert await other.claim(free, ASKED) is None
    one.finish(SLOT, b"first")
    await routers.catch_up()
    assert await other.claim(SLOT, ASKED) == HeldKey(ASKED, b"first")
    for link in routers.links:
        await link.close()


async def test_an_answer_that_another_router_has_given_meanwhile_is_not_replaced(own_valkey):
    routers = Routers(own_valkey.terms())
    one, other = await routers.open(), await routers.open()
    listed = asyncio.Event()

    def list_answers():
        yield SLOT, HeldKey(ASKED, b"mine"), 60.0
        listed.set()

    one.restore_from(list_answers)
    await other.claim(SLOT, ASKED)
    other.finish(SLOT, b"theirs")
    await routers.catch_up()

    for kind in ("normal", "pubsub"):
        own_valkey.send("CLIENT", "KILL", "TYPE", kind)
    await listed.wait()
    await until(lambda: all(link.losses and link.is_up for link in routers.links))

    assert await one.claim(SLOT, ASKED) == HeldKey(ASKED, b"theirs")
    for link in routers.links:
        await link.close()


async def test_a_slot_that_holds_something_else_is_reported_and_not_used(valkey, routers):
    store = await routers.open()
    valkey.send("SET", routers.links[0].key("i", SLOT.hex()), "hello")

    with capture_logs() as logs, pytest.raises(StoreUnusable):
        await store.claim(SLOT, ASKED)

    assert [(line["event"], line["kind"]) for line in logs] == [("store.value_unreadable", "repeats")]
