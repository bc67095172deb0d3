"""Rate limits in targets' answers: who serves while little is left, and what callers get."""

from tests.tools.http import call, chat
from tests.tools.upstream import CHAT_ANSWER, CHAT_STREAM_HEAD, GOOD_CHAT_STREAM, answer_json

PATH = "/v1/chat/completions"


def telling(**headers):
    return answer_json(CHAT_ANSWER, 200, {name.replace("_", "-"): value for name, value in headers.items()})


async def ask(tandem, text="fix the typo in the readme", **headers):
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return await call(tandem.port, PATH, chat(text), headers=named)


async def test_a_fast_tier_without_requests_left_is_passed_over_with_the_reason(pair, upstream):
    upstream.scripts = [
        telling(x_ratelimit_remaining_requests="0", x_ratelimit_reset_requests="30s"),
    ]
    first = await ask(pair)
    passed_over = await ask(pair)

    assert (first.headers["x-tandem-target"], passed_over.headers["x-tandem-target"]) == ("spark", "sage")
    assert "spark is at its rate limit for another 30 s" in passed_over.headers["x-tandem-because"]
    assert len(upstream.seen) == 1


async def test_a_wait_that_is_shorter_than_deep_takes_is_no_reason_to_leave_fast(pair, upstream):
    upstream.scripts = [telling(x_ratelimit_remaining_requests="0", x_ratelimit_reset_requests="100ms")]
    await ask(pair)

    assert (await ask(pair)).headers["x-tandem-target"] == "spark"


async def test_a_callers_longest_wait_bounds_it(pair, upstream, other_upstream):
    other_upstream.scripts = upstream.scripts = [telling(x_ratelimit_remaining_requests="0", x_ratelimit_reset_requests="40s")]
    await ask(pair)
    await ask(pair, x_tandem_tier="deep")

    reply = await ask(pair, x_tandem_max_wait="5")
    assert (reply.status, reply.headers["retry-after"]) == (429, "35")
    assert (await ask(pair)).status == 200


async def test_a_stream_tells_its_limits_at_its_beginning(pair, upstream):
    async def script(wire, seen):
        await wire.send(CHAT_STREAM_HEAD[:-2] + b"x-ratelimit-remaining: 0\r\nx-ratelimit-reset: 50\r\n\r\n")
        for frame in GOOD_CHAT_STREAM:
            await wire.chunk(frame)
        await wire.end_chunks()

    upstream.scripts = [script]
    reply = await call(pair.port, PATH, chat(stream=True))

    assert reply.status == 200
    assert (await ask(pair)).headers["x-tandem-target"] == "sage"
