"""Accepting connections: how many from one address, and what becomes of those who wait while there are no handles."""

import asyncio
import contextlib
import errno
import os
import resource
import socket
import ssl
import time
from asyncio.sslproto import SSLProtocol

import pytest

from router.edge.listener import Listener, origin_of, tls_protocol_of, write_origin
from router.edge.server import bind
from tests.tools.certificates import client_context, write_pair
from tests.tools.waiting import until


class Echo(asyncio.Protocol):
    """Says back what it hears, and hangs up when it is told to."""

    def __init__(self, place):
        self._place = place

    def connection_lost(self, error):
        self._place.free()

    def connection_made(self, transport):
        self._transport = transport

    def data_received(self, data):
        if data == b"close":
            self._transport.close()
        elif data == b"abort":
            self._transport.abort()
        else:
            self._transport.write(data)


class Rig:
    """A listener with three connections for each address, and its callers."""

    def __init__(self, clock, **tls):
        self._listening = bind("127.0.0.1", 0)
        self.listener = Listener(self._listening, Echo, lambda: self.limit, clock=clock, **tls)
        self.limit = 3
        self._writers = []

    async def connect(self, tls=None):
        reader, writer = await asyncio.open_connection(*self._listening.getsockname(), ssl=tls)
        self._writers.append(writer)
        return reader, writer

    async def is_served(self, caller):
        reader, writer = caller
        with contextlib.suppress(ConnectionError):
            writer.write(b"x")
            return await asyncio.wait_for(reader.read(1), 30) == b"x"
        return False

    def close(self):
        for writer in self._writers:
            writer.close()
        self.listener.close()
        self._listening.close()


@pytest.fixture
async def rig():
    now = [0.0]
    made = Rig(lambda: now[0])
    await made.listener.start()
    made.now = now
    yield made
    made.close()


async def test_connections_over_the_limit_are_closed_and_the_others_are_served(rig):
    callers = [await rig.connect() for _ in range(5)]

    assert [await rig.is_served(caller) for caller in callers] == [True, True, True, False, False]
    assert rig.listener.connections == 3


@pytest.mark.parametrize("ending", [b"close", b"abort", b""], ids=["closed here", "aborted here", "closed by the caller"])
async def test_a_connection_counts_until_it_is_closed(rig, ending):
    callers = [await rig.connect() for _ in range(3)]
    assert await rig.is_served(callers[2])

    for _, writer in callers:
        writer.write(ending) if ending else writer.close()
    await until(lambda: rig.listener.connections == 0)

    assert await rig.is_served(await rig.connect())


async def test_the_kernel_takes_64_kb_at_most_of_what_it_cannot_send_to_a_caller(rig, monkeypatch):
    transports = []
    monkeypatch.setattr(Echo, "connection_made", lambda self, transport: transports.append(transport))

    await rig.connect()
    await until(lambda: transports)

    found = transports[0].get_extra_info("socket").getsockopt(socket.IPPROTO_TCP, socket.TCP_NOTSENT_LOWAT)
    assert found == 65_536


async def test_the_limit_is_that_of_the_moment(rig):
    rig.limit = 1
    await rig.is_served(await rig.connect())
    refused = await rig.is_served(await rig.connect())
    rig.limit = 2

    assert (refused, await rig.is_served(await rig.connect())) == (False, True)


async def test_a_flood_is_one_line_a_minute_with_the_number_of_refusals(rig, listen):
    read_log = listen()
    rig.limit = 1
    assert await rig.is_served(await rig.connect())
    for _ in range(20):
        assert not await rig.is_served(await rig.connect())
    rig.now[0] += 61
    assert not await rig.is_served(await rig.connect())

    logged = [line for line in read_log() if line["event"] == "connections.refused"]

    assert [(line["address"], line["limit"], line["refused"]) for line in logged] == [("127.0.0.1", 1, 1), ("127.0.0.1", 1, 20)]


async def test_callers_wait_while_handles_are_short_and_are_served_once_there_are_some(rig, listen, monkeypatch):
    read_log = listen()
    monkeypatch.setattr(resource, "getrlimit", lambda _: (8, 8))
    waiting = [asyncio.ensure_future(rig.is_served(await rig.connect())) for _ in range(3)]  # noqa: TID251  awaited below
    await until(lambda: rig.listener.is_paused)
    before = rig.listener.connections

    monkeypatch.undo()

    assert await asyncio.gather(*waiting) == [True, True, True]
    assert (before < 3, rig.listener.is_paused) == (True, False)
    assert [line["event"] for line in read_log()] == ["accept.paused"]


