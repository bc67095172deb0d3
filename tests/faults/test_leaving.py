"""Callers that hang up at the terminal event, as Codex does, were served (rows S1, S2 and S6)."""

import asyncio

import pytest

from tests.tools.cases import covering
from tests.tools.http import call, request_bytes
from tests.tools.raw import Caller
from tests.tools.running import one_dialect
from tests.tools.speech import USAGE, Speech, write_stream
from tests.tools.upstream import CHAT_STREAM_HEAD, silent

PATHS = {"chat": "/v1/chat/completions", "responses": "/v1/responses", "messages": "/v1/messages"}
TERMINAL = {"chat": b"[DONE]", "responses": b'"type":"response.completed"', "messages": b'"type":"message_stop"'}
HELLO = [{"role": "user", "content": "hello"}]
BODIES = {
    "chat": {"messages": HELLO, "stream_options": {"include_usage": True}},
    "responses": {"input": "hello"},
    "messages": {"messages": HELLO, "max_tokens": 99},
}
DIALECTS = list(PATHS)


def ask(dialect: str) -> bytes:
    return request_bytes(PATHS[dialect], {"model": "auto", "stream": True, **BODIES[dialect]})


def linger(dialect: str, *, leave_out: int = 0):
    """A stream, whole or without its last frames, whose connection stays open."""

    async def script(wire, seen):
        await wire.send(CHAT_STREAM_HEAD)
        frames = write_stream(dialect, Speech("hi there"))
        for frame in frames[: len(frames) - leave_out]:
            await wire.chunk(frame.replace(b'"type": ', b'"type":'))
        await silent(wire, seen)

    return script


def close(caller: Caller) -> None:
    caller.writer.close()


def reset(caller: Caller) -> None:
    caller.writer.transport.abort()


def close_half(caller: Caller) -> None:
    """Send a FIN, and keep reading."""
    caller.writer.write_eof()


@pytest.mark.parametrize(("caller", "target", "leave"), covering(DIALECTS, DIALECTS, [close, reset, close_half]))
async def test_a_caller_that_leaves_at_the_terminal_event_was_served(start, upstream, caller, target, leave):
    upstream.scripts = [linger(target)]
    tandem = await start(one_dialect(target, upstream.base_url))
    async with Caller(tandem.port) as client:
        await client.send(ask(caller))
        await asyncio.wait_for(client.reader.readuntil(TERMINAL[caller]), 30)
        leave(client)
        await asyncio.wait_for(upstream.seen[0].left.wait(), 30)

    (entry,) = await tandem.entries()
    counts = USAGE["messages"]
    assert (entry["outcome"], entry["status"], entry["error"]) == ("SERVED", 200, None)
    assert (entry["input_tokens"], entry["output_tokens"]) == (counts["input_tokens"], counts["output_tokens"])
    assert not entry["tokens_estimated"]


async def test_a_caller_that_leaves_a_handed_over_connection_at_the_terminal_event_was_served(start, upstream):
    upstream.scripts = [linger("responses")]
    tandem = await start(one_dialect("responses", upstream.base_url))
    async with Caller(tandem.port, by_shim=True) as client:
        await client.send(ask("responses"))
        await asyncio.wait_for(client.reader.readuntil(TERMINAL["responses"]), 30)
        close(client)
        await asyncio.wait_for(upstream.seen[0].left.wait(), 30)

    (entry,) = await tandem.entries()
    assert (entry["outcome"], entry["input_tokens"], entry["tokens_estimated"]) == ("SERVED", 90, 0)


@pytest.mark.parametrize("target", DIALECTS)
async def test_a_caller_that_leaves_just_before_the_terminal_event_has_abandoned_its_answer(start, upstream, target):
    upstream.scripts = [linger(target, leave_out=3 if target == "chat" else 1)]
    tandem = await start(one_dialect(target, upstream.base_url))
    async with Caller(tandem.port) as client:
        await client.send(ask(target))
        await asyncio.wait_for(client.reader.readuntil(b"here"), 30)
        close(client)
        await asyncio.wait_for(upstream.seen[0].left.wait(), 30)

    (entry,) = await tandem.entries()
    assert (entry["outcome"], entry["status"]) == ("ABANDONED", 499)


@pytest.mark.parametrize("how", ["ends", "breaks"])
@pytest.mark.parametrize("caller", DIALECTS)
async def test_a_stop_reason_without_the_terminal_event_is_a_cut_on_every_path(start, upstream, caller, how):
    async def stop_short(wire, seen):
        await wire.send(CHAT_STREAM_HEAD)
        for frame in write_stream("messages", Speech("hi there"))[:-1]:
            await wire.chunk(frame)
        if how == "ends":
            await wire.end_chunks()
        wire.writer.close()

    upstream.scripts = [stop_short]
    tandem = await start(one_dialect("messages", upstream.base_url))

    reply = await call(tandem.port, PATHS[caller], {"model": "auto", "stream": True, **BODIES[caller]})

    assert not reply.is_whole
    assert TERMINAL[caller] not in reply.body
    assert b"upstream_cut" in reply.body
    (entry,) = await tandem.entries()
    assert (entry["outcome"], entry["error"]) == ("CUT_SHORT", "upstream_cut")
