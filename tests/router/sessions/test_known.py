"""Which remembered session a request belongs to, and what is forgotten."""

import pytest
from msgspec.structs import replace

from router.contract.facts import StateRefused
from router.contract.session import SessionState
from router.contract.words import Dialect, Tier
from router.sense.models import ModelNames
from router.sessions.memory import SessionMemory
from router.sessions.turns import read_turn
from router.stores.memory.entries import NoSessions
from router.stores.sqlite.schemas import LEDGER
from router.stores.sqlite.sessions import SqliteSessions
from router.stores.sqlite.writer import SqliteWriter
from tests.tools.sessions import (
    TARGETS,
    Clock,
    SharedSessions,
    answer,
    chat,
    finish,
    look,
    step,
    tool_loop,
    under_way,
)
from tests.tools.values import make_view


async def test_a_history_that_does_not_extend_what_is_remembered_is_a_new_session():
    memory = SessionMemory(NoSessions())
    await step(memory, chat("hello"), Tier.DEEP)
    await step(memory, chat("hello", "hi", "do it"), Tier.DEEP)

    assert (await look(memory, chat("hello", "hi", "do it", "done", "more"))).position.tier is Tier.DEEP
    assert (await look(memory, chat("hello"))).position.tier is None
    assert (await look(memory, chat("hello", "another answer", "do that"))).position.tier is None


@pytest.mark.parametrize("said", [("hello",), ("hello", "hi", "do it"), ("x" * 9_000,)], ids=["one", "three", "long"])
async def test_a_request_that_is_sent_again_leaves_what_it_left_the_first_time(said):
    memory = SessionMemory(NoSessions(), Clock())
    await step(memory, chat(*said), Tier.DEEP)
    first = (await look(memory, chat(*said))).state
    await step(memory, chat(*said), Tier.DEEP)

    again = await look(memory, chat(*said, "done", "more"))

    assert first.last
    assert again.state == first


async def test_a_conversation_without_messages_is_one_session():
    memory = SessionMemory(NoSessions())
    empty = make_view({"input": [], "prompt": {"id": "p"}}, Dialect.RESPONSES)
    assert (read_turn(empty).is_guessed, len(empty.conversation)) == (True, 0)

    found = [await step(memory, replace(empty), Tier.DEEP) for _ in range(3)]

    assert len({snapshot.key for snapshot in found}) == 1
    assert (await look(memory, empty)).state.tier is Tier.DEEP


async def test_a_session_that_was_not_used_for_a_week_is_forgotten():
    clock = Clock()
    memory = SessionMemory(NoSessions(), clock)
    await step(memory, chat("hello", prompt_cache_key="s"), Tier.DEEP)

    clock.now += 7 * 86_400 - 1
    assert (await look(memory, chat("hello", prompt_cache_key="s"))).state.tier is Tier.DEEP
    clock.now += 1
    assert (await look(memory, chat("hello", prompt_cache_key="s"))).state == SessionState()


async def test_of_sessions_that_begin_alike_the_oldest_gives_way():
    clock = Clock()
    memory = SessionMemory(NoSessions(), clock)
    for number in range(8):
        clock.now += 1
        await step(memory, chat("hello", f"answer {number}", "go on"), Tier.DEEP)

    taken = await step(memory, chat("hello", "a ninth", "go on"), Tier.FAST)

    assert taken.replaces is not None
    assert (await look(memory, chat("hello", "answer 0", "go on"))).state.tier is None
    tiers = [(await look(memory, chat("hello", f"answer {number}", "go on"))).state.tier for number in range(1, 8)]
    assert tiers == [Tier.DEEP] * 7
    assert (await look(memory, chat("hello", "a ninth", "go on"))).state.tier is Tier.FAST


async def test_two_callers_with_the_same_conversation_never_see_each_others_memory():
    memory = SessionMemory(NoSessions())
    await step(memory, chat("hello", prompt_cache_key="same", caller="ann"), Tier.DEEP)

    assert (await look(memory, chat("hello", prompt_cache_key="same", caller="ann"))).position.tier is Tier.DEEP
    assert (await look(memory, chat("hello", prompt_cache_key="same", caller="bob"))).position.tier is None


async def test_memory_survives_a_restart_without_any_text(tmp_path):
    path = tmp_path / "t.db"
    memory = SessionMemory(SqliteSessions(SqliteWriter(path, LEDGER, on_failure=print)))
    await step(memory, tool_loop(), Tier.DEEP)
    await memory.close()

    again = SessionMemory(SqliteSessions(SqliteWriter(path, LEDGER, on_failure=print)))
    place = (await look(again, tool_loop("a"))).position
    await again.close()

    assert (place.tier, place.is_running) == (Tier.DEEP, True)
    assert b"typo" not in path.read_bytes()


async def test_the_longest_unused_session_is_forgotten_first():
    memory = SessionMemory(NoSessions())
    for number in range(4_100):
        await step(memory, chat("x", prompt_cache_key=f"s{number}"))

    assert (await look(memory, chat("x", prompt_cache_key="s0"))).position.tier is None
    assert (await look(memory, chat("x", prompt_cache_key="s4099"))).position.tier is Tier.FAST


async def test_two_guessed_sessions_that_begin_alike_under_other_names_stay_apart():
    memory, names = SessionMemory(NoSessions()), ModelNames({}, ())

    async def named(name: str, *said: str):
        view = chat(*said)
        turn = read_turn(view)
        found = await memory.recall(view, turn, names.resolve(name))
        finish(answer(memory, found, view, turn, Tier.FAST, TARGETS["spark"]), TARGETS["spark"], 9)
        return found

    await named("deep", "hello")
    await named("auto", "hello")

    assert (await named("auto", "hello", "x", "y")).key.number == 1
    assert (await named("deep", "hello", "z", "y")).key.number == 0


async def test_a_guessed_session_is_found_at_another_router_by_one_question_for_all_slots():
    store = SharedSessions()
    one, other = SessionMemory(store), SessionMemory(store)
    await step(one, chat("hello", "hi", "do it"), Tier.DEEP)
    await step(other, chat("hello", "no", "stop"), Tier.FAST)
    await one._known.sessions.close()
    await other._known.sessions.close()
    before = store.trips

    found = [
        await look(other, chat("hello", *said)) for said in (("hi", "do it", "done", "more"), ("no", "stop", "done", "more"))
    ]

    assert [each.position.tier for each in found] == [Tier.DEEP, Tier.FAST]
    assert store.trips == before + 2


async def test_of_what_two_routers_did_while_the_store_was_away_the_newer_counts():
    store, clock = SharedSessions(), Clock()
    view = chat("begin", prompt_cache_key="s")
    memories = {tier: SessionMemory(store, clock) for tier in Tier}
    store.is_away = True
    for tier, memory in memories.items():
        clock.now += 1
        await step(memory, view, tier)
        assert (await look(memory, view)).state.tier is tier, "each goes on with what it remembers"
    store.is_away = False

    for memory in memories.values():
        exchange = under_way(memory, await look(memory, view), view, read_turn(view), Tier.FAST)
        exchange.note(StateRefused(TARGETS["spark"], ("piece",)))
        finish(exchange, TARGETS["spark"], 9)
        await memory._known.sessions.close()

    state = (await look(SessionMemory(store, clock), view)).state
    assert state.tier is list(Tier)[-1]
    assert state.origins
