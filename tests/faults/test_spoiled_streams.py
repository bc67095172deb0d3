"""Breaking streams and leaving callers (rows S), over real sockets and every kind of bridge."""

import asyncio
import json
import re

import pytest

from tests.faults.rig import BRIDGED, GOOD, PATHS, STRAIGHT, TERMINAL, ask_in, spread
from tests.tools.http import request_bytes
from tests.tools.speech import Speech, ToolCall, speak, write_stream
from tests.tools.toxic import Toxics
from tests.tools.upstream import CHAT_STREAM_HEAD, silent
from tests.tools.waiting import by_the_clock, some_turns, until_steady

PAIRS = pytest.mark.parametrize(("caller", "target"), STRAIGHT + BRIDGED)
FAST = {"x-tandem-tier": "fast"}
BEGUN = {"chat": 2, "responses": 5, "messages": 4}
"""Frames up to the model's first word."""


def frames_then(target, count, *after, ends="closes", speech=GOOD):
    """The first frames of an answer (negative: all but the last), then something else."""

    async def script(wire, seen):
        await wire.send(CHAT_STREAM_HEAD)
        for frame in (*write_stream(target, speech)[:count], *after):
            await wire.chunk(frame)
        await some_turns()  # the router has read all of it
        if ends == "well":
            await wire.end_chunks()
        elif ends == "resets":
            wire.reset()
        elif ends == "never":
            await silent(wire, seen)
        else:
            wire.writer.close()

    return script


def said_error(reply):
    """Our own codes of the error events in a stream of any dialect."""
    frames = [line[6:] for line in reply.body.decode().splitlines() if line.startswith("data: {")]
    found = []
    for body in map(json.loads, frames):
        error = body.get("error") or (body.get("response") or {}).get("error")
        if error is not None or body.get("type") == "error":
            told = error or body
            found.append(told.get("reason") or told.get("code") or told.get("type"))
    return found


@PAIRS
@pytest.mark.parametrize("is_streaming", [True, False], ids=["streamed", "whole"])
async def test_s1_a_caller_that_leaves_before_the_first_token_closes_its_target(set_up, caller, target, is_streaming):
    rig = await set_up(target)
    rig.fast.scripts = [silent]
    async with rig.caller() as client:
        await client.send(request_bytes(PATHS[caller], ask_in(caller, stream=is_streaming)))
        await asyncio.wait_for(rig.fast.arrived.wait(), 30)
        client.writer.transport.abort()
        await asyncio.wait_for(rig.fast.seen[0].left.wait(), 30)

    assert not rig.deep.seen
    rig.expect("ABANDONED", status=499, tokens_estimated=1, output_tokens=0)


@PAIRS
async def test_s2_a_caller_that_leaves_mid_stream_closes_its_target_and_what_was_said_is_counted(set_up, caller, target):
    rig = await set_up(target)
    sent = 0

    async def talk(wire, seen):
        nonlocal sent
        await wire.send(CHAT_STREAM_HEAD)
        frames = write_stream(target, GOOD)
        end = next(place for place, frame in enumerate(frames) if b"small" in frame)
        for frame in frames[: end + 1]:
            await wire.chunk(frame)
        while True:
            await wire.chunk(frames[end])
            sent += 1

    rig.fast.scripts = [talk]
    async with rig.caller() as client:
        await client.send(request_bytes(PATHS[caller], ask_in(caller, stream=True)))
        await asyncio.wait_for(client.reader.readuntil(b"small"), 30)
        client.writer.transport.abort()
        before = sent
        await asyncio.wait_for(rig.fast.seen[0].left.wait(), 30)

    assert sent - before < 40
    rig.expect("ABANDONED", status=499, tokens_estimated=1, attempts=[("spark", 200)])


async def test_s4_a_caller_that_stops_reading_pauses_its_target_is_cut_and_disturbs_nobody(set_up):
    rig = await set_up(extra="limits: {write_idle_timeout_seconds: 0.4}")
    sent = 0

    async def flood(wire, seen):
        nonlocal sent
        await wire.send(CHAT_STREAM_HEAD)
        frame = write_stream("chat", Speech("x" * 8_000))[1]
        while True:
            await wire.chunk(frame)
            sent += len(frame)

    rig.fast.scripts = [flood, speak("chat", GOOD)]
    async with rig.caller() as client:
        await client.send(request_bytes(PATHS["chat"], ask_in("chat", stream=True)))
        await asyncio.wait_for(client.reader.readuntil(b"xxx"), 30)
        client.writer.transport.pause_reading()
        await until_steady(lambda: sent)
        held = sent
        other = await rig.ask(stream=True)
        await asyncio.wait_for(rig.fast.seen[0].left.wait(), 30)

    assert other.is_whole
    assert held < 20_000_000  # held by the kernel on three sockets, and at most 256 KiB by us
    rig.expect("ABANDONED")
    rig.expect("SERVED")


