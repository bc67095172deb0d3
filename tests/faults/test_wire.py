"""Bad bytes on the wire (rows W), on both ways in: the process lives and serves the next caller."""

import asyncio
import contextlib
import json
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as some

from tests.conftest import SIMULATED
from tests.tools.http import call, chat, request_bytes
from tests.tools.raw import Caller
from tests.tools.waiting import by_the_clock, later, until

BODY = json.dumps(chat()).encode()
HOT = "POST /v1/chat/completions HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-type: application/json\r\n"


@pytest.fixture(params=[False, True], ids=["hot", "shim"])
def by_shim(request) -> bool:
    return request.param


def framed(*lines: str, body: bytes = BODY) -> bytes:
    return (HOT + "".join(f"{line}\r\n" for line in lines) + "\r\n").encode("latin-1") + body


AMBIGUOUS = {
    "two lengths": framed(f"content-length: {len(BODY)}", "content-length: 1"),
    "the same length twice": framed(f"content-length: {len(BODY)}", f"content-length: {len(BODY)}"),
    "a negative length": framed("content-length: -7"),
    "a length with a sign": framed(f"content-length: +{len(BODY)}"),
    "a length of thousands of digits": framed(f"content-length: {'0' * 5000}{len(BODY)}"),
    "a list of lengths": framed(f"content-length: {len(BODY)},{len(BODY)}"),
    "length and chunks": framed(f"content-length: {len(BODY)}", "transfer-encoding: chunked"),
    "an unknown coding": framed("transfer-encoding: xchunked"),
    "a coding after chunked": framed("transfer-encoding: chunked, identity"),
    "a chunk size in hex notation": framed("transfer-encoding: chunked", body=b"0x7\r\n1234567\r\n0\r\n\r\n"),
    "space before the colon": framed(f"content-length : {len(BODY)}"),
    "a folded header": framed("x-a: b\r\n c", f"content-length: {len(BODY)}"),
    "NUL in a value": framed("x-a: b\x00c", f"content-length: {len(BODY)}"),
    "CR in a value": framed("x-a: b\rc", f"content-length: {len(BODY)}"),
    "bare line feeds": framed(f"content-length: {len(BODY)}").replace(b"\r\n", b"\n"),
    "no host": framed(f"content-length: {len(BODY)}").replace(b"host: 127.0.0.1\r\n", b""),
    "two hosts": framed("host: 127.0.0.1", f"content-length: {len(BODY)}"),
}


@pytest.mark.parametrize("kind", list(AMBIGUOUS))
async def test_ambiguous_framing_is_refused_and_closed_and_nothing_is_asked_of_a_target(simulated, by_shim, kind):
    async with Caller(simulated.port, by_shim=by_shim) as caller:
        await caller.send(AMBIGUOUS[kind])

        answer = await caller.closed()

    assert answer.startswith(b"HTTP/1.1 400 ")
    assert answer.count(b"HTTP/1.1 4") == 1
    head, _, body = answer.partition(b"\r\n\r\n")
    assert json.loads(body)["error"]["code"] == "invalid_request"
    assert json.loads(body)["error"]["request_id"].encode() in head
    assert (await call(simulated.port, "/v1/chat/completions", chat())).status == 200
    assert len(await simulated.entries(1)) == 1


@pytest.mark.parametrize(
    "data",
    [
        bytes.fromhex("16030100a5010000a10303") + bytes(150),
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        bytes(range(128, 256)) + b"\x00" * 22,
        b"CONNECT example.com:443 HTTP/1.1\r\nhost: example.com:443\r\n\r\n",
        b"GET http://evil.example/v1/models HTTP/1.1\r\nhost: evil.example\r\n\r\n",
        b"TRACE / HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n",
    ],
    ids=["tls", "http2", "noise", "connect", "absolute", "trace"],
)
async def test_what_is_no_request_of_ours_is_refused_before_its_time_is_up(simulated, data):
    async with Caller(simulated.port) as caller:
        await caller.send(data)
        answer = await asyncio.wait_for(caller.reader.read(64), 30)  # a head may take ten

    assert answer.split(b" ")[1:2] in ([b"400"], [b"403"], [b"404"], [b"405"])
    assert (await call(simulated.port, "/v1/chat/completions", chat())).status == 200


