import pytest

from router.contract.request import InBand, Overrides
from router.contract.words import Dialect, Tier, TurnKind
from router.dialects.opaque import is_foreign
from router.ledger.sessions import NoSessions, SqliteSessions
from router.ledger.sqlite import SqliteLedger
from router.sessions.memory import SessionMemory
from router.sessions.turn_state import TURN_STATE
from router.sessions.turns import read_turn
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
    return make_view({"messages": messages, **body})._replace(caller=caller)


def step(memory: SessionMemory, view, tier: Tier = Tier.FAST, tokens: int = 1_000):
    """One request, decided and served; what it found before."""
    turn = read_turn(view)
    snapshot = memory.recall(view, turn)
    target = TARGETS["spark" if tier is Tier.FAST else "sage"]
    memory.note_answer(snapshot, view, turn, tier, target)
    memory.note_served(snapshot, view, turn, target.name, tokens)
    memory.save(snapshot)
    return snapshot


def look(memory: SessionMemory, view):
    return memory.recall(view, read_turn(view))


def tool_loop(*calls: str):
    messages = [{"role": "user", "content": "fix the typo in calc.py"}]
    for name in calls:
        made = {"id": name, "type": "function", "function": {"name": "shell", "arguments": "{}"}}
        messages.append({"role": "assistant", "content": None, "tool_calls": [made]})
        messages.append({"role": "tool", "tool_call_id": name, "content": "ok"})
    return make_view({"messages": messages})


def test_a_tool_loop_is_running_where_its_ask_went_and_another_ask_is_not():
    memory = SessionMemory(NoSessions(), TARGETS)
    step(memory, tool_loop(), Tier.DEEP)

    running = look(memory, tool_loop("a", "b")).position
    fresh = look(memory, chat("fix the typo in calc.py", "Done.", "and now the other one")).position

    assert (running.tier, running.is_running) == (Tier.DEEP, True)
    assert (fresh.tier, fresh.is_running) == (Tier.DEEP, False)


def test_a_history_that_does_not_extend_what_is_remembered_is_a_new_session():
    memory = SessionMemory(NoSessions(), TARGETS)
    step(memory, chat("hello"), Tier.DEEP)
    step(memory, chat("hello", "hi", "do it"), Tier.DEEP)

    assert look(memory, chat("hello", "hi", "do it", "done", "more")).position.tier is Tier.DEEP
    assert look(memory, chat("hello")).position.tier is None
    assert look(memory, chat("hello", "another answer", "do that")).position.tier is None


def test_two_callers_with_the_same_conversation_never_see_each_others_memory():
    memory = SessionMemory(NoSessions(), TARGETS)
    step(memory, chat("hello", prompt_cache_key="same", caller="ann"), Tier.DEEP)

    assert look(memory, chat("hello", prompt_cache_key="same", caller="ann")).position.tier is Tier.DEEP
    assert look(memory, chat("hello", prompt_cache_key="same", caller="bob")).position.tier is None


def test_what_is_warm_cools_when_its_minutes_are_over():
    clock = Clock()
    memory = SessionMemory(NoSessions(), TARGETS, clock)
    view = chat("hello", prompt_cache_key="s")
    step(memory, view, Tier.DEEP, tokens=50_000)

    assert look(memory, view).position.warm == {"sage": 50_000}
    clock.now += 301
    assert look(memory, view).position.warm == {}


@pytest.mark.parametrize("kind", [TurnKind.SIDE, TurnKind.PREWARM, TurnKind.COMPACTION])
def test_what_is_no_turn_of_the_persons_leaves_the_session_where_it_is(kind):
    memory = SessionMemory(NoSessions(), TARGETS)
    view = chat("hello", prompt_cache_key="s")
    step(memory, view, Tier.DEEP)
    aside = read_turn(view)._replace(kind=kind)
    snapshot = memory.recall(view, aside)

    memory.note_answer(snapshot, view, aside, Tier.FAST, TARGETS["spark"])
    memory.note_served(snapshot, view, aside, "spark", 10)

    assert look(memory, view).position.tier is Tier.DEEP


def thinking(signature: str) -> dict:
    blocks = [{"type": "thinking", "thinking": "hm", "signature": signature}, {"type": "text", "text": "yes"}]
    return {"role": "assistant", "content": blocks}


def claude(*messages: dict):
    said = [{"role": "user", "content": "begin"}, *messages, {"role": "user", "content": "go further"}]
    return make_view({"max_tokens": 9, "messages": said}, Dialect.MESSAGES, {"x-claude-code-session-id": "s"})