@pytest.mark.parametrize(("caller", "target", "ends"), spread("well", "closes", "resets"))
async def test_s5_a_stream_without_its_terminal_event_is_a_cut_and_before_its_first_byte_tried_again(
    set_up, caller, target, ends
):
    rig = await set_up(target)
    rig.fast.scripts = [frames_then(target, BEGUN[target], ends=ends)]
    cut = await rig.ask(caller, stream=True)
    rig.fast.scripts = [frames_then(target, 0, b": wait\n\n", ends=ends), speak(target, GOOD)]
    again = await rig.ask(caller, stream=True, headers=FAST)

    assert not cut.is_whole
    assert said_error(cut) == ["upstream_cut"]
    assert TERMINAL[caller] not in cut.body
    assert again.is_whole
    assert (len(rig.fast.seen), len(rig.deep.seen)) == (3, 0)
    rig.expect("CUT_SHORT", "upstream_cut", attempts=[("spark", 200)])
    rig.expect("SERVED", attempts=[("spark", 200), ("spark", 200)])


ERROR = {"type": "overloaded_error", "message": "their own words", "code": "overloaded"}
ERROR_EVENTS = {
    "chat": b"data: " + json.dumps({"error": ERROR}).encode() + b"\n\n",
    "responses": b"event: response.failed\ndata: "
    + json.dumps({"type": "response.failed", "response": {"id": "r", "status": "failed", "error": ERROR}}).encode()
    + b"\n\n",
    "messages": b"event: error\ndata: " + json.dumps({"type": "error", "error": ERROR}).encode() + b"\n\n",
}


@pytest.mark.parametrize(("caller", "target", "ends"), spread("well", "closes", "never"))
async def test_s6_an_error_event_in_mid_stream_is_passed_on_in_the_callers_dialect_and_nobody_else_is_asked(
    set_up, caller, target, ends
):
    rig = await set_up(target, fast_extra="timeouts: {stall_seconds: 0.3},")
    rig.fast.scripts = [frames_then(target, BEGUN[target], ERROR_EVENTS[target], ends=ends)]

    reply = await rig.ask(caller, stream=True)

    assert not reply.is_whole
    assert reply.body.count(b"their own words") == 1
    assert len(said_error(reply)) == 1
    assert TERMINAL[caller] not in reply.body
    assert (len(rig.fast.seen), len(rig.deep.seen)) == (1, 0)
    rig.expect("FAILED", "upstream_refused", attempts=[("spark", 200)])


@pytest.mark.parametrize(("caller", "target"), BRIDGED)
async def test_s7_over_a_bridge_unknown_events_are_skipped_and_unreadable_ones_are_a_failure(set_up, caller, target):
    rig = await set_up(target)
    unknown = b'event: news.of.tomorrow\ndata: {"type": "news.of.tomorrow", "object": "news"}\n\n'
    begun = BEGUN[target]
    whole = write_stream(target, GOOD)

    async def odd(wire, seen):
        await wire.send(CHAT_STREAM_HEAD)
        for frame in (*whole[:begun], unknown, b": a comment\n\n", b"retry: 100\n\n", b"id: 7\n\n", *whole[begun:]):
            await wire.chunk(frame)
        await wire.end_chunks()

    rig.fast.scripts = [odd]
    skipped = await rig.ask(caller, stream=True)
    rig.fast.scripts = [frames_then(target, begun, b"data: {not json}\n\n", *whole[begun:], ends="well")]
    unreadable = await rig.ask(caller, stream=True, headers=FAST)

    assert skipped.is_whole
    assert TERMINAL[caller] in skipped.body
    assert not unreadable.is_whole
    assert said_error(unreadable) == ["upstream_malformed"]
    assert TERMINAL[caller] not in unreadable.body
    rig.expect("SERVED")
    rig.expect("FAILED", "upstream_refused", attempts=[("spark", 200)])


async def test_s7_over_a_bridge_a_line_without_end_is_a_failure_at_16_mib(set_up):
    rig = await set_up("chat")
    sent = 0

    async def endless(wire, seen):
        nonlocal sent
        await wire.send(CHAT_STREAM_HEAD)
        for frame in write_stream("chat", GOOD)[:2]:
            await wire.chunk(frame)
        while True:
            await wire.chunk(b"data: " + b"x" * 250_000)
            sent += 250_000

    rig.fast.scripts = [endless]
    reply = await rig.ask("messages", stream=True)

    assert not reply.is_whole
    assert said_error(reply) == ["upstream_malformed"]
    assert (16 << 20) < sent < (32 << 20)
    rig.expect("FAILED", "upstream_refused")


