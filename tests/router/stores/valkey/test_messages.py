"""What routers tell each other arrives as it was told; what is not ours, or not of our version, is counted and no more."""

import json

import pytest

pytest.importorskip("hiredis")


from router.contract.messages import FeedWanted, KeysChanged, TargetReport, TargetReports, router_of
from router.contract.shared import SharedTerms
from router.stores.shared import Shared
from router.stores.valkey.link import Link
from router.stores.valkey.messages import GONE_SECONDS, MAX_BYTES, ValkeyMessages
from tests.tools.waiting import until

NEWS = TargetReports({"spark": TargetReport(in_flight=3, closed_seconds=12.5)})


class Router:
    def __init__(self, terms, name):
        self.link = Link(terms)
        self.messages = ValkeyMessages(self.link, name, tick_seconds=0.01)
        self.heard = []
        for kind in (TargetReports, KeysChanged, FeedWanted):
            self.messages.subscribe(kind, lambda teller, fact: self.heard.append((teller, fact)))

    async def close(self):
        self.messages.close()
        await self.link.close()


@pytest.fixture
async def routers(valkey):
    terms = valkey.terms()
    routers = [Router(terms, "a"), Router(terms, "b")]
    for router in routers:
        await router.link.open()
    yield routers
    for router in routers:
        await router.close()


def publish(valkey, router, message):
    valkey.send("PUBLISH", router.link.key("p"), message)


async def test_the_others_hear_a_fact_with_who_told_it_and_its_teller_does_not(routers):
    one, other = routers

    one.messages.publish(NEWS)
    other.messages.publish(FeedWanted())
    await until(lambda: one.heard and other.heard)

    assert [(router_of(teller), fact) for teller, fact in other.heard] == [("a", NEWS)]
    assert [(router_of(teller), fact) for teller, fact in one.heard] == [("b", FeedWanted())]


async def test_a_tick_comes_again_and_again_while_there_is_a_connection(routers):
    beats = []
    routers[0].messages.on_tick(lambda: beats.append(1))

    await until(lambda: len(beats) > 3)


@pytest.mark.parametrize(
    ("message", "reason"),
    [
        ('{"v": 2, "sender": "c/1", "fact": {"type": "targets", "targets": {}}}', "version"),
        ('{"v": 2, "words": "of a later release"}', "version"),
        ('{"v": 1, "sender": "c/1", "fact": {"type": "a kind of a later release"}}', "unreadable"),
        ('{"v": 1, "sender": "c/1", "fact": {"type": "targets", "targets": {"t": {"in_flight": -1}}}}', "unreadable"),
        ('{"v": 1, "sender": "c/1", "fact": {"type": "targets", "targets": {"t": {"wait_seconds": 1e300}}}}', "unreadable"),
        ('{"v": 1, "sender": "c/1", "fact": {"type": "targets", "targets": {"t": {"wait_seconds": "long"}}}}', "unreadable"),
        ("words of another program", "unreadable"),
        (b"\xff\xfe\x00", "unreadable"),
        ("", "unreadable"),
        ("[" * 100_000, "unreadable"),
        (" " * (MAX_BYTES + 1), "too_large"),
    ],
)
async def test_a_message_that_is_not_ours_is_counted_and_changes_nothing(routers, valkey, listen, message, reason):
    one, other = routers
    read = listen()

    publish(valkey, one, message)
    other.messages.publish(NEWS)
    await until(lambda: one.heard)

    assert [fact for _, fact in one.heard] == [NEWS]
    assert one.messages.ignored == {reason: 1}
    ignored = [line for line in read() if line["event"] == "pulse.ignored"]
    assert {(line["reason"], line["count"]) for line in ignored} == {(reason, 1)}


async def test_a_flood_of_such_messages_is_logged_once(routers, valkey, listen):
    one, read = routers[0], listen()

    for _ in range(5):
        publish(valkey, one, "{}")
    await until(lambda: one.messages.ignored["unreadable"] == 5)

    assert len([line for line in read() if line["event"] == "pulse.ignored"]) == 2  # one of each router


async def test_a_field_of_a_later_release_is_passed_over(routers, valkey):
    one = routers[0]
    fact = {"type": "targets", "targets": {"spark": {"in_flight": 3, "closed_seconds": 12.5, "mood": "fine"}}, "more": 1}

    publish(valkey, one, json.dumps({"v": 1, "sender": "c/1", "fact": fact, "added": []}))
    await until(lambda: one.heard)

    assert one.heard == [("c/1", NEWS)]
    assert not one.messages.ignored


async def test_nothing_is_told_while_the_server_is_away_and_nobody_fails(own_valkey):
    router = Router(own_valkey.terms(timeout_seconds=0.05), "a")
    await router.link.open()
    own_valkey.kill()
    await until(lambda: not router.messages.is_up)

    router.messages.publish(NEWS)

    assert router.messages.routers == 1
    await router.close()


# How many routers there are.


@pytest.fixture
async def start(own_valkey):
    """Starts routers that share one server, all with the same name."""
    terms, started = own_valkey.terms(), []

    async def start_one():
        started.append(router := Router(terms, "web"))
        await router.link.open()
        return router

    yield start_one
    for router in started:
        await router.close()


def test_a_router_without_a_shared_server_is_one():
    assert Shared(SharedTerms("web")).replicas == 1


async def test_routers_of_one_name_are_counted_each(start):
    one, two, three = await start(), await start(), await start()

    await until(lambda: (one.messages.count, two.messages.count, three.messages.count) == (3, 3, 3))
    assert one.messages.routers == 1


async def test_a_router_that_stops_is_not_counted_any_more(start):
    one, two = await start(), await start()
    await until(lambda: one.messages.count == 2)

    await two.close()

    await until(lambda: one.messages.count == 1)


async def test_a_router_that_fell_silent_is_forgotten_by_the_clock_of_the_server(start, own_valkey):
    one, silent = await start(), "another/0"
    seconds = float(own_valkey.send("TIME").split(b"\r\n")[2])

    own_valkey.send("ZADD", one.link.key("x"), str(seconds), silent)
    await until(lambda: one.messages.count == 2)
    own_valkey.send("ZADD", one.link.key("x"), str(seconds - GONE_SECONDS - 1), silent)

    await until(lambda: one.messages.count == 1)


async def test_the_last_count_holds_while_the_server_is_away(start, own_valkey):
    one, _ = await start(), await start()
    await until(lambda: one.messages.count == 2)

    own_valkey.kill()
    await until(lambda: not one.link.is_up)

    assert one.messages.count == 2


async def test_a_value_of_another_program_under_our_key_leaves_the_count_as_it_was(start, own_valkey):
    one, _ = await start(), await start()
    await until(lambda: one.messages.count == 2)

    own_valkey.send("SET", one.link.key("x"), "words")
    before = one.link.trips
    await until(lambda: one.link.trips > before + 1)

    assert one.messages.count == 2
    assert one.link.is_up


async def test_what_a_router_shares_includes_the_count(valkey):
    terms = valkey.terms()
    one, two = Shared(SharedTerms("a", terms)), Shared(SharedTerms("b", terms))
    await one.connect()
    await two.connect()

    await until(lambda: two.replicas == 2)
    await one.close()
    await two.close()
