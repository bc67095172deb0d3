"""`POST /tandem/race`: both tiers side by side, each as a request of its own."""

import asyncio
import json

import pytest

from router.contract.errors import Unavailable
from tests.conftest import SIMULATED
from tests.tools.http import Reply, call, request_bytes
from tests.tools.keyed import KEYS, Callers
from tests.tools.raw import Caller
from tests.tools.running import two_targets
from tests.tools.upstream import CHAT_STREAM_HEAD, DONE, answer_json, chat_frame, silent, stream
from tests.tools.waiting import until

RACE = "/tandem/race"


def events_of(reply: Reply) -> list[tuple[str, dict]]:
    """Every event of an answer: its name and its data."""
    found = []
    for block in reply.body.decode().split("\n\n")[:-1]:
        name, data = block.split("\n")
        found.append((name.removeprefix("event: "), json.loads(data.removeprefix("data: "))))
    return found


def said_by(reply: Reply, side: str) -> str:
    return "".join(data["text"] for name, data in events_of(reply) if name == "piece" and data["side"] == side)


def ends_of(reply: Reply) -> dict[str, dict]:
    return {data["side"]: data for name, data in events_of(reply) if name == "done"}


def says(text: str):
    """A target that says this, whole."""
    return stream(chat_frame(text), chat_frame(finish="stop"), DONE)


async def waits(wire, seen):
    """A target that begins to answer, and says nothing more."""
    await wire.send(CHAT_STREAM_HEAD)
    await wire.chunk(chat_frame("slowly"))
    await silent(wire, seen)


@pytest.fixture
async def tandem(start, upstream, other_upstream):
    return await start(two_targets(upstream.base_url, other_upstream.base_url))


async def test_both_tiers_answer_and_each_end_is_told_with_its_figures(start):
    tandem = await start(SIMULATED)

    reply = await call(tandem.port, RACE, {"input": "fix the typo", "max_output_tokens": 12})

    assert (reply.status, reply.headers["content-type"]) == (200, "text/event-stream; charset=utf-8")
    assert (reply.headers["cache-control"], "access-control-allow-origin" in reply.headers) == ("no-store", False)
    assert "simulated fast tier" in said_by(reply, "fast")
    assert "simulated deep tier" in said_by(reply, "deep")
    ends = ends_of(reply)
    rows = {row["id"]: row for row in await tandem.entries(2)}
    assert set(ends) == {"fast", "deep"}
    assert {end["id"] for end in ends.values()} == set(rows)
    for side, end in ends.items():
        row = rows[end["id"]]
        assert (row["tier"], row["because"]) == (side, f"x-tandem-tier asks for {side}")
        assert (end["target"], end["output_tokens"], end["error"]) == (f"simulated-{side}", 12, None)
        for figure in ("ttft_ms", "duration_ms", "cost_usd"):
            assert end[figure] == row[figure]


async def test_each_side_has_a_session_of_its_own(start):
    tandem = await start(SIMULATED)

    await call(tandem.port, RACE, {"input": "fix the typo"})

    first, second = await tandem.entries(2)
    assert first["session"] != second["session"]


async def test_one_side_that_fails_does_not_stop_the_other(tandem, upstream, other_upstream):
    upstream.scripts = [answer_json({"error": {"message": "no such luck"}}, 400)]
    other_upstream.scripts = [says("thorough")]

    reply = await call(tandem.port, RACE, {"input": "hello"})

    ends = ends_of(reply)
    assert said_by(reply, "deep") == "thorough"
    assert (ends["deep"]["error"], said_by(reply, "fast")) == (None, "")
    assert "no such luck" in ends["fast"]["error"]


async def test_a_target_that_sends_odd_shapes_ends_its_own_side(tandem, upstream, other_upstream):
    upstream.scripts = [stream(b'data: {"choices": [{"delta": 7}]}\n\n', b"data: [DONE]\n\n")]
    other_upstream.scripts = [says("thorough")]

    reply = await call(tandem.port, RACE, {"input": "hello"})

    assert reply.is_whole
    assert set(ends_of(reply)) == {"fast", "deep"}
    assert said_by(reply, "deep") == "thorough"


async def test_a_caller_that_leaves_cancels_both(tandem, upstream, other_upstream):
    upstream.scripts = other_upstream.scripts = [waits]
    async with Caller(tandem.port) as caller:
        await caller.send(request_bytes(RACE, {"input": "hello"}))
        await asyncio.wait_for(caller.reader.readuntil(b"slowly"), 30)
        await asyncio.wait_for(caller.reader.readuntil(b"slowly"), 30)
        assert tandem.admission.in_flight == 2
        caller.writer.close()
        for seen in (*upstream.seen, *other_upstream.seen):
            await asyncio.wait_for(seen.left.wait(), 30)

    rows = await tandem.entries(2)
    assert [row["outcome"] for row in rows] == ["ABANDONED", "ABANDONED"]
    await until(lambda: tandem.admission.in_flight == 0)


