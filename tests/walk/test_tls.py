"""Requests over TLS: every way in, cuts, slow readers, and bytes that are not a handshake."""

import asyncio
import contextlib
import gc
import socket
import ssl

import pytest
from websockets.exceptions import ConnectionClosed

from tests.conftest import SIMULATED
from tests.tools.certificates import OTHER_CERT, TLS, client_context, write_pair
from tests.tools.http import call, chat, request_bytes
from tests.tools.raw import Caller
from tests.tools.running import two_targets
from tests.tools.sockets import open_socket
from tests.tools.upstream import CHAT_STREAM_HEAD, GOOD_CHAT_STREAM, chat_frame
from tests.tools.waiting import until, until_steady

pytestmark = pytest.mark.wire

ASKS = {
    "/v1/chat/completions": {"messages": [{"role": "user", "content": "hello"}]},
    "/v1/responses": {"input": "hello"},
    "/v1/messages": {"messages": [{"role": "user", "content": "hello"}], "max_tokens": 50},
}
ENDS = {"/v1/chat/completions": b"[DONE]", "/v1/responses": b"response.completed", "/v1/messages": b"message_stop"}


@pytest.fixture
def tls(tmp_path):
    write_pair(tmp_path)
    return client_context()


@pytest.fixture
async def secure(start, tls):
    return await start(SIMULATED + TLS)


@pytest.mark.parametrize("by_shim", [False, True], ids=["direct", "handed over"])
@pytest.mark.parametrize("path", ASKS)
async def test_create_calls_are_answered_whole_and_as_streams_on_one_connection(secure, tls, path, by_shim):
    async with Caller(secure.port, tls=tls, by_shim=by_shim) as caller:
        await caller.send(request_bytes(path, {"model": "auto", **ASKS[path]}))
        whole = await caller.reply(30)
        await caller.send(request_bytes(path, {"model": "auto", "stream": True, **ASKS[path]}))
        streamed = await caller.reply(30)

    assert (whole.status, whole.is_whole, streamed.status, streamed.is_whole) == (200, True, 200, True)
    assert ENDS[path] in streamed.body
    assert secure.url.startswith("https://")
    assert [row["outcome"] for row in await secure.entries(2)] == ["SERVED", "SERVED"]


@pytest.mark.parametrize("path", ["/healthz", "/readyz", "/v1/models", "/tandem/stats"])
async def test_control_routes_are_answered(secure, tls, path):
    assert (await call(secure.port, path, tls=tls)).status == 200


async def test_a_refusal_is_read_whole_though_tls_has_no_half_closed_state(secure, tls):
    async with Caller(secure.port, tls=tls) as caller:
        await caller.send(request_bytes("/v1/chat/completions", b"{", {"content-type": "text/plain"}))
        reply = await caller.reply(30)
        rest = await caller.closed(30)

    assert (reply.status, reply.is_whole, rest) == (415, True, b"")


async def test_a_socket_is_served_and_closes_in_order(secure, tls):
    async with open_socket(secure.port, tls=tls) as caller:
        first = await caller.ask("hello")
        second = await caller.ask("and again", previous_response_id=first["id"])

    assert (first["status"], second["status"]) == ("completed", "completed")
    assert caller.connection.close_code == 1000
    await until(lambda: secure.admission.sockets == 0)


async def test_a_socket_that_breaks_the_rules_is_told_why_and_closed(secure, tls):
    async with open_socket(secure.port, tls=tls) as caller:
        await caller.send(b"not text")
        with pytest.raises(ConnectionClosed) as closed:
            await caller.event()

    assert closed.value.rcvd.code == 1003
    await until(lambda: secure.admission.sockets == 0)


async def test_a_stream_that_its_target_breaks_off_reaches_the_caller_as_cut(start, upstream, other_upstream, tls):
    async def break_off(wire, seen):
        await wire.send(CHAT_STREAM_HEAD)
        await wire.chunk(chat_frame("the first words"))
        wire.reset()

    upstream.scripts = [break_off]
    tandem = await start(two_targets(upstream.base_url, other_upstream.base_url, extra=TLS))

    reply = await call(tandem.port, "/v1/chat/completions", chat(stream=True), tls=tls)

    assert b"the first words" in reply.body
    assert not reply.is_whole
    assert [row["outcome"] for row in await tandem.entries(1)] == ["CUT_SHORT"]


