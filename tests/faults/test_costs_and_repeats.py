"""Money and repeats (rows M): a charge is recorded once, and an unknown cost is never zero.

The fast target is behind a relay that slices and delays its answers a little. After each test every admitted request has one
entry, the next one is served, and nothing is left behind.
"""

import asyncio
import json
from dataclasses import replace

import pytest

from tests.tools.http import Reply, call, chat, request_bytes
from tests.tools.raw import Caller
from tests.tools.running import two_targets
from tests.tools.speech import Speech, speak
from tests.tools.toxic import Toxic, Toxics
from tests.tools.upstream import CHAT_ANSWER, CHAT_STREAM_HEAD, answer_json, chat_frame, silent
from tests.tools.waiting import later, until

PATH = "/v1/chat/completions"
KEY = {"idempotency-key": "order-66"}
UNSTEADY = Toxics(jitter_seconds=0.002, slice_bytes=60)
PRICED = "price: {input: 1000, output: 10000},"
GOOD = answer_json(CHAT_ANSWER)  # 5 tokens in, 2 out: 0.025 USD
UNUSABLE = answer_json(b"<html>" + b"x" * 394, headers={"content-type": "text/html"})  # 100 tokens' worth of bytes


@pytest.fixture
async def toxic(upstream):
    async with Toxic(upstream.base_url) as relay:
        relay.toxics = UNSTEADY
        yield relay


@pytest.fixture
async def house(start, upstream, other_upstream, toxic):
    """Starts a Tandem, and checks afterwards that nothing is left of its requests."""
    started = []

    async def begin(*, fast_extra: str = PRICED, deep_extra: str = PRICED, extra: str = ""):
        config = two_targets(toxic.base_url, other_upstream.base_url, fast_extra=fast_extra, deep_extra=deep_extra, extra=extra)
        started.append(tandem := await start(config))
        return tandem

    yield begin
    for tandem in started:
        toxic.toxics, upstream.scripts, other_upstream.scripts = Toxics(), [GOOD], [GOOD]
        assert (await call(tandem.port, PATH, chat("and now something else"))).status == 200
        if (count := _COUNTED.pop(tandem.port, None)) is not None:  # rows are written in the order of requests
            assert len(await tandem.entries(count + 1)) == count + 1
        await until(lambda tandem=tandem: not is_something_left(tandem))


def is_something_left(tandem) -> bool:
    """An exchange, a held key, or a task."""
    tasks = [task for task in asyncio.all_tasks() if task.get_name().startswith(("req_", "connect "))]
    return bool(tasks or tandem.house.state.running or tandem.house.state.repeats._running)


_COUNTED: dict[int, int] = {}
"""Rows that a test found, by its router's port."""


async def entries_of(tandem, count: int) -> list[dict]:
    """Exactly this many: the next request's row, after the test, shows that no more came."""
    rows = await tandem.entries(count)
    assert len(rows) == count
    _COUNTED[tandem.port] = count
    return [{**row, "attempts": json.loads(row["attempts"])} for row in rows]


def costs(row: dict) -> list[float | None]:
    return [attempt.get("cost_usd") for attempt in row["attempts"]]


@pytest.mark.parametrize("streams", [False, True], ids=["whole", "streamed"])
async def test_m1_the_same_request_after_a_success_is_answered_from_memory_and_charged_once(house, upstream, streams):
    upstream.scripts = [speak("chat", Speech("hi there"))]
    tandem = await house()

    replies = [await call(tandem.port, PATH, chat(stream=streams), KEY) for _ in range(5)]

    assert {reply.body for reply in replies} == {replies[0].body}
    assert [reply.headers.get("x-tandem-replayed") for reply in replies] == [None, *["true"] * 4]
    assert len(upstream.seen) == 1
    rows = await entries_of(tandem, 5)
    assert {row["outcome"] for row in rows} == {"SERVED"}
    assert [row["cost_usd"] for row in rows] == [pytest.approx(0.21), 0.0, 0.0, 0.0, 0.0]


async def test_m1_an_answer_that_its_caller_lost_on_the_way_is_there_for_the_second_try(house, upstream):
    """The caller hangs up while the answer is on its way."""
    upstream.scripts = [GOOD]
    tandem = await house()
    async with Caller(tandem.port) as caller:
        await caller.send(request_bytes(PATH, chat(), KEY))
        await until(lambda: upstream.seen)
        await tandem.entries()
        caller.writer.transport.abort()

    again = await call(tandem.port, PATH, chat(), KEY)

    assert (again.status, again.json, again.headers["x-tandem-replayed"]) == (200, CHAT_ANSWER, "true")
    assert len(upstream.seen) == 1


