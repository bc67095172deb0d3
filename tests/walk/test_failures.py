"""Upstreams that fail: who is asked next, and what the caller is told."""

import json

import pytest

from tests.tools.http import LONG, call, chat
from tests.tools.running import two_targets
from tests.tools.upstream import (
    CHAT_ANSWER,
    GOOD_CHAT_STREAM,
    SEEN_CHAT_STREAM,
    answer_json,
    chat_frame,
    silent,
    stream,
)

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

    assert reply.body == SEEN_CHAT_STREAM


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


@pytest.mark.parametrize(
    ("status", "error"),
    [
        (400, {"code": "context_length_exceeded"}),
        (400, {"message": "Input is too long for requested model."}),
        (413, {"message": "Request too large for model `m` on tokens per minute (TPM): Limit 6000, Requested 9000"}),
        (422, {"message": "Input validation error: `inputs` tokens + `max_new_tokens` must be <= 8193"}),
    ],
)
async def test_a_refusal_for_length_goes_once_to_a_larger_target(pair, upstream, other_upstream, status, error):
    upstream.scripts = [answer_json({"error": error}, status)]

    reply = await call(pair.port, "/v1/chat/completions", chat())

    assert (reply.status, reply.headers["x-tandem-target"]) == (200, "sage")
    assert (len(upstream.seen), len(other_upstream.seen)) == (1, 1)


async def test_where_the_larger_target_finds_it_too_long_as_well_the_caller_sees_that_and_nobody_is_asked_again(
    pair, upstream, other_upstream
):
    upstream.scripts = other_upstream.scripts = [answer_json({"error": {"code": "context_length_exceeded"}}, 400)]

    reply = await call(pair.port, "/v1/chat/completions", chat())

    assert (reply.status, reply.json["error"]["code"]) == (400, "context_length_exceeded")
    assert (len(upstream.seen), len(other_upstream.seen)) == (1, 1)


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
