"""As-you-type traffic: a newer request replaces an older one."""

import asyncio

import pytest

from tests.tools.http import call, chat
from tests.tools.running import one_dialect
from tests.tools.upstream import CHAT_ANSWER, CHAT_STREAM_HEAD, GOOD_CHAT_STREAM, answer_json, chat_frame, silent
from tests.tools.waiting import later, until

pytestmark = pytest.mark.wire

KEY = {"x-tandem-supersede": "lint", "x-tandem-session": "editor"}


async def test_one_that_was_not_answered_yet_is_refused_and_its_target_let_go(start, upstream):
    tandem = await start(one_dialect("chat", upstream.base_url))
    upstream.scripts = [silent, answer_json(CHAT_ANSWER)]
    first = later(call(tandem.port, "/v1/chat/completions", chat(), KEY))
    await upstream.arrived.wait()
    second = await call(tandem.port, "/v1/chat/completions", chat(), KEY)
    refused = await asyncio.wait_for(first, 30)
    await asyncio.wait_for(upstream.seen[0].left.wait(), 30)
    entries = await tandem.entries(2)

    assert (refused.status, refused.json["error"]["code"]) == (499, "superseded")
    assert refused.headers["x-should-retry"] == "false"
    assert second.status == 200
    assert sorted(entry["outcome"] for entry in entries) == ["SERVED", "SUPERSEDED"]


@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/messages", "/v1/responses"])
async def test_one_that_streams_ends_with_an_error_in_its_own_dialect(start, upstream, path):
    async def begin_and_wait(wire, seen):
        await wire.send(CHAT_STREAM_HEAD)
        await wire.chunk(chat_frame("first words"))
        await asyncio.Event().wait()

    async def answer(wire, seen):
        await wire.send(CHAT_STREAM_HEAD)
        for frame in GOOD_CHAT_STREAM:
            await wire.chunk(frame)
        await wire.end_chunks()

    tandem = await start(one_dialect("chat", upstream.base_url))
    upstream.scripts = [begin_and_wait, answer]
    body = {"model": "auto", "stream": True, "max_tokens": 9}
    body |= {"input": "fix it"} if path.endswith("responses") else {"messages": [{"role": "user", "content": "fix it"}]}
    begun = asyncio.Event()
    first = later(call(tandem.port, path, body, KEY, on_head=begun.set))
    await begun.wait()
    second = await call(tandem.port, path, body, KEY)
    cut = await asyncio.wait_for(first, 30)
    entries = await tandem.entries(2)

    assert cut.status == second.status == 200
    assert b"superseded" in cut.body
    assert b"superseded" not in second.body
    assert sorted(entry["outcome"] for entry in entries) == ["SERVED", "SUPERSEDED"]


async def test_typing_leaves_one_request_running(start, upstream):
    tandem = await start(one_dialect("chat", upstream.base_url))
    upstream.scripts = [silent] * 9 + [answer_json(CHAT_ANSWER)]
    calls = []
    for number in range(10):
        calls.append(later(call(tandem.port, "/v1/chat/completions", chat(), KEY)))
        await until(lambda number=number: len(upstream.seen) > number)
    replies = await asyncio.wait_for(asyncio.gather(*calls), 30)

    assert [reply.status for reply in replies] == [499] * 9 + [200]
    assert len(tandem.house.state.running) == 0
