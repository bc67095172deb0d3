import json

import pytest
from msgspec.structs import replace

from router.contract.caller import Caller
from router.contract.entry import Attempt
from router.contract.facts import AttemptEnded, Ending, FirstByte, Settled, StateRefused
from router.contract.request import InBand, Overrides
from router.contract.session import SessionState
from router.contract.signals import Alias
from router.contract.usage import Usage
from router.contract.words import Dialect, Outcome, Tier, TurnKind
from router.dialects.beginnings import clear
from router.dialects.opaque import is_foreign
from router.sense.models import ModelNames
from router.sessions.memory import SessionMemory, carried_headers
from router.sessions.turn_state import TURN_STATE
from router.sessions.turns import read_turn
from router.stores.memory.sessions import NoSessions
from router.stores.sqlite.migrate import LEDGER
from router.stores.sqlite.sessions import SqliteSessions
from router.stores.sqlite.writer import SqliteWriter
from tests.tools.exchanges import make_decided, make_decision, make_exchange
from tests.tools.sinks import RecordingSink
from tests.tools.values import make_target, make_view

TARGETS = {"spark": make_target(), "sage": make_target("sage", Tier.DEEP)}


class Clock:
    def __init__(self) -> None:
        self.now = 1_000.0

    def __call__(self) -> float:
        return self.now


def chat(*said: str, caller: str = "local", **body):
    """A conversation whose speakers take turns, the user first."""
    roles = ("user", "assistant")
    messages = [{"role": roles[index % 2], "content": text} for index, text in enumerate(said)]
    return replace(make_view({"messages": messages, **body}), caller=Caller(caller))


def under_way(memory: SessionMemory, snapshot, view, turn, tier: Tier):
    """A request of the session, decided."""
    exchange = make_exchange(memory)
    exchange.note(make_decided(view, make_decision(tier, turn=turn), snapshot))
    return exchange


def answer(memory: SessionMemory, snapshot, view, turn, tier: Tier, target):
    """Its answer begins."""
    exchange = under_way(memory, snapshot, view, turn, tier)
    exchange.note(FirstByte(target))
    return exchange


def finish(exchange, target, tokens: int) -> None:
    """Its answer is complete."""
    usage = Usage(tokens, 0)
    exchange.note(AttemptEnded(1.0, target, Attempt(target.name, 200, None, 1.0), None, usage, None, True))
    exchange.note(Settled(1.0, Ending(Outcome.SERVED, 200)))


async def step(memory: SessionMemory, view, tier: Tier = Tier.FAST, tokens: int = 1_000):
    """One request, decided and served; what it found before."""
    turn = read_turn(view)
    snapshot = await memory.recall(view, turn)
    target = TARGETS["spark" if tier is Tier.FAST else "sage"]
    finish(answer(memory, snapshot, view, turn, tier, target), target, tokens)
    return snapshot


async def look(memory: SessionMemory, view):
    return await memory.recall(view, read_turn(view))


def tool_loop(*calls: str):
    messages = [{"role": "user", "content": "fix the typo in calc.py"}]
    for name in calls:
        made = {"id": name, "type": "function", "function": {"name": "shell", "arguments": "{}"}}
        messages.append({"role": "assistant", "content": None, "tool_calls": [made]})
        messages.append({"role": "tool", "tool_call_id": name, "content": "ok"})
    return make_view({"messages": messages})


async def test_a_tool_loop_is_running_where_its_ask_went_and_another_ask_is_not():
    memory = SessionMemory(NoSessions())
    await step(memory, tool_loop(), Tier.DEEP)

    running = (await look(memory, tool_loop("a", "b"))).position
    fresh = (await look(memory, chat("fix the typo in calc.py", "Done.", "and now the other one"))).position

    assert (running.tier, running.is_running) == (Tier.DEEP, True)
    assert (fresh.tier, fresh.is_running) == (Tier.DEEP, False)


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


async def test_what_is_warm_cools_when_its_minutes_are_over():
    clock = Clock()
    memory = SessionMemory(NoSessions(), clock)
    view = chat("hello", prompt_cache_key="s")
    await step(memory, view, Tier.DEEP, tokens=50_000)

    assert (await look(memory, view)).position.warm == {"sage": 50_000}
    clock.now += 301
    assert (await look(memory, view)).position.warm == {}