async def test_m2_the_same_key_with_another_body_is_refused_and_calls_nobody(house, upstream):
    upstream.scripts = [GOOD]
    tandem = await house()
    await call(tandem.port, PATH, chat(), KEY)

    refused = await call(tandem.port, PATH, chat("another"), KEY)

    assert (refused.status, refused.json["error"]["code"]) == (409, "idempotency_mismatch")
    assert refused.json["error"]["request_id"] == refused.headers["x-tandem-request-id"]
    assert [row["outcome"] for row in await entries_of(tandem, 2)] == ["SERVED", "REFUSED"]
    assert len(upstream.seen) == 1


@pytest.mark.parametrize("streams", [False, True], ids=["whole", "streamed"])
async def test_m3_while_the_first_runs_twenty_more_join_it_and_there_is_one_call(house, upstream, streams):
    go_on = asyncio.Event()

    async def answer_late(wire, seen):
        await go_on.wait()
        await speak("chat", Speech("hi there"))(wire, seen)

    upstream.scripts = [answer_late]
    tandem = await house()
    asking = [later(call(tandem.port, PATH, chat(stream=streams), KEY)) for _ in range(21)]
    await until(lambda: len(tandem.house.state.running) == 21)
    go_on.set()
    replies: list[Reply] = await asyncio.gather(*asking)

    assert {(reply.status, reply.body) for reply in replies} == {(200, replies[0].body)}
    assert len(upstream.seen) == 1
    rows = await entries_of(tandem, 21)
    assert sorted(row["cost_usd"] for row in rows)[:-1] == [0.0] * 20


async def test_m3_a_first_whose_caller_left_frees_the_key_for_the_one_that_waits(house, upstream):
    upstream.scripts = [silent, GOOD]
    tandem = await house()
    async with Caller(tandem.port) as first:
        await first.send(request_bytes(PATH, chat(), KEY))
        await until(lambda: upstream.seen)
        second = later(call(tandem.port, PATH, chat(), KEY))
        await until(lambda: len(tandem.house.state.running) == 2)
        first.writer.transport.abort()
        reply = await asyncio.wait_for(second, 30)

    assert (reply.status, "x-tandem-replayed" in reply.headers) == (200, False)
    assert sorted(row["outcome"] for row in await entries_of(tandem, 2)) == ["ABANDONED", "SERVED"]


async def test_m3_a_stream_that_broke_is_not_the_answer(house, upstream):
    is_read = asyncio.Event()

    async def break_off(wire, seen):
        await wire.send(CHAT_STREAM_HEAD)
        await wire.chunk(chat_frame("half"))
        await is_read.wait()
        wire.reset()

    upstream.scripts = [break_off, speak("chat", Speech("hi there"))]
    tandem = await house()
    async with Caller(tandem.port) as caller:
        await caller.send(request_bytes(PATH, chat(stream=True), KEY))
        await caller.reader.readuntil(b"half")
        is_read.set()
        rest = await caller.closed(30)
    whole = await call(tandem.port, PATH, chat(stream=True), KEY)

    assert not rest.endswith(b"0\r\n\r\n")
    assert (whole.is_whole, "x-tandem-replayed" in whole.headers) == (True, False)
    assert [row["outcome"] for row in await entries_of(tandem, 2)] == ["CUT_SHORT", "SERVED"]


async def test_m5_an_unusable_answer_that_was_billed_and_the_one_that_served_are_one_entry_and_two_costs(
    house, upstream, other_upstream
):
    upstream.scripts, other_upstream.scripts = [UNUSABLE], [GOOD]
    tandem = await house()

    assert (await call(tandem.port, PATH, chat())).status == 200

    (row,) = await entries_of(tandem, 1)
    spark, sage = row["attempts"]
    assert (spark["error"], spark["usage"]["output_tokens"], spark["usage"]["is_estimated"]) == (
        "upstream_malformed",
        100,
        True,
    )
    assert sage["usage"] == {"input_tokens": 5, "output_tokens": 2}
    tokens = spark["usage"]["input_tokens"]
    assert costs(row) == [pytest.approx(tokens / 1000 + 1.0), 0.025]
    assert row["cost_usd"] == pytest.approx(sum(costs(row)))
    assert (row["input_tokens"], row["output_tokens"], row["target"]) == (5, 2, "sage")


