"""More callers than slots (O1). `make overload` measures the time; here is who gets what."""

import asyncio

from tests.tools.http import call, chat
from tests.tools.running import two_targets
from tests.tools.upstream import CHAT_ANSWER, answer_json
from tests.tools.waiting import later, until

PATH = "/v1/chat/completions"
MAX_IN_FLIGHT = 4


async def test_ten_times_the_limit_at_once_serves_the_limit_and_refuses_the_rest_before_any_of_them_ends(start, upstream):
    """Refused ones do not wait, and the next caller is served once a slot is free."""
    released = asyncio.Event()

    async def answer_once_released(wire, seen):
        await released.wait()
        await answer_json(CHAT_ANSWER)(wire, seen)

    upstream.scripts = [answer_once_released]
    limits = f"limits: {{max_in_flight: {MAX_IN_FLIGHT}}}"
    tandem = await start(two_targets(upstream.base_url, upstream.base_url, extra=limits))
    calls = [later(call(tandem.port, PATH, chat())) for _ in range(10 * MAX_IN_FLIGHT)]
    await until(lambda: sum(one.done() for one in calls) == 9 * MAX_IN_FLIGHT and len(upstream.seen) >= MAX_IN_FLIGHT)

    refused = [one.result() for one in calls if one.done()]
    assert {(reply.status, reply.headers["retry-after"], reply.json["error"]["code"]) for reply in refused} == {
        (503, "1", "unavailable")
    }
    assert (len(upstream.seen), tandem.admission.in_flight) == (MAX_IN_FLIGHT, MAX_IN_FLIGHT)

    released.set()
    replies = await asyncio.gather(*calls)
    assert [reply.status for reply in replies].count(200) == MAX_IN_FLIGHT
    assert (await call(tandem.port, PATH, chat())).status == 200
    assert len(await tandem.entries(MAX_IN_FLIGHT + 1)) == MAX_IN_FLIGHT + 1