async def test_a_create_call_to_an_absolute_url_is_served_and_another_host_is_not(simulated):
    async with Caller(simulated.port) as caller:
        for host in ("127.0.0.1", "evil.example"):
            await caller.send(framed(f"content-length: {len(BODY)}").replace(b"POST ", f"POST http://{host}".encode()))

        answers = [(await caller.reply()).status for _ in range(2)]

    assert answers == [200, 403]


async def test_a_flood_behind_a_request_that_is_still_served_is_cut(start):
    tandem = await start(SIMULATED.replace("ttft_seconds: 0.005", "ttft_seconds: 5"))
    async with Caller(tandem.port) as caller:
        await caller.send(framed(f"content-length: {len(BODY)}"))
        await until(lambda: tandem.house.state.running)
        with contextlib.suppress(ConnectionError):
            await caller.send(b"x" * 300_000)

        assert await caller.closed() == b""

    (entry,) = await tandem.entries()
    assert entry["outcome"] == "ABANDONED"


async def test_a_connection_that_says_nothing_is_closed_at_the_header_limit(start):
    tandem = await start(SIMULATED + "limits: {header_timeout_seconds: 0.3}\n")
    async with Caller(tandem.port) as caller:
        assert await caller.closed() == b""


async def trickle(caller: Caller, letters: Iterator[int], closing: asyncio.Future) -> None:
    """Send 40 letters a second until none is left or the connection is closed."""
    while not closing.done() and (letter := next(letters, None)) is not None:
        caller.writer.write(bytes([letter]))
        await by_the_clock(0.025)


async def test_headers_that_trickle_are_given_up_at_the_limit_whatever_comes(start, by_shim):
    tandem = await start(SIMULATED + "limits: {header_timeout_seconds: 0.5}\n")
    async with Caller(tandem.port, by_shim=by_shim) as caller:
        closing = later(caller.closed(30))
        letters = iter(framed(f"content-length: {len(BODY)}", body=b""))
        await trickle(caller, letters, closing)
        answer = await closing

    assert next(letters, None) is not None, "it was read to its end"
    assert answer == b"" or b" 408 " in answer[:20]


async def test_a_body_that_trickles_is_a_408_and_frees_its_place(start):
    tandem = await start(SIMULATED + "limits: {body_timeout_seconds: 0.3, min_body_bytes_per_second: 1000}\n")
    async with Caller(tandem.port) as caller:
        await caller.send(framed("content-length: 5000", body=b"{"))
        answer = await caller.reply()

    assert (answer.status, answer.json["error"]["code"]) == (408, "body_timeout")


async def test_a_body_at_a_fair_pace_may_take_its_time(start):
    tandem = await start(SIMULATED + "limits: {body_timeout_seconds: 0.2, min_body_bytes_per_second: 1}\n")
    async with Caller(tandem.port) as caller:
        await caller.send(framed(f"content-length: {len(BODY)}", body=b""))
        for start_at in range(0, len(BODY), 16):
            await caller.send(BODY[start_at : start_at + 16])
            await by_the_clock(0.06)
        assert (await caller.reply()).status == 200


@pytest.mark.parametrize("size", [65_536, 1 << 20])
async def test_a_header_without_end_is_a_431(simulated, by_shim, size):
    async with Caller(simulated.port, by_shim=by_shim) as caller:
        caller.writer.write(framed("x-big: " + "a" * size))
        answer = await caller.closed()

    assert answer[:12] == b"HTTP/1.1 431"
    assert json.loads(answer.partition(b"\r\n\r\n")[2])["error"]["code"] == "headers_too_large"


