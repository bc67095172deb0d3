"""Tandem in front of an engine: llama.cpp's own server (`make test-engine`), and a stand-in that says the same (`make test`)."""

import asyncio
import contextlib
import json

import pytest

from router.wiring.built import Built
from tests.engine.engine_twin import EngineTwin
from tests.tools.http import Reply, call, request_bytes
from tests.tools.running import running
from tests.tools.waiting import until

pytestmark = pytest.mark.timeout(180)
TO_THE_LIMIT = {"temperature": 0, "ignore_eos": True}


def config(fast, deep, *, window: int = 8192, fast_more: str = "", deep_more: str = "", fast_dialect: str = "chat") -> str:
    """One engine for each tier, as `tandem init` would write them but for the speeds: those are to be learned."""

    def target(name: str, of, dialect: str, window: int, more: str) -> str:
        adapter, url = (
            ("anthropic_http", of.base_url.removesuffix("/v1")) if dialect == "messages" else ("openai_http", of.base_url)
        )
        return (
            f'{{name: {name}, adapter: {adapter}, dialect: {dialect}, base_url: "{url}", model: {of.model}, '
            f"window_tokens: {window}, accepts: [text, tools, json_schema], {more}}}"
        )

    return f"""
ledger: {{path: test.db}}
tiers:
  fast: {{targets: [{target("small", fast, fast_dialect, window, fast_more)}]}}
  deep: {{targets: [{target("large", deep, "chat", 32768, deep_more)}]}}
"""


def chat(words: str = "Say hello", **more: object) -> dict:
    return {"model": "fast", "messages": [{"role": "user", "content": words}], "max_tokens": 24, **TO_THE_LIMIT, **more}


def events(reply: Reply) -> list[dict]:
    """The events of a stream, but for the word that ends it."""
    lines = [line[6:] for line in reply.body.decode().splitlines() if line.startswith("data: ")]
    return [json.loads(line) for line in lines if line != "[DONE]"]


async def targets(tandem) -> dict[str, dict]:
    """What `/tandem/stats` says of each target."""
    return (await call(tandem.port, "/tandem/stats")).json["targets"]


async def test_a_window_of_4096_serves_what_fits_and_says_how_much_the_rest_is_too_long(engine, start):
    small = await engine(window=4096)
    tandem = await start(config(small, small, window=4096))

    served = await call(tandem.port, "/v1/chat/completions", chat())
    refused = await call(tandem.port, "/v1/chat/completions", chat("word " * 6000))

    assert served.status == 200, served.body
    assert refused.status == 400
    assert refused.json["error"]["code"] == "context_length_exceeded"


async def test_a_stream_without_usage_teaches_the_engines_own_counts_and_pace(engine, start):
    small = await engine()
    tandem = await start(config(small, small))
    itself = await call(small.port, "/v1/chat/completions", chat(max_tokens=300))

    streams = [await call(tandem.port, "/v1/chat/completions", chat(stream=True, max_tokens=300)) for _ in range(4)]
    rows = await tandem.entries(4)

    assert [chunk for stream in streams for chunk in events(stream) if not chunk["choices"]] == []
    usage = itself.json["usage"]
    assert [row["output_tokens"] for row in rows] == [usage["completion_tokens"]] * 4
    assert [row["input_tokens"] for row in rows] == [usage["prompt_tokens"]] * 4
    told = [events(stream)[-1]["timings"]["predicted_per_second"] for stream in streams]
    assert 0.8 * min(told) <= await pace(tandem) <= 1.2 * max(told)


async def pace(tandem) -> float:
    return (await targets(tandem))["small"]["tokens_per_second"]


async def test_what_was_learned_is_known_after_a_restart(engine, start, tmp_path):
    small = await engine()
    async with running(config(small, small), tmp_path) as first:
        for _ in range(4):
            await call(first.port, "/v1/chat/completions", chat(stream=True, max_tokens=300))
        learned = await pace(first)

    second = await start(config(small, small))
    Built(second.house).learn(second.loaded.ledger_path)  # as `serve` does, during its first requests

    assert await pace(second) == pytest.approx(learned, rel=0.3)


async def test_the_engine_stops_when_the_caller_leaves(engine, start):
    small = await engine()
    tandem = await start(config(small, small))

    await leave_early(tandem.port, chat(stream=True, max_tokens=4000))

    await until(small.cancelled)
    assert small.cancelled() == 1


