"""More callers than slots (O1). `make overload` measures the time; here is who gets what."""

import asyncio
from contextlib import AsyncExitStack

import pytest

from tests.tools.http import call, chat
from tests.tools.keyed import KEYS, Callers
from tests.tools.running import two_targets
from tests.tools.sockets import open_socket
from tests.tools.upstream import CHAT_ANSWER, answer_json
from tests.tools.waiting import later, until

PATH = "/v1/chat/completions"
MAX_IN_FLIGHT = 4
SLOW = "think about it for a while"


@pytest.fixture
def released(upstream) -> asyncio.Event:
    """Requests that say `SLOW` are answered once this is set."""
    released = asyncio.Event()

    async def answer_once_released(wire, seen):
        if SLOW.encode() in seen.body:
            await released.wait()
        await answer_json(CHAT_ANSWER)(wire, seen)

    upstream.scripts = [answer_once_released]
    return released


@pytest.fixture
async def callers(tmp_path) -> Callers:
    return Callers(tmp_path, ada={}, bob={}, eve={})


async def test_ten_times_the_limit_at_once_serves_the_limit_and_refuses_the_rest_before_any_of_them_ends(
    start, upstream, released
):
    """Refused ones do not wait, and the next caller is served once a slot is free."""
    limits = f"limits: {{max_in_flight: {MAX_IN_FLIGHT}}}"
    tandem = await start(two_targets(upstream.base_url, upstream.base_url, extra=limits))
    calls = [later(call(tandem.port, PATH, chat(SLOW))) for _ in range(10 * MAX_IN_FLIGHT)]
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


async def test_a_caller_that_takes_all_it_can_leaves_slots_for_others_who_share_them(start, upstream, released, callers):
    limits = KEYS + "limits: {max_in_flight: 16}"
    tandem = await start(two_targets(upstream.base_url, upstream.base_url, extra=limits))

    def begin(name: str, count: int) -> list[asyncio.Task]:
        return [later(call(tandem.port, PATH, chat(SLOW), callers[name])) for _ in range(count)]

    greedy = begin("eve", 20)
    await until(lambda: sum(one.done() for one in greedy) == 6 and tandem.admission.in_flight == 14)
    others = [await call(tandem.port, PATH, chat("hello"), callers[name]) for name in ("ada", "bob", "ada")]
    slow = begin("ada", 2)
    await until(lambda: sum(one.done() for one in slow) == 1 and tandem.admission.in_flight == 15)
    last = await call(tandem.port, PATH, chat("hello"), callers["bob"])

    refused = [one.result() for one in (*greedy, *slow) if one.done()]
    told = {(reply.status, reply.headers["retry-after"], reply.json["error"]["code"]) for reply in refused}
    assert told == {(429, "1", "rate_limited")}
    assert "14 of your requests are running, which is your share" in refused[0].json["error"]["message"]
    assert [reply.status for reply in (*others, last)] == [200] * 4

    released.set()
    replies = await asyncio.gather(*greedy, *slow)
    assert [reply.status for reply in replies].count(200) == 15
    assert tandem.admission.in_flight == 0


async def test_a_caller_with_many_sockets_has_no_more_slots_than_with_one(start, upstream, released, callers):
    limits = KEYS + "limits: {max_in_flight: 16}"
    tandem = await start(two_targets(upstream.base_url, upstream.base_url, extra=limits))

    async with AsyncExitStack() as stack:
        for _ in range(4):
            socket = await stack.enter_async_context(open_socket(tandem.port, **callers["eve"]))
            for lane in range(8):
                await socket.say(SLOW, stream_id=str(lane))
        refusal = await socket.answer()
        await until(lambda: tandem.admission.in_flight == 14)
        other = await call(tandem.port, PATH, chat("hello"), callers["ada"])

    assert (refusal["status"], refusal["error"]["code"], other.status) == (429, "rate_limited", 200)
    await until(lambda: tandem.admission.in_flight == 0)


async def test_a_caller_with_its_share_of_sockets_is_sent_to_http_and_another_opens_one(start, upstream, callers):
    tandem = await start(two_targets(upstream.base_url, upstream.base_url, extra=KEYS + "limits: {max_sockets: 8}"))

    async with AsyncExitStack() as stack:
        for _ in range(7):
            await stack.enter_async_context(open_socket(tandem.port, **callers["eve"]))
        with pytest.raises(Exception, match="426"):
            await stack.enter_async_context(open_socket(tandem.port, **callers["eve"]))
        await stack.enter_async_context(open_socket(tandem.port, **callers["ada"]))

    await until(lambda: tandem.admission.sockets == 0)
    async with open_socket(tandem.port, **callers["eve"]):
        assert tandem.admission.sockets == 1


async def test_a_share_of_one_sets_nothing_aside(start, upstream, released, callers):
    limits = KEYS + "limits: {max_in_flight: 4, share: 1}"
    tandem = await start(two_targets(upstream.base_url, upstream.base_url, extra=limits))
    calls = [later(call(tandem.port, PATH, chat(SLOW), callers["eve"])) for _ in range(4)]

    await until(lambda: tandem.admission.in_flight == 4)

    assert (await call(tandem.port, PATH, chat(), callers["ada"])).status == 503
    released.set()
    assert {reply.status for reply in await asyncio.gather(*calls)} == {200}


async def test_large_images_of_one_caller_erase_no_conversation_of_another(start, upstream, released, callers):
    tandem = await start(two_targets(upstream.base_url, upstream.base_url, extra=KEYS))
    image = {"type": "input_image", "image_url": "data:image/png;base64," + "A" * (15 << 20)}
    large = {"model": "auto", "input": [{"role": "user", "content": [image]}]}
    kept = await call(tandem.port, "/v1/responses", {"model": "auto", "input": "remember this"}, callers["ada"])

    greedy = [await call(tandem.port, "/v1/responses", large, callers["eve"]) for _ in range(5)]
    going_on = {"model": "auto", "input": "go on", "previous_response_id": kept.json["id"]}
    own = await call(tandem.port, "/v1/responses", going_on, callers["ada"])
    going_on["previous_response_id"] = greedy[0].json["id"]
    oldest = await call(tandem.port, "/v1/responses", going_on, callers["eve"])

    assert [reply.status for reply in (kept, *greedy, own)] == [200] * 7
    assert (oldest.status, oldest.json["error"]["code"]) == (400, "previous_response_not_found")


async def test_a_caller_that_fills_the_queue_leaves_room_for_anothers_job_which_is_next(start, upstream, released, callers):
    jobs = KEYS + "jobs: {most_running: 2, most_for_a_caller: 1, most_queued: 8}"
    tandem = await start(two_targets(upstream.base_url, upstream.base_url, extra=jobs))

    async def add(name: str, words: str):
        return await call(tandem.port, "/v1/responses", {"model": "auto", "input": words, "background": True}, callers[name])

    first = await add("eve", SLOW)
    await until(lambda: upstream.seen)
    greedy = [await add("eve", SLOW) for _ in range(8)]
    other = await add("ada", "hello")

    assert [reply.status for reply in (first, *greedy, other)] == [200] * 8 + [429, 200]
    assert greedy[-1].json["error"]["code"] == "too_many_jobs"
    await until(lambda: any(b"hello" in seen.body for seen in upstream.seen))
    released.set()