async def test_after_a_shortage_a_few_free_handles_are_not_enough(rig, monkeypatch):
    with monkeypatch.context() as short:
        short.setattr(resource, "getrlimit", lambda _: (8, 8))
        waiting = rig.is_served(await rig.connect())
        await until(lambda: rig.listener.is_paused)
    looks = []

    def lend_one_at_a_time(handle, dup=os.dup, lent=[]):  # noqa: B006  kept between calls
        if lent:
            lent.clear()
            looks.append(handle)
            raise OSError(errno.EMFILE, "Too many open files")
        lent.append(handle)
        return dup(handle)

    with monkeypatch.context() as one_left:
        one_left.setattr(os, "dup", lend_one_at_a_time)
        await until(lambda: len(looks) >= 3)
        still_paused = rig.listener.is_paused

    assert (still_paused, await waiting) == (True, True)


@pytest.fixture
async def tls_rig(tmp_path):
    write_pair(tmp_path)
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(tmp_path / "cert.pem", tmp_path / "key.pem")
    made = Rig(time.monotonic, tls=context, handshake_seconds=lambda: made.seconds, closing_seconds=lambda: 5.0)
    made.seconds = 60.0
    await made.listener.start()
    yield made
    made.close()


async def test_over_tls_a_connection_counts_before_its_handshake_and_until_it_closes(tls_rig):
    silent = [await tls_rig.connect() for _ in range(2)]
    served = await tls_rig.connect(client_context())
    assert await tls_rig.is_served(served)
    with pytest.raises(ConnectionError):
        await tls_rig.connect(client_context())
    assert tls_rig.listener.connections == 3

    silent[0][1].close()
    silent[1][1].write(b"this is no handshake")
    served[1].write(b"close")
    await until(lambda: tls_rig.listener.connections == 0)

    assert await tls_rig.is_served(await tls_rig.connect(client_context()))


async def test_over_tls_a_handshake_that_takes_too_long_gives_its_place_back(tls_rig):
    tls_rig.seconds = 0.05
    reader, _ = await tls_rig.connect()
    assert await asyncio.wait_for(reader.read(), 30) == b""

    await until(lambda: tls_rig.listener.connections == 0)


async def test_over_tls_what_comes_with_the_last_of_the_handshake_is_heard(tls_rig):
    tls_rig.limit = 20
    for _ in range(20):
        assert await tls_rig.is_served(await tls_rig.connect(client_context()))


async def test_a_closed_listener_accepts_nobody_and_keeps_its_connections(rig):
    caller = await rig.connect()
    assert await rig.is_served(caller)

    rig.listener.close()

    late = await rig.connect()
    assert await rig.is_served(caller)
    assert rig.listener.connections == 1
    late[1].close()


@pytest.mark.parametrize(
    ("address", "origin"),
    [
        ("192.0.2.7", "192.0.2.7"),
        ("::ffff:192.0.2.7", "192.0.2.7"),
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"),
        ("2001:db8:1:2::9", "2001:db8:1:2::/64"),
        ("::1", "::/64"),
        ("fe80::1%eth0", "fe80::1"),
        ("fe80::2", "fe80::2"),
    ],
)
def test_an_address_counts_by_itself_or_by_its_network(address, origin):
    assert write_origin(origin_of(address)) == origin


def test_addresses_of_one_ipv6_network_are_one():
    assert origin_of("2001:db8::1") == origin_of("2001:db8::ffff")
    assert origin_of("2001:db8::1") != origin_of("2001:db8:0:1::1")


def test_asyncios_loop_has_asyncios_protocol():
    loop = asyncio.SelectorEventLoop()
    try:
        assert tls_protocol_of(loop) is SSLProtocol
    finally:
        loop.close()


def test_uvloop_has_its_own():
    uvloop = pytest.importorskip("uvloop")
    loop = uvloop.new_event_loop()
    try:
        assert tls_protocol_of(loop).__module__ == "uvloop.loop"
    finally:
        loop.close()
