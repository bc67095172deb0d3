"""What is remembered of a session: what its requests leave, in whichever order they come."""

import pytest
from msgspec.structs import replace

from router.contract.clock import Clock as ProcessClock
from router.contract.facts import Decided, FirstByte, StateRefused
from router.contract.signals import Wish
from router.contract.words import Dialect, Outcome, Tier, TurnKind
from router.dialects.opaque import is_foreign
from router.sense.models import ModelNames
from router.sessions.memory import SessionMemory
from router.sessions.turns import read_turn
from router.stores.memory.entries import NoSessions
from tests.tools.sessions import (
    FOR_SESSION,
    TARGETS,
    Clock,
    SharedSessions,
    answer,
    chat,
    finish,
    look,
    step,
    under_way,
)
from tests.tools.values import make_view


async def test_what_is_warm_cools_when_its_minutes_are_over():
    clock = Clock()
    memory = SessionMemory(NoSessions(), clock)
    view = chat("hello", prompt_cache_key="s")
    await step(memory, view, Tier.DEEP, tokens=50_000)

    assert (await look(memory, view)).position.warm == {"sage": 50_000}
    clock.now += 301
    assert (await look(memory, view)).position.warm == {}


async def test_a_leap_of_the_clock_ends_no_session_and_a_week_does(monkeypatch):
    wall, uptime = Clock(), Clock()
    monkeypatch.setattr("router.sessions.memory.time.time", wall)
    monkeypatch.setattr("router.sessions.memory.CLOCK", ProcessClock(wall, uptime))
    memory, view = SessionMemory(NoSessions()), chat("hello", prompt_cache_key="s")
    await step(memory, view, Tier.DEEP, tokens=50_000)

    wall.now += 40 * 86_400.0
    assert (await look(memory, view)).position.tier is Tier.DEEP
    wall.now -= 32 * 86_400.0
    uptime.now += 8 * 86_400.0
    assert (await look(memory, view)).position.tier is None


@pytest.fixture
def memory():
    return SessionMemory(NoSessions())


@pytest.mark.parametrize("outcome", [outcome for outcome in Outcome if outcome is not Outcome.SERVED])
async def test_an_answer_that_was_not_served_in_full_leaves_nothing_warm(memory, outcome):
    view = chat("hello", prompt_cache_key="s")
    exchange = answer(memory, await look(memory, view), view, read_turn(view), Tier.DEEP, TARGETS["sage"])

    finish(exchange, TARGETS["sage"], 50_000, outcome)

    found = await look(memory, view)
    assert (found.state.target, found.position.warm) == ("sage", {})


@pytest.mark.parametrize("kind", [TurnKind.SIDE, TurnKind.PREWARM, TurnKind.COMPACTION])
async def test_what_is_no_turn_of_the_persons_leaves_the_session_where_it_is(memory, kind):
    view = chat("hello", prompt_cache_key="s")
    await step(memory, view, Tier.DEEP)
    aside = replace(read_turn(view), kind=kind)
    snapshot = await memory.recall(view, aside)

    finish(answer(memory, snapshot, view, aside, Tier.FAST, TARGETS["spark"]), TARGETS["spark"], 10)

    assert (await look(memory, view)).position.tier is Tier.DEEP


def thinking(signature: str) -> dict:
    blocks = [{"type": "thinking", "thinking": "hm", "signature": signature}, {"type": "text", "text": "yes"}]
    return {"role": "assistant", "content": blocks}


BEGIN, FURTHER = ({"role": "user", "content": text} for text in ("begin", "go further"))


def claude(*messages: dict):
    """A conversation of a named session: its beginning, or all up to a later message."""
    said = [BEGIN, *messages, FURTHER] if messages else [BEGIN]
    return make_view({"max_tokens": 9, "messages": said}, Dialect.MESSAGES, {"x-claude-code-session-id": "s"})


async def test_hidden_state_belongs_to_who_answered_last_and_stays_theirs(memory):
    await step(memory, claude(), Tier.DEEP)
    await step(memory, claude(thinking("one")), Tier.FAST)

    origins = (await look(memory, claude(thinking("one"), FURTHER, thinking("two")))).origins

    assert list(origins.values()) == ["sage", "spark"]


