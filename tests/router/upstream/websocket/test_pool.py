"""Which sockets are kept, for whom, for how long, and how many."""

import asyncio

import pytest
from msgspec.structs import replace

from router.loop.off_loop import OffLoop
from router.upstream.connection import CannotConnect
from router.upstream.dial import Dialer
from router.upstream.websocket import pool as pools
from router.upstream.websocket.pool import SocketPool
from tests.router.upstream.fakes import make_request
from tests.tools.loop_clock import jumping_clock

REQUEST = replace(make_request(), url="http://models.example/v1/responses", over_websocket=True)


class FakeSocket:
    """A socket without a network."""

    def __init__(self) -> None:
        self.loop = asyncio.get_running_loop()
        self.made_at = self.used_at = self.loop.time()
        self.is_usable, self.answers, self.baseline = True, True, None

    def release(self) -> None:
        self.used_at = self.loop.time()

    def is_alive(self) -> bool:
        return self.answers

    def close(self) -> None:
        self.is_usable = False


def keep(pool: SocketPool, session: str = "s-1") -> FakeSocket:
    key, socket = pool.key_of(REQUEST, (), session), FakeSocket()
    assert pool.claim(key)
    pool.give_back(key, socket)
    return socket


@pytest.fixture
def pool():
    return SocketPool(Dialer(), OffLoop())


@jumping_clock
async def test_a_session_finds_its_own_socket_again_and_no_others(pool):
    one, other = keep(pool, "s-1"), keep(pool, "s-2")

    assert pool.take(pool.key_of(REQUEST, (), "s-2")) is other
    assert pool.take(pool.key_of(REQUEST, (), "s-3")) is None
    assert pool.take(pool.key_of(REQUEST, (), "s-1")) is one
    assert pool.take(pool.key_of(REQUEST, (), "s-1")) is None


@jumping_clock
async def test_another_key_address_or_target_is_another_socket(pool):
    keep(pool)

    for other in (
        pool.key_of(REQUEST, (("authorization", "Bearer other"),), "s-1"),
        pool.key_of(replace(REQUEST, url="http://elsewhere.example/v1/responses"), (), "s-1"),
        pool.key_of(replace(REQUEST, target="sage"), (), "s-1"),
    ):
        assert pool.take(other) is None


@jumping_clock
async def test_headers_of_one_request_do_not_part_sockets(pool):
    socket = keep(pool)
    headers = (
        ("x-client-request-id", "7"),
        ("openai-beta", "responses_websockets=2026-02-06"),
        ("x-codex-turn-metadata", "{}"),
        ("x-openai-internal-codex-responses-lite", "true"),
    )

    assert pool.take(pool.key_of(REQUEST, headers, "s-1")) is socket


@jumping_clock
async def test_a_session_whose_socket_is_at_work_has_no_second_one(pool):
    key = pool.key_of(REQUEST, (), "s-1")

    assert [pool.claim(key), pool.claim(key)] == [True, False]
    pool.release(key)
    assert pool.claim(key)


@jumping_clock
async def test_the_longest_unused_socket_makes_room_and_none_is_taken_from_a_request(monkeypatch):
    monkeypatch.setattr(pools, "_MAX_SOCKETS", 2)
    pool = SocketPool(Dialer(), OffLoop())
    first, second = keep(pool, "s-1"), keep(pool, "s-2")

    assert pool.claim(pool.key_of(REQUEST, (), "s-3"))
    assert (first.is_usable, second.is_usable) == (False, True)
    assert pool.claim(pool.key_of(REQUEST, (), "s-4"))
    assert not pool.claim(pool.key_of(REQUEST, (), "s-5"))


@jumping_clock
async def test_a_socket_that_was_idle_for_five_minutes_is_closed(pool):
    socket = keep(pool)

    await asyncio.sleep(290)
    assert socket.is_usable
    await asyncio.sleep(60)

    assert not socket.is_usable


@jumping_clock
async def test_a_socket_that_is_dead_is_closed_within_a_minute(pool):
    socket = keep(pool)
    socket.answers = False

    await asyncio.sleep(60)

    assert not socket.is_usable


