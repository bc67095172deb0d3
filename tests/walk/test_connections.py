"""Connection limits per address, and callers while memory is short."""

import asyncio

import pytest

from router.edge import shedding
from tests.conftest import SIMULATED
from tests.tools.http import call, chat
from tests.tools.raw import Caller
from tests.tools.sockets import open_socket
from tests.tools.waiting import until

pytestmark = pytest.mark.wire

PATH = "/v1/chat/completions"
FOUR = SIMULATED + "\nlimits: {max_connections_per_address: 4}\n"


async def test_idle_connections_of_one_address_leave_room_for_no_more_than_the_limit(start):
    """W15."""
    tandem = await start(FOUR)
    callers = [await Caller(tandem.port).__aenter__() for _ in range(30)]

    ends = [asyncio.ensure_future(caller.closed(30)) for caller in callers[4:]]  # noqa: TID251  awaited next
    assert await asyncio.gather(*ends) == [b""] * 26
    callers[0].writer.write(b"GET /healthz HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n")
    assert (await callers[0].reply(30)).status == 200

    for caller in callers:
        caller.writer.close()
    await until(lambda: tandem.listener.connections == 0)
    assert (await call(tandem.port, PATH, chat())).status == 200


async def test_a_connection_that_is_handed_over_counts_once_and_is_freed_when_it_closes(start):
    tandem = await start(FOUR)
    async with Caller(tandem.port, by_shim=True), Caller(tandem.port, by_shim=True), open_socket(tandem.port) as socket:
        await socket.ask()
        assert tandem.listener.connections == 3

    await until(lambda: tandem.listener.connections == 0)


async def test_a_websocket_on_a_connection_that_was_handed_over_before_counts_once(start):
    """A proxy may reuse a connection for any request."""
    tandem = await start(FOUR)
    async with Caller(tandem.port, by_shim=True) as caller:
        await caller.send(
            b"GET /v1/responses HTTP/1.1\r\nhost: 127.0.0.1\r\nupgrade: websocket\r\nconnection: Upgrade\r\n"
            b"sec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\nsec-websocket-version: 13\r\n\r\n"
        )
        assert (await caller.reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 101")
        assert tandem.listener.connections == 1

    await until(lambda: tandem.listener.connections == 0)


async def test_short_of_memory_new_requests_of_every_kind_are_refused_and_those_under_way_go_on(start, upstream, monkeypatch):
    """O2."""
    used = [100 << 20]
    monkeypatch.setattr(shedding, "read_resident_bytes", lambda: used[0])
    released = asyncio.Event()

    async def answer_late(wire, seen):
        await released.wait()
        await wire.send(b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 2\r\n\r\n{}")

    upstream.scripts = [answer_late]
    passed = """
pass_through: {embeddings: other}
limits: {max_memory_mb: 200}
"""
    other = f'      - {{name: other, adapter: openai_http, dialect: chat, base_url: "{upstream.base_url}", model: m}}\n  deep:'
    tandem = await start(SIMULATED.replace("  deep:", other) + passed)
    watch = shedding.MemoryWatch(tandem.admission, give_back=lambda: None)
    async with open_socket(tandem.port) as socket:
        await socket.ask()
        running = asyncio.ensure_future(call(tandem.port, "/v1/embeddings", {"input": "x"}))  # noqa: TID251  awaited below
        await until(lambda: upstream.seen)

        used[0] = 300 << 20
        await watch.look()

        refused = [await call(tandem.port, path, chat()) for path in (PATH, "/v1/embeddings")]
        await socket.say()
        over_the_socket = await socket.answer()
        assert [(reply.status, reply.headers["retry-after"]) for reply in refused] == [(503, "5")] * 2
        assert (over_the_socket["type"], over_the_socket["status"]) == ("error", 503)
        assert (await call(tandem.port, "/healthz")).status == 200
        released.set()
        assert (await running).status == 200
        used[0] = 100 << 20
        await watch.look()
        assert (await call(tandem.port, PATH, chat())).status == 200
        await socket.ask()