@pytest.mark.parametrize("kind", [TurnKind.SIDE, TurnKind.PREWARM, TurnKind.COMPACTION])
async def test_what_is_no_turn_of_the_persons_leaves_the_session_where_it_is(kind):
    memory = SessionMemory(NoSessions())
    view = chat("hello", prompt_cache_key="s")
    await step(memory, view, Tier.DEEP)
    aside = replace(read_turn(view), kind=kind)
    snapshot = await memory.recall(view, aside)

    finish(answer(memory, snapshot, view, aside, Tier.FAST, TARGETS["spark"]), TARGETS["spark"], 10)

    assert (await look(memory, view)).position.tier is Tier.DEEP


def thinking(signature: str) -> dict:
    blocks = [{"type": "thinking", "thinking": "hm", "signature": signature}, {"type": "text", "text": "yes"}]
    return {"role": "assistant", "content": blocks}


def claude(*messages: dict):
    said = [{"role": "user", "content": "begin"}, *messages, {"role": "user", "content": "go further"}]
    return make_view({"max_tokens": 9, "messages": said}, Dialect.MESSAGES, {"x-claude-code-session-id": "s"})


async def test_hidden_state_belongs_to_who_answered_last_and_stays_theirs():
    memory = SessionMemory(NoSessions())
    begin = make_view(
        {"max_tokens": 9, "messages": [{"role": "user", "content": "begin"}]},
        Dialect.MESSAGES,
        {"x-claude-code-session-id": "s"},
    )
    await step(memory, begin, Tier.DEEP)
    await step(memory, claude(thinking("one")), Tier.FAST)

    origins = (await look(memory, claude(thinking("one"), {"role": "user", "content": "go further"}, thinking("two")))).origins

    assert list(origins.values()) == ["sage", "spark"]


async def test_state_that_was_there_before_anyone_remembered_has_no_maker():
    memory = SessionMemory(NoSessions())

    assert (await look(memory, claude(thinking("unknown")))).origins == {}


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


def codex(state: str | None = None):
    item = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "fix it now please"}]}
    call = {"type": "function_call", "call_id": "c", "name": "shell", "arguments": "{}"}
    result = {"type": "function_call_output", "call_id": "c", "output": "ok"}
    headers = {"user-agent": "codex_exec/0.166", "thread-id": "t", **({TURN_STATE: state} if state else {})}
    return make_view({"input": [item, call, result]}, Dialect.RESPONSES, headers)


async def test_codex_carries_the_tier_of_its_turn_itself_and_cannot_invent_one():
    memory = SessionMemory(NoSessions())
    view = codex()
    session = await step(memory, view, Tier.DEEP)
    minted = carried_headers(session, view, make_decision(Tier.DEEP, turn=read_turn(view)))
    ((_, token),) = minted[Tier.DEEP]

    after_a_restart = SessionMemory(NoSessions())
    carried = (await look(after_a_restart, codex(token))).position
    forged = [
        (await look(after_a_restart, codex(text))).position
        for text in (token.replace("deep", "fast"), "tandem.fast.é", "x", "tandem.")
    ]

    assert (carried.tier, carried.is_running) == (Tier.DEEP, True)
    assert not any(position.is_running for position in forged)
    assert minted[Tier.FAST] == minted[Tier.DEEP]
    assert carried_headers(session, chat("x"), make_decision(turn=read_turn(chat("x")))) == {}


async def test_a_turn_that_spilled_up_is_carried_as_deep():
    view = codex()
    session = await SessionMemory(NoSessions()).recall(view, read_turn(view))
    minted = carried_headers(session, view, make_decision(Tier.FAST, turn=read_turn(view)))

    assert [minted[tier][0][1].split(".")[1] for tier in Tier] == ["fast", "deep"]


