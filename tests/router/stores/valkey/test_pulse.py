"""What routers tell each other arrives as it was told; what is not ours, or not of our version, is counted and no more."""

import json

import pytest

pytest.importorskip("hiredis")

from router.contract.pulse import FeedWanted, KeysChanged, TargetNews, TargetsTold, name_of
from router.stores.valkey.alive import Alive
from router.stores.valkey.link import Link
from router.stores.valkey.pulse import MAX_BYTES, SharedWatches, ValkeyPulse
from tests.tools.waiting import until

NEWS = TargetsTold({"spark": TargetNews(in_flight=3, closed_seconds=12.5)})


class Router:
    def __init__(self, terms, name):
        self.link = Link(terms)
        self.pulse = ValkeyPulse(self.link, name, Alive(self.link, name), beat_seconds=0.02)
        self.heard = []
        for kind in (TargetsTold, KeysChanged, FeedWanted):
            self.pulse.hear(kind, lambda teller, fact: self.heard.append((teller, fact)))

    async def close(self):
        self.pulse.close()
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

    one.pulse.tell(NEWS)
    other.pulse.tell(FeedWanted())
    await until(lambda: one.heard and other.heard)

    assert [(name_of(teller), fact) for teller, fact in other.heard] == [("a", NEWS)]
    assert [(name_of(teller), fact) for teller, fact in one.heard] == [("b", FeedWanted())]


async def test_a_beat_comes_again_and_again_while_there_is_a_connection(routers):
    beats = []
    routers[0].pulse.on_beat(lambda: beats.append(1))

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
    other.pulse.tell(NEWS)
    await until(lambda: one.heard)

    assert [fact for _, fact in one.heard] == [NEWS]
    assert one.pulse.ignored == {reason: 1}
    ignored = [line for line in read() if line["event"] == "pulse.ignored"]
    assert {(line["reason"], line["count"]) for line in ignored} == {(reason, 1)}


async def test_a_flood_of_such_messages_is_logged_once(routers, valkey, listen):
    one, read = routers[0], listen()

    for _ in range(5):
        publish(valkey, one, "{}")
    await until(lambda: one.pulse.ignored["unreadable"] == 5)

    assert len([line for line in read() if line["event"] == "pulse.ignored"]) == 2  # one of each router


async def test_a_field_of_a_later_release_is_passed_over(routers, valkey):
    one = routers[0]
    fact = {"type": "targets", "targets": {"spark": {"in_flight": 3, "closed_seconds": 12.5, "mood": "fine"}}, "more": 1}

    publish(valkey, one, json.dumps({"v": 1, "sender": "c/1", "fact": fact, "added": []}))
    await until(lambda: one.heard)

    assert one.heard == [("c/1", NEWS)]
    assert not one.pulse.ignored


async def test_nothing_is_told_while_the_server_is_away_and_nobody_fails(own_valkey):
    router = Router(own_valkey.terms(timeout_seconds=0.05), "a")
    await router.link.open()
    own_valkey.kill()
    await until(lambda: not router.pulse.is_up)

    router.pulse.tell(NEWS)

    assert router.pulse.routers == 1
    await router.close()


@pytest.fixture
async def pair(valkey):
    """The watches of two workers."""
    terms = valkey.terms()
    links = [Link(terms), Link(terms)]
    watches = [SharedWatches(link) for link in links]
    for link in links:
        await link.open()
    yield watches
    for link in links:
        await link.close()


@pytest.mark.parametrize("job_id", ["resp_1", None])
async def test_what_one_worker_notes_wakes_those_who_wait_at_another(pair, job_id):
    here, there = pair
    watch, other = there.watch(job_id), there.watch("resp_2")

    here.note(job_id)

    assert await watch.wait(30.0)
    assert not await other.wait(0.0)


async def test_a_cancelled_job_wakes_its_owner_at_another_worker(pair):
    here, there = pair
    watch = there.watch("resp_1", for_owner=True)

    here.note_stop("resp_1")

    assert await watch.wait(30.0)
