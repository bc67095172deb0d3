"""Which connections are kept, for how long, and for whom."""

import asyncio

import pytest
from msgspec.structs import replace

from router.contract.relay import Tls, Used
from router.loop.together import Outbox
from router.upstream.address import read_address
from router.upstream.call import Origin, PreparedCall
from router.upstream.connection import CannotConnect
from router.upstream.pool import Pool
from tests.router.upstream.fakes import make_request, open_connection
from tests.tools.exchanges import RecordingSink
from tests.tools.loop_clock import jumping_clock
from tests.tools.upstream import CHAT_ANSWER, answer_json
from tests.tools.waiting import later


class FakeDialer:
    """Keeps what was asked of it."""

    def __init__(self) -> None:
        self.asked = []

    async def dial(self, address, tls, within_seconds):
        self.asked.append((address, tls, within_seconds))
        return open_connection()[0]


ADDRESS = read_address("http://models.example/v1")


@pytest.fixture
def origin():
    return Origin(ADDRESS, None, FakeDialer(), Outbox())


@jumping_clock
async def test_the_connection_that_was_idle_for_the_shortest_time_is_taken_first(origin):
    connections = [open_connection()[0] for _ in range(2)]
    for connection in connections:
        origin.give_back(connection)

    assert [origin.take(), origin.take(), origin.take()] == [connections[1], connections[0], None]


@jumping_clock
async def test_a_connection_that_was_idle_for_too_long_is_closed_instead(origin):
    connection, transport = open_connection()
    origin.give_back(connection)

    await asyncio.sleep(49)
    assert origin.take() is connection
    origin.give_back(connection)
    await asyncio.sleep(51)

    assert origin.take() is None
    assert transport.is_aborted


@jumping_clock
async def test_a_connection_is_renewed_after_ten_minutes_however_busy_it_was(origin):
    connection, transport = open_connection()
    for _ in range(14):
        origin.give_back(connection)
        await asyncio.sleep(40)
        assert origin.take() is connection
        connection.last_read_at = asyncio.get_running_loop().time()

    origin.give_back(connection)
    await asyncio.sleep(41)

    assert origin.take() is None
    assert transport.is_aborted


@jumping_clock
async def test_a_connection_that_was_closed_meanwhile_is_neither_kept_nor_taken(origin):
    early, early_transport = open_connection()
    late, late_transport = open_connection()
    early_transport.abort()

    origin.give_back(early)
    origin.give_back(late)
    late_transport.abort()

    assert origin.take() is None


@jumping_clock
async def test_no_more_than_128_idle_connections_are_kept_for_one_address(origin):
    pairs = [open_connection() for _ in range(129)]

    for connection, _ in pairs:
        origin.give_back(connection)

    assert [transport.is_aborted for _, transport in pairs] == [False] * 128 + [True]


@jumping_clock
async def test_a_fresh_connection_is_dialled_with_the_origins_own_tls():
    dialer = FakeDialer()

    await Origin(ADDRESS, Tls(ca_file="x"), dialer, Outbox()).connect(5)

    assert dialer.asked == [(ADDRESS, Tls(ca_file="x"), 5)]


@pytest.fixture
async def pool():
    pool = Pool()
    yield pool
    await pool.close()


async def fetch(pool: Pool, url: str, **more) -> RecordingSink:
    sink = RecordingSink()
    pool.open(replace(make_request(**more), url=url), sink)
    return await sink.finished()


async def test_a_second_call_to_one_host_uses_the_connection_of_the_first(pool, upstream):
    upstream.scripts = [answer_json(CHAT_ANSWER)]

    for path in ("/chat/completions", "/responses"):
        await fetch(pool, upstream.base_url + path)

    assert [seen.path for seen in upstream.seen] == ["/v1/chat/completions", "/v1/responses"]
    assert upstream.connections == 1


async def test_a_request_goes_out_with_its_headers_and_no_offer_to_compress(pool, upstream):
    upstream.scripts = [answer_json(CHAT_ANSWER)]

    await fetch(pool, upstream.base_url)

    (seen,) = upstream.seen
    assert (seen.method, seen.body) == ("POST", b"{}")
    assert seen.headers["host"] in upstream.base_url
    assert {name: seen.headers[name] for name in ("a", "accept-encoding", "content-length", "user-agent")} == {
        "a": "b",
        "accept-encoding": "identity",
        "content-length": "2",
        "user-agent": "tandem",
    }


