"""Targets that break in ways that no row of the faults names, over real sockets."""

import asyncio
import gzip
import json
import socket

import pytest

from tests.faults.rig import BRIDGED, GOOD, PATHS, STRAIGHT, TERMINAL, ask_in, check_refusal, spread
from tests.tools.http import request_bytes
from tests.tools.speech import speak, write_stream, write_whole
from tests.tools.toxic import Toxics
from tests.tools.upstream import CHAT_STREAM_HEAD, answer_json, silent
from tests.tools.waiting import until

PAIRS = pytest.mark.parametrize(("caller", "target"), STRAIGHT + BRIDGED)
WAYS = pytest.mark.parametrize("is_streaming", [True, False], ids=["streamed", "whole"])
FAST = {"x-tandem-tier": "fast"}
JSON_HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n"
PING = {"chat": b": wait\n\n", "responses": b": wait\n\n", "messages": b'event: ping\ndata: {"type": "ping"}\n\n'}
PROMISES = {"chat": 0, "responses": 2, "messages": 2}
"""Frames before the model begins."""


def error_event(dialect: str, kind: str, message: str = "their own words") -> bytes:
    """A mid-stream error, as hosts of this dialect write it."""
    error = {"type": kind, "code": kind, "message": message}
    body = {
        "chat": {"error": error},
        "responses": {"type": "response.failed", "response": {"id": "r", "status": "failed", "error": error}},
        "messages": {"type": "error", "error": {"type": kind, "message": message}},
    }[dialect]
    name = {"chat": b"", "responses": b"event: response.failed\n", "messages": b"event: error\n"}[dialect]
    return name + b"data: " + json.dumps(body).encode() + b"\n\n"


def says(*pieces: bytes, ends: bool = True):
    """A stream of these pieces, then its end or silence."""

    async def script(wire, seen):
        await wire.send(CHAT_STREAM_HEAD)
        for piece in pieces:
            await wire.chunk(piece)
        if ends:
            await wire.end_chunks()
        else:
            await silent(wire, seen)

    return script


def sends(*pieces: bytes, closes: bool = True):
    """Raw bytes, then a close or silence."""

    async def script(wire, seen):
        for piece in pieces:
            await wire.send(piece)
        if closes:
            wire.writer.close()
        else:
            await silent(wire, seen)

    return script


@PAIRS
@pytest.mark.parametrize(
    ("kind", "status"), [("overloaded_error", 529), ("rate_limit_exceeded", 429), ("server_is_overloaded", 503)]
)
async def test_an_error_after_pings_and_promises_goes_to_the_next_target(set_up, caller, target, kind, status):
    rig = await set_up(target)
    promises = write_stream(target, GOOD)[: PROMISES[target]]
    rig.fast.scripts = [says(PING[target], PING[target], *promises, PING[target], error_event(target, kind))]

    reply = await rig.ask(caller, stream=True)

    assert (reply.headers["x-tandem-target"], reply.is_whole) == ("sage", True)
    assert b"their own words" not in reply.body
    rig.expect("SERVED", attempts=[("spark", status), ("sage", 200)])


@PAIRS
async def test_a_429_in_the_middle_of_a_stream_is_the_callers_and_nobody_is_asked_again(set_up, caller, target):
    rig = await set_up(target)
    begun = write_stream(target, GOOD)[: {"chat": 2, "responses": 5, "messages": 4}[target]]
    rig.fast.scripts = [says(*begun, error_event(target, "rate_limit_exceeded", "Please try again in 2s."))]

    reply = await rig.ask(caller, stream=True)

    assert reply.body.count(b"Please try again in 2s.") == 1
    assert TERMINAL[caller] not in reply.body
    assert not reply.is_whole
    assert (len(rig.fast.seen), len(rig.deep.seen)) == (1, 0)
    rig.expect("FAILED", "upstream_refused")


async def test_an_announced_limit_names_its_time_in_words_and_is_left_alone_for_it(set_up):
    rig = await set_up("responses")
    rig.names_a_time = True
    promises = write_stream("responses", GOOD)[:2]
    words = "Rate limit reached. Please try again in 30s."
    rig.fast.scripts = [says(*promises, error_event("responses", "rate_limit_exceeded", words))]

    first, second = await rig.ask(stream=True), await rig.ask(stream=True)
    pinned = await rig.ask(stream=True, headers=FAST)

    assert [reply.headers["x-tandem-target"] for reply in (first, second)] == ["sage", "sage"]
    assert len(rig.fast.seen) == 1
    check_refusal(pinned, "responses", 429, "tiers_busy")
    assert 28 <= int(pinned.headers["retry-after"]) <= 30


