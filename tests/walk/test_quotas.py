"""A target's quota over loopback: who waits, who moves, and what each sees."""

import asyncio
import json

import pytest

from router.config.load import check_config
from router.wiring.build import build_plan, known_names
from tests.bench.quotas import EQUAL, GREEDY, MOST_LOST, MOST_OFF, find_off, run
from tests.tools.http import call, chat, request_bytes
from tests.tools.running import two_targets
from tests.tools.sockets import open_socket
from tests.tools.upstream import CHAT_ANSWER, GOOD_CHAT_STREAM, answer_json, stream
from tests.tools.waiting import later, until

GOOD = answer_json(CHAT_ANSWER)
BODIES = {
    "chat": ("/v1/chat/completions", chat(model="fast", stream=True)),
    "messages": ("/v1/messages", {**chat(model="fast", stream=True), "max_tokens": 100}),
    "responses": ("/v1/responses", {"model": "fast", "input": "fix the typo", "stream": True}),
}


class Held:
    def __init__(self, script=GOOD) -> None:
        self.script, self.gate, self.now, self.most = script, asyncio.Event(), 0, 0

    async def __call__(self, wire, seen) -> None:
        self.now += 1
        self.most = max(self.most, self.now)
        try:
            await self.gate.wait()
            await self.script(wire, seen)
        finally:
            self.now -= 1


def spark(body, session="s", **headers):
    return ("/v1/chat/completions", body, {"x-tandem-session": session, **headers})


async def stats_of(tandem):
    return (await call(tandem.port, "/tandem/stats")).json["quotas"]["spark"]


def waiting_in(tandem):
    return tandem.house.state.live.queues.picture(tandem.house.plan.targets, tandem.house.clock())["spark"]["waiting"]


@pytest.fixture
def limited(start, upstream, other_upstream):
    upstream.scripts = other_upstream.scripts = [GOOD]

    async def begin(quota, **more):
        return await start(two_targets(upstream.base_url, other_upstream.base_url, fast_extra=f"quota: {{{quota}}},", **more))

    return begin


async def test_a_request_that_asks_for_fast_waits_for_it_and_is_served(limited, upstream):
    held = Held()
    upstream.scripts = [held, GOOD]
    tandem = await limited("in_flight: 1")
    first = later(call(tandem.port, *spark(chat(model="fast"))))
    await until(lambda: held.now)
    second = later(call(tandem.port, *spark(chat(model="fast"))))
    await until(lambda: waiting_in(tandem))
    assert (await stats_of(tandem))["in_flight"] == {"used": 1, "limit": 1}
    held.gate.set()
    replies = await asyncio.gather(first, second)

    assert [(reply.status, reply.headers["x-tandem-target"]) for reply in replies] == [(200, "spark")] * 2
    assert len(upstream.seen) == 2
    found = await call(tandem.port, f"/tandem/decisions/{replies[1].headers['x-tandem-request-id']}")
    (wait,) = found.json["queued"]
    assert wait["target"] == "spark"
    assert wait["seconds"] > 0.005
    without_wait_ms = found.json["duration_ms"] - wait["seconds"] * 1000
    assert 0 < found.json["overhead_ms"] <= without_wait_ms
    assert 0 < float(replies[1].headers["x-tandem-overhead-ms"]) <= without_wait_ms


async def test_a_wait_that_is_too_long_is_a_429_at_once_with_its_length(limited, upstream):
    tandem = await limited("requests_per_minute: 1, max_wait_seconds: 2")
    await call(tandem.port, *spark(chat(model="fast")))

    reply = await call(tandem.port, *spark(chat(model="fast")))

    assert (reply.status, reply.json["error"]["code"]) == (429, "tiers_busy")
    assert 55 < int(reply.headers["retry-after"]) <= 60
    assert "spark is at its quota of 1 request a minute for another 61 s" in reply.json["error"]["message"]
    assert len(upstream.seen) == 1
    (row,) = [row for row in await tandem.entries(2) if row["outcome"] == "REFUSED"]
    assert (row["status"], row["error"], row["tier"]) == (429, "tiers_busy", "fast")