async def test_both_slots_are_free_again_after_the_end(tandem, upstream, other_upstream):
    upstream.scripts = other_upstream.scripts = [says("hello")]

    await call(tandem.port, RACE, {"input": "hello"})

    await until(lambda: tandem.admission.in_flight == 0)


async def test_without_two_free_slots_nothing_is_called(tandem, upstream, other_upstream):
    tandem.admission.in_flight = tandem.admission.limits.max_in_flight - 1
    try:
        reply = await call(tandem.port, RACE, {"input": "hello"})
    finally:
        held, tandem.admission.in_flight = tandem.admission.in_flight, 0

    assert (reply.status, reply.json["error"]["code"]) == (Unavailable.status, "unavailable")
    assert held == tandem.admission.limits.max_in_flight - 1
    assert (upstream.seen, other_upstream.seen) == ([], [])


@pytest.mark.parametrize(
    ("body", "status", "param"),
    [
        ({}, 400, "input"),
        ({"input": ""}, 400, "input"),
        ({"input": "   "}, 400, "input"),
        ({"input": ["hello"]}, 400, "input"),
        ({"input": "hello", "max_output_tokens": 0}, 400, "max_output_tokens"),
        ({"input": "hello", "max_output_tokens": True}, 400, "max_output_tokens"),
        ({"input": "hello", "max_output_tokens": 1.5}, 400, "max_output_tokens"),
        ({"input": "hello", "model": "deep"}, 400, "model"),
        (b"{", 400, None),
        (b"", 400, None),
        (b'"hello"', 400, None),
    ],
)
async def test_what_is_not_a_prompt_is_refused_and_nothing_is_called(tandem, upstream, body, status, param):
    reply = await call(tandem.port, RACE, body)

    assert (reply.status, reply.json["error"]["param"]) == (status, param)
    assert (upstream.seen, tandem.admission.in_flight) == ([], 0)


async def test_a_body_over_the_limit_is_refused(start):
    tandem = await start(SIMULATED + "limits: {max_body_bytes: 2000}\n")

    reply = await call(tandem.port, RACE, {"input": "a" * 3_000})

    assert (reply.status, tandem.admission.in_flight) == (413, 0)


async def test_a_form_is_refused_by_its_content_type(tandem):
    reply = await call(tandem.port, RACE, b"input=hello", {"content-type": "application/x-www-form-urlencoded"})

    assert reply.status == 415


@pytest.mark.parametrize(
    ("rights", "status"),
    [
        ({"may_force": ["fast", "deep"]}, 200),
        ({}, 403),
        ({"may_force": []}, 403),
        ({"may_force": ["fast", "deep"], "tiers": ["fast"]}, 403),
    ],
)
async def test_with_keys_a_race_needs_the_right_to_force_both_tiers(start, upstream, other_upstream, tmp_path, rights, status):
    callers = Callers(tmp_path, ada=rights)
    upstream.scripts = other_upstream.scripts = [says("hello")]
    tandem = await start(KEYS + two_targets(upstream.base_url, other_upstream.base_url))

    reply = await call(tandem.port, RACE, {"input": "hello"}, callers["ada"])

    assert reply.status == status
    assert len(upstream.seen) == len(other_upstream.seen) == (1 if status == 200 else 0)


async def test_it_counts_as_two_requests_of_its_caller_and_is_recorded_with_its_key(start, upstream, other_upstream, tmp_path):
    callers = Callers(tmp_path, ada={"may_force": ["fast", "deep"], "requests_per_minute": 3})
    upstream.scripts = other_upstream.scripts = [says("hello")]
    tandem = await start(KEYS + two_targets(upstream.base_url, other_upstream.base_url))

    first = await call(tandem.port, RACE, {"input": "hello"}, callers["ada"])
    second = await call(tandem.port, RACE, {"input": "hello"}, callers["ada"])

    assert [end["error"] for end in ends_of(first).values()] == [None, None]
    assert sum(end["error"] is None for end in ends_of(second).values()) == 1
    rows = await tandem.entries(4)
    assert {row["caller"] for row in rows} == {"ada"}
    assert {row["key"] for row in rows} == {callers["ada"]["authorization"][len("Bearer tdm_") :][:8]}
