"""Whole requests over loopback against a scripted upstream."""

import asyncio
import gc
import json
import re
import sqlite3
import time
from contextlib import closing
from pathlib import Path

import pytest

from router.contract.request import RequestView
from router.dispatch.relay import Relay
from tests.conftest import SIMULATED
from tests.tools.http import call, chat, read_reply, request_bytes
from tests.tools.raw import Caller
from tests.tools.running import two_targets
from tests.tools.upstream import (
    CHAT_ANSWER,
    CHAT_STREAM_HEAD,
    CHAT_USAGE,
    DONE,
    GOOD_CHAT_STREAM,
    answer_json,
    chat_frame,
    silent,
    stream,
)
from tests.tools.waiting import until, until_steady

LONG = "Implement a full parser with an extensive test suite, step by step"


@pytest.fixture
async def pair(start, upstream, other_upstream):
    """A Tandem with a scripted fast tier and a scripted deep tier."""
    tandem = await start(two_targets(upstream.base_url, other_upstream.base_url))
    upstream.scripts = other_upstream.scripts = [answer_json(CHAT_ANSWER)]
    return tandem


async def test_a_quick_edit_goes_fast_and_a_long_task_deep_with_the_reason_in_a_header(pair, upstream, other_upstream):
    quick = await call(pair.port, "/v1/chat/completions", chat())
    long = await call(pair.port, "/v1/chat/completions", chat(LONG))

    assert (quick.headers["x-tandem-tier"], quick.headers["x-tandem-target"]) == ("fast", "spark")
    assert (long.headers["x-tandem-tier"], long.headers["x-tandem-target"]) == ("deep", "sage")
    assert quick.headers["x-tandem-because"].isascii()
    assert quick.json == CHAT_ANSWER
    assert (len(upstream.seen), len(other_upstream.seen)) == (1, 1)
    assert float(quick.headers["x-tandem-overhead-ms"]) < 100


async def test_the_body_goes_upstream_as_it_came_but_for_the_model(pair, upstream):
    raw = b'{"model" : "auto",  "messages": [{"role":"user","content":"fix the typo \\u00e9"}], "brand_new": {"x": 1.50}}'

    await call(pair.port, "/v1/chat/completions", raw)

    assert upstream.seen[0].body == raw.replace(b'"auto"', b'"fast-model"')
    assert upstream.seen[0].path == "/v1/chat/completions"


async def test_no_credential_of_the_caller_reaches_an_upstream_and_none_of_an_upstream_leaves(start, upstream, monkeypatch):
    monkeypatch.setenv("TEST_KEY", "sk-our-own-secret")
    config = two_targets(upstream.base_url, upstream.base_url, fast_extra="api_key: env:TEST_KEY,")
    tandem = await start(config)
    secret = {
        "set-cookie": "k=1",
        "openai-model": "other",
        "x-openai-model": "other",
        "authorization": "leak",
        "openai-organization": "o",
    }
    upstream.scripts = [answer_json(CHAT_ANSWER, headers=secret | {"x-ratelimit-remaining-tokens": "9"})]
    headers = {
        "authorization": "Bearer caller",
        "x-api-key": "caller",
        "cookie": "a=b",
        "x-forwarded-for": "1.2.3.4",
        "openai-beta": "b1",
    }

    reply = await call(tandem.port, "/v1/chat/completions", chat(), headers)

    seen = upstream.seen[0].headers
    assert seen["authorization"] == "Bearer sk-our-own-secret"
    assert not {"x-api-key", "cookie", "x-forwarded-for"} & set(seen)
    assert seen["openai-beta"] == "b1"
    assert "caller" not in str(seen)
    assert not set(secret) & set(reply.headers)
    assert reply.headers["x-ratelimit-remaining-tokens"] == "9"


async def test_a_stream_is_relayed_byte_for_byte_and_its_usage_recorded(pair, upstream):
    upstream.scripts = [stream(*GOOD_CHAT_STREAM)]

    reply = await call(pair.port, "/v1/chat/completions", chat(stream=True))

    assert reply.body == b"".join(GOOD_CHAT_STREAM)
    assert reply.is_whole
    assert reply.headers["content-type"].startswith("text/event-stream")
    (entry,) = await pair.entries()
    assert (entry["outcome"], entry["input_tokens"], entry["output_tokens"], entry["tokens_estimated"]) == ("SERVED", 9, 3, 0)
    assert (entry["tier"], entry["target"], entry["turn_kind"], entry["streaming"]) == ("fast", "spark", "ask", 1)
    assert entry["cost_usd"] is None
    assert "include_usage" not in upstream.seen[0].body.decode()