@pytest.mark.parametrize(
    "value",
    ["-5", "0", "0.0001", "1000000000000", "1" * 400, "Thu, 01 Jan 1970 00:00:00 GMT", "nan", "inf", "soon", "", "2, 3", "1e3"],
)
async def test_whatever_a_target_writes_for_a_time_the_caller_gets_a_sane_one(set_up, value):
    rig = await set_up()
    rig.names_a_time = True
    rig.fast.scripts = rig.deep.scripts = [answer_json({}, 429, {"retry-after": value})]

    replies = [await rig.ask() for _ in range(2)]

    for reply in replies:
        check_refusal(reply, "chat", 429, "tiers_busy")
        assert 0 < float(reply.headers["retry-after-ms"]) <= 60_000
        assert 1 <= int(reply.headers["retry-after"]) <= 60


@WAYS
@pytest.mark.parametrize(("caller", "target", "then"), spread("resets", "half-closes", "closes"))
async def test_a_connection_that_dies_after_the_head_is_no_answer_and_another_target_is_tried(
    set_up, caller, target, is_streaming, then
):
    rig = await set_up(target, fast_extra="timeouts: {stall_seconds: 0.3},")
    rig.toxic.toxics = Toxics(limit_bytes=100, then=then)

    reply = await rig.ask(caller, stream=is_streaming)

    assert (reply.status, reply.headers["x-tandem-target"]) == (200, "sage")
    is_translated_whole = caller != target and not is_streaming  # then the head counts only with the rest
    rig.expect("SERVED", attempts=[("spark", None if is_translated_whole else 200), ("sage", 200)])


@pytest.mark.parametrize(("caller", "target", "status"), spread(301, 307, 308))
async def test_a_redirect_is_neither_followed_nor_shown(set_up, upstream, caller, target, status):
    upstream.scripts = [speak(target, GOOD)]
    rig = await set_up(target)
    rig.fast.scripts = [answer_json(b"", status, {"location": f"{upstream.base_url}?token=hidden"})]

    alone, spilled = await rig.ask(caller, headers=FAST), await rig.ask(caller)

    check_refusal(alone, caller, 502, "upstream_malformed")
    assert b"hidden" not in alone.body
    assert spilled.headers["x-tandem-target"] == "sage"
    assert not upstream.seen


@pytest.mark.parametrize(("caller", "target", "status"), spread(502, 520, 524, 530))
async def test_a_web_page_of_a_proxy_in_between_is_not_shown(set_up, caller, target, status):
    page = b"<html><title>502 Bad gateway</title>cloudflare Ray ID: hidden 203.0.113.7</html>"
    rig = await set_up(target)
    rig.fast.scripts = [answer_json(page, status, {"content-type": "text/html"})]

    alone, spilled = await rig.ask(caller, headers=FAST), await rig.ask(caller)

    assert f"spark ({status})" in check_refusal(alone, caller, 502, "upstream_refused")
    assert b"hidden" not in alone.body
    assert alone.headers["x-should-retry"] == "false"
    assert spilled.headers["x-tandem-target"] == "sage"
    rig.expect("FAILED", "upstream_refused", attempts=[("spark", status), ("spark", status)])


@pytest.mark.parametrize(("caller", "target", "coding"), spread("gzip", "br", "zstd"))
async def test_an_answer_or_a_refusal_that_was_compressed_unasked_is_told_in_our_words(set_up, caller, target, coding):
    rig = await set_up(target)
    packed = gzip.compress(json.dumps(write_whole(target, GOOD)).encode())
    rig.fast.scripts = [answer_json(packed, 200, {"content-encoding": coding})]
    answered = await rig.ask(caller, headers=FAST)
    rig.fast.scripts = [answer_json(packed, 400, {"content-encoding": coding})]
    refused = await rig.ask(caller, headers=FAST)

    assert "compressed" in check_refusal(answered, caller, 502, "upstream_malformed")
    assert "compression that was not requested" in check_refusal(refused, caller, 400, "upstream_error")
    assert "content-encoding" not in refused.headers
    rig.expect("FAILED", "upstream_malformed")
    rig.expect("REFUSED", "upstream_refused")