async def test_state_that_was_there_before_anyone_remembered_has_no_maker(memory):
    assert (await look(memory, claude(thinking("unknown")))).origins == {}


async def test_an_answer_that_only_began_already_owns_what_comes_back(memory):
    await step(memory, claude(), Tier.FAST)
    view = claude(thinking("one"))
    turn = read_turn(view)
    answer(memory, await memory.recall(view, turn), view, turn, Tier.DEEP, TARGETS["sage"])

    origins = (await look(memory, claude(thinking("one"), FURTHER, thinking("cut short")))).origins

    assert list(origins.values()) == ["spark", "sage"]


async def test_a_piece_that_was_refused_is_kept_from_that_target_alone(memory):
    view = claude(thinking("old"))
    snapshot = await step(memory, view)
    under_way(memory, snapshot, view, read_turn(view), Tier.FAST).note(StateRefused(TARGETS["spark"], ("piece",)))

    origins = (await look(memory, view)).origins

    assert is_foreign(origins["piece"], "spark")
    assert not is_foreign(origins["piece"], "sage")


async def test_a_conversation_that_became_shorter_has_nothing_warm(memory):
    await step(memory, chat("a", "b", "c", prompt_cache_key="s"), tokens=90_000)

    assert (await look(memory, chat("summary", prompt_cache_key="s"))).position.warm == {}


