"""Callers that read slowly, leave or flood, and endless targets (rows S, U and O), over raw sockets."""

import asyncio
import http.client
import json

import pytest

from tests.conftest import SIMULATED
from tests.tools.http import call, chat, request_bytes
from tests.tools.raw import Caller
from tests.tools.running import two_targets
from tests.tools.upstream import (
    CHAT_ANSWER,
    CHAT_STREAM_HEAD,
    GOOD_CHAT_STREAM,
    SEEN_CHAT_STREAM,
    answer_json,
    chat_frame,
    stream,
)
from tests.tools.waiting import by_the_clock


async def flood(wire, seen):
    await wire.send(CHAT_STREAM_HEAD)
    while True:
        await wire.chunk(chat_frame("x" * 8_000))


def chunked(body: dict) -> bytes:
    raw = json.dumps(body).encode()
    head = "POST /v1/chat/completions HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-type: application/json\r\ntransfer-encoding: chunked\r\n\r\n"
    return head.encode() + b"%x\r\n%s\r\n0\r\n\r\n" % (len(raw), raw)


@pytest.mark.parametrize("request_of", [lambda body: request_bytes("/v1/chat/completions", body), chunked], ids=["hot", "shim"])
async def test_a_caller_that_stops_reading_is_cut_at_the_write_limit(start, upstream, request_of):
    upstream.scripts = [flood]
    tandem = await start(two_targets(upstream.base_url, upstream.base_url, extra="limits: {write_idle_timeout_seconds: 0.5}"))
    async with Caller(tandem.port, holds_bytes=1 << 10) as caller:
        caller.writer.write(request_of(chat(stream=True)))
        await asyncio.wait_for(upstream.arrived.wait(), 30)

        await asyncio.wait_for(upstream.seen[0].left.wait(), 30)

    (entry,) = await tandem.entries()
    assert entry["outcome"] == "ABANDONED"


async def test_a_caller_that_reads_slowly_but_reads_is_not_cut(start, upstream):
    body = {**CHAT_ANSWER, "padding": "x" * 3_000_000}
    upstream.scripts = [answer_json(body)]
    tandem = await start(two_targets(upstream.base_url, upstream.base_url, extra="limits: {write_idle_timeout_seconds: 2}"))
    async with Caller(tandem.port, holds_bytes=1 << 14) as caller:
        caller.writer.write(request_bytes("/v1/chat/completions", chat(), {"connection": "close"}))
        received = await read_slowly(caller, seconds=2.5)

    assert received > 3_000_000


async def read_slowly(caller: Caller, seconds: float) -> int:
    """Read little at a time for some seconds, then the rest. Returns the bytes."""
    slow_until, received = asyncio.get_running_loop().time() + seconds, 0
    while piece := await asyncio.wait_for(caller.reader.read(30_000), 30):
        received += len(piece)
        if asyncio.get_running_loop().time() < slow_until:
            await by_the_clock(seconds / 70)
    return received


async def test_places_are_taken_from_the_head_of_a_request_on_and_given_back(start):
    tandem = await start(SIMULATED + "limits: {max_in_flight: 3}\n")
    request = request_bytes("/v1/chat/completions", chat())
    end = request.index(b"\r\n\r\n") + 4
    callers = [Caller(tandem.port) for _ in range(3)]
    for caller in callers:
        await caller.__aenter__()
        await caller.send(request[:end])

    async def is_answered_with(status: int) -> None:
        """Ask until the answer is this: slots are taken and freed a little after the bytes."""
        async with asyncio.timeout(30):
            while (await call(tandem.port, "/v1/chat/completions", chat())).status != status:
                pass

    await is_answered_with(503)
    for caller in callers:
        caller.writer.transport.abort()
    await is_answered_with(200)


async def test_an_upgrade_on_a_create_call_is_ignored_and_its_body_is_a_body(simulated):
    headers = {"upgrade": "h2c", "connection": "Upgrade, HTTP2-Settings", "http2-settings": "x"}

    assert (await call(simulated.port, "/v1/chat/completions", chat(), headers)).status == 200


async def test_a_piece_of_a_second_request_does_not_disturb_a_running_answer(start, upstream):
    """Nor does it start a time limit, while the answer takes longer than a head may."""
    upstream.scripts = [stream(*[chat_frame("x")] * 3, *GOOD_CHAT_STREAM, pause=0.1)]
    tandem = await start(two_targets(upstream.base_url, upstream.base_url, extra="limits: {header_timeout_seconds: 0.3}"))
    async with Caller(tandem.port) as caller:
        await caller.send(chunked(chat(stream=True)))
        await asyncio.wait_for(upstream.arrived.wait(), 30)
        await caller.send(b"G")
        reply = await caller.reply()

    assert reply.is_whole
    assert b"HTTP/1.1" not in reply.body


async def test_an_error_body_without_end_is_cut_and_another_target_is_tried(start, upstream, other_upstream):
    async def endless(wire, seen):
        await wire.send(b"HTTP/1.1 500 X\r\ncontent-type: text/plain\r\ntransfer-encoding: chunked\r\n\r\n")
        while True:
            await wire.chunk(b"x" * 60_000)

    upstream.scripts, other_upstream.scripts = [endless], [answer_json(CHAT_ANSWER)]
    tandem = await start(two_targets(upstream.base_url, other_upstream.base_url))

    reply = await call(tandem.port, "/v1/chat/completions", chat())

    assert (reply.status, reply.headers["x-tandem-target"]) == (200, "sage")


async def test_a_connection_with_an_unsent_body_is_not_used_again(start, upstream):
    async def answers_early(wire, seen):
        await answer_json(CHAT_ANSWER)(wire, seen)

    upstream.scripts = [answers_early]
    tandem = await start(two_targets(upstream.base_url, upstream.base_url))

    replies = [await call(tandem.port, "/v1/chat/completions", chat("x " * 100_000)) for _ in range(3)]

    assert [reply.status for reply in replies] == [200] * 3


async def test_large_requests_follow_one_another_on_a_kept_connection(start, upstream):
    """The next body may arrive before the last request is recorded, which is not a flood."""
    upstream.scripts = [answer_json(CHAT_ANSWER)]
    tandem = await start(two_targets(upstream.base_url, upstream.base_url))
    body = json.dumps(chat("x " * 150_000)).encode()

    def call_again_and_again() -> list[int]:
        connection = http.client.HTTPConnection("127.0.0.1", tandem.port, timeout=30)
        statuses = []
        for _ in range(40):
            connection.request("POST", "/v1/chat/completions", body, {"content-type": "application/json"})
            reply = connection.getresponse()
            reply.read()
            statuses.append(reply.status)
        connection.close()
        return statuses

    assert await asyncio.to_thread(call_again_and_again) == [200] * 40


async def test_an_http_1_0_caller_gets_a_stream_that_ends_with_the_connection(start, upstream):
    upstream.scripts = [stream(*GOOD_CHAT_STREAM)]
    tandem = await start(two_targets(upstream.base_url, upstream.base_url))
    async with Caller(tandem.port) as caller:
        request = request_bytes("/v1/chat/completions", chat(stream=True)).replace(b" HTTP/1.1\r\n", b" HTTP/1.0\r\n", 1)
        await caller.send(request)
        head, _, body = (await caller.closed()).partition(b"\r\n\r\n")

    assert b"transfer-encoding" not in head
    assert body == SEEN_CHAT_STREAM