async def test_under_auto_the_other_tier_serves_and_says_why_and_fast_is_used_again_when_it_has_room(limited, upstream):
    held = Held()
    upstream.scripts = [held, GOOD]
    tandem = await limited("in_flight: 1, max_wait_seconds: 2")
    first = later(call(tandem.port, *spark(chat())))
    await until(lambda: held.now)
    reply = await call(tandem.port, *spark(chat()))
    held.gate.set()
    await first
    again = await call(tandem.port, *spark(chat()))

    assert (reply.headers["x-tandem-target"], again.headers["x-tandem-target"]) == ("sage", "spark")
    assert reply.headers["x-tandem-because"] == (
        "looks like a quick edit: typo; fast is out for now (spark is at its quota of 1 at once for another 5 s, "
        "longer than its max_wait_seconds of 2), so deep serves this"
    )


async def test_without_a_longest_wait_the_estimate_weighs_it(limited):
    tandem = await limited("requests_per_minute: 1")
    await call(tandem.port, *spark(chat()))

    reply = await call(tandem.port, *spark(chat()))
    explained = await call(tandem.port, "/tandem/explain", chat(), {"x-tandem-session": "s"})

    assert reply.headers["x-tandem-target"] == "sage"
    assert "spark is at its quota of 1 request a minute for another 61 s" in reply.headers["x-tandem-because"]
    assert explained.json["estimates"]["fast"]["wait_seconds"] == pytest.approx(61, abs=1)


@pytest.mark.parametrize(("seconds", "status"), [("3", 429), ("70", 200)])
async def test_a_caller_says_how_long_it_would_wait(limited, upstream, seconds, status):
    tandem = await limited("in_flight: 1")
    held = Held()
    upstream.scripts = [held, GOOD]
    first = later(call(tandem.port, *spark(chat(model="fast"))))
    await until(lambda: held.now)
    second = later(call(tandem.port, *spark(chat(model="fast"), **{"x-tandem-max-wait": seconds})))
    await until(lambda: second.done() or waiting_in(tandem))
    held.gate.set()

    assert ((await first).status, (await second).status) == (200, status)


@pytest.mark.parametrize("dialect", BODIES)
async def test_a_stream_that_waits_gets_its_head_comments_and_then_who_serves(limited, upstream, monkeypatch, dialect):
    monkeypatch.setattr("router.dispatch.waiting.HEARTBEAT_SECONDS", 0.02)
    held = Held()
    upstream.scripts = [held, stream(*GOOD_CHAT_STREAM)]
    tandem = await limited("in_flight: 1")
    first = later(call(tandem.port, *spark(chat(model="fast"))))
    await until(lambda: held.now)
    path, body = BODIES[dialect]
    reader, writer = await asyncio.open_connection("127.0.0.1", tandem.port)
    writer.write(request_bytes(path, body))
    head = await asyncio.wait_for(reader.readuntil(b" s\n\n"), 30)
    held.gate.set()
    rest = await asyncio.wait_for(reader.readuntil(b"\r\n0\r\n\r\n"), 30)
    writer.close()
    await first

    assert b"HTTP/1.1 200 " in head
    assert b"x-tandem-target: queued" in head
    assert b"x-tandem-tier" not in head
    assert b": waiting for spark, position 1 of 1, about " in head
    decision = json.loads(rest.split(b": tandem.decision ")[1].split(b"\n")[0])
    assert (decision["tier"], decision["target"]) == ("fast", "spark")
    assert "asks for fast" in decision["because"]
    text = rest.split(b"tandem.decision")[1]
    assert b"data: " in text
    assert len(upstream.seen) == 2
    rows = await tandem.entries(2)
    assert {row["outcome"] for row in rows} == {"SERVED"}


async def test_on_a_socket_the_wait_and_who_serves_are_frames(limited, upstream, monkeypatch):
    monkeypatch.setattr("router.dispatch.waiting.HEARTBEAT_SECONDS", 0.02)
    held = Held()
    upstream.scripts = [held, stream(*GOOD_CHAT_STREAM)]
    tandem = await limited("in_flight: 1")
    first = later(call(tandem.port, *spark(chat(model="fast"))))
    await until(lambda: held.now)
    async with open_socket(tandem.port, x_tandem_frames="1") as socket:
        await socket.say(model="fast", stream_id="main")
        waited = await socket.until("tandem.queued")
        held.gate.set()
        served = await socket.until("response.completed")
    await first

    assert (waited[0]["type"], waited[0]["target"], waited[0]["stream_id"]) == ("tandem.decision", "queued", "main")
    assert "tier" not in waited[0]
    assert waited[-1]["message"].startswith("waiting for spark, position 1 of 1, about ")
    decisions = [event for event in served if event["type"] == "tandem.decision"]
    assert [(event["tier"], event["target"], event["stream_id"]) for event in decisions] == [("fast", "spark", "main")]