async def test_a_target_that_closes_idle_connections_is_asked_again_on_a_fresh_one(pool, upstream):
    async def once(wire, seen):
        await answer_json(CHAT_ANSWER)(wire, seen)
        wire.writer.close()

    upstream.scripts = [once]

    sinks = [await fetch(pool, upstream.base_url) for _ in range(3)]

    assert [sink.status for sink in sinks] == [200] * 3
    assert len(upstream.seen) == upstream.connections == 3


async def test_closing_drops_idle_connections_and_leaves_those_at_work(pool, upstream):
    goes_on = asyncio.Event()

    async def slow(wire, seen):
        await goes_on.wait()
        await answer_json(CHAT_ANSWER)(wire, seen)

    upstream.scripts = [answer_json(CHAT_ANSWER), slow]
    await fetch(pool, upstream.base_url)
    at_work = asyncio.gather(fetch(pool, upstream.base_url))
    await asyncio.sleep(0)

    await pool.close()
    goes_on.set()

    assert [sink.status for sink in await at_work] == [200]


@jumping_clock
async def test_a_connection_is_opened_ahead_where_none_is_idle_or_on_its_way():
    dialer = FakeDialer()
    origin = Origin(ADDRESS, None, dialer, Outbox())
    for _ in range(3):
        origin.connect_ahead(5.0, "spark")
    await asyncio.sleep(0.1)
    origin.connect_ahead(5.0, "spark")
    await asyncio.sleep(0.1)
    assert len(dialer.asked) == 1

    assert origin.take() is not None
    origin.connect_ahead(5.0, "spark")
    await asyncio.sleep(0.1)
    assert len(dialer.asked) == 2


@jumping_clock
async def test_no_connection_is_opened_ahead_while_a_request_dials():
    dialer = FakeDialer()
    origin = Origin(ADDRESS, None, dialer, Outbox())
    origin.connect_ahead(5.0, "spark")
    waiting = asyncio.get_running_loop().create_future()

    async def dial(address, tls, within_seconds):
        dialer.asked.append(address)
        return await waiting

    dialer.dial = dial
    request = later(origin.connect(5.0))
    await asyncio.sleep(0.1)
    assert len(dialer.asked) == 1

    waiting.set_result(open_connection()[0])
    await request


@jumping_clock
async def test_a_failure_to_connect_ahead_is_heard_by_nobody():
    class Deaf:
        async def dial(self, address, tls, within_seconds):
            raise CannotConnect("no")

    origin = Origin(ADDRESS, None, Deaf(), Outbox())
    origin.connect_ahead(5.0, "spark")
    await asyncio.sleep(0.1)

    assert origin.take() is None


@jumping_clock
async def test_of_the_calls_of_one_turn_the_first_is_sent_at_once_and_the_others_when_it_is_over(origin):
    prepared, transports = PreparedCall(origin, make_request(), b"POST /v1/chat HTTP/1.1\r\n"), []
    for _ in range(3):
        connection, transport = open_connection()
        origin.give_back(connection)
        transports.insert(0, transport)  # the last one given back is taken first

    for number in range(3):
        prepared.open(b"%d" % number, RecordingSink())
    before = [transport.written[-1:] for transport in transports]
    await asyncio.sleep(0)

    assert before == [b"0", b"", b""]
    assert [transport.written[-1:] for transport in transports] == [b"0", b"1", b"2"]


@jumping_clock
async def test_a_retired_origin_keeps_no_connection_and_still_serves_calls_under_way(origin):
    idle, working = open_connection()[0], open_connection()[0]
    origin.give_back(idle)

    origin.retire()
    origin.give_back(working)

    assert not idle.is_usable
    assert not working.is_usable
    assert origin.take() is None
    assert await origin.connect(1.0)
    origin.connect_ahead(1.0, "x")
    await asyncio.sleep(0)
    assert origin.take() is None


async def test_addresses_that_are_still_used_are_kept_and_others_are_forgotten():
    pool = Pool()
    kept, gone = (replace(make_request(), url=f"http://{host}.example/v1/x") for host in ("kept", "gone"))
    before = [pool.prepare(request).origin for request in (kept, gone)]

    pool.keep_only([Used("a", "http://kept.example/v1", None)])

    after = [pool.prepare(request).origin for request in (kept, gone)]
    assert after[0] is before[0]
    assert after[1] is not before[1]
