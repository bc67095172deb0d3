"""Upstreams of callers that leave or read slowly, and of a router that stops."""

import asyncio
import time

import pytest

from tests.tools.http import call, chat, request_bytes
from tests.tools.upstream import (
    CHAT_STREAM_HEAD,
    CHAT_USAGE,
    DONE,
    GOOD_CHAT_STREAM,
    chat_frame,
    silent,
    stream,
)
from tests.tools.waiting import later, until_steady

pytestmark = pytest.mark.wire


async def test_a_slow_reader_pauses_the_upstream(pair, upstream):
    sent = 0

    async def flood(wire, seen):
        nonlocal sent
        await wire.send(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n")
        for _ in range(4_000):
            await wire.chunk(chat_frame("x" * 8_000))
            sent += 8_000
        await wire.chunk(b"".join(GOOD_CHAT_STREAM))
        await wire.end_chunks()

    upstream.scripts = [flood]
    reader, writer = await asyncio.open_connection("127.0.0.1", pair.port, limit=1 << 16)
    writer.write(request_bytes("/v1/chat/completions", chat(stream=True)))
    await asyncio.wait_for(reader.readuntil(b"xxx"), 30)
    await until_steady(lambda: sent)

    assert sent < 20_000_000
    received = 0
    while piece := await asyncio.wait_for(reader.read(1 << 20), 30):
        received += len(piece)
        if piece.endswith(b"0\r\n\r\n"):
            break
    writer.close()
    assert received > 31_000_000


async def test_a_connection_whose_reader_was_slow_serves_the_next_request(pair, upstream):
    sent = 0

    async def flood(wire, seen):
        nonlocal sent
        await wire.send(CHAT_STREAM_HEAD)
        for _ in range(700):
            await wire.chunk(chat_frame("x" * 8_000))
            sent += 1
        await wire.chunk(b"".join(GOOD_CHAT_STREAM))
        await wire.end_chunks()

    upstream.scripts = [flood, flood, flood, stream(*GOOD_CHAT_STREAM)]
    for _ in range(3):
        reader, writer = await asyncio.open_connection("127.0.0.1", pair.port, limit=1 << 16)
        writer.write(request_bytes("/v1/chat/completions", chat(stream=True)))
        await asyncio.wait_for(reader.readuntil(b"xxx"), 30)
        await until_steady(lambda: sent)
        tail = b""
        while not tail.endswith(b"0\r\n\r\n"):
            tail = (tail + await asyncio.wait_for(reader.read(1 << 16), 30))[-64:]
        writer.close()

    reply = await call(pair.port, "/v1/chat/completions", chat(stream=True))

    assert reply.is_whole
    assert upstream.connections == 1


async def test_a_stream_that_the_routers_end_cuts_says_so_in_its_dialect(pair, upstream):
    upstream.scripts = [stream(chat_frame("a"), *[chat_frame("b")] * 100, pause=0.1)]
    reader, writer = await asyncio.open_connection("127.0.0.1", pair.port)
    writer.write(request_bytes("/v1/chat/completions", chat(stream=True)))
    began = await asyncio.wait_for(reader.readuntil(chat_frame("a")), 30)

    await pair.house.stop(1)

    rest = await asyncio.wait_for(reader.read(), 30)
    writer.close()
    assert began.startswith(b"HTTP/1.1 200")
    assert b"the router is shutting down" in rest
    assert not rest.endswith(b"0\r\n\r\n")


async def test_a_request_that_nothing_was_answered_to_is_a_503_when_the_router_stops(pair, upstream):
    upstream.scripts = [silent]
    waiting = later(call(pair.port, "/v1/chat/completions", chat()))
    await asyncio.wait_for(upstream.arrived.wait(), 30)

    await pair.house.stop(1)

    reply = await waiting
    assert (reply.status, reply.json["error"]["code"]) == (503, "unavailable")
    assert "the router is shutting down" in reply.json["error"]["message"]
    (entry,) = await pair.entries()
    assert (entry["outcome"], entry["status"]) == ("FAILED", 503)


async def test_a_slow_readers_pace_is_not_taken_for_the_targets(pair, upstream):
    many = CHAT_USAGE.replace(b'"completion_tokens":3', b'"completion_tokens":400')
    sent = 0

    async def flood(wire, seen):
        nonlocal sent
        await wire.send(CHAT_STREAM_HEAD)
        for _ in range(400):
            await wire.chunk(chat_frame("x" * 20_000))
            sent += 1
        for piece in (chat_frame(finish="stop"), many, DONE):
            await wire.chunk(piece)
        await wire.end_chunks()

    upstream.scripts = [flood]
    moment = time.perf_counter()

    def seen_speed() -> float:  # at one moment: a speed fades into the typical one
        return pair.house.state.live.of(pair.house.plan.targets["spark"]).pace.current(moment).tokens_per_second

    typical = seen_speed()
    await call(pair.port, "/v1/chat/completions", chat(stream=True))
    await pair.entries(1)
    read_at_once = seen_speed()
    reader, writer = await asyncio.open_connection("127.0.0.1", pair.port, limit=1 << 16)
    writer.write(request_bytes("/v1/chat/completions", chat(stream=True)))
    await asyncio.wait_for(reader.readuntil(b"xxx"), 30)
    await until_steady(lambda: sent)
    while not (await asyncio.wait_for(reader.read(1 << 20), 30)).endswith(b"0\r\n\r\n"):
        pass
    writer.close()

    assert [entry["outcome"] for entry in await pair.entries(2)] == ["SERVED", "SERVED"]
    assert read_at_once != typical
    assert seen_speed() == read_at_once
