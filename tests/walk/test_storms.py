"""Many requests while targets fail: how often those are asked, and who is served."""

import asyncio

import pytest

from tests.tools.cases import covering
from tests.tools.http import call, chat
from tests.tools.running import two_targets
from tests.tools.upstream import CHAT_ANSWER, GOOD_CHAT_STREAM, answer_json, stream
from tests.tools.waiting import by_the_clock

pytestmark = pytest.mark.wire

REQUESTS = 100
GOOD, BROKEN, BUSY = answer_json(CHAT_ANSWER), answer_json({"error": {"message": "broke"}}, 500), answer_json({}, 429)


def after(seconds, script):
    async def play(wire, seen):
        await by_the_clock(seconds)
        await script(wire, seen)

    return play


async def send_all(tandem, count=REQUESTS, spread_seconds=0.0, **body):
    async def one(number):
        await by_the_clock(number * spread_seconds / count)
        return await call(tandem.port, "/v1/chat/completions", chat(**body))

    return await asyncio.gather(*(one(number) for number in range(count)))


@pytest.mark.parametrize(("script", "spread_seconds"), [(BROKEN, 0.0), (after(0.05, BROKEN), 0.0), (BROKEN, 1.5)])
async def test_where_every_target_fails_a_hundred_requests_make_no_storm(
    pair, upstream, other_upstream, script, spread_seconds
):
    upstream.scripts, other_upstream.scripts = [script], [script]

    replies = await send_all(pair, spread_seconds=spread_seconds)

    assert {reply.status for reply in replies} == {502}
    calls = len(upstream.seen) + len(other_upstream.seen)
    assert REQUESTS <= calls <= 1.3 * REQUESTS


async def test_with_one_target_alone_a_hundred_requests_make_no_storm_either(start, upstream):
    upstream.scripts = [BROKEN]
    tandem = await start(two_targets(upstream.base_url, upstream.base_url, extra="spill_over: false"))

    replies = await send_all(tandem)

    assert {reply.status for reply in replies} == {502}
    assert REQUESTS <= len(upstream.seen) <= 1.3 * REQUESTS


@pytest.mark.parametrize(("refusal", "wait", "is_streaming"), covering([BUSY, BROKEN], [0.0, 0.1], [True, False]))
async def test_where_deep_is_well_all_are_served(pair, upstream, other_upstream, refusal, wait, is_streaming):
    upstream.scripts = [refusal]
    other_upstream.scripts = [after(wait, stream(*GOOD_CHAT_STREAM) if is_streaming else GOOD)]

    replies = await send_all(pair, stream=is_streaming)

    assert {reply.status for reply in replies} == {200}
    assert {reply.headers["x-tandem-target"] for reply in replies} == {"sage"}
    assert len(other_upstream.seen) == REQUESTS
    assert len(upstream.seen) + len(other_upstream.seen) <= 2 * REQUESTS


async def test_a_target_that_fails_again_and_again_is_passed_over_probed_once_and_used_again(
    pair, upstream, other_upstream, long_rests
):
    upstream.scripts = [BROKEN]
    for _ in range(5):
        await call(pair.port, "/v1/chat/completions", chat())
    assert len(upstream.seen) == 5

    spared = await call(pair.port, "/v1/chat/completions", chat())
    assert (spared.status, spared.headers["x-tandem-target"], len(upstream.seen)) == (200, "sage", 5)
    assert "spark rests after 5 failures in a row" in spared.headers["x-tandem-because"]

    await long_rests(pair, "spark")
    await call(pair.port, "/v1/chat/completions", chat())
    assert len(upstream.seen) == 6
    still = await call(pair.port, "/v1/chat/completions", chat())
    assert (still.headers["x-tandem-target"], len(upstream.seen)) == ("sage", 6)

    upstream.scripts = [GOOD]
    await long_rests(pair, "spark")
    for _ in range(3):
        reply = await call(pair.port, "/v1/chat/completions", chat())
        assert (reply.status, reply.headers["x-tandem-target"]) == (200, "spark")


async def test_where_all_targets_rest_a_request_still_goes_to_one_and_no_time_is_named(pair, upstream, other_upstream):
    upstream.scripts = other_upstream.scripts = [BROKEN]
    for _ in range(6):
        await call(pair.port, "/v1/chat/completions", chat())
    calls = len(upstream.seen) + len(other_upstream.seen)

    reply = await call(pair.port, "/v1/chat/completions", chat())

    assert len(upstream.seen) + len(other_upstream.seen) > calls
    assert reply.status == 502
    assert "retry-after" not in reply.headers


async def test_where_every_target_named_a_time_nobody_is_called_and_the_smallest_wait_is_told(pair, upstream, other_upstream):
    upstream.scripts, other_upstream.scripts = (
        [answer_json({}, 429, {"retry-after": "40"})],
        [answer_json({}, 503, {"retry-after": "20"})],
    )
    first = await call(pair.port, "/v1/chat/completions", chat())
    reply = await call(pair.port, "/v1/chat/completions", chat())

    assert (first.status, first.headers["retry-after"]) == (429, "20")
    assert (reply.status, reply.headers["retry-after"], reply.json["error"]["code"]) == (429, "20", "tiers_busy")
    assert (len(upstream.seen), len(other_upstream.seen)) == (1, 1)