@pytest.mark.parametrize(("caller", "target"), STRAIGHT)
async def test_s7_a_stream_of_the_callers_own_dialect_is_relayed_as_it_came(set_up, caller, target):
    rig = await set_up(target)
    whole = write_stream(target, GOOD)
    odd = [whole[0], b"data: {not json}\n\n", b"nonsense\n\n", b"data:\n\n", b"\n\n\n", *whole[1:]]

    async def script(wire, seen):
        await wire.send(CHAT_STREAM_HEAD)
        for frame in odd:
            await wire.chunk(frame)
        await wire.end_chunks()

    rig.fast.scripts = [script]
    options = {"stream_options": {"include_usage": True}} if caller == "chat" else {}
    reply = await rig.ask(caller, stream=True, **options)

    assert reply.body == b"".join(odd)
    assert reply.is_whole
    rig.expect("SERVED")


def without_ids(body):
    return re.sub(rb'"(id|item_id|created|created_at|completed_at)": ?("[^"]*"|\d+)', b"", body)


@PAIRS
@pytest.mark.parametrize("is_streaming", [True, False], ids=["streamed", "whole"])
async def test_s8_however_an_answer_is_sliced_its_text_is_the_same(set_up, caller, target, is_streaming):
    rig = await set_up(target)
    speech = Speech("naïve 🙂 words\n\nin two lines", (ToolCall("call_1", "read_file", '{"path": "ä.txt"}'),))
    rig.fast.scripts = [speak(target, speech)]
    told = []
    for toxics in (
        Toxics(),
        Toxics(slice_bytes=1),
        Toxics(slice_bytes=7),
        Toxics(gathers_seconds=0.05),
        Toxics(slice_bytes=300, latency_seconds=0.001, jitter_seconds=0.002),
    ):
        rig.toxic.toxics = toxics
        reply = await rig.ask(caller, stream=is_streaming, headers=FAST)
        assert (reply.status, reply.is_whole) == (200, True)
        told.append(without_ids(reply.body))
        rig.expect("SERVED", input_tokens=90, output_tokens=12)

    assert len(set(told)) == 1


@pytest.mark.parametrize(("caller", "target"), [("chat", "chat"), ("messages", "responses"), ("responses", "messages")])
async def test_s9_a_stream_that_falls_silent_is_cut_at_the_stall_limit_and_comments_do_not_put_that_off(set_up, caller, target):
    rig = await set_up(target, fast_extra="timeouts: {stall_seconds: 0.3},")
    begun = write_stream(target, GOOD)[: BEGUN[target]]

    async def comments(wire, seen):
        await wire.send(CHAT_STREAM_HEAD)
        for frame in begun:
            await wire.chunk(frame)
        while True:
            await wire.chunk(b": OPENROUTER PROCESSING\n\n")
            await by_the_clock(0.05)

    for script in (frames_then(target, len(begun), ends="never"), comments):
        rig.fast.scripts = [script]
        reply = await rig.ask(caller, stream=True, headers=FAST)
        assert not reply.is_whole
        assert said_error(reply) == ["upstream_timeout"]
        rig.expect("CUT_SHORT", "upstream_timeout", attempts=[("spark", 200)])


CALLS = Speech("", (ToolCall("call_1", "write_file", json.dumps({"path": "a.txt", "text": "import this"})),))


@PAIRS
@pytest.mark.parametrize("ends", ["well", "resets"])
async def test_s10_arguments_that_are_cut_in_the_middle_are_never_closed_into_json(set_up, caller, target, ends):
    rig = await set_up(target)
    frames = write_stream(target, CALLS)
    last = max(
        place for place, frame in enumerate(frames) if b"delta" in frame and b"import" not in frame and b"a.txt" in frame
    )
    rig.fast.scripts = [frames_then(target, last + 1, ends=ends, speech=CALLS)]

    reply = await rig.ask(caller, stream=True)

    assert not reply.is_whole
    assert said_error(reply) == ["upstream_cut"]
    assert TERMINAL[caller] not in reply.body
    assert b'tool_calls"}' not in reply.body.replace(b" ", b"")
    assert b"content_block_stop" not in reply.body
    assert b"function_call_arguments.done" not in reply.body
    rig.expect("CUT_SHORT", "upstream_cut")


@PAIRS
async def test_s11_without_a_usage_block_tokens_are_estimated_and_marked_so(set_up, caller, target):
    rig = await set_up(target)

    async def untold(wire, seen):
        await wire.send(CHAT_STREAM_HEAD)
        for frame in write_stream(target, GOOD):
            await wire.chunk(frame.replace(b'"usage"', b'"unused"'))
        await wire.end_chunks()

    rig.fast.scripts = [untold]
    reply = await rig.ask(caller, stream=True)
    rig.fast.scripts = [speak(target, GOOD)]
    told = await rig.ask(caller, stream=True, headers=FAST)

    assert reply.is_whole
    assert told.is_whole
    rig.expect("SERVED", tokens_estimated=1)
    rig.expect("SERVED", tokens_estimated=0, output_tokens=12, cost_usd=None)