async def test_a_caller_that_leaves_closes_the_upstream(start, upstream, other_upstream, tls):
    async def never_end(wire, seen):
        await wire.send(CHAT_STREAM_HEAD)
        await wire.chunk(chat_frame("the first words"))
        await seen.left.wait()

    upstream.scripts = [never_end]
    tandem = await start(two_targets(upstream.base_url, other_upstream.base_url, extra=TLS))
    async with Caller(tandem.port, tls=tls) as caller:
        await caller.send(request_bytes("/v1/chat/completions", chat(stream=True)))
        await asyncio.wait_for(caller.reader.readuntil(b"the first words"), 30)

    await asyncio.wait_for(upstream.seen[0].left.wait(), 30)
    assert [row["outcome"] for row in await tandem.entries(1)] == ["ABANDONED"]


async def test_a_slow_reader_pauses_the_upstream_and_gets_everything(start, upstream, other_upstream, tls):
    sent = 0

    async def flood(wire, seen):
        nonlocal sent
        await wire.send(CHAT_STREAM_HEAD)
        for _ in range(2_500):
            await wire.chunk(chat_frame("x" * 8_000))
            sent += 8_000
        await wire.chunk(b"".join(GOOD_CHAT_STREAM))
        await wire.end_chunks()

    upstream.scripts = [flood]
    tandem = await start(two_targets(upstream.base_url, other_upstream.base_url, extra=TLS))
    async with Caller(tandem.port, tls=tls, holds_bytes=1 << 16) as caller:
        await caller.send(request_bytes("/v1/chat/completions", chat(stream=True)))
        await asyncio.wait_for(caller.reader.readuntil(b"xxx"), 30)
        await until_steady(lambda: sent)
        sent_unread = sent
        received = 0
        while not (piece := await asyncio.wait_for(caller.reader.read(1 << 20), 30)).endswith(b"0\r\n\r\n"):
            assert piece
            received += len(piece)

    assert sent_unread < 15_000_000
    assert received > 19_000_000


async def test_what_comes_on_a_connection_that_is_being_closed_is_not_served(secure, tls):
    """Over TLS a close waits for the caller's: a request in between would be served for nobody."""
    async with Caller(secure.port, tls=tls) as caller:
        await caller.send(request_bytes("/v1/chat/completions", chat(), {"connection": "close"}) * 2)
        reply = await caller.reply(30)
        rest = await caller.closed(30)

    assert (reply.status, reply.headers["connection"], rest) == (200, "close", b"")
    assert len(await secure.entries(1)) == 1


HELLO = b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(range(200))
NO_HANDSHAKES = {
    "plain HTTP": b"GET /healthz HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n",
    "an HTTP/2 preface": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    "random bytes": bytes((71 * number + 19) % 251 for number in range(150)),
    "a record of another version": b"\x16\x09\x09\x00\x05hello" + b"x" * 100,
}


async def closes_on(port: int, data: bytes) -> bytes:
    """Send bytes over plain TCP. Returns what comes until the router closes."""
    async with Caller(port) as caller:
        await caller.send(data)
        return await caller.closed(30)


@pytest.mark.parametrize("data", NO_HANDSHAKES.values(), ids=NO_HANDSHAKES)
async def test_bytes_that_are_no_handshake_close_the_connection_without_a_word_in_the_log(secure, tls, data, listen, caplog):
    """W12."""
    read_log = listen()

    answer = await closes_on(secure.port, data)

    assert b"HTTP/1." not in answer
    assert (await call(secure.port, "/healthz", tls=tls)).status == 200
    assert (read_log(), caplog.records) == ([], [])


async def test_a_tls_hello_to_a_plain_port_closes_the_connection_without_a_word_in_the_log(simulated, caplog):
    """W12."""
    answer = await closes_on(simulated.port, HELLO)

    assert answer.startswith(b"HTTP/1.1 400")
    assert (await call(simulated.port, "/healthz")).status == 200
    assert caplog.records == []


async def test_a_handshake_that_does_not_come_to_an_end_is_closed_after_the_header_timeout(start, tls):
    tandem = await start(SIMULATED + TLS + "limits: {header_timeout_seconds: 2}\n")
    with contextlib.closing(socket.create_connection(("127.0.0.1", tandem.port))) as silent:
        silent.setblocking(False)
        loop = asyncio.get_running_loop()

        rest = await asyncio.wait_for(loop.sock_recv(silent, 100), 30)

    assert rest == b""
    assert (await call(tandem.port, "/healthz", tls=tls)).status == 200


async def test_a_caller_that_does_not_trust_the_certificate_leaves_nothing_behind(secure, tls, caplog):
    with pytest.raises(ssl.SSLCertVerificationError):
        await call(secure.port, "/healthz", tls=client_context(OTHER_CERT))

    gc.collect()
    assert (await call(secure.port, "/healthz", tls=tls)).status == 200
    assert caplog.records == []