def test_hidden_state_belongs_to_who_answered_last_and_stays_theirs():
    memory = SessionMemory(NoSessions(), TARGETS)
    begin = make_view(
        {"max_tokens": 9, "messages": [{"role": "user", "content": "begin"}]},
        Dialect.MESSAGES,
        {"x-claude-code-session-id": "s"},
    )
    step(memory, begin, Tier.DEEP)
    step(memory, claude(thinking("one")), Tier.FAST)

    origins = look(memory, claude(thinking("one"), {"role": "user", "content": "go further"}, thinking("two"))).origins

    assert list(origins.values()) == ["sage", "spark"]


def test_state_that_was_there_before_anyone_remembered_has_no_maker():
    memory = SessionMemory(NoSessions(), TARGETS)

    assert look(memory, claude(thinking("unknown"))).origins == {}


def test_memory_survives_a_restart_without_any_text(tmp_path):
    path = tmp_path / "t.db"
    ledger = SqliteLedger(path, keep_days=1, explain=lambda entry: {}, on_failure=lambda *_: None)
    first = SqliteSessions(path, on_failure=lambda *_: None)
    memory = SessionMemory(first, TARGETS)
    step(memory, tool_loop(), Tier.DEEP)
    memory.close()

    again = SessionMemory(SqliteSessions(path, on_failure=lambda *_: None), TARGETS)
    place = look(again, tool_loop("a")).position
    again.close()
    ledger.close()

    assert (place.tier, place.is_running) == (Tier.DEEP, True)
    assert b"typo" not in path.read_bytes()


def test_the_longest_unused_session_is_forgotten_first():
    memory = SessionMemory(NoSessions(), TARGETS)
    for number in range(4_100):
        step(memory, chat("x", prompt_cache_key=f"s{number}"))

    assert look(memory, chat("x", prompt_cache_key="s0")).position.tier is None
    assert look(memory, chat("x", prompt_cache_key="s4099")).position.tier is Tier.FAST


def codex(state: str | None = None):
    item = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "fix it now please"}]}
    call = {"type": "function_call", "call_id": "c", "name": "shell", "arguments": "{}"}
    result = {"type": "function_call_output", "call_id": "c", "output": "ok"}
    headers = {"user-agent": "codex_exec/0.166", "thread-id": "t", **({TURN_STATE: state} if state else {})}
    return make_view({"input": [item, call, result]}, Dialect.RESPONSES, headers)


def test_codex_carries_the_tier_of_its_turn_itself_and_cannot_invent_one():
    memory = SessionMemory(NoSessions(), TARGETS)
    view = codex()
    token = memory.mint_turn_state(step(memory, view, Tier.DEEP), view, read_turn(view), Tier.DEEP, Tier.DEEP)

    after_a_restart = SessionMemory(NoSessions(), TARGETS)
    carried = look(after_a_restart, codex(token)).position
    forged = [
        look(after_a_restart, codex(text)).position for text in (token.replace("deep", "fast"), "tandem.fast.é", "x", "tandem.")
    ]

    assert (carried.tier, carried.is_running) == (Tier.DEEP, True)
    assert not any(place.is_running for place in forged)
    assert memory.mint_turn_state(step(memory, chat("x")), chat("x"), read_turn(chat("x")), Tier.FAST, Tier.FAST) is None


def test_an_answer_that_only_began_already_owns_what_comes_back():
    memory = SessionMemory(NoSessions(), TARGETS)
    user = {"role": "user", "content": "begin"}
    headers = {"x-claude-code-session-id": "s"}
    step(memory, make_view({"max_tokens": 9, "messages": [user]}, Dialect.MESSAGES, headers), Tier.FAST)
    view = claude(thinking("one"))
    turn = read_turn(view)
    memory.note_answer(memory.recall(view, turn), view, turn, Tier.DEEP, TARGETS["sage"])

    origins = look(memory, claude(thinking("one"), {"role": "user", "content": "go further"}, thinking("cut short"))).origins

    assert list(origins.values()) == ["spark", "sage"]


def test_one_busy_moment_does_not_move_a_turn_down_and_a_stand_in_above_keeps_it():
    memory = SessionMemory(NoSessions(), TARGETS)
    view = tool_loop()
    snapshot = memory.recall(view, read_turn(view))
    memory.note_answer(snapshot, view, read_turn(view), Tier.DEEP, TARGETS["spark"])
    assert look(memory, tool_loop("a")).position.tier is Tier.DEEP

    again = SessionMemory(NoSessions(), TARGETS)
    snapshot = again.recall(view, read_turn(view))
    again.note_answer(snapshot, view, read_turn(view), Tier.FAST, TARGETS["sage"])
    assert look(again, tool_loop("a")).position.tier is Tier.DEEP


