"""Whole requests over loopback against a scripted upstream."""

import asyncio
import gc

import pytest

from router.contract.request import RequestView
from router.dispatch.relay import Relay
from tests.tools.http import LONG, call, chat, request_bytes
from tests.tools.raw import Caller
from tests.tools.upstream import (
    CHAT_ANSWER,
    GOOD_CHAT_STREAM,
    SEEN_CHAT_STREAM,
    answer_json,
    chat_frame,
    stream,
)
from tests.tools.waiting import until

pytestmark = pytest.mark.wire


async def test_a_quick_edit_goes_fast_and_a_long_task_deep_with_the_reason_in_a_header(pair, upstream, other_upstream):
    quick = await call(pair.port, "/v1/chat/completions", chat())
    long = await call(pair.port, "/v1/chat/completions", chat(LONG))

    assert (quick.headers["x-tandem-tier"], quick.headers["x-tandem-target"]) == ("fast", "spark")
    assert (long.headers["x-tandem-tier"], long.headers["x-tandem-target"]) == ("deep", "sage")
    assert quick.headers["x-tandem-because"].isascii()
    assert quick.json == CHAT_ANSWER
    assert (len(upstream.seen), len(other_upstream.seen)) == (1, 1)
    assert 0 < float(quick.headers["x-tandem-overhead-ms"]) < 60_000


async def test_the_body_goes_upstream_as_it_came_but_for_the_model(pair, upstream):
    raw = b'{"model" : "auto",  "messages": [{"role":"user","content":"fix the typo \\u00e9"}], "brand_new": {"x": 1.50}}'

    await call(pair.port, "/v1/chat/completions", raw)

    assert upstream.seen[0].body == raw.replace(b'"auto"', b'"fast-model"')
    assert upstream.seen[0].path == "/v1/chat/completions"


async def test_a_stream_is_relayed_byte_for_byte_without_the_usage_that_only_the_router_asked_for(pair, upstream):
    upstream.scripts = [stream(*GOOD_CHAT_STREAM)]

    reply = await call(pair.port, "/v1/chat/completions", chat(stream=True))

    assert reply.body == SEEN_CHAT_STREAM
    assert reply.is_whole
    assert reply.headers["content-type"].startswith("text/event-stream")
    (entry,) = await pair.entries()
    assert (entry["outcome"], entry["input_tokens"], entry["output_tokens"], entry["tokens_estimated"]) == ("SERVED", 9, 3, 0)
    assert (entry["tier"], entry["target"], entry["turn_kind"], entry["streaming"]) == ("fast", "spark", "ask", 1)
    assert entry["cost_usd"] is None
    assert upstream.seen[0].json["stream_options"] == {"include_usage": True}


async def test_who_asks_for_usage_gets_the_whole_stream_and_the_target_the_whole_request(pair, upstream):
    upstream.scripts = [stream(*GOOD_CHAT_STREAM)]
    body = chat(stream=True, stream_options={"include_usage": True})

    reply = await call(pair.port, "/v1/chat/completions", body)

    assert reply.body == b"".join(GOOD_CHAT_STREAM)
    assert upstream.seen[0].json == {**body, "model": "fast-model"}