@pytest.mark.parametrize("dialect", BODIES)
async def test_a_failure_after_the_head_is_an_event_and_a_cut_and_is_recorded_as_one(limited, upstream, monkeypatch, dialect):
    monkeypatch.setattr("router.dispatch.waiting.HEARTBEAT_SECONDS", 0.02)
    held = Held()
    upstream.scripts = [held, answer_json({"error": {"message": "broke"}}, 500)]
    tandem = await limited("in_flight: 1")
    first = later(call(tandem.port, *spark(chat(model="fast"))))
    await until(lambda: held.now)
    (path, body), begun = BODIES[dialect], asyncio.Event()
    second = later(call(tandem.port, path, body, on_head=begun.set))
    await begun.wait()
    held.gate.set()
    reply = await second
    await first

    assert (reply.status, reply.headers["x-tandem-target"], reply.is_whole) == (200, "queued", False)
    last = reply.body.decode().strip().split("\n\n")[-1]
    assert ("response.failed" if dialect == "responses" else "error") in last
    assert "upstream_refused" in last
    (row,) = [row for row in await tandem.entries(2) if row["outcome"] != "SERVED"]
    assert (row["outcome"], row["status"], row["error"]) == ("FAILED", 200, "upstream_refused")


async def test_a_target_that_fails_after_the_head_is_followed_by_another(limited, upstream, other_upstream, monkeypatch):
    monkeypatch.setattr("router.dispatch.waiting.HEARTBEAT_SECONDS", 0.02)
    held = Held()
    upstream.scripts = [held, answer_json({"error": {"message": "broke"}}, 500)]
    other_upstream.scripts = [stream(*GOOD_CHAT_STREAM)]
    tandem = await limited("in_flight: 1", extra="decision: {quick: {calls: 4, output_tokens: 1000}}")
    first = later(call(tandem.port, *spark(chat(model="fast"))))
    await until(lambda: held.now)
    begun = asyncio.Event()
    second = later(call(tandem.port, *spark(chat(stream=True)), on_head=begun.set))
    await begun.wait()
    held.gate.set()
    reply = await second
    await first

    assert (reply.status, reply.is_whole) == (200, True)
    decision = json.loads(reply.body.split(b": tandem.decision ")[1].split(b"\n")[0])
    assert (decision["tier"], decision["target"]) == ("deep", "sage")
    assert decision["because"].startswith("spark failed (500), so sage answers")
    assert reply.body.endswith(b"data: [DONE]\n\n")


async def test_a_caller_who_leaves_the_queue_leaves_nothing_behind(limited, upstream):
    held = Held()
    upstream.scripts = [held, GOOD]
    tandem = await limited("in_flight: 1")
    first = later(call(tandem.port, *spark(chat(model="fast"))))
    await until(lambda: held.now)
    _, writer = await asyncio.open_connection("127.0.0.1", tandem.port)
    writer.write(request_bytes(*spark(chat(model="fast", stream=True))))
    await until(lambda: waiting_in(tandem) == 1)

    writer.close()
    await until(lambda: waiting_in(tandem) == 0)
    held.gate.set()
    await first

    rows = await tandem.entries(2)
    assert sorted(row["outcome"] for row in rows) == ["ABANDONED", "SERVED"]
    assert len(upstream.seen) == 1
    assert (await stats_of(tandem))["in_flight"]["used"] == 0


async def test_no_more_run_at_once_than_are_allowed_and_all_are_served(limited, upstream):
    held = Held()
    held.gate.set()
    upstream.scripts = [held]
    tandem = await limited("in_flight: 3")

    replies = await asyncio.gather(*(call(tandem.port, *spark(chat(model="fast"), f"s{n}")) for n in range(20)))

    assert {reply.status for reply in replies} == {200}
    assert held.most <= 3
    stats = await stats_of(tandem)
    assert (stats["in_flight"], stats["waiting"]) == ({"used": 0, "limit": 3}, 0)


