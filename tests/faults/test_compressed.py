"""Compressed bodies over the wire: served as if they had come plain, or refused by name."""

import asyncio
import gzip
import json

import pytest

from router.edge.http.bodies import decompress
from router.loop.off_loop import OffLoop
from tests.tools.http import call, chat, request_bytes
from tests.tools.raw import Caller
from tests.tools.running import two_targets
from tests.tools.upstream import CHAT_ANSWER, answer_json
from tests.tools.zstd import compress, frame_of_zeros

PACK = {"zstd": compress, "gzip": gzip.compress}
CHAT = "/v1/chat/completions"
RAW = json.dumps(chat("say hello", model="deep")).encode()
ROUTES = {
    "/v1/chat/completions": chat(model="deep"),
    "/chat/completions": chat(model="deep"),
    "/v1/responses": {"model": "deep", "input": "hello"},
    "/v1/responses/input_tokens": {"model": "deep", "input": "hello"},
    "/v1/messages": {"model": "deep", "max_tokens": 9, "messages": [{"role": "user", "content": "hello"}]},
    "/v1/messages/count_tokens": {"model": "deep", "messages": [{"role": "user", "content": "hello"}]},
}


@pytest.fixture
async def tandem(start, upstream):
    upstream.scripts = [answer_json(CHAT_ANSWER)]
    return await start(two_targets(upstream.base_url, upstream.base_url))


@pytest.mark.parametrize("encoding", PACK)
async def test_a_target_gets_a_compressed_body_plain_and_no_word_of_its_encoding(tandem, upstream, encoding):
    plain = await call(tandem.port, CHAT, RAW)
    packed = await call(tandem.port, CHAT, PACK[encoding](RAW), {"content-encoding": encoding})

    assert (plain.status, packed.status, packed.json) == (200, 200, plain.json)
    first, second = upstream.seen
    assert first.body == second.body
    assert first.headers == second.headers
    assert "content-encoding" not in second.headers


@pytest.mark.parametrize("path", ROUTES)
async def test_every_create_route_takes_a_compressed_body(simulated, path):
    raw = json.dumps(ROUTES[path]).encode()

    plain = await call(simulated.port, path, raw)
    packed = await call(simulated.port, path, compress(raw), {"content-encoding": "zstd"})

    assert packed.status == plain.status == 200
    assert plain.json.keys() == packed.json.keys()


async def test_an_explanation_takes_what_a_create_call_takes(simulated):
    reply = await call(simulated.port, "/tandem/explain", gzip.compress(RAW), {"content-encoding": "gzip"})

    assert (reply.status, reply.json["tier"]) == (200, "deep")


async def test_a_page_takes_no_compressed_body(simulated):
    reply = await call(simulated.port, "/tandem/reload", gzip.compress(b"{}"), {"content-encoding": "gzip"})

    assert (reply.status, reply.json["error"]["code"]) == (415, "unsupported_media_type")
    assert reply.json["error"]["message"].startswith(
        'content-encoding: "gzip" is not supported here. Send the body uncompressed'
    )


async def test_one_connection_takes_compressed_plain_chunked_and_streamed_requests_in_turn(tandem, upstream):
    packed = request_bytes(CHAT, compress(RAW), {"content-encoding": "zstd"})
    chunks = compress(RAW)
    chunked = request_bytes(CHAT, b"", {"content-encoding": "zstd", "transfer-encoding": "chunked"})
    chunked += b"%x\r\n%b\r\n0\r\n\r\n" % (len(chunks), chunks)
    async with Caller(tandem.port) as caller:
        for request in (request_bytes(CHAT, RAW), packed, request_bytes(CHAT, RAW), chunked, packed):
            await caller.send(request)
            assert (await caller.reply()).status == 200

    assert len({seen.body for seen in upstream.seen}) == 1
    assert len(upstream.seen) == 5