async def test_each_piece_is_passed_on_before_the_next_one_exists(pair, upstream):
    gate = asyncio.Event()

    async def script(wire, seen):
        await wire.send(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n")
        await wire.chunk(chat_frame("first"))
        await asyncio.wait_for(gate.wait(), 30)
        for piece in GOOD_CHAT_STREAM:
            await wire.chunk(piece)
        await wire.end_chunks()

    upstream.scripts = [script]
    reader, writer = await asyncio.open_connection("127.0.0.1", pair.port)
    writer.write(request_bytes("/v1/chat/completions", chat(stream=True)))

    got = await asyncio.wait_for(reader.readuntil(b'first"'), 30)
    gate.set()
    rest = await asyncio.wait_for(reader.readuntil(b"[DONE]"), 30)

    writer.close()
    assert b"200 OK" in got
    assert rest


async def test_a_forced_tier_that_cannot_serve_is_a_400_unless_the_other_is_allowed(pair, other_upstream):
    image = [{"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}]
    body = {"model": "auto", "messages": [{"role": "user", "content": image}]}

    refused = await call(pair.port, "/v1/chat/completions", body, {"x-tandem-tier": "fast"})
    allowed = await call(pair.port, "/v1/chat/completions", body, {"x-tandem-tier": "fast", "x-tandem-on-misfit": "other"})

    assert refused.status == 400
    assert "x-tandem-tier asks for fast" in refused.json["error"]["message"]
    assert "image" in refused.json["error"]["message"]
    assert (allowed.status, allowed.headers["x-tandem-tier"]) == (200, "deep")


async def test_a_prompt_too_long_for_a_forced_tier_carries_the_marker(simulated):
    huge = "def f(x): return x + 1\n" * 30_000

    chat_reply = await call(simulated.port, "/v1/chat/completions", chat(huge), {"x-tandem-tier": "fast"})
    body = {"model": "fast", "max_tokens": 9, "messages": [{"role": "user", "content": huge}]}
    messages_reply = await call(simulated.port, "/v1/messages", body)

    assert chat_reply.json["error"]["code"] == "context_length_exceeded"
    assert messages_reply.json["error"]["message"].startswith("prompt is too long: ")
    assert " > 128000 maximum" in messages_reply.json["error"]["message"]


async def test_a_wish_for_a_session_holds_until_auto_clears_it(simulated):
    session = {"x-tandem-session": "s1"}
    await call(
        simulated.port, "/v1/chat/completions", chat(), {**session, "x-tandem-tier": "deep", "x-tandem-scope": "session"}
    )

    kept = await call(simulated.port, "/v1/chat/completions", chat(), session)
    other = await call(simulated.port, "/v1/chat/completions", chat(), {"x-tandem-session": "s2"})
    await call(
        simulated.port, "/v1/chat/completions", chat(), {**session, "x-tandem-tier": "auto", "x-tandem-scope": "session"}
    )
    cleared = await call(simulated.port, "/v1/chat/completions", chat(), session)

    assert [reply.headers["x-tandem-tier"] for reply in (kept, other, cleared)] == ["deep", "fast", "fast"]


async def test_a_wish_for_a_session_that_the_request_does_not_name_is_a_400_that_says_how_to_name_one(simulated):
    wish = {"x-tandem-tier": "deep", "x-tandem-scope": "session"}

    refused = await call(simulated.port, "/v1/chat/completions", chat(), wish)
    named = await call(simulated.port, "/v1/chat/completions", {**chat(), "prompt_cache_key": "s3"}, wish)

    assert (refused.status, refused.json["error"]["code"], named.status) == (400, "unknown_override", 200)
    assert "x-tandem-session" in refused.json["error"]["message"]


@pytest.mark.parametrize("by_shim", [False, True], ids=["hot", "shim"])
async def test_a_request_is_freed_with_its_answer_and_not_when_the_collector_comes_by(pair, upstream, by_shim):
    upstream.scripts = [answer_json(CHAT_ANSWER), stream(*GOOD_CHAT_STREAM), answer_json({"error": {}}, 400)]

    def held() -> list[object]:
        return [each for each in gc.get_objects() if isinstance(each, RequestView | Relay)]

    gc.collect()
    others = held()  # those of earlier tests, whose threads may drop them at any moment: held here, they stay counted
    gc.disable()
    try:
        async with Caller(pair.port, by_shim=by_shim) as caller:
            for streams in (False, True, False):
                await caller.send(request_bytes("/v1/chat/completions", chat(stream=streams)))
                await caller.reply()
        await pair.entries(3)
        await until(lambda: len(held()) == len(others))
    finally:
        gc.enable()
