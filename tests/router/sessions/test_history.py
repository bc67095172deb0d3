import json
from random import Random

import msgspec
import pytest

from router.contract.signals import FinishedTurn, SessionHistory
from router.contract.words import Dialect
from router.dialects.spec import NOTHING_SILENT
from router.dialects.table import SPECS
from router.sessions.clients import BY_NAME, UNKNOWN_CLIENT
from router.sessions.history import NOTHING_TOLD, _read, read_history
from router.sessions.turns import read_turn
from tests.tools.values import make_view


def chat_turn(words: str, *tools: str) -> list[dict]:
    calls = [{"id": f"c{n}", "type": "function", "function": {"name": name, "arguments": "{}"}} for n, name in enumerate(tools)]
    made = [{"role": "assistant", "content": "", "tool_calls": calls}] if calls else []
    results = [{"role": "tool", "tool_call_id": call["id"], "content": "ok"} for call in calls]
    return [{"role": "user", "content": words}, *made, *results, {"role": "assistant", "content": "Done."}]


def responses_turn(words: str, *tools: str) -> list[dict]:
    items = [{"type": "message", "role": "user", "content": [{"type": "input_text", "text": words}]}]
    for number, name in enumerate(tools):
        items.append({"type": "function_call", "call_id": f"c{number}", "name": name, "arguments": "{}"})
        items.append({"type": "function_call_output", "call_id": f"c{number}", "output": "ok"})
    return [*items, {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "Done."}]}]


def messages_turn(words: str, *tools: str) -> list[dict]:
    turn = [{"role": "user", "content": words}]
    for number, name in enumerate(tools):
        turn.append({"role": "assistant", "content": [{"type": "tool_use", "id": f"t{number}", "name": name, "input": {}}]})
        turn.append({"role": "user", "content": [{"type": "tool_result", "tool_use_id": f"t{number}", "content": "ok"}]})
    return [*turn, {"role": "assistant", "content": "Done."}]


def talk(*said: tuple[str, str]):
    return make_view({"messages": [{"role": role, "content": text} for role, text in said]}).conversation


TURNS = {Dialect.CHAT: chat_turn, Dialect.RESPONSES: responses_turn, Dialect.MESSAGES: messages_turn}


def view_of(dialect: Dialect, items: list[dict]):
    body = {"input": items} if dialect is Dialect.RESPONSES else {"messages": items, "max_tokens": 9}
    return make_view(body, dialect)


@pytest.mark.parametrize("dialect", list(TURNS))
def test_the_last_three_turns_are_read_with_their_work_whatever_the_dialect(dialect):
    turn = TURNS[dialect]
    items = [*turn("one", "read"), *turn("two"), *turn("three", "read", "edit_file", "TodoWrite"), *turn("four", "shell")]

    history = read_turn(view_of(dialect, [*items, *turn("five")[:1]])).history

    assert history == SessionHistory(4, (FinishedTurn("two", 0, 0), FinishedTurn("three", 2, 1), FinishedTurn("four", 1, 0)))


@pytest.mark.parametrize("dialect", list(TURNS))
def test_the_running_turn_is_no_history_while_its_tools_come_back(dialect):
    turn = TURNS[dialect]

    history = read_turn(view_of(dialect, [*turn("one", "read"), *turn("two", "edit", "shell")[:-1]])).history

    assert history == SessionHistory(1, (FinishedTurn("one", 1, 0),))


def test_a_rendered_item_of_the_routing_data_reads_back_as_it_was(shared):
    """The features of training and of serving are the same facts."""
    import importlib.util

    spec = importlib.util.spec_from_file_location("render", shared / "routing-data" / "render.py")
    render = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(render)
    checked = 0
    for line in (shared / "routing-data" / "dev.jsonl").read_text().splitlines()[:300]:
        item = json.loads(line)
        context = item["context"]
        if context["prior_turns"] > render.MAX_EARLIER_TURNS or not item["prompt"].strip():
            continue
        history = read_turn(make_view(render.chat_body(item))).history
        expected = [min(calls, render.MAX_CALLS) for calls in context["prior_tool_calls"]]
        if history.turns != max(context["prior_turns"], len(expected)):
            continue  # a turn whose words are all harness
        checked += 1
        assert [turn.calls for turn in history.last][-len(expected) or 3 :] == expected, item["id"]

    assert checked > 200


def test_the_persons_words_are_found_behind_answers_and_the_ones_before_them_too():
    said = [
        ("user", "one"),
        ("assistant", "a"),
        ("user", "<local-command-stdout>x</local-command-stdout>"),
        ("user", "two"),
        ("assistant", "b"),
    ]
    conversation = talk(*said)

    told = read_history(conversation, UNKNOWN_CLIENT)

    assert told.find_words(conversation, UNKNOWN_CLIENT) == "two"
    assert told.find_words(conversation, UNKNOWN_CLIENT, skip=1) == "one"
    assert told.find_words(conversation, UNKNOWN_CLIENT, skip=2) is None