async def test_an_answer_that_only_began_already_owns_what_comes_back():
    memory = SessionMemory(NoSessions())
    user = {"role": "user", "content": "begin"}
    headers = {"x-claude-code-session-id": "s"}
    await step(memory, make_view({"max_tokens": 9, "messages": [user]}, Dialect.MESSAGES, headers), Tier.FAST)
    view = claude(thinking("one"))
    turn = read_turn(view)
    answer(memory, await memory.recall(view, turn), view, turn, Tier.DEEP, TARGETS["sage"])

    origins = (
        await look(memory, claude(thinking("one"), {"role": "user", "content": "go further"}, thinking("cut short")))
    ).origins

    assert list(origins.values()) == ["spark", "sage"]


async def test_one_busy_moment_does_not_move_a_turn_down_and_a_stand_in_above_keeps_it():
    memory = SessionMemory(NoSessions())
    view = tool_loop()
    snapshot = await memory.recall(view, read_turn(view))
    answer(memory, snapshot, view, read_turn(view), Tier.DEEP, TARGETS["spark"])
    assert (await look(memory, tool_loop("a"))).position.tier is Tier.DEEP

    again = SessionMemory(NoSessions())
    snapshot = await again.recall(view, read_turn(view))
    answer(again, snapshot, view, read_turn(view), Tier.FAST, TARGETS["sage"])
    assert (await look(again, tool_loop("a"))).position.tier is Tier.DEEP


async def test_a_piece_that_was_refused_is_kept_from_that_target_alone():
    memory = SessionMemory(NoSessions())
    view = claude(thinking("old"))
    snapshot = await step(memory, view)
    under_way(memory, snapshot, view, read_turn(view), Tier.FAST).note(StateRefused(TARGETS["spark"], ("piece",)))

    origins = (await look(memory, view)).origins

    assert is_foreign(origins["piece"], "spark")
    assert not is_foreign(origins["piece"], "sage")


async def test_a_conversation_that_became_shorter_has_nothing_warm():
    memory = SessionMemory(NoSessions())
    await step(memory, chat("a", "b", "c", prompt_cache_key="s"), tokens=90_000)

    assert (await look(memory, chat("summary", prompt_cache_key="s"))).position.warm == {}