HEADS = (
    b"HTTP/1.1 204 No Content\r\n\r\n",
    b"HTTP/1.1 304 Not Modified\r\n\r\n",
    b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n",
    b"HTTP/1.1 999 Request Denied\r\ncontent-length: 0\r\n\r\n",
    b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\ncontent-length: 6\r\n\r\nhello!",
    b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n",
    b"HTTP/2 200\r\n\r\n",
    b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    b"SSH-2.0-OpenSSH_9.6\r\n",
)


@pytest.mark.parametrize(("caller", "target", "head"), spread(*HEADS))
async def test_a_head_without_an_answer_is_a_failure(set_up, caller, target, head):
    rig = await set_up(target)
    rig.fast.scripts = [sends(head)]

    alone = await rig.ask(caller, headers=FAST)
    spilled = await rig.ask(caller)

    assert alone.status == 502
    assert spilled.headers["x-tandem-target"] == "sage"


@WAYS
@pytest.mark.parametrize(
    "pieces",
    [
        (b"HTTP/1.1 103 Early Hints\r\n\r\n",) * 3,
        (b"HTTP/1.1 200 OK\r\nx-a: ", b"b", b"b"),
        (b"HTTP/1.1 100 Con",),
    ],
    ids=["interim answers", "a head", "a status line"],
)
async def test_a_head_that_never_ends_does_so_at_the_first_byte_limit(set_up, pieces, is_streaming):
    rig = await set_up(fast_extra="timeouts: {first_byte_seconds: 0.25},")
    rig.fast.scripts = [sends(*pieces, closes=False)]

    reply = await rig.ask(stream=is_streaming)

    assert reply.headers["x-tandem-target"] == "sage"


@pytest.mark.parametrize(("caller", "target", "begun"), spread(b"0\r\nx-trailer: ", b"5;extension="))
async def test_framing_without_end_does_not_hold_the_loop_or_the_request(set_up, caller, target, begun):
    rig = await set_up(target)

    async def endless(wire, seen):
        await wire.send(JSON_HEAD + b"transfer-encoding: chunked\r\n\r\n")
        await wire.chunk(json.dumps(write_whole(target, GOOD)).encode())
        await wire.send(begun)
        while True:
            await wire.send(b"x" * 60_000)

    rig.fast.scripts = [endless]
    reply = await rig.ask(caller, headers=FAST)

    assert "trailers too large" in check_refusal(reply, caller, 502, "upstream_malformed")


GARBAGE = (b"data: {broken\n\n", b"\0\0\0", b"event: unfinished", b": bye\n\n")


@pytest.mark.parametrize(("caller", "target", "garbage"), spread(*GARBAGE))
async def test_what_follows_the_terminal_event_does_not_spoil_the_answer(set_up, caller, target, garbage):
    rig = await set_up(target)
    rig.fast.scripts = [says(*write_stream(target, GOOD), garbage)]

    reply = await rig.ask(caller, stream=True)

    assert reply.is_whole
    assert TERMINAL[caller] in reply.body
    rig.expect("SERVED", output_tokens=12)


@PAIRS
@WAYS
async def test_a_pooled_connection_that_dies_twice_as_we_send_is_one_failure_and_then_another_target(
    set_up, caller, target, is_streaming
):
    rig = await set_up(target)
    await rig.ask(caller)

    async def hang_up(wire, seen):
        wire.reset()

    rig.fast.scripts = [hang_up]
    reply = await rig.ask(caller, stream=is_streaming)

    assert reply.headers["x-tandem-target"] == "sage"
    assert len(rig.fast.seen) == 3
    rig.expect("SERVED")
    rig.expect("SERVED", attempts=[("spark", None), ("sage", 200)])