async def test_tokens_count_as_they_were_told(limited, upstream):
    tandem = await limited("tokens_per_minute: 1000, max_wait_seconds: 1")

    replies = [await call(tandem.port, *spark(chat(model="fast"))) for _ in range(3)]

    assert [reply.status for reply in replies] == [200] * 3
    assert (await stats_of(tandem))["tokens_per_minute"] == {"used": 21, "limit": 1000}
    large = chat("x " * 4_000, model="fast")
    refused = await call(tandem.port, *spark(large))
    assert refused.status == 429
    assert "spark is at its quota of 1,000 tokens a minute" in refused.json["error"]["message"]


async def test_counting_tokens_takes_nothing_of_a_quota(limited, upstream):
    tandem = await limited("requests_per_minute: 1")
    body = {"model": "fast", "messages": [{"role": "user", "content": "x"}]}

    replies = [await call(tandem.port, "/v1/messages/count_tokens", body) for _ in range(3)]

    assert [reply.status for reply in replies] == [200] * 3
    assert (await stats_of(tandem))["requests_per_minute"]["used"] == 0


async def test_sessions_of_one_caller_are_served_in_order_of_arrival(limited, upstream):
    order = []

    async def script(wire, seen):
        order.append(seen.json["messages"][0]["content"])
        await GOOD(wire, seen)

    held = Held()
    upstream.scripts = [held, script]
    tandem = await limited("in_flight: 1")
    waiting = [later(call(tandem.port, *spark(chat("first", model="fast"), "greedy")))]
    await until(lambda: held.now)
    for number, session in enumerate(["greedy"] * 4 + ["modest"] * 2):
        waiting.append(later(call(tandem.port, *spark(chat(session, model="fast"), session))))
        await until(lambda number=number: waiting_in(tandem) == number + 1)
    held.gate.set()
    await asyncio.gather(*waiting)

    assert order == ["greedy"] * 4 + ["modest"] * 2


async def test_a_new_config_changes_the_quota_for_who_waits_and_keeps_what_was_sent(
    limited, upstream, other_upstream, tmp_path
):
    tandem = await limited("requests_per_minute: 1")
    await call(tandem.port, *spark(chat(model="fast")))
    waiting = later(call(tandem.port, *spark(chat(model="fast"))))
    await until(lambda: waiting_in(tandem))
    text = two_targets(upstream.base_url, other_upstream.base_url, fast_extra="quota: {requests_per_minute: 2},")
    loaded = check_config(text, "test", tmp_path, known_names())

    tandem.house.swap(build_plan(loaded, tandem.house.state))
    auto = await call(tandem.port, *spark(chat(), "another"))
    reply = await asyncio.wait_for(waiting, 30)

    assert (reply.status, reply.headers["x-tandem-target"]) == (200, "spark")
    assert auto.headers["x-tandem-target"] == "sage"
    assert (await stats_of(tandem))["requests_per_minute"] == {"used": 2, "limit": 2}


async def test_a_router_that_stops_tells_who_waits(limited, upstream):
    held = Held()
    upstream.scripts = [held, GOOD]
    tandem = await limited("in_flight: 1")
    first = later(call(tandem.port, *spark(chat(model="fast"))))
    await until(lambda: held.now)
    second = later(call(tandem.port, *spark(chat(model="fast"))))
    await until(lambda: waiting_in(tandem))

    await tandem.house.stop(1.0)

    assert [(await reply).status for reply in (first, second)] == [503, 503]
    assert waiting_in(tandem) == 0


async def test_a_provider_that_is_fuller_than_we_know_is_waited_for(limited, upstream):
    upstream.scripts = [answer_json({}, 429, {"retry-after": "1"}), GOOD]
    tandem = await limited("requests_per_minute: 10", extra="spill_over: false")
    refused = await call(tandem.port, *spark(chat(model="fast")))
    queue = tandem.house.state.live.queues.queue_of(tandem.house.plan.targets["spark"], None)

    assert refused.status == 429
    assert not queue.meter.has_room(1, tandem.house.clock())


@pytest.mark.parametrize("rates", [EQUAL, GREEDY], ids=["equal and random", "one greedy"])
@pytest.mark.filterwarnings("ignore")
def test_ten_callers_that_ask_for_three_times_a_quota_use_all_of_it_and_wait_as_long_as_they_are_told(rates):
    found = run(rates, seed=1, minutes=2)

    assert found.refused == 0
    assert {status for status, _ in found.answers} == {200}
    assert sum(found.later_shares) >= 57
    assert found.lost <= MOST_LOST * sum(found.answers.values())
    assert find_off([found]) <= MOST_OFF
