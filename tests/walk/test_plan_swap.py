"""Plans swapped under load are noticed only by who serves afterwards."""

import asyncio
import json

from router.config.load import check_config
from router.wiring.build import build_plan, known_names
from tests.tools.http import call, chat
from tests.tools.upstream import CHAT_ANSWER, CHAT_STREAM_HEAD, GOOD_CHAT_STREAM, answer_json
from tests.tools.waiting import until

WORKERS, SWAPS = 16, 5
TOOL = {"type": "function", "function": {"name": "ls", "parameters": {"type": "object", "properties": {}}}}


def config(fast: str, deep: str, *, fast_name: str, purple: str, plain: str) -> str:
    return f"""
ledger: {{path: test.db}}
rules:
  - {{when: {{words: purple}}, tier: {purple}}}
  - {{when: {{words: plain}}, tier: {plain}}}
tiers:
  fast: {{targets: [{{name: {fast_name}, adapter: openai_http, dialect: chat, base_url: "{fast}", model: m}}]}}
  deep: {{targets: [{{name: sage, adapter: openai_http, dialect: chat, base_url: "{deep}", model: m}}]}}
"""


class Host:
    """Holds answers half way or before their beginning, until released."""

    def __init__(self) -> None:
        self.gate, self.held = asyncio.Event(), 0

    async def __call__(self, wire, seen) -> None:
        is_streaming = seen.json.get("stream") is True
        if is_streaming:
            await wire.send(CHAT_STREAM_HEAD)
            await wire.chunk(GOOD_CHAT_STREAM[0])
        gate = self.gate
        self.held += 1
        await gate.wait()
        if not is_streaming:
            await answer_json(CHAT_ANSWER)(wire, seen)
            return
        for piece in GOOD_CHAT_STREAM[1:]:
            await wire.chunk(piece)
        await wire.end_chunks()

    def release(self) -> None:
        """Release all that wait; later ones wait for the next call."""
        self.gate.set()
        self.gate, self.held = asyncio.Event(), 0


async def test_plans_are_swapped_under_load_and_no_request_session_figure_or_connection_is_lost(
    start, upstream, other_upstream, tmp_path
):
    fast, deep = upstream.base_url, other_upstream.base_url
    day = config(fast, deep, fast_name="spark", purple="deep", plain="fast")
    night = config(fast, deep, fast_name="swift", purple="fast", plain="deep")
    serves = {"day": {"purple": "sage", "plain": "spark"}, "night": {"purple": "swift", "plain": "sage"}}
    host = Host()
    upstream.scripts = other_upstream.scripts = [host]
    tandem = await start(day)
    house, state = tandem.house, tandem.house.state
    plans = {"day": house.plan, "night": build_plan(check_config(night, "test", tmp_path, known_names()), state)}
    in_force, is_over, replies = "day", False, []

    async def work(number: int) -> None:
        word, is_streaming = ("purple", "plain")[number % 2], number % 4 < 2
        while not is_over:
            expected = serves[in_force][word]
            reply = await call(tandem.port, "/v1/chat/completions", chat(f"fix the {word} typo", stream=is_streaming))
            replies.append((reply, expected))

    async def ask_in_session(messages: list[dict]):
        asking = asyncio.get_running_loop().create_task(
            call(
                tandem.port,
                "/v1/chat/completions",
                {"model": "auto", "messages": messages, "tools": [TOOL]},
                {"x-tandem-session": "s"},
            )
        )
        await until(lambda: host.held == 1)
        host.release()
        return await asking

    question = {"role": "user", "content": "paint the purple shed"}
    began = await ask_in_session([question])

    workers = [asyncio.get_running_loop().create_task(work(number)) for number in range(WORKERS)]
    for swap in range(SWAPS):
        await until(lambda: host.held == WORKERS)
        assert len(state.running) == WORKERS
        in_force = "night" if swap % 2 == 0 else "day"
        now = house.clock()
        before = state.live.statuses(dict(house.plan.targets), now)["sage"]  # not the cached one
        house.swap(plans[in_force])
        after = state.live.statuses(dict(house.plan.targets), now)["sage"]
        assert (after.speed, after.in_flight) == (before.speed, before.in_flight)
        host.release()
    await until(lambda: host.held == WORKERS)
    is_over = True
    host.release()
    await asyncio.wait_for(asyncio.gather(*workers), 60)

    calls = [{"id": "c", "type": "function", "function": {"name": "ls", "arguments": "{}"}}]
    went_on = await ask_in_session(
        [question, {"role": "assistant", "tool_calls": calls}, {"role": "tool", "tool_call_id": "c", "content": "ok"}]
    )

    asked = WORKERS * (SWAPS + 1)
    assert len(replies) == asked
    assert [reply.status for reply, _ in replies] == [200] * asked
    assert all(reply.is_whole for reply, _ in replies)
    assert [reply.headers["x-tandem-target"] for reply, _ in replies] == [expected for _, expected in replies]
    assert (began.headers["x-tandem-tier"], went_on.headers["x-tandem-tier"]) == ("deep", "deep")
    assert "a turn on deep" in went_on.headers["x-tandem-because"]

    entries = await tandem.entries(asked + 2)
    assert {(row["outcome"], row["status"]) for row in entries} == {("SERVED", 200)}
    sent = [reply.headers["x-tandem-request-id"] for reply in (began, *(reply for reply, _ in replies), went_on)]
    assert sorted(row["id"] for row in entries) == sorted(sent)
    first = await call(tandem.port, f"/tandem/decisions/{sent[0]}")
    assert json.loads(first.body)["served_by"] == "sage"

    figures = state.live.statuses(house.plan.targets, house.clock())["sage"]
    assert figures.speed != figures.target.typical
    assert sum(status.in_flight for status in state.live.statuses(house.plan.targets, house.clock()).values()) == 0
    assert len(upstream.seen) + len(other_upstream.seen) == asked + 2
    assert upstream.connections + other_upstream.connections <= WORKERS + 2
