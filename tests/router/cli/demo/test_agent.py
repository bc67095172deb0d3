import asyncio
import contextlib
import json

import pytest

from router.cli.demo.afternoon import Turn, write_config
from router.cli.demo.agent import Agent, Refused, read_answer
from router.upstream.pool import Pool
from tests.tools.running import running

FAST = (("x-tandem-tier", "fast"),)
DEEP = (("x-tandem-tier", "deep"),)


@pytest.fixture
async def router(tmp_path):
    async with running(write_config("l.db", 10.0), tmp_path) as tandem:
        yield tandem


@contextlib.asynccontextmanager
async def agent_of(router, headers=()):
    pool = Pool()
    try:
        yield Agent(pool, router.url, "s", headers, 10.0)
    finally:
        await pool.close()


async def test_a_turn_makes_the_calls_that_its_plan_has_and_then_answers(router):
    async with agent_of(router) as agent:
        assert not await agent.take(Turn("rename a to b", looks=1, edits=2))

    rows = await router.entries(4)
    assert [row["turn_kind"] for row in rows] == ["ask", "tool_loop", "tool_loop", "tool_loop"]
    assert {row["outcome"] for row in rows} == {"SERVED"}


async def test_tests_of_a_hard_turn_stay_red_on_fast_until_the_agent_gives_up(router):
    async with agent_of(router, FAST) as agent:
        assert await agent.take(Turn("fix it", edits=1, is_tested=True, is_hard=True))

    assert len(await router.entries(9)) == 9


async def test_an_edit_by_deep_turns_them_green(router):
    async with agent_of(router, DEEP) as agent:
        assert not await agent.take(Turn("fix it", edits=1, is_tested=True, is_hard=True))

    assert len(await router.entries(3)) == 3


async def test_the_caller_hangs_up_in_the_middle_of_an_answer(tmp_path):
    slow = write_config("l.db").replace("tokens_per_second: 65", "tokens_per_second: 1")  # 80 seconds for an answer
    async with running(slow, tmp_path) as router, agent_of(router, DEEP) as agent:
        await agent.take(Turn("go", hangs_up_after_seconds=0.0))
        (row,) = await router.entries(1)

    assert row["outcome"] == "ABANDONED"


async def test_after_a_429_it_comes_again_when_it_was_told_to(router):
    async with agent_of(router, FAST) as agent:
        await agent.take(Turn("the copyright year"))
        await agent.take(Turn("again"))

    first, refused, again = await router.entries(3)
    assert [row["status"] for row in (first, refused, again)] == [200, 429, 200]
    assert again["at"] - refused["at"] >= 0.2  # two seconds, ten times as fast


async def test_another_refusal_ends_the_demo_with_its_words(router):
    async with agent_of(router, (("x-tandem-tier", "turbo"),)) as agent:
        with pytest.raises(Refused, match="turbo"):
            await agent.take(Turn("go"))


async def test_a_router_that_is_gone_is_said(router):
    async with agent_of(router) as agent:
        agent.url = "http://127.0.0.1:1"
        with pytest.raises(Refused, match="could not be reached"):
            await asyncio.wait_for(agent.take(Turn("go")), 30)


def test_an_answer_is_put_together_from_its_pieces():
    deltas = [
        {"content": "I "},
        {"content": "look."},
        {"tool_calls": [{"index": 0, "id": "c1", "function": {"name": "read_file", "arguments": ""}}]},
        {"tool_calls": [{"index": 0, "function": {"arguments": '{"path"'}}]},
        {"tool_calls": [{"index": 0, "function": {"arguments": ':"a"}'}}]},
    ]
    stream = "".join(f"data: {json.dumps({'choices': [{'delta': delta}]})}\n\n" for delta in deltas) + "data: [DONE]\n\n"

    told = read_answer(stream.encode())

    assert told["content"] == "I look."
    assert told["tool_calls"] == [
        {"id": "c1", "type": "function", "function": {"name": "read_file", "arguments": '{"path":"a"}'}}
    ]