async def test_each_piece_is_passed_on_before_the_next_one_exists(pair, upstream):
    gate = asyncio.Event()

    async def script(wire, seen):
        await wire.send(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n")
        await wire.chunk(chat_frame("first"))
        await asyncio.wait_for(gate.wait(), 5)
        for piece in GOOD_CHAT_STREAM:
            await wire.chunk(piece)
        await wire.end_chunks()

    upstream.scripts = [script]
    reader, writer = await asyncio.open_connection("127.0.0.1", pair.port)
    writer.write(request_bytes("/v1/chat/completions", chat(stream=True)))

    got = await asyncio.wait_for(reader.readuntil(b'first"'), 5)
    gate.set()
    rest = await asyncio.wait_for(reader.readuntil(b"[DONE]"), 5)

    writer.close()
    assert b"200 OK" in got
    assert rest


@pytest.mark.parametrize("is_streaming", [True, False])
async def test_a_caller_that_leaves_before_the_first_byte_closes_an_upstream_that_says_nothing(pair, upstream, is_streaming):
    upstream.scripts = [silent]
    _, writer = await asyncio.open_connection("127.0.0.1", pair.port)
    writer.write(request_bytes("/v1/chat/completions", chat(stream=is_streaming)))
    await asyncio.wait_for(upstream.arrived.wait(), 5)
    writer.transport.abort()

    await asyncio.wait_for(upstream.seen[0].left.wait(), 5)

    (entry,) = await pair.entries()
    assert (entry["outcome"], entry["status"]) == ("ABANDONED", 499)


async def test_a_caller_that_leaves_mid_stream_closes_the_upstream_though_no_further_piece_comes(pair, upstream):
    async def falls_silent(wire, seen):
        await wire.send(CHAT_STREAM_HEAD)
        await wire.chunk(chat_frame("more"))
        await silent(wire, seen)

    upstream.scripts = [falls_silent]
    reader, writer = await asyncio.open_connection("127.0.0.1", pair.port)
    writer.write(request_bytes("/v1/chat/completions", chat(stream=True)))
    await asyncio.wait_for(reader.readuntil(b"more"), 5)
    writer.transport.abort()

    await asyncio.wait_for(upstream.seen[0].left.wait(), 5)

    (entry,) = await pair.entries()
    assert entry["outcome"] == "ABANDONED"
    assert entry["tokens_estimated"] == 1


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
    await asyncio.wait_for(reader.readuntil(b"xxx"), 5)
    await until_steady(lambda: sent)

    assert sent < 20_000_000
    received = 0
    while piece := await asyncio.wait_for(reader.read(1 << 20), 10):
        received += len(piece)
        if piece.endswith(b"0\r\n\r\n"):
            break
    writer.close()
    assert received > 31_000_000


FAILURES = {
    "429": answer_json({"error": {"message": "slow"}}, 429, {"retry-after": "3"}),
    "500": answer_json({"error": {}}, 500),
    "503": answer_json({"error": {}}, 503),
    "401": answer_json({"error": {"message": "bad key sk-xyz"}}, 401),
    "404": answer_json({"error": {}}, 404),
    "html": answer_json(b"<html>", 200, {"content-type": "text/html"}),
    "empty": answer_json(b"", 200),
    "redirect": answer_json(b"", 302, {"location": "http://127.0.0.1:1/"}),
}


@pytest.mark.parametrize("kind", list(FAILURES))
async def test_a_failed_attempt_goes_to_the_other_tier_while_nothing_was_answered(pair, upstream, other_upstream, kind):
    upstream.scripts = [FAILURES[kind]]

    reply = await call(pair.port, "/v1/chat/completions", chat())

    assert (reply.status, reply.headers["x-tandem-tier"], reply.headers["x-tandem-target"]) == (200, "deep", "sage")
    assert reply.headers["x-tandem-because"].startswith("spark failed (")
    (entry,) = await pair.entries()
    assert [attempt["target"] for attempt in json.loads(entry["attempts"])] == ["spark", "sage"]
    assert (entry["outcome"], entry["target"]) == ("SERVED", "sage")
    assert b"sk-xyz" not in reply.body


async def test_a_stream_that_breaks_before_its_first_byte_is_tried_elsewhere(pair, upstream, other_upstream):
    upstream.scripts = [stream(ends=False)]
    other_upstream.scripts = [stream(*GOOD_CHAT_STREAM)]

    reply = await call(pair.port, "/v1/chat/completions", chat(stream=True))

    assert reply.body == b"".join(GOOD_CHAT_STREAM)


async def test_no_connection_goes_to_the_other_tier(start, other_upstream):
    other_upstream.scripts = [answer_json(CHAT_ANSWER)]
    tandem = await start(two_targets("http://127.0.0.1:9/v1", other_upstream.base_url))

    reply = await call(tandem.port, "/v1/chat/completions", chat())

    assert (reply.status, reply.headers["x-tandem-target"]) == (200, "sage")


async def test_without_spill_over_a_failure_is_said(start, upstream, other_upstream):
    upstream.scripts = [answer_json({"error": {}}, 503)]
    tandem = await start(two_targets(upstream.base_url, other_upstream.base_url, extra="spill_over: false"))

    reply = await call(tandem.port, "/v1/chat/completions", chat())

    assert reply.status == 503
    assert "spark" in reply.json["error"]["message"]
    assert reply.headers["retry-after"]
    assert not other_upstream.seen


async def test_when_every_target_is_over_its_limit_the_caller_gets_a_429_with_a_wait(pair, upstream, other_upstream):
    upstream.scripts = [answer_json({}, 429, {"retry-after": "3"})]
    other_upstream.scripts = [answer_json({}, 429)]

    reply = await call(pair.port, "/v1/chat/completions", chat())

    assert reply.status == 429
    assert reply.json["error"]["code"] == "tiers_busy"
    assert int(reply.headers["retry-after"]) >= 1


@pytest.mark.parametrize("status", [400, 413, 422])
async def test_a_refusal_that_blames_the_request_passes_unchanged_and_is_not_retried(pair, upstream, other_upstream, status):
    body = b'{"error": {"message": "their own words", "code": "x"},  "odd": 1}'
    upstream.scripts = [answer_json(body, status)]

    reply = await call(pair.port, "/v1/chat/completions", chat())

    assert (reply.status, reply.body) == (status, body)
    assert reply.headers["x-tandem-request-id"].startswith("req_")
    assert not other_upstream.seen
    (entry,) = await pair.entries()
    assert entry["outcome"] == "REFUSED"


async def test_a_refusal_for_length_goes_once_to_a_larger_target(pair, upstream, other_upstream):
    upstream.scripts = [answer_json({"error": {"code": "context_length_exceeded"}}, 400)]

    reply = await call(pair.port, "/v1/chat/completions", chat())

    assert (reply.status, reply.headers["x-tandem-target"]) == (200, "sage")


async def test_the_shortest_wait_that_any_target_asked_for_is_passed_on(pair, upstream, other_upstream):
    upstream.scripts = [answer_json({}, 429, {"retry-after": "2"})]
    other_upstream.scripts = [answer_json({}, 429, {"retry-after": "60"})]

    reply = await call(pair.port, "/v1/chat/completions", chat())

    assert (reply.status, reply.headers["retry-after"]) == (429, "2")


async def test_after_a_spill_header_log_and_ledger_say_the_same(pair, upstream):
    upstream.scripts = [answer_json({}, 401)]

    reply = await call(pair.port, "/v1/chat/completions", chat())

    (entry,) = await pair.entries()
    assert entry["tier"] == reply.headers["x-tandem-tier"] == "deep"
    assert entry["because"] == reply.headers["x-tandem-because"]
    assert entry["because"].startswith("spark failed (auth), so sage answers: ")


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
        await asyncio.wait_for(reader.readuntil(b"xxx"), 5)
        await until_steady(lambda: sent)
        tail = b""
        while not tail.endswith(b"0\r\n\r\n"):
            tail = (tail + await asyncio.wait_for(reader.read(1 << 16), 5))[-64:]
        writer.close()

    reply = await call(pair.port, "/v1/chat/completions", chat(stream=True))

    assert reply.is_whole
    assert upstream.connections == 1


async def test_a_body_that_cannot_be_written_anew_leaves_no_target_waiting(pair):
    deep = "[" * 1010 + "]" * 1010
    raw = f'{{"model":"auto","stream":true,"messages":[{{"role":"user","content":"fix the typo"}}],"metadata":{{"model":"x"}},"x":{deep}}}'

    reply = await call(pair.port, "/v1/chat/completions", raw.encode())

    assert (reply.status, reply.json["error"]["code"]) == (400, "too_deep")
    standing = pair.house.state.live.statuses(pair.house.plan.targets, pair.house.clock() + 60)["spark"]
    assert (standing.in_flight, standing.wait_seconds) == (0, 0.0)


async def test_an_error_event_before_a_hang_up_is_not_doubled(pair, upstream):
    event = b'data: {"error": {"message": "overloaded"}}\n\n'
    upstream.scripts = [stream(chat_frame("a"), event, ends=False)]

    reply = await call(pair.port, "/v1/chat/completions", chat(stream=True))

    assert reply.body == chat_frame("a") + event
    (entry,) = await pair.entries()
    assert entry["outcome"] == "FAILED"


async def test_a_cut_stream_says_so_in_its_dialect_and_has_no_proper_end(pair, upstream, other_upstream):
    upstream.scripts = [stream(chat_frame("half"), ends=True)]

    reply = await call(pair.port, "/v1/chat/completions", chat(stream=True))

    assert not reply.is_whole
    frames = reply.body.split(b"\n\n")
    assert json.loads(frames[1].removeprefix(b"data: "))["error"]["code"] == "upstream_cut"
    assert b"[DONE]" not in reply.body
    assert b'finish_reason": "stop' not in reply.body
    (entry,) = await pair.entries()
    assert (entry["outcome"], entry["error"]) == ("CUT_SHORT", "upstream_cut")
    assert not other_upstream.seen


async def test_a_stream_cut_inside_a_frame_is_closed_without_another_word(pair, upstream):
    upstream.scripts = [stream(chat_frame("a"), b'data: {"half', ends=False)]

    reply = await call(pair.port, "/v1/chat/completions", chat(stream=True))

    assert not reply.is_whole
    assert reply.body == chat_frame("a") + b'data: {"half'


async def test_an_error_event_of_the_upstream_is_passed_on_and_recorded_as_a_failure(pair, upstream, other_upstream):
    event = b'data: {"error": {"message": "overloaded"}}\n\n'
    upstream.scripts = [stream(chat_frame("a"), event)]

    reply = await call(pair.port, "/v1/chat/completions", chat(stream=True))

    assert reply.body == chat_frame("a") + event
    assert not reply.is_whole
    (entry,) = await pair.entries()
    assert entry["outcome"] == "FAILED"


async def test_a_silent_upstream_is_given_up_at_its_first_byte_limit(start, upstream, other_upstream):
    upstream.scripts, other_upstream.scripts = [silent], [stream(*GOOD_CHAT_STREAM)]
    config = two_targets(upstream.base_url, other_upstream.base_url, fast_extra="timeouts: {first_byte_seconds: 0.2},")
    tandem = await start(config)

    reply = await call(tandem.port, "/v1/chat/completions", chat(stream=True))

    assert reply.headers["x-tandem-target"] == "sage"
    assert upstream.seen[0].left.is_set()


async def test_the_deadline_of_a_request_ends_it_and_asks_nobody_else(start, upstream, other_upstream):
    upstream.scripts, other_upstream.scripts = [silent], [answer_json(CHAT_ANSWER)]
    config = two_targets(upstream.base_url, other_upstream.base_url, extra="limits: {deadline_seconds: 0.3}")
    tandem = await start(config)

    reply = await call(tandem.port, "/v1/chat/completions", chat())

    assert (reply.status, reply.json["error"]["code"]) == (504, "upstream_timeout")
    assert "deadline of 0.3 s" in reply.json["error"]["message"]
    assert not other_upstream.seen


async def test_a_stream_that_the_routers_end_cuts_says_so_in_its_dialect(pair, upstream):
    upstream.scripts = [stream(chat_frame("a"), *[chat_frame("b")] * 100, pause=0.1)]
    reader, writer = await asyncio.open_connection("127.0.0.1", pair.port)
    writer.write(request_bytes("/v1/chat/completions", chat(stream=True)))
    began = await asyncio.wait_for(reader.readuntil(chat_frame("a")), 5)

    await pair.house.stop(1)

    rest = await asyncio.wait_for(reader.read(), 5)
    writer.close()
    assert began.startswith(b"HTTP/1.1 200")
    assert b"the router is shutting down" in rest
    assert not rest.endswith(b"0\r\n\r\n")


async def test_a_request_that_nothing_was_answered_to_is_a_503_when_the_router_stops(pair, upstream):
    upstream.scripts = [silent]
    waiting = asyncio.ensure_future(call(pair.port, "/v1/chat/completions", chat()))  # noqa: TID251  held and awaited here
    await asyncio.wait_for(upstream.arrived.wait(), 5)

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

    def seen_speed() -> float:  # as of one moment: by itself a speed fades into what is typical
        pair.house.state.live.statuses(
            pair.house.plan.targets, moment - 1
        )  # what was seen is shown again for five milliseconds
        return pair.house.state.live.statuses(pair.house.plan.targets, moment)["spark"].speed.tokens_per_second

    typical = seen_speed()
    await call(pair.port, "/v1/chat/completions", chat(stream=True))
    await pair.entries(1)
    read_at_once = seen_speed()
    reader, writer = await asyncio.open_connection("127.0.0.1", pair.port, limit=1 << 16)
    writer.write(request_bytes("/v1/chat/completions", chat(stream=True)))
    await asyncio.wait_for(reader.readuntil(b"xxx"), 5)
    await until_steady(lambda: sent)
    while not (await asyncio.wait_for(reader.read(1 << 20), 5)).endswith(b"0\r\n\r\n"):
        pass
    writer.close()

    assert [entry["outcome"] for entry in await pair.entries(2)] == ["SERVED", "SERVED"]
    assert read_at_once != typical
    assert seen_speed() == read_at_once


async def test_a_stall_mid_stream_is_cut(start, upstream):
    async def stalls(wire, seen):
        await wire.send(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n")
        await wire.chunk(chat_frame("a"))
        await silent(wire, seen)

    upstream.scripts = [stalls]
    tandem = await start(two_targets(upstream.base_url, upstream.base_url, fast_extra="timeouts: {stall_seconds: 0.2},"))

    reply = await call(tandem.port, "/v1/chat/completions", chat(stream=True))

    assert not reply.is_whole
    assert b"upstream_timeout" in reply.body


async def test_a_status_that_is_none_is_no_answer(start, upstream):
    async def without_status(wire, seen):
        await wire.send(b"HTTP/1.1 000 OK\r\ncontent-type: application/json\r\ncontent-length: 900\r\n\r\n{")
        await silent(wire, seen)

    upstream.scripts = [without_status]
    tandem = await start(two_targets(upstream.base_url, upstream.base_url))

    reply = await call(tandem.port, "/v1/chat/completions", chat())

    assert (reply.status, reply.json["error"]["code"]) == (502, "upstream_malformed")


async def test_an_upstream_that_closes_an_idle_connection_is_dialled_again_unseen(pair, upstream):
    await call(pair.port, "/v1/chat/completions", chat())

    async def hang_up_first(wire, seen):
        wire.writer.close()

    upstream.scripts = [hang_up_first, answer_json(CHAT_ANSWER)]
    reply = await call(pair.port, "/v1/chat/completions", chat())

    assert (reply.status, reply.headers["x-tandem-target"]) == (200, "spark")


async def test_connections_are_reused(pair, upstream):
    for _ in range(5):
        await call(pair.port, "/v1/chat/completions", chat())

    assert upstream.connections == 1


async def test_a_caller_of_another_dialect_is_served_over_a_bridge(pair, upstream):
    reply = await call(pair.port, "/v1/responses", {"model": "fast", "input": "hi", "truncation": "auto"})

    assert reply.status == 200
    assert reply.json["output"][0]["content"][0]["text"] == "hi"
    assert upstream.seen[-1].path == "/v1/chat/completions"
    assert upstream.seen[-1].json == {"model": "fast-model", "messages": [{"role": "user", "content": "hi"}]}
    decision = await call(pair.port, f"/tandem/decisions/{reply.headers['x-tandem-request-id']}")
    assert decision.json["dropped"] == ["truncation"]


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


async def test_no_text_of_a_prompt_or_answer_is_on_disk_unless_asked_for(start, upstream, tmp_path):
    canary = "canary-7f3a9c"
    upstream.scripts = [answer_json({**CHAT_ANSWER, "id": canary})]
    quiet, wordy = tmp_path / "quiet", tmp_path / "wordy"
    quiet.mkdir(), wordy.mkdir()
    silent = await start(two_targets(upstream.base_url, upstream.base_url), quiet)
    keeping = await start(
        two_targets(upstream.base_url, upstream.base_url).replace("{path: test.db}", "{path: test.db, keep_text: true}"), wordy
    )

    for tandem in (silent, keeping):
        await call(tandem.port, "/v1/chat/completions", chat(f"rename {canary}"), {"authorization": f"Bearer {canary}"})
        await tandem.entries()

    on_disk = b"".join(path.read_bytes() for path in quiet.iterdir())
    assert canary.encode() not in on_disk
    (row,) = await keeping.entries()
    assert canary in row["prompt_text"]
    assert canary in row["answer_text"]


async def test_ledger_files_are_for_their_owner_alone(simulated):
    await call(simulated.port, "/v1/chat/completions", chat())
    await simulated.entries()

    folder = simulated.loaded.ledger_path.parent
    assert {path.stat().st_mode & 0o777 for path in folder.glob("test.db*")} == {0o600}


async def test_every_admitted_request_has_one_entry_and_its_decision_is_found_by_id(simulated):
    reply = await call(simulated.port, "/v1/chat/completions", chat())
    await call(simulated.port, "/v1/chat/completions", {"model": "auto"})
    await call(simulated.port, "/v1/chat/completions", chat(), {"origin": "http://evil.example"})

    entries = await simulated.entries(2)
    found = await call(simulated.port, f"/tandem/decisions/{reply.headers['x-tandem-request-id']}")

    assert [entry["outcome"] for entry in entries] == ["SERVED", "REFUSED"]
    assert found.json["tier"] == "fast"
    assert found.json["served_by"] == "simulated-fast"
    assert found.json["person_text"] == chat()["messages"][0]["content"]
    assert (await call(simulated.port, "/tandem/decisions/req_nobody")).status == 404


async def test_a_decision_is_found_in_the_file_by_a_router_that_did_not_make_it(start):
    first = await start(SIMULATED)
    reply = await call(first.port, "/v1/chat/completions", chat())
    await first.entries()
    second = await start(SIMULATED)

    found = await call(second.port, f"/tandem/decisions/{reply.headers['x-tandem-request-id']}")

    assert found.json["tier"] == "fast"
    assert found.json["person_text"] is None


async def test_pipelined_requests_on_one_connection_are_answered_in_order(simulated):
    reader, writer = await asyncio.open_connection("127.0.0.1", simulated.port)
    explain = request_bytes("/tandem/explain", chat())
    hot = request_bytes("/v1/chat/completions", chat())
    writer.write(request_bytes("/v1/models") + hot + explain + hot)

    replies = [await asyncio.wait_for(read_reply(reader), 10) for _ in range(4)]

    writer.close()
    assert [reply.status for reply in replies] == [200] * 4
    assert "data" in replies[0].json
    assert replies[1].json["object"] == replies[3].json["object"] == "chat.completion"
    assert "estimates" in replies[2].json


@pytest.mark.parametrize("by_shim", [False, True], ids=["hot", "shim"])
async def test_a_request_is_freed_with_its_answer_and_not_when_the_collector_comes_by(pair, upstream, by_shim):
    upstream.scripts = [answer_json(CHAT_ANSWER), stream(*GOOD_CHAT_STREAM), answer_json({"error": {}}, 400)]

    def held() -> int:
        return sum(isinstance(each, RequestView | Relay) for each in gc.get_objects())

    gc.collect()
    before = held()
    gc.disable()
    try:
        async with Caller(pair.port, by_shim=by_shim) as caller:
            for streams in (False, True, False):
                await caller.send(request_bytes("/v1/chat/completions", chat(stream=streams)))
                await caller.reply()
        await pair.entries(3)
        await until(lambda: held() == before)
    finally:
        gc.enable()


async def test_live_speed_feeds_the_next_estimate(pair, upstream):
    slow = 50  # tokens a second at most, where 1,000 are typical
    many = CHAT_USAGE.replace(b'"completion_tokens":3', b'"completion_tokens":20')
    upstream.scripts = [stream(*[chat_frame("x")] * 20, chat_frame(finish="stop"), many, DONE, pause=1 / slow)]
    before = (await call(pair.port, "/tandem/explain", chat())).json["estimates"]["fast"]["seconds"]

    await call(pair.port, "/v1/chat/completions", chat(stream=True))

    after = (await call(pair.port, "/tandem/explain", chat())).json["estimates"]["fast"]["seconds"]
    assert after > 3 * before


LEDGER_PAGE = Path(__file__).resolve().parents[2] / "docs" / "reference" / "ledger.md"


async def test_the_page_of_the_ledger_shows_every_column_of_its_file(simulated):
    (shown,) = [
        block for block in re.findall(r"```sql\n(.*?)```", LEDGER_PAGE.read_text(), re.DOTALL) if "CREATE TABLE" in block
    ]

    def columns(database: sqlite3.Connection) -> dict[str, list[str]]:
        tables = [name for (name,) in database.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        return {table: [row[1] for row in database.execute(f"PRAGMA table_info({table})")] for table in tables}

    with (
        closing(sqlite3.connect(simulated.loaded.ledger_path)) as written,
        closing(sqlite3.connect(":memory:")) as described,
    ):
        described.executescript(shown)
        assert columns(described) == columns(written)


async def test_a_target_that_named_a_time_is_not_dialled_again_before_it(pair, upstream, other_upstream):
    other_upstream.scripts = [answer_json({"error": {"message": "quota"}}, 429, {"retry-after": "50"})]

    replies = [await call(pair.port, "/v1/chat/completions", chat(f"{LONG} {number}")) for number in range(5)]
    pinned = await call(pair.port, "/v1/chat/completions", chat(LONG), {"x-tandem-tier": "deep"})

    assert {(reply.status, reply.headers["x-tandem-target"]) for reply in replies} == {(200, "spark")}
    assert len(other_upstream.seen) == 1
    assert (pinned.status, pinned.json["error"]["code"]) == (429, "tiers_busy")
    assert 40 <= int(pinned.headers["retry-after"]) <= 50


async def test_a_500_on_a_pinned_tier_is_tried_once_more_and_only_then_are_sdks_told_not_to(pair, upstream):
    broken, good = answer_json({"error": "x"}, 500), answer_json(CHAT_ANSWER)
    upstream.scripts = [broken, good]
    passing = await call(pair.port, "/v1/chat/completions", chat(), {"x-tandem-tier": "fast"})
    upstream.scripts = [broken]
    lasting = await call(pair.port, "/v1/chat/completions", chat(), {"x-tandem-tier": "fast"})

    assert passing.status == 200
    assert (lasting.status, lasting.json["error"]["code"], lasting.headers["x-should-retry"]) == (
        502,
        "upstream_refused",
        "false",
    )
    assert len(upstream.seen) == 4


@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/responses"])
@pytest.mark.parametrize("is_streaming", [False, True])
async def test_a_key_that_a_target_echoes_stays_here_straight_and_over_a_bridge(
    start, upstream, monkeypatch, path, is_streaming
):
    monkeypatch.setenv("TEST_KEY", "sk-our-own-secret")
    tandem = await start(two_targets(upstream.base_url, upstream.base_url, fast_extra="api_key: env:TEST_KEY,"))

    async def echoes(wire, seen):
        said = {"error": {"message": f"bad header {seen.headers['authorization']}", "code": 400}}
        await (stream(b"data: " + json.dumps(said).encode() + b"\n\n", DONE) if is_streaming else answer_json(said, 400))(
            wire, seen
        )

    upstream.scripts = [echoes]
    body = chat(stream=is_streaming) if "chat" in path else {"model": "auto", "input": "x", "stream": is_streaming}

    reply = await call(tandem.port, path, body, {"x-tandem-tier": "fast"})

    assert reply.status == 400
    assert "bad header Bearer ***" in reply.json["error"]["message"]
