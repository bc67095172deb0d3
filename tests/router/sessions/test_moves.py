"""Where a turn belongs: it stays where it went, and is moved up once."""

import pytest

from router.contract.words import Tier
from router.sessions.memory import SessionMemory
from router.sessions.turns import read_turn
from router.stores.memory.entries import NoSessions
from tests.tools.sessions import TARGETS, answer, chat, look, step, tool_loop
from tests.tools.values import make_view


@pytest.fixture
def memory():
    return SessionMemory(NoSessions())


async def test_a_tool_loop_is_running_where_its_ask_went_and_another_ask_is_not(memory):
    await step(memory, tool_loop(), Tier.DEEP)

    running = (await look(memory, tool_loop("a", "b"))).position
    fresh = (await look(memory, chat("fix the typo in calc.py", "Done.", "and now the other one"))).position

    assert (running.tier, running.is_running) == (Tier.DEEP, True)
    assert (fresh.tier, fresh.is_running) == (Tier.DEEP, False)


async def test_one_busy_moment_does_not_move_a_turn_down_and_a_stand_in_above_keeps_it(memory):
    view = tool_loop()
    snapshot = await memory.recall(view, read_turn(view))
    answer(memory, snapshot, view, read_turn(view), Tier.DEEP, TARGETS["spark"])
    assert (await look(memory, tool_loop("a"))).position.tier is Tier.DEEP

    again = SessionMemory(NoSessions())
    snapshot = await again.recall(view, read_turn(view))
    answer(again, snapshot, view, read_turn(view), Tier.FAST, TARGETS["sage"])
    assert (await look(again, tool_loop("a"))).position.tier is Tier.DEEP


async def test_a_call_that_overlaps_the_one_that_moved_its_turn_up_does_not_move_it_down(memory):
    await step(memory, tool_loop(), Tier.FAST)
    view = tool_loop("a")
    turn = read_turn(view)
    up, beside = await memory.recall(view, turn), await memory.recall(view, turn)

    answer(memory, up, view, turn, Tier.DEEP, TARGETS["sage"])
    answer(memory, beside, view, turn, Tier.FAST, TARGETS["spark"])

    position = (await look(memory, tool_loop("a", "b"))).position
    assert (position.tier, position.has_escalated) == (Tier.DEEP, True)


async def test_the_first_effort_of_a_session_stays(memory):
    for effort in ("medium", "high"):
        await step(memory, chat("hello", prompt_cache_key="s", reasoning_effort=effort))

    assert (await look(memory, chat("hello", prompt_cache_key="s"))).position.effort == "medium"


SUMMARY = "This session is being continued from a previous conversation that ran out of context."


def named(*said: str):
    """A conversation whose speakers take turns, in a session that has a name."""
    roles = ("user", "assistant")
    messages = [{"role": roles[index % 2], "content": text} for index, text in enumerate(said)]
    return make_view({"messages": messages}, headers={"x-tandem-session": "s"})


@pytest.mark.parametrize("tier", list(Tier))
async def test_a_turn_whose_ask_was_compacted_away_goes_on_and_is_still_known_by_it(memory, tier):
    ask = "fix the typo in calc.py"
    await step(memory, named(ask), tier)

    after = (await step(memory, named(SUMMARY), tier)).position
    again = (await look(memory, named(ask, "ok", "<task-notification>x</task-notification>"))).position

    assert (after.tier, after.is_running) == (again.tier, again.is_running) == (tier, True)


async def test_nothing_goes_on_in_a_session_that_is_not_remembered_and_a_new_ask_after_a_summary_is_new(memory):
    assert not (await look(memory, named(SUMMARY))).position.is_running

    await step(memory, named("fix the typo in calc.py"), Tier.DEEP)

    assert not (await look(memory, named(SUMMARY, "ok", "now rename it"))).position.is_running


@pytest.mark.parametrize(("asked", "goes_on"), [("fix the typo in calc.py", True), ("rewrite the parser", False)])
async def test_a_compaction_keeps_the_turn_that_runs_and_no_turn_before_a_newer_ask(memory, asked, goes_on):
    await step(memory, named("fix the typo in calc.py"), Tier.FAST)
    newer = () if goes_on else ("Done.", asked)
    said = ("fix the typo in calc.py", *newer, "ok", "CRITICAL: Respond with TEXT ONLY. Do NOT call any tools.")

    await step(memory, named(*said), Tier.FAST)

    assert (await look(memory, named(SUMMARY))).position.is_running is goes_on


async def test_a_subagent_goes_on_after_its_compaction(memory):
    headers = {"user-agent": "claude-cli/2", "x-claude-code-agent-id": "a1"}

    def said(*texts: str):
        return make_view({"messages": [{"role": "user", "content": text} for text in texts]}, headers=headers)

    await step(memory, said("list the files"), Tier.FAST)
    await step(memory, said("list the files", "CRITICAL: Respond with TEXT ONLY. Do NOT call any tools."), Tier.FAST)

    assert (await look(memory, said(SUMMARY))).position.is_running