async def test_a_subagent_has_a_memory_of_its_own():
    memory = SessionMemory(NoSessions())
    headers = {"user-agent": "claude-cli/2", "x-claude-code-session-id": "s", "x-claude-code-agent-id": "a1"}
    use = {"role": "assistant", "content": [{"type": "tool_use", "id": "t", "name": "Bash", "input": {}}]}
    result = {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t", "content": "ok"}]}
    begin = {"role": "user", "content": "look around"}
    await step(memory, make_view({"max_tokens": 9, "messages": [begin]}, Dialect.MESSAGES, headers), Tier.DEEP)

    place = (
        await look(memory, make_view({"max_tokens": 9, "messages": [begin, use, result]}, Dialect.MESSAGES, headers))
    ).position

    assert (place.tier, place.is_running) == (Tier.DEEP, True)


async def test_a_wish_for_the_session_outlives_an_older_line_and_yields_to_a_newer_one():
    memory = SessionMemory(NoSessions())
    view = chat("one", "x", "two", prompt_cache_key="s")
    old = InBand(Tier.FAST, 0, is_newest=False, mark="old")
    await step(memory, replace(view, overrides=Overrides(tier=Tier.DEEP, for_session=True, line=old)))

    later = chat("one", "x", "two", "y", "z", prompt_cache_key="s")
    older = await look(memory, replace(later, overrides=Overrides(line=old)))
    newer = await look(memory, replace(later, overrides=Overrides(line=InBand(Tier.FAST, 4, mark="new"))))

    assert (older.heeds_line, older.override) == (False, Tier.DEEP)
    assert (newer.heeds_line, newer.override) == (True, None)


FOR_SESSION = Overrides(tier=Tier.DEEP, for_session=True)


def served(text: str) -> bytes:
    choice = {"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": "stop"}
    return json.dumps({"id": "c", "choices": [choice]}).encode()


async def ask_for_session(memory: SessionMemory, view, said: str) -> None:
    """A request that sets a tier for its session, and what it is answered."""
    view, turn = replace(view, overrides=FOR_SESSION), read_turn(view)
    exchange = under_way(memory, await memory.recall(view, turn), view, turn, Tier.DEEP)
    sink = memory.listen(exchange, RecordingSink())
    exchange.note(FirstByte(TARGETS["sage"]))
    sink.start(200, ())
    sink.write(served(said))
    sink.end()
    finish(exchange, TARGETS["sage"], 9)


async def test_a_guessed_session_keeps_a_tier_while_the_answer_to_the_request_that_set_it_is_in_the_history():
    memory = SessionMemory(NoSessions())
    await ask_for_session(memory, chat("hello"), "hi there")

    assert (await look(memory, chat("hello", "hi there", "do it"))).override is Tier.DEEP
    assert (await look(memory, chat("hello", "hi there", "do it", "done", "more"))).override is Tier.DEEP
    for stranger in (("hello",), ("hello", "good morning", "do it"), ("hello", "good morning", "do it", "hi there", "more")):
        assert (await look(memory, chat(*stranger))).override is None


async def test_a_stranger_that_begins_alike_does_not_take_the_tier_of_a_guessed_session_away():
    memory = SessionMemory(NoSessions())
    await ask_for_session(memory, chat("hello"), "hi there")
    await step(memory, chat("hello"))
    await step(memory, chat("hello", "good morning", "do that"))
    await step(memory, chat("hello", "hi there", "do it"))

    assert (await look(memory, chat("hello", "hi there", "do it", "done", "more"))).override is Tier.DEEP
    assert (await look(memory, chat("hello", "good morning", "do that", "done", "more"))).override is None


async def test_a_guessed_session_is_never_set_by_a_line():
    memory = SessionMemory(NoSessions())
    await step(memory, replace(chat("hello"), overrides=Overrides(line=InBand(Tier.DEEP, mark="m"))))

    assert (await look(memory, chat("hello"))).override is None
    assert (await look(memory, chat("hello", "hi", "do it"))).override is None


async def test_a_line_outlives_the_history_that_a_named_session_shortens():
    memory = SessionMemory(NoSessions())
    line = InBand(Tier.DEEP, 2, mark="m")
    await step(memory, replace(chat("a", "b", "c", prompt_cache_key="s"), overrides=Overrides(line=line)))

    short = chat("summary", prompt_cache_key="s")
    assert (await look(memory, short)).override is Tier.DEEP
    newer = await look(memory, replace(short, overrides=Overrides(line=InBand(Tier.FAST, 0, mark="n"))))
    assert (newer.override, newer.heeds_line) == (None, True)


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

    assert (await named("auto", "summary")).override is Tier.DEEP
    for said in (("summary", "x", "y"), ("summary", "x", "y", "z", "more")):
        found = await named("fast", *said)
        assert (found.override, found.heeds_name) == (None, True)


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

    assert (await named("auto", "hello", "x", "y")).name is None
    assert (await named("deep", "hello", "z", "y")).name is None


async def test_a_line_alone_is_remembered_for_a_named_session_and_survives_a_restart(tmp_path):
    store = SqliteSessions(SqliteWriter(tmp_path / "tandem.db", LEDGER, on_failure=print))
    view = chat("hello", "hi", "tier: deep", prompt_cache_key="s")

    said = await SessionMemory(store).set_tier(view, InBand(Tier.DEEP, 2, is_alone=True, mark="m"), Alias("auto"))

    assert said == "This session is set to deep."
    assert (await look(SessionMemory(store), chat("hello", "hi", "do it", prompt_cache_key="s"))).override is Tier.DEEP
    await store.close()


async def test_stored_state_that_makes_no_sense_is_no_memory():
    class Broken(NoSessions):
        async def load(self, key: str) -> bytes | None:
            return b'{"tier": "medium", "at": 9e9}'

    assert (await look(SessionMemory(Broken()), chat("x"))).position.tier is None


def side_view():
    """A title request of the same session, as opencode sends it beside the first ask."""
    return make_view(
        {"messages": [{"role": "user", "content": "Generate a title for this conversation: build it"}], "prompt_cache_key": "s"}
    )


@pytest.mark.parametrize("order", ["title first", "ask first", "title looks, ask answers, title answers"])
async def test_a_title_request_beside_the_first_ask_leaves_what_either_order_would_leave(order):
    memory = SessionMemory(NoSessions())
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


async def test_two_asks_in_flight_both_keep_what_they_made_warm():
    memory = SessionMemory(NoSessions())
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


async def test_a_call_that_overlaps_the_one_that_moved_its_turn_up_does_not_move_it_down():
    memory = SessionMemory(NoSessions())
    await step(memory, tool_loop(), Tier.FAST)
    view = tool_loop("a")
    turn = read_turn(view)
    up, beside = await memory.recall(view, turn), await memory.recall(view, turn)

    answer(memory, up, view, turn, Tier.DEEP, TARGETS["sage"])
    answer(memory, beside, view, turn, Tier.FAST, TARGETS["spark"])

    position = (await look(memory, tool_loop("a", "b"))).position
    assert (position.tier, position.has_escalated) == (Tier.DEEP, True)


async def test_a_refused_piece_stays_refused_beside_a_request_that_looked_before():
    memory = SessionMemory(NoSessions())
    user = {"role": "user", "content": "begin"}
    headers = {"x-claude-code-session-id": "s"}
    await step(memory, make_view({"max_tokens": 9, "messages": [user]}, Dialect.MESSAGES, headers))
    view = claude(thinking("one"))
    turn = read_turn(view)
    first, beside = await memory.recall(view, turn), await memory.recall(view, turn)
    ((key, _),) = first.origins.items()

    under_way(memory, first, view, turn, Tier.FAST).note(StateRefused(TARGETS["spark"], (key,)))
    answer(memory, beside, view, turn, Tier.FAST, TARGETS["spark"])

    assert is_foreign((await look(memory, view)).origins[key], "spark")


async def test_a_long_tool_loop_is_found_again_by_what_is_kept_of_its_beginning_as_by_reading_it():
    calls = [f"call {number}" for number in range(12)]
    for forget in (lambda: None, clear):
        memory = SessionMemory(NoSessions())
        await step(memory, tool_loop(*calls[:10]), Tier.DEEP)
        forget()
        found = (await look(memory, tool_loop(*calls[:11]))).state
        forget()
        await step(memory, tool_loop(*calls[:11]), Tier.DEEP)
        forget()
        later = (await look(memory, tool_loop(*calls))).state

        assert (found.messages, later.messages) == (21, 23)
        assert found.last != later.last


async def test_what_clients_change_in_a_long_history_does_not_hide_a_session_and_another_end_does():
    def noted(note: str, *calls: str):
        view = tool_loop(*calls)
        messages = [*view.body["messages"]]
        messages[-1] = {**messages[-1], "content": f"ok{note}"}
        return make_view({"messages": messages})

    memory = SessionMemory(NoSessions())
    calls = [f"call {number}" for number in range(12)]
    await step(memory, noted(" <note>", *calls[:10]), Tier.DEEP)

    assert (await look(memory, noted("", *calls[:10], "more"))).state.tier is Tier.DEEP
    assert (await look(memory, noted(" <another>", *calls[:10]))).state.tier is Tier.DEEP
    assert (await look(memory, noted("", *calls[:9], "another", "more"))).state.tier is None


@pytest.mark.parametrize("length", [3, 13, 31])
@pytest.mark.parametrize("dialect", [Dialect.CHAT, Dialect.MESSAGES])
async def test_the_mark_that_is_kept_is_the_one_that_reading_gives(length, dialect):
    clear()
    said = [{"role": ("user", "assistant")[index % 2], "content": f"say {index}"} for index in range(length)]
    body = {"messages": said, "max_tokens": 9}
    marks = []
    for _ in range(2):
        memory = SessionMemory(NoSessions())
        await step(memory, make_view(body, dialect))
        marks.append((await look(memory, make_view(body, dialect))).state.last)
        clear()
        marks.append((await look(memory, make_view(body, dialect))).state.last)

    assert len(set(marks)) == 1
    assert marks[0]