REFUSED = {
    "zstd, cut off": ("zstd", lambda: compress(RAW)[:-2], 400, "the body is not valid zstd: it ends too early"),
    "gzip, cut off": ("gzip", lambda: gzip.compress(RAW)[:-2], 400, "the body is not valid gzip: it ends too early"),
    "zstd, plain": ("zstd", lambda: RAW, 400, "the body is not valid zstd"),
    "zstd, empty": ("zstd", lambda: b"", 400, "the body is not valid zstd: it ends too early"),
    "zstd called gzip": ("gzip", lambda: compress(RAW), 400, "the body is not valid gzip"),
    "broken JSON": ("zstd", lambda: compress(b'{"model": '), 400, ""),
    "zstd, 2 GB": (
        "zstd",
        lambda: frame_of_zeros(2 << 30),
        413,
        "the body is over 100 times larger than the zstd that was sent",
    ),
    "gzip, 30 MB": (
        "gzip",
        lambda: gzip.compress(bytes(30 << 20)),
        413,
        "the body is over 100 times larger than the gzip that was sent",
    ),
    "br": (
        "br",
        lambda: RAW,
        415,
        'content-encoding: "br" is not supported here. Send the body as zstd or gzip, or uncompressed',
    ),
    "both": (
        "zstd, gzip",
        lambda: compress(gzip.compress(RAW)),
        415,
        'content-encoding: "zstd, gzip" is not supported here',
    ),
    "gzip twice": (
        "gzip, gzip",
        lambda: gzip.compress(gzip.compress(RAW)),
        415,
        'content-encoding: "gzip, gzip" is not supported here',
    ),
    "both, in two headers": (
        "zstd\r\ncontent-encoding: gzip",
        lambda: compress(RAW),
        415,
        'content-encoding: "zstd, gzip" is not supported here',
    ),
    "none and one": (
        "identity\r\ncontent-encoding: zstd",
        lambda: compress(RAW),
        415,
        'content-encoding: "identity, zstd" is not supported here',
    ),
}


@pytest.mark.parametrize(("encoding", "make_body", "status", "words"), REFUSED.values(), ids=REFUSED)
async def test_what_is_not_one_sound_compressed_body_is_refused_by_name(tandem, upstream, encoding, make_body, status, words):
    reply = await call(tandem.port, CHAT, make_body(), {"content-encoding": encoding})

    assert reply.status == status
    assert reply.json["error"]["message"].startswith(words)
    assert not upstream.seen
    assert (await call(tandem.port, CHAT, RAW)).status == 200


async def test_a_content_length_that_is_too_short_cuts_the_body_off_and_the_rest_is_no_request(tandem, upstream):
    packed = compress(RAW)
    async with Caller(tandem.port) as caller:
        await caller.send(request_bytes(CHAT, packed, {"content-encoding": "zstd", "content-length": str(len(packed) - 4)}))
        reply = await caller.reply()
        rest = await caller.closed()

    assert (reply.status, reply.json["error"]["code"]) == (400, "invalid_request")
    assert b"HTTP/1.1 200" not in rest
    assert not upstream.seen


async def test_a_content_length_that_is_too_long_waits_for_the_rest_and_then_is_refused(start, upstream):
    limits = "limits: {body_timeout_seconds: 0.2}\n"
    tandem = await start(limits + two_targets(upstream.base_url, upstream.base_url))
    packed = compress(RAW)

    async with Caller(tandem.port) as caller:
        await caller.send(request_bytes(CHAT, packed, {"content-encoding": "zstd", "content-length": str(len(packed) + 4)}))
        reply = await caller.reply()

    assert (reply.status, reply.json["error"]["code"]) == (408, "body_timeout")
    assert not upstream.seen


async def test_a_content_length_over_the_limit_is_refused_before_the_body_is_read(tandem):
    async with Caller(tandem.port) as caller:
        await caller.send(request_bytes(CHAT, b"", {"content-encoding": "zstd", "content-length": "99999999999"}))
        reply = await caller.reply()

    assert (reply.status, reply.json["error"]["code"]) == (413, "body_too_large")


async def test_a_body_is_decompressed_in_a_thread(tandem, monkeypatch):
    ran = []
    run = OffLoop.run

    async def note(self, work, *given):
        ran.append(work)
        return await run(self, work, *given)

    monkeypatch.setattr(OffLoop, "run", note)

    await call(tandem.port, CHAT, compress(RAW), {"content-encoding": "zstd"})
    await call(tandem.port, CHAT, RAW)

    assert ran == [decompress]


async def test_many_bombs_at_once_hold_nobody_up(tandem):
    bomb = frame_of_zeros(2 << 30)
    bombs = [call(tandem.port, CHAT, bomb, {"content-encoding": "zstd"}) for _ in range(20)]

    *refused, served = await asyncio.gather(*bombs, call(tandem.port, CHAT, RAW))

    assert {reply.status for reply in refused} == {413}
    assert served.status == 200