@pytest.mark.parametrize("then", ["closes", "resets"])
async def test_m5_an_answer_that_was_lost_on_its_way_is_paid_for_and_so_is_the_one_in_its_place(
    house, toxic, upstream, other_upstream, then
):
    upstream.scripts = other_upstream.scripts = [GOOD]
    toxic.toxics = replace(UNSTEADY, limit_bytes=200, then=then)
    tandem = await house()

    reply = await call(tandem.port, PATH, chat(), KEY)
    again = await call(tandem.port, PATH, chat(), KEY)

    assert (reply.headers["x-tandem-target"], again.headers["x-tandem-replayed"]) == ("sage", "true")
    first, second = await entries_of(tandem, 2)
    lost, served = first["attempts"]
    assert (lost["error"], lost["usage"]["is_estimated"], served["cost_usd"]) == ("upstream_cut", True, 0.025)
    assert lost["cost_usd"] > 0
    assert first["cost_usd"] == pytest.approx(lost["cost_usd"] + 0.025)
    assert (second["cost_usd"], second["attempts"]) == (0.0, [])
    assert (len(upstream.seen), len(other_upstream.seen)) == (1, 1)


async def test_m5_a_refusal_is_no_cost(house, upstream, other_upstream):
    upstream.scripts, other_upstream.scripts = [answer_json({"error": {"message": "busy"}}, 429)], [GOOD]
    tandem = await house()
    await call(tandem.port, PATH, chat())

    (row,) = await entries_of(tandem, 1)
    assert (costs(row), row["cost_usd"]) == ([0.0, 0.025], 0.025)
    assert "usage" not in row["attempts"][0]


async def test_m5_a_caller_who_left_has_paid_for_what_was_written_until_then(house, upstream):
    """Rows S1 and S2: tokens until then are recorded as waste."""

    async def begin(wire, seen):
        await wire.send(CHAT_STREAM_HEAD)
        for _ in range(3):
            await wire.chunk(chat_frame("four"))
        await silent(wire, seen)

    upstream.scripts = [silent, begin]
    tandem = await house()
    for streams in (False, True):
        async with Caller(tandem.port) as caller:
            await caller.send(request_bytes(PATH, chat(stream=streams)))
            await until(lambda streams=streams: len(upstream.seen) == 1 + streams)
            if streams:
                for _ in range(3):
                    await asyncio.wait_for(caller.reader.readuntil(b'"four"'), 30)
            caller.writer.transport.abort()
        await asyncio.wait_for(upstream.seen[-1].left.wait(), 30)

    before, midst = await entries_of(tandem, 2)
    assert [(row["outcome"], row["tokens_estimated"]) for row in (before, midst)] == [("ABANDONED", 1)] * 2
    assert (before["output_tokens"], midst["output_tokens"]) == (0, 3)
    assert costs(before) == [pytest.approx(before["input_tokens"] / 1000)]
    assert costs(midst) == [pytest.approx(midst["input_tokens"] / 1000 + 0.03)]


async def test_m6_without_a_price_the_cost_is_null_and_never_nothing(house, upstream):
    upstream.scripts = [GOOD]
    tandem = await house(fast_extra="")
    await call(tandem.port, PATH, chat())

    (row,) = await entries_of(tandem, 1)
    assert (row["cost_usd"], costs(row), row["attempts"][0]["usage"]) == (None, [None], {"input_tokens": 5, "output_tokens": 2})
    told = (await call(tandem.port, f"/tandem/decisions/{row['id']}")).json
    assert (told["cost_usd"], told["attempts"][0]["cost_usd"]) == (None, None)


@pytest.mark.parametrize(
    ("script", "cost"), [(UNUSABLE, None), (answer_json({"error": "x"}, 500), 0.025)], ids=["used", "refused"]
)
async def test_m6_one_unknown_cost_makes_the_sum_unknown_and_a_refusal_has_none(house, upstream, other_upstream, script, cost):
    upstream.scripts, other_upstream.scripts = [script], [GOOD]
    tandem = await house(fast_extra="")
    await call(tandem.port, PATH, chat())

    (row,) = await entries_of(tandem, 1)
    assert (row["cost_usd"], costs(row)[1]) == (cost, 0.025)