async def test_a_request_target_of_a_megabyte_is_refused(simulated):
    async with Caller(simulated.port) as caller:
        caller.writer.write(b"POST /v1/chat/completions?" + b"a" * (1 << 20) + b" HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n")
        answer = await caller.closed()

    assert answer[:12] in (b"HTTP/1.1 414", b"HTTP/1.1 431", b"HTTP/1.1 400")


async def test_expect_100_with_a_body_that_is_too_large_is_a_413_without_reading_it(simulated, by_shim):
    async with Caller(simulated.port, by_shim=by_shim) as caller:
        await caller.send(framed("content-length: 99999999", "expect: 100-continue", body=b""))
        assert (await caller.reply()).status == 413


async def test_expect_100_is_answered_and_the_body_then_served(simulated, by_shim):
    async with Caller(simulated.port, by_shim=by_shim) as caller:
        await caller.send(framed(f"content-length: {len(BODY)}", "expect: 100-continue", body=b""))
        assert await asyncio.wait_for(caller.reader.readuntil(b"\r\n\r\n"), 30) == b"HTTP/1.1 100 Continue\r\n\r\n"
        await caller.send(BODY)
        assert (await caller.reply()).status == 200


@pytest.mark.parametrize("extra", ["connection: close", None])
async def test_a_connection_is_kept_or_closed_as_asked(simulated, by_shim, extra):
    async with Caller(simulated.port, by_shim=by_shim) as caller:
        await caller.send(framed(f"content-length: {len(BODY)}", *([extra] if extra else [])))
        assert (await caller.reply()).status == 200
        if extra:
            assert await caller.closed() == b""
        else:
            await caller.send(framed(f"content-length: {len(BODY)}"))
            assert (await caller.reply()).status == 200


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(cuts=some.lists(some.integers(1, 1_200), max_size=12))
def test_requests_are_read_the_same_however_their_bytes_are_sliced(running_in_thread, cuts):
    data = (
        request_bytes("/v1/models") + request_bytes("/v1/chat/completions", chat()) + request_bytes("/tandem/explain", chat())
    )
    hot_first = request_bytes("/v1/chat/completions", chat()) * 2 + request_bytes("/v1/models")

    for stream in (data, hot_first):
        replies = running_in_thread(stream, sorted({cut for cut in cuts if cut < len(stream)}), 3)
        assert [reply.status for reply in replies] == [200, 200, 200]


async def test_a_request_sent_one_byte_at_a_time_is_served(simulated, by_shim):
    async with Caller(simulated.port, by_shim=by_shim) as caller:
        for letter in request_bytes("/v1/chat/completions", chat(stream=True)):
            caller.writer.write(bytes([letter]))
            await asyncio.sleep(0)
        reply = await caller.reply()

    assert reply.is_whole
    assert reply.body.endswith(b"data: [DONE]\n\n")


async def test_hundreds_of_idle_connections_do_not_keep_a_caller_waiting(simulated):
    callers = [await asyncio.open_connection("127.0.0.1", simulated.port) for _ in range(250)]

    assert (await call(simulated.port, "/v1/chat/completions", chat())).status == 200

    for _, writer in callers:
        writer.close()


async def test_a_head_that_trickles_in_has_one_time_limit_across_the_hand_over(start):
    tandem = await start(SIMULATED + "limits: {header_timeout_seconds: 0.6}\n")
    async with Caller(tandem.port) as caller:
        began = asyncio.get_running_loop().time()
        closing = later(caller.closed(30))
        letters = iter(b"POST /v1/chat/nothing-of-ours HTTP")
        await trickle(caller, letters, closing)  # could be a create call at first; about halfway no longer
        await closing
        took = asyncio.get_running_loop().time() - began

    assert took > 0.5
    assert next(letters, None) is not None, "its time began anew"