def test_of_a_conversation_longer_than_any_real_one_the_end_is_read_and_its_first_words():
    said = [{"role": "user", "content": f"say {number}"} for number in range(3_000)]
    conversation = make_view({"messages": said}).conversation

    told = read_history(conversation, UNKNOWN_CLIENT)

    assert (told.turns, told.first_at, told.words_at[-1]) == (1_999, 0, 2_999)
    assert [turn.words for turn in told.last] == ["say 2996", "say 2997", "say 2998"]


def test_an_example_conversation_is_no_turn_of_the_persons():
    said = [
        ("user", "Change get_factorial() to use math.factorial"),
        ("assistant", "ok"),
        ("user", "I switched to a new code base. Please don't consider the above files or try to edit them any longer."),
        ("assistant", "Ok."),
        ("user", "rename f"),
        ("assistant", "done"),
        ("user", "and g"),
    ]
    conversation = talk(*said)

    told = read_history(conversation, BY_NAME["aider"])

    assert (told.first_at, told.turns, told.last[0].words) == (4, 1, "rename f")
    assert read_history(conversation, UNKNOWN_CLIENT).first_at == 0


def test_the_text_of_a_command_begins_no_turn():
    conversation = talk(
        ("user", "<command-name>/tidy</command-name>"), ("user", "Rewrite all."), ("assistant", "ok"), ("user", "thanks")
    )

    told = read_history(conversation, UNKNOWN_CLIENT)

    assert [turn.words for turn in told.last] == ["/tidy"]
    assert told.find_words(conversation, UNKNOWN_CLIENT, skip=1) == "/tidy"


def test_the_question_before_a_summary_is_the_persons_only_where_it_is_the_last_message():
    said = [("user", "What did we do so far?"), ("assistant", "a summary"), ("user", "Continue if you have next steps")]
    whole = talk(*said)
    asked = talk(said[0])

    assert read_history(whole, BY_NAME["opencode"]).words_at == ()
    assert read_history(asked, BY_NAME["opencode"]).words_at == (0,)


RESULTS = (
    "ok",
    "3 failed, 2 passed",
    "5 passed",
    "Exit code: 1\nno",
    "Exit code: 0\nfine",
    "Traceback (most recent call last)",
)
TOOLS = ("shell", "read_file", "edit_file", "TodoWrite", "run_tests")


def draw_loop(draw: Random) -> list[dict]:
    """A chat conversation of some turns with many calls."""
    items = [{"role": "user", "content": "begin"}]
    for number in range(draw.randrange(5, 60)):
        if draw.random() < 0.08:
            items.append({"role": "user", "content": f"and now {number}"})
        names = draw.choices(TOOLS, k=draw.choice((1, 1, 1, 2, 12)))
        calls = [
            {"id": f"c{number}.{place}", "type": "function", "function": {"name": name, "arguments": f'{{"path": "{place}"}}'}}
            for place, name in enumerate(names)
        ]
        items.append({"role": "assistant", "content": "next", "tool_calls": calls})
        items += [{"role": "tool", "tool_call_id": call["id"], "content": draw.choice(RESULTS)} for call in calls]
    return items


def as_responses(message: dict) -> list[dict]:
    if message["role"] == "tool":
        return [{"type": "function_call_output", "call_id": message["tool_call_id"], "output": message["content"]}]
    calls = [
        {"type": "function_call", "call_id": call["id"], **call["function"], "id": f"fc_{call['id']}"}
        for call in message.get("tool_calls", ())
    ]
    thought = [{"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "gAAA"}] if calls else []
    return [*thought, {"type": "message", "role": message["role"], "content": message["content"]}, *calls]


@pytest.mark.parametrize("dialect", [Dialect.CHAT, Dialect.RESPONSES])
@pytest.mark.parametrize("seed", range(30))
def test_a_history_tells_the_same_read_at_once_or_message_by_message(seed, dialect):
    items = draw_loop(Random(seed))
    if dialect is Dialect.RESPONSES:
        items = [item for message in items for item in as_responses(message)]
    conversation, silent = view_of(dialect, items).conversation, SPECS[dialect].silent

    step_by_step = NOTHING_TOLD
    for index in range(len(items)):
        step_by_step = _read(UNKNOWN_CLIENT, NOTHING_SILENT, step_by_step, conversation, index, index + 1)
    at_once = _read(UNKNOWN_CLIENT, silent, NOTHING_TOLD, conversation, 0, len(items))

    assert at_once == step_by_step
    assert at_once.work.steps


def test_what_was_learned_of_a_beginning_stays_as_it_was_when_the_conversation_goes_on():
    items = draw_loop(Random(1))
    conversation = view_of(Dialect.CHAT, items).conversation
    before = _read(UNKNOWN_CLIENT, NOTHING_SILENT, NOTHING_TOLD, conversation, 0, len(items) // 2)
    kept = msgspec.json.encode(before.work)

    _read(UNKNOWN_CLIENT, NOTHING_SILENT, before, conversation, len(items) // 2, len(items))

    assert msgspec.json.encode(before.work) == kept