@jumping_clock
async def test_a_socket_of_ten_minutes_is_not_used_again(pool):
    socket = keep(pool)
    socket.made_at -= 10 * 60 + 1

    assert pool.take(pool.key_of(REQUEST, (), "s-1")) is None
    assert not socket.is_usable


@jumping_clock
async def test_a_target_that_is_left_alone_gets_no_claims_for_five_minutes(pool):
    key = pool.key_of(REQUEST, (), "s-1")
    pool.leave_alone(key, "no")

    assert not pool.claim(pool.key_of(REQUEST, (), "s-2"))
    assert pool.claim(pool.key_of(replace(REQUEST, target="sage"), (), "s-1"))
    await asyncio.sleep(301)
    assert pool.claim(key)


@jumping_clock
async def test_a_target_is_left_alone_after_three_lost_sockets_in_a_row(pool):
    keys = [pool.key_of(REQUEST, (), f"s-{number}") for number in range(4)]
    for key in keys[:2]:
        pool.note_lost(key, "gone")
    assert pool.claim(keys[3])

    pool.note_lost(keys[2], "gone")

    assert not pool.claim(keys[0])


@jumping_clock
async def test_a_message_as_large_as_one_that_was_refused_for_its_size_is_not_sent_again(pool):
    key, other = pool.key_of(REQUEST, (), "s-1"), pool.key_of(replace(REQUEST, target="sage"), (), "s-1")
    pool.note_too_large(key, 1_000)

    assert [pool.takes(key, size) for size in (999, 1_000, 5_000)] == [True, False, False]
    assert pool.takes(other, 5_000)


@pytest.mark.parametrize(
    ("status", "is_left_alone"), [(426, True), (404, True), (401, False), (403, False), (429, False), (431, False)]
)
async def test_a_rejected_key_does_not_close_the_way_to_others(target, status, is_left_alone):
    target.upgrade_status = status
    pool = SocketPool(Dialer(), OffLoop())
    key = pool.key_of(replace(REQUEST, url=f"{target.base_url}/responses"), (), "s-1")

    with pytest.raises(CannotConnect):
        await pool.connect(key, (), 2.0)

    assert pool.claim(key) is not is_left_alone


async def test_a_socket_that_was_opened_ahead_serves_the_first_session_that_comes(target):
    pool, request = SocketPool(Dialer(), OffLoop()), replace(REQUEST, url=f"{target.base_url}/responses")
    pool.connect_ahead(request)
    pool.connect_ahead(request)
    key = pool.key_of(request, (), "s-1")
    assert pool.claim(key)

    socket = await pool.connect(key, (), 2.0)

    assert socket.is_usable
    assert target.sockets == 1
    socket.close()
    pool.close()


async def test_a_target_with_an_idle_socket_is_not_connected_ahead(target):
    pool, request = SocketPool(Dialer(), OffLoop()), replace(REQUEST, url=f"{target.base_url}/responses")
    key = pool.key_of(request, (), "s-1")
    assert pool.claim(key)
    pool.give_back(key, await pool.connect(key, (), 2.0))

    pool.connect_ahead(request)

    assert pool._ahead == {}
    assert target.sockets == 1
    pool.close()


async def test_a_failure_to_connect_ahead_is_quiet_and_heeded(target):
    target.upgrade_status = 426
    pool, request = SocketPool(Dialer(), OffLoop()), replace(REQUEST, url=f"{target.base_url}/responses")
    pool.connect_ahead(request)
    key = pool.key_of(request, (), "s-1")

    with pytest.raises(CannotConnect, match="a moment ago"):
        await pool.connect(key, (), 2.0)

    assert not pool.claim(key)


@jumping_clock
async def test_sockets_to_a_target_that_is_gone_are_closed_idle_or_once_they_are_given_back(pool):
    idle, key, working = keep(pool, "s-1"), pool.key_of(REQUEST, (), "s-2"), FakeSocket()
    assert pool.claim(key)

    pool.keep_only([("another", "http://models.example/v1")])
    assert (idle.is_usable, working.is_usable) == (False, True)
    pool.give_back(key, working)
    assert not working.is_usable

    pool.keep_only([(REQUEST.target, "http://models.example/v1")])
    assert keep(pool, "s-3").is_usable