def test_a_piece_that_was_refused_is_kept_from_that_target_alone():
    memory = SessionMemory(NoSessions(), TARGETS)
    view = claude(thinking("old"))
    snapshot = step(memory, view)
    memory.note_refused(snapshot, "spark", ("piece",))

    origins = look(memory, view).origins

    assert is_foreign(origins["piece"], "spark")
    assert not is_foreign(origins["piece"], "sage")


def test_a_conversation_that_became_shorter_has_nothing_warm():
    memory = SessionMemory(NoSessions(), TARGETS)
    step(memory, chat("a", "b", "c", prompt_cache_key="s"), tokens=90_000)

    assert look(memory, chat("summary", prompt_cache_key="s")).position.warm == {}


def test_a_subagent_has_a_memory_of_its_own():
    memory = SessionMemory(NoSessions(), TARGETS)
    headers = {"user-agent": "claude-cli/2", "x-claude-code-session-id": "s", "x-claude-code-agent-id": "a1"}
    use = {"role": "assistant", "content": [{"type": "tool_use", "id": "t", "name": "Bash", "input": {}}]}
    result = {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t", "content": "ok"}]}
    begin = {"role": "user", "content": "look around"}
    step(memory, make_view({"max_tokens": 9, "messages": [begin]}, Dialect.MESSAGES, headers), Tier.DEEP)

    place = look(memory, make_view({"max_tokens": 9, "messages": [begin, use, result]}, Dialect.MESSAGES, headers)).position

    assert (place.tier, place.is_running) == (Tier.DEEP, True)


def test_a_wish_for_the_session_outlives_an_older_line_and_yields_to_a_newer_one():
    memory = SessionMemory(NoSessions(), TARGETS)
    view = chat("one", "x", "two", prompt_cache_key="s")
    step(memory, view._replace(overrides=Overrides(tier=Tier.DEEP, for_session=True)))

    older = look(memory, view._replace(overrides=Overrides(line=InBand(Tier.FAST, 0))))
    newer = look(
        memory, chat("one", "x", "two", "y", "z", prompt_cache_key="s")._replace(overrides=Overrides(line=InBand(Tier.FAST, 4)))
    )

    assert (older.heeds_line, older.wish) == (False, Tier.DEEP)
    assert newer.heeds_line


def test_stored_state_that_makes_no_sense_is_no_memory():
    class Broken(NoSessions):
        def load(self, key: str) -> bytes | None:
            return b'{"tier": "medium", "at": 9e9}'

    assert look(SessionMemory(Broken(), TARGETS), chat("x")).position.tier is None


def side_view():
    """A title request of the same session, as opencode sends it beside the first ask."""
    return make_view(
        {"messages": [{"role": "user", "content": "Generate a title for this conversation: build it"}], "prompt_cache_key": "s"}
    )


@pytest.mark.parametrize("order", ["title first", "ask first", "title looks, ask answers, title answers"])
def test_a_title_request_beside_the_first_ask_leaves_what_either_order_would_leave(order):
    memory = SessionMemory(NoSessions(), TARGETS)
    title, first = side_view(), chat("build the whole thing", prompt_cache_key="s")
    title_turn, ask_turn = read_turn(title), read_turn(first)
    assert title_turn.kind is TurnKind.SIDE
    titled, asked = memory.recall(title, title_turn), memory.recall(first, ask_turn)

    def answer_title():
        memory.note_answer(titled, title, title_turn, Tier.FAST, TARGETS["spark"])
        memory.save(titled)

    def answer_ask():
        memory.note_answer(asked, first, ask_turn, Tier.DEEP, TARGETS["sage"])
        memory.note_served(asked, first, ask_turn, "sage", 900)
        memory.save(asked)

    for step in (answer_title, answer_ask) if order == "title first" else (answer_ask, answer_title):
        step()

    found = memory.recall(first, ask_turn._replace(kind=TurnKind.TOOL_LOOP, goes_on=True))
    assert (found.position.tier, found.position.is_running) == (Tier.DEEP, True)
    assert found.position.warm == {"sage": 900}


def test_two_asks_in_flight_both_keep_what_they_made_warm():
    memory = SessionMemory(NoSessions(), TARGETS)
    view = chat("one", prompt_cache_key="s")
    turn = read_turn(view)
    one, other = memory.recall(view, turn), memory.recall(view, turn)

    for snapshot, name in ((one, "spark"), (other, "sage")):
        memory.note_answer(snapshot, view, turn, TARGETS[name].tier, TARGETS[name])
    memory.note_served(other, view, turn, "sage", 500)
    memory.note_served(one, view, turn, "spark", 400)

    assert memory.recall(view, turn).position.warm == {"spark": 400, "sage": 500}