@WAYS
@pytest.mark.parametrize("status", [200, 413])
async def test_an_answer_that_comes_before_the_request_is_sent_is_heard(set_up, is_streaming, status):
    async def in_a_hurry(reader, writer):
        await reader.readuntil(b"\r\n\r\n")
        if status == 413:
            raw = b'{"error": {"message": "their own words"}}'
            writer.write(b"HTTP/1.1 413 X\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n%b" % (len(raw), raw))
        elif is_streaming:
            body = b"".join(write_stream("chat", GOOD))
            writer.write(CHAT_STREAM_HEAD + b"%x\r\n%b\r\n0\r\n\r\n" % (len(body), body))
        else:
            raw = json.dumps(write_whole("chat", GOOD)).encode()
            writer.write(JSON_HEAD + b"content-length: %d\r\n\r\n" % len(raw) + raw)
        await writer.drain()
        writer.close()  # with most of the request unread, which is a reset

    listener = socket.socket()
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
    listener.bind(("127.0.0.1", 0))
    server = await asyncio.start_server(in_a_hurry, sock=listener, limit=4_096)
    async with server:
        rig = await set_up(fast_url=f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1")
        reply = await rig.ask(text="fix the typo " * 20_000, stream=is_streaming, headers=FAST)

    assert reply.status == status


async def test_a_probe_whose_caller_leaves_makes_room_for_the_next(set_up, long_rests):
    rig = await set_up()
    rig.fast.scripts = [answer_json({}, 500)]
    for _ in range(5):
        await rig.ask()
    rig.fast.scripts = [silent]
    await long_rests(rig.tandem, "spark")
    async with rig.caller() as client:
        seen = len(rig.fast.seen)
        await client.send(request_bytes(PATHS["chat"], ask_in("chat")))
        await until(lambda: len(rig.fast.seen) > seen)
        meanwhile = await rig.ask()
        client.writer.transport.abort()
        await asyncio.wait_for(rig.fast.seen[seen].left.wait(), 30)
    rig.fast.scripts = [speak("chat", GOOD)]
    await until(lambda: not rig.tandem.house.state.running)

    after = await rig.ask()

    assert meanwhile.headers["x-tandem-target"] == "sage"
    assert (after.status, after.headers["x-tandem-target"]) == (200, "spark")


async def test_a_caller_that_leaves_during_a_second_attempt_gives_its_budget_back(set_up):
    rig = await set_up()
    for _ in range(5):
        rig.fast.scripts = [answer_json({}, 500), silent]
        seen = len(rig.fast.seen)
        async with rig.caller() as client:
            await client.send(request_bytes(PATHS["chat"], ask_in("chat"), FAST))
            await until(lambda seen=seen: len(rig.fast.seen) == seen + 2)
            client.writer.transport.abort()
            await asyncio.wait_for(rig.fast.seen[seen + 1].left.wait(), 30)
        rig.expect("ABANDONED", attempts=[("spark", 500), ("spark", None)])


async def test_an_http_1_0_answer_without_a_length_is_whole_when_its_connection_ends(set_up):
    rig = await set_up()
    raw = json.dumps(write_whole("chat", GOOD)).encode()
    rig.fast.scripts = [sends(b"HTTP/1.0 200 OK\r\ncontent-type: application/json\r\n\r\n", raw[:50], raw[50:])]

    assert (await rig.ask()).json["choices"]
    rig.expect("SERVED", attempts=[("spark", 200)])


@PAIRS
async def test_events_for_a_caller_that_asked_for_a_whole_answer_are_no_answer(set_up, caller, target):
    rig = await set_up(target)
    rig.fast.scripts = [says(*write_stream(target, GOOD))]

    alone, spilled = await rig.ask(caller, headers=FAST), await rig.ask(caller)

    check_refusal(alone, caller, 502, "upstream_malformed")
    assert spilled.headers["x-tandem-target"] == "sage"


@PAIRS
async def test_a_whole_answer_in_place_of_a_stream_is_no_answer(set_up, caller, target):
    rig = await set_up(target)
    rig.fast.scripts = [answer_json(write_whole(target, GOOD))]

    alone, spilled = await rig.ask(caller, stream=True, headers=FAST), await rig.ask(caller, stream=True)

    check_refusal(alone, caller, 502, "upstream_malformed")
    assert spilled.headers["x-tandem-target"] == "sage"


@pytest.mark.parametrize(("caller", "target", "is_streaming"), spread(True, False, True))
async def test_a_target_that_echoes_its_key_everywhere_tells_it_to_nobody(set_up, caller, target, is_streaming):
    rig = await set_up(target)

    async def parrot(wire, seen):
        key = next(value for name, value in seen.headers.items() if name in ("authorization", "x-api-key")).split()[-1]
        said = {"error": {"message": f"no such key: {key}", "code": key}}
        await answer_json(said, parrot.status, {"x-request-id": key, "retry-after": key})(wire, seen)

    for status in (400, 401, 404, 422, 429, 500, 503):
        parrot.status = status
        rig.fast.scripts = rig.deep.scripts = [parrot]
        assert (await rig.ask(caller, stream=is_streaming)).status >= 400