async def leave_early(port: int, body: dict) -> None:
    """Hang up after the first piece."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(request_bytes("/v1/chat/completions", body))
    await asyncio.wait_for(reader.readuntil(b"content"), 30)
    writer.close()


@contextlib.asynccontextmanager
async def busy(port: int, count: int = 1, **more: object):
    """Hold slots of the fast engine with long answers."""
    writers = []
    for _ in range(count):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(request_bytes("/v1/chat/completions", chat(stream=True, max_tokens=4000, **more)))
        writers.append(writer)
        if len(writers) == 1:
            await asyncio.wait_for(reader.readuntil(b'"content":"'), 30)
    try:
        yield
    finally:
        for writer in writers:
            writer.close()


async def test_a_window_that_the_engine_names_is_kept_for_everyone(engine, start):
    small, large = await engine(window=2048), await engine(window=32768)
    tandem = await start(config(small, large, window=32000))
    long = "word " * 4000

    first = await call(tandem.port, "/v1/chat/completions", chat(long, max_tokens=8))
    second = await call(tandem.port, "/v1/chat/completions", chat("other " + long, max_tokens=8))
    anyone = await call(tandem.port, "/v1/chat/completions", chat("fix the typo: " + long, model="auto", max_tokens=8))

    assert (first.status, first.json["error"]["n_ctx"]) == (400, 2048)  # the engine's own words
    assert (second.status, second.json["error"]["code"]) == (400, "context_length_exceeded")
    assert (anyone.status, anyone.headers["x-tandem-target"]) == (200, "large")
    assert [len(json.loads(row["attempts"] or "[]")) for row in await tandem.entries(3)] == [1, 0, 1]
    assert (await targets(tandem))["small"]["window_tokens"] == 2048


async def test_a_quick_ask_does_not_wait_for_the_only_slot_while_the_other_tier_is_idle(engine, start):
    small, large = await engine(), await engine(window=32768)
    tandem = await start(config(small, large, fast_more="quota: {in_flight: 1, max_wait_seconds: 2}"))

    async with busy(tandem.port):
        asked = await call(tandem.port, "/v1/chat/completions", chat("fix the typo: retrun x", model="auto"))

    assert asked.status == 200
    assert asked.headers["x-tandem-target"] == "large"


async def test_an_engine_that_dies_in_a_stream_is_told_and_back_in_use_once_it_is_ready(engine, start):
    small, large = await engine(), await engine(window=32768)
    tandem = await start(config(small, large))
    reader, writer = await asyncio.open_connection("127.0.0.1", tandem.port)
    writer.write(request_bytes("/v1/chat/completions", chat(stream=True, max_tokens=4000)))
    await asyncio.wait_for(reader.readuntil(b"content"), 30)

    await small.kill()
    rest = await asyncio.wait_for(reader.read(), 30)
    writer.close()
    while_gone = await call(tandem.port, "/v1/chat/completions", chat("fix the typo: retrun x", model="auto"))
    await small.start_loading()
    loading = await call(tandem.port, "/v1/chat/completions", chat("fix the typo: retrun y", model="auto"))

    assert b'"error"' in rest
    assert (while_gone.status, while_gone.headers["x-tandem-target"]) == (200, "large")
    assert loading.status == 200
    if isinstance(small, EngineTwin):
        small.is_loading = False

    async def is_used_again() -> bool:
        reply = await call(tandem.port, "/v1/chat/completions", chat("fix the typo: retrun z", model="auto"))
        return reply.headers["x-tandem-target"] == "small"

    await until(is_used_again, 60)


async def test_an_engine_that_rests_is_used_by_the_first_request_after_it_was_started_again(engine, start):
    small, large = await engine(), await engine(window=32768)
    tandem = await start(config(small, large))
    live, target = tandem.house.state.live, tandem.house.plan.targets["small"]
    await small.kill()

    async def rests() -> bool:
        await call(tandem.port, "/v1/chat/completions", chat("fix the typo: retrun x"))
        return live.rests(target)

    await until(rests)
    await small.start()
    await until(lambda: not live.of(target).is_awaited)  # with nothing asked meanwhile
    reply = await call(tandem.port, "/v1/chat/completions", chat("fix the typo: retrun y", model="auto"))

    assert (reply.status, reply.headers["x-tandem-target"]) == (200, "small"), reply.headers["x-tandem-because"]


async def test_an_engine_that_loads_is_named_with_its_own_words(engine, start):
    small = await engine()
    tandem = await start(config(small, small))
    await small.kill()
    await small.start_loading()

    reply = await call(tandem.port, "/v1/chat/completions", chat())
    async with asyncio.timeout(60):  # llama.cpp does not listen for the first moment
        while reply.status >= 500 and "Loading model" not in reply.json["error"]["message"]:
            reply = await call(tandem.port, "/v1/chat/completions", chat())

    assert reply.status == 503
    assert "Loading model" in reply.json["error"]["message"]
    assert "overloaded" not in reply.json["error"]["message"]