async def test_a_subagent_has_a_memory_of_its_own(memory):
    headers = {"user-agent": "claude-cli/2", "x-claude-code-session-id": "s", "x-claude-code-agent-id": "a1"}
    use = {"role": "assistant", "content": [{"type": "tool_use", "id": "t", "name": "Bash", "input": {}}]}
    result = {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t", "content": "ok"}]}
    begin = {"role": "user", "content": "look around"}
    await step(memory, make_view({"max_tokens": 9, "messages": [begin]}, Dialect.MESSAGES, headers), Tier.DEEP)

    place = (
        await look(memory, make_view({"max_tokens": 9, "messages": [begin, use, result]}, Dialect.MESSAGES, headers))
    ).position

    assert (place.tier, place.is_running) == (Tier.DEEP, True)


async def test_a_name_that_changes_in_a_shortened_history_is_newer_than_what_is_remembered():
    memory, names = SessionMemory(NoSessions()), ModelNames({}, ())
    long = chat("a", "b", "c", "d", "e", prompt_cache_key="s")
    await step(memory, replace(long, overrides=FOR_SESSION))

    async def named(name: str, *said: str):
        view = chat(*said, prompt_cache_key="s")
        turn = read_turn(view)
        found = await memory.recall(view, turn, names.resolve(name))
        finish(answer(memory, found, view, turn, Tier.FAST, TARGETS["spark"]), TARGETS["spark"], 9)
        return found

    assert (await named("auto", "summary")).wish == Wish(Tier.DEEP)
    for said in (("summary", "x", "y"), ("summary", "x", "y", "z", "more")):
        found = await named("fast", *said)
        assert found.wish is None


def side_view():
    """A title request of the same session, as opencode sends it beside the first ask."""
    return make_view(
        {"messages": [{"role": "user", "content": "Generate a title for this conversation: build it"}], "prompt_cache_key": "s"}
    )


@pytest.mark.parametrize("order", ["title first", "ask first", "title looks, ask answers, title answers"])
async def test_a_title_request_beside_the_first_ask_leaves_what_either_order_would_leave(memory, order):
    title, first = side_view(), chat("build the whole thing", prompt_cache_key="s")
    title_turn, ask_turn = read_turn(title), read_turn(first)
    assert title_turn.kind is TurnKind.SIDE
    titled, asked = await memory.recall(title, title_turn), await memory.recall(first, ask_turn)

    def answer_title():
        finish(answer(memory, titled, title, title_turn, Tier.FAST, TARGETS["spark"]), TARGETS["spark"], 100)

    def answer_ask():
        finish(answer(memory, asked, first, ask_turn, Tier.DEEP, TARGETS["sage"]), TARGETS["sage"], 900)

    for answers in (answer_title, answer_ask) if order == "title first" else (answer_ask, answer_title):
        answers()

    found = await memory.recall(first, replace(ask_turn, kind=TurnKind.TOOL_LOOP, goes_on=True))
    assert (found.position.tier, found.position.is_running) == (Tier.DEEP, True)
    assert found.position.warm == {"sage": 900}


async def test_two_asks_in_flight_both_keep_what_they_made_warm(memory):
    view = chat("one", prompt_cache_key="s")
    turn = read_turn(view)
    one, other = await memory.recall(view, turn), await memory.recall(view, turn)

    begun = [
        answer(memory, snapshot, view, turn, TARGETS[name].tier, TARGETS[name])
        for snapshot, name in ((one, "spark"), (other, "sage"))
    ]
    finish(begun[1], TARGETS["sage"], 500)
    finish(begun[0], TARGETS["spark"], 400)

    assert (await memory.recall(view, turn)).position.warm == {"spark": 400, "sage": 500}


async def test_a_refused_piece_stays_refused_beside_a_request_that_looked_before(memory):
    await step(memory, claude())
    view = claude(thinking("one"))
    turn = read_turn(view)
    first, beside = await memory.recall(view, turn), await memory.recall(view, turn)
    ((key, _),) = first.origins.items()

    under_way(memory, first, view, turn, Tier.FAST).note(StateRefused(TARGETS["spark"], (key,)))
    answer(memory, beside, view, turn, Tier.FAST, TARGETS["spark"])

    assert is_foreign((await look(memory, view)).origins[key], "spark")


class Confirming:
    """Keeps what an answer is to wait for."""

    def __init__(self) -> None:
        self.writes: list = []

    def wait_for(self, kind: str, written) -> None:
        self.writes.append((kind, written))


async def test_where_routers_share_sessions_a_stream_waits_until_its_beginning_is_stored():
    store = SharedSessions()
    memory, view = SessionMemory(store), replace(chat("one", prompt_cache_key="s"), is_streaming=True)
    exchange = under_way(memory, await look(memory, view), view, read_turn(view), Tier.DEEP)
    exchange.confirming = confirming = Confirming()

    exchange.note(FirstByte(TARGETS["sage"]))
    ((kind, written),) = confirming.writes
    assert (kind, store.records) == ("sessions", {})
    await written

    assert (await look(SessionMemory(store), view)).state.target == "sage"
    finish(exchange, TARGETS["sage"], 900)
    assert len(confirming.writes) == 1, "what is noted at the end is stored, and not waited for"
    await memory._known.sessions.close()
    assert (await look(SessionMemory(store), view)).position.warm == {"sage": 900}


async def test_where_routers_share_sessions_an_answer_in_one_piece_is_stored_once_with_its_end():
    store = SharedSessions()
    memory, view = SessionMemory(store), chat("one", prompt_cache_key="s")
    exchange = under_way(memory, await look(memory, view), view, read_turn(view), Tier.DEEP)
    exchange.confirming = confirming = Confirming()
    before = store.trips

    exchange.note(FirstByte(TARGETS["sage"]))
    finish(exchange, TARGETS["sage"], 900)
    ((_, written),) = confirming.writes
    await written

    found = await look(SessionMemory(store), view)
    assert (found.state.target, found.position.warm) == ("sage", {"sage": 900})
    assert store.trips == before + 2, "one to store it, and one to look"


async def test_a_known_piece_that_was_refused_goes_to_no_target_any_more(memory):
    await step(memory, claude())
    view = claude(thinking("one"))
    turn = read_turn(view)
    snapshot = await memory.recall(view, turn)
    (key,) = snapshot.origins

    under_way(memory, snapshot, view, turn, Tier.FAST).note(StateRefused(TARGETS["sage"], (key,)))

    origin = (await look(memory, view)).origins[key]
    assert [is_foreign(origin, target) for target in TARGETS] == [True] * len(TARGETS)


async def test_objections_are_known_to_the_next_turn_and_no_longer_after_it(memory):
    view = chat("fix the typo", prompt_cache_key="s")
    snapshot, turn = await look(memory, view), read_turn(view)
    exchange = answer(memory, snapshot, view, turn, Tier.FAST, TARGETS["spark"])

    memory.note_objections(exchange.last(Decided))

    following = chat("fix the typo", "done", "fix it", prompt_cache_key="s")
    assert (await look(memory, following)).state.has_objections
    await step(memory, following)
    assert not (
        await look(memory, chat("fix the typo", "done", "fix it", "done", "yes", prompt_cache_key="s"))
    ).state.has_objections
