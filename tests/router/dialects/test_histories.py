"""A history is read once, and whatever is done to it, what is known of it is what reading all of it would tell."""

import gc
import json
import sys
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from router.contract.caller import LOCAL, Caller
from router.contract.digits import Digits
from router.contract.errors import BadRequest
from router.contract.exchange import Arrival
from router.contract.request import Beginning, Conversation, Message
from router.contract.words import Dialect, Operation
from router.dialects import histories, json_body
from router.dialects.histories import NO_HISTORIES, Histories, learn
from router.dialects.requests import read_request
from router.sessions.turns import read_turn

KNOWN = Histories()


@pytest.fixture(autouse=True)
def _nothing_known(monkeypatch):
    """Conversations of six messages are remembered already, however small, so that short ones try it too."""
    monkeypatch.setattr(histories, "_SHORTEST", 6)
    monkeypatch.setattr(json_body, "_SHORT_BYTES", 0)
    KNOWN.clear()


def read(item: Any) -> Message:
    return Message("user", (str(item),))


def walked(items: list, name: str = "places") -> list[int]:
    """The places that are looked at when this conversation comes."""
    places: list[int] = []

    def add_up(total: int, conversation: Conversation, start: int, stop: int) -> int:
        places.extend(range(start, stop))
        return total + sum(item["n"] for item in conversation.items[start:stop])

    assert learn(KNOWN.of(LOCAL).converse(items, read), name, 0, add_up) == sum(item["n"] for item in items)
    return places


def numbers(*values: int) -> list:
    return [{"n": value} for value in values]


def test_what_was_read_before_is_not_read_again():
    assert walked(numbers(*range(10))) == list(range(10))

    assert walked(numbers(*range(10))) == []
    assert walked(numbers(*range(12))) == [10, 11]
    assert walked(numbers(*range(40))) == list(range(12, 40))


@pytest.mark.parametrize("place", range(10))
def test_a_change_anywhere_in_the_beginning_makes_it_another(place):
    values = list(range(12))
    walked(numbers(*values))

    values[place] += 100

    assert walked(numbers(*values)) == list(range(12))


def test_a_change_in_the_last_two_messages_lets_only_these_be_read_again():
    walked(numbers(*range(12)))

    assert walked(numbers(*range(10), 77, 78, 79)) == [10, 11, 12]
    assert walked(numbers(*range(11), 88, 89, 90)) == [10, 11, 12, 13]


def test_a_fork_goes_on_from_what_both_share_and_neither_spoils_the_other():
    walked(numbers(*range(12)))
    walked(numbers(*range(12), 70, 71, 72))

    assert walked(numbers(*range(12), 80, 81, 82)) == [12, 13, 14]
    assert walked(numbers(*range(12), 70, 71, 72, 73)) == [15]


def test_one_request_that_is_read_by_several_is_known_to_each():
    walked(numbers(*range(12)), "one")

    assert walked(numbers(*range(12)), "two") == list(range(12))
    assert walked(numbers(*range(14)), "two") == [12, 13]
    assert walked(numbers(*range(16)), "one") == list(range(16))


def test_a_shorter_history_is_read_whole():
    walked(numbers(*range(40)))

    assert walked(numbers(*range(20))) == list(range(20))


def test_two_dialects_share_nothing():
    walked(numbers(*range(12)))
    seen: list[int] = []

    other = KNOWN.of(LOCAL).converse(numbers(*range(12)), lambda item: read(item))
    learn(other, "places", 0, lambda *read: seen.append(read[2]) or 1)

    assert seen == [0, 10]


def test_what_is_nested_too_deeply_to_be_marked_is_read_whole_every_time():
    deep: Any = []
    for _ in range(50_000):  # more than any Python lets C go down
        deep = [deep]
    items = [{"n": 1, "deep": deep}, *numbers(*range(9))]

    assert walked(items) == list(range(10))
    assert walked(items) == list(range(10))


def test_the_longest_unused_are_forgotten():
    walked(numbers(*range(12)))

    for number in range(histories._MAX_STARTS):
        walked(numbers(*range(number + 1, number + 13)))

    assert walked(numbers(*range(12))) == list(range(12))
    assert walked(numbers(*range(number + 1, number + 13))) == []


def test_nothing_of_a_request_is_kept_but_a_few_words():
    words = "please " * 5_000
    call = {"id": "c", "function": {"name": "write_file", "arguments": json.dumps({"path": "a.py", "content": "x" * 100_000})}}
    said = [{"role": "user", "content": words}, {"role": "assistant", "content": "y" * 100_000, "tool_calls": [call]}]
    body = {"model": "auto", "messages": [*said, {"role": "tool", "tool_call_id": "c", "content": "z" * 100_000}] * 20}

    read_turn(view_of(Dialect.CHAT, body, {}))

    assert 0 < bytes_kept() < 20_000


def test_nothing_that_somebody_else_wrote_makes_what_is_kept_grow():
    names = "\n".join(f"*** Add File: {'deep/' * 50}{number}.py" for number in range(2_000))
    calls = [{"id": f"{number}" * 5_000, "function": {"name": "edit" * 200, "arguments": names}} for number in range(100)]
    said = [{"role": "user", "content": f"tier: fast\n{'x' * 5_000}"} for _ in range(300)]
    results = [{"role": "tool", "tool_call_id": call["id"], "content": "2 failed"} for call in calls]
    body = {"model": "auto", "messages": [*said, {"role": "assistant", "tool_calls": calls}, *results]}

    read_turn(view_of(Dialect.CHAT, body, {}))

    assert 0 < bytes_kept() < 60_000


def bytes_kept() -> int:
    """Everything that can be reached from what is known, but for code and classes."""
    waiting, met, size = [KNOWN.starts], set(), 0
    while waiting:
        value = waiting.pop()
        if id(value) in met or isinstance(value, type) or callable(value):
            continue
        met.add(id(value))
        size += sys.getsizeof(value)
        waiting += gc.get_referents(value)
        if isinstance(value, Beginning):
            waiting += [value.learned]
    return size


TEXTS = (
    *("fix it", "go on", "yes", "make the tests pass", "tier: fast\nadd tests", "tier: deep\nadd tests", "tier: auto", ""),
    *("<system-reminder>x</system-reminder>", "Plan mode is active", "x" * 2_500, " " * 2_500 + "late", "ls] Result: 5"),
    *("<session>", "<environment_context>y</environment_context>do z", "[SYSTEM NOTIFICATION - NOT USER INPUT] done"),
)
RESULTS = ("ok", "2 failed, 3 passed", "5 passed", "Traceback (most recent call last)", "exited with code 1", "exit code 0")
TOOLS = ("edit_file", "read_file", "shell", "TodoWrite", "apply_patch", "")
ARGUMENTS = ('{"path": "a.py"}', '{"path": "b.py"}', "{}", '{"patch": "*** Add File: r.py"}')
HEADERS = (
    {},
    {"user-agent": "claude-cli/2"},
    {"user-agent": "codex"},
    {"user-agent": "Cline/2"},
    {"x-claude-code-agent-id": "a"},
)
LIST_FIELDS = {Dialect.CHAT: "messages", Dialect.MESSAGES: "messages", Dialect.RESPONSES: "input"}
MEDIA = {
    Dialect.CHAT: {"type": "image_url", "image_url": {"url": "data:image/png;base64,xx"}},
    Dialect.MESSAGES: {"type": "document", "source": {"data": "xxx"}},
    Dialect.RESPONSES: {"type": "input_image", "image_url": "data:image/png;base64,xx"},
}


def speak(dialect: Dialect, random: Random) -> list:
    """Somebody says something: mostly the person, at times their client or the model."""
    role = random.choice(["user", "user", "user", "assistant", "system"])
    kind = "text" if dialect is not Dialect.RESPONSES else "input_text"
    parts = [{"type": kind, "text": random.choice(TEXTS)} for _ in range(random.randint(0, 3))]
    media = [MEDIA[dialect]] if random.random() < 0.1 else []
    content = random.choice([random.choice(TEXTS), parts + media])
    return [{"role": role, "content": content}]


def work(dialect: Dialect, random: Random) -> list:
    """Some calls, and what comes back."""
    made = [
        (f"c{random.randint(0, 10**6)}", random.choice(TOOLS), random.choice(ARGUMENTS), random.choice(RESULTS))
        for _ in range(random.choice([1, 1, 1, 2, 12]))
    ]
    if dialect is Dialect.CHAT:
        calls = [{"id": key, "function": {"name": name, "arguments": arguments}} for key, name, arguments, _ in made]
        results = [{"role": "tool", "tool_call_id": key, "content": result} for key, _, _, result in made]
        return [{"role": "assistant", "content": None, "tool_calls": calls}, *results]
    if dialect is Dialect.RESPONSES:
        calls = [{"type": "function_call", "call_id": key, "name": name, "arguments": text} for key, name, text, _ in made]
        outputs = [{"type": "function_call_output", "call_id": key, "output": result} for key, _, _, result in made]
        return [{"type": "reasoning", "summary": []}, *calls, *outputs]
    uses = [{"type": "tool_use", "id": key, "name": name, "input": json.loads(text)} for key, name, text, _ in made]
    blocks = [{"type": "tool_result", "tool_use_id": key, "content": result} for key, _, _, result in made]
    said = [{"type": "text", "text": random.choice(TEXTS)}] if random.random() < 0.2 else []
    return [{"role": "assistant", "content": uses}, {"role": "user", "content": [*blocks, *said]}]


def requests_of(dialect: Dialect, random: Random) -> list[list]:
    """A conversation as it goes on over some requests, with all that clients do to one."""

    def more() -> list:
        return random.choice([speak, work, work])(dialect, random)

    items, sent = [item for _ in range(random.randint(1, 8)) for item in more()], []
    for _ in range(random.randint(1, 12)):
        sent.append(items)
        place = random.randrange(len(items))
        match random.choice(["grow"] * 6 + ["edit", "cut", "compact", "fork", "mark", "spoil", "repeat"]):
            case "edit":
                items = [*items[:place], *more(), *items[place + 1 :]]
            case "cut":
                items = items[: place + 1]
            case "compact":
                items = [*more(), *items[place:]]
            case "fork":
                items = [*random.choice(sent), *more()]
            case "mark":
                sent.append([*items[:-1], {**items[-1], "cache_control": {"type": "ephemeral"}}])
            case "spoil":
                sent.append([*items[:place], random.choice(["x", 5, None]), *items[place:]])
            case "repeat":
                pass
        items = [*items, *more()]
    return sent


def view_of(dialect: Dialect, body: dict, headers: dict, known: Histories = KNOWN, caller: Caller = LOCAL):
    return read_request(Arrival("r", dialect, Operation.CREATE, headers, json.dumps(body).encode(), caller), known)


def reading_of(dialect: Dialect, body: dict, headers: dict, known: Histories = KNOWN) -> tuple:
    """Everything that is read out of a request's history."""
    try:
        view = view_of(dialect, body, headers, known)
    except BadRequest as error:
        return str(error), error.param
    return view.system, view.needs, view.image_count, view.media_bytes, read_turn(view)


def assert_the_same_as_read_whole(requests: list[tuple[Dialect, dict, dict]]) -> None:
    KNOWN.clear()
    one_after_another = [reading_of(*request) for request in requests]

    assert one_after_another == [reading_of(*request, NO_HISTORIES) for request in requests]


@given(st.sampled_from(sorted(LIST_FIELDS)), st.sampled_from(HEADERS), st.randoms(use_true_random=False))
def test_reading_on_tells_what_reading_all_of_it_would(dialect, headers, random):
    bodies = [{"model": "auto", "max_tokens": 9, LIST_FIELDS[dialect]: items} for items in requests_of(dialect, random)]

    assert_the_same_as_read_whole([(dialect, body, headers) for body in bodies])


@given(st.sampled_from(sorted(LIST_FIELDS)), st.randoms(use_true_random=False))
def test_the_order_in_which_requests_come_changes_nothing(dialect, random):
    sent = requests_of(dialect, random)
    random.shuffle(sent)
    bodies = [{"model": "auto", "max_tokens": 9, LIST_FIELDS[dialect]: items} for items in sent]

    assert_the_same_as_read_whole([(dialect, body, {}) for body in bodies])


def test_a_message_that_is_no_object_is_named_by_its_place_however_much_was_read_before():
    messages: list = [{"role": "user", "content": f"say {number}"} for number in range(12)]
    view_of(Dialect.CHAT, {"model": "auto", "messages": messages}, {})

    for place in (3, 9, 10, 11, 12):
        spoilt = [*messages[:place], 7, *messages[place:]]
        with pytest.raises(BadRequest, match=rf"^messages\[{place}\]: must be an object, not 7"):
            view_of(Dialect.CHAT, {"model": "auto", "messages": spoilt}, {})


PATHS = {"completions": Dialect.CHAT, "responses": Dialect.RESPONSES, "messages": Dialect.MESSAGES}


def request_in(file: Path) -> tuple[Dialect, dict, dict] | None:
    """A captured request; None for what is not one."""
    capture = json.loads(file.read_text())
    dialect = PATHS.get(capture.get("path", "").partition("?")[0].rsplit("/", 1)[-1])
    if capture.get("method") != "POST" or dialect is None or not isinstance(capture.get("body"), dict):
        return None
    headers = {name.lower(): value for name, value in (capture.get("headers") or {}).items()}
    return dialect, {**capture["body"], "model": "auto"}, headers


@pytest.mark.shared
def test_what_real_clients_sent_is_read_on_as_it_is_read_whole(shared):
    """All captures one after another, each with every beginning of it that a client might have sent before."""
    requests = []
    for dialect, body, headers in filter(None, map(request_in, sorted((shared / "wire").glob("*/*.json")))):
        field = LIST_FIELDS[dialect]
        items = body.get(field)
        sent = [items[:count] for count in range(1, len(items) + 1)] if isinstance(items, list) else [items]
        requests += [(dialect, {**body, field: start}, headers) for start in sent]

    assert len(requests) > 300
    assert_the_same_as_read_whole(requests)


@pytest.mark.shared
@pytest.mark.parametrize(
    "pair",
    [
        ("claude-code/04-resume-1-user-turn", "claude-code/05-resume-2-tool-followup"),
        ("claude-code/15-subagent-5-agent-notification", "claude-code/16-subagent-6-tool-followup"),
        ("codex/03-http-resume-1-user-turn", "codex/04-http-resume-2-tool-followup"),
        ("continue/03-resume-1-user-turn", "continue/04-resume-2-tool-followup"),
        ("opencode/04-resume-1-user-turn", "opencode/05-resume-2-tool-followup"),
        ("qwen-code/03-resume-1-user-turn", "qwen-code/04-resume-2-tool-followup"),
    ],
)
def test_what_a_real_client_sends_next_is_known_but_for_its_end(shared, pair):
    """Whatever a client changes in its last messages from call to call, such as cache marks, is not in the way."""
    first, then = (view_of(*request_in(shared / "wire" / f"{name}.json")) for name in pair)

    assert then.conversation.known[0].count >= len(first.conversation) - 2


def test_numbers_that_differ_in_their_last_digits_are_different_histories():
    histories = [[{"n": 1, "wei": Digits(f"1157920892373161954{last}")} for _ in range(8)] for last in "12"]

    assert walked(histories[0]) == walked(histories[1]) == list(range(8))
    assert walked(histories[0]) == []


def large(*numbers: int, words: str = "a line of some length") -> dict:
    """A body that is large enough to be kept by its bytes."""
    said = [{"role": "user", "content": f"{number} {words} " * 60} for number in numbers]
    return {"model": "auto", "messages": said}


def objects_in(view) -> set[int]:
    """The messages of a request, and what is known of their beginnings, by identity."""
    before, new = view.conversation.known
    return {*map(id, view.conversation.items), id(before), *map(id, new)}


@pytest.mark.parametrize("count", [8, 40], ids=["by their messages", "by their bytes"])
def test_two_callers_who_send_the_same_share_no_object_and_neither_finds_what_the_other_sent(count):
    ann, bob = Caller("ann"), Caller("bob")
    first = view_of(Dialect.CHAT, large(*range(count)), {}, caller=ann)
    same = view_of(Dialect.CHAT, large(*range(count)), {}, caller=bob)

    assert same.conversation.known[0].count == 0
    assert objects_in(first).isdisjoint(objects_in(same))
    for caller in (ann, bob):
        assert view_of(Dialect.CHAT, large(*range(count + 2)), {}, caller=caller).conversation.known[0].count >= count


def test_two_histories_share_nothing_and_one_that_is_cleared_knows_nothing():
    body, here, there = large(*range(40)), Histories(), Histories()
    first, other = (view_of(Dialect.CHAT, body, {}, known) for known in (here, there))

    assert objects_in(first).isdisjoint(objects_in(other))
    assert view_of(Dialect.CHAT, body, {}, here).conversation.known[0].count == 40
    here.clear()
    assert view_of(Dialect.CHAT, body, {}, here).conversation.known[0].count == 0
    assert view_of(Dialect.CHAT, body, {}, there).conversation.known[0].count == 40


def test_histories_that_remember_nothing_keep_nothing():
    forgetful = Histories(remembers=False)

    for _ in range(2):
        assert view_of(Dialect.CHAT, large(*range(40)), {}, forgetful).conversation.known is None
    assert (forgetful.bodies, forgetful.starts) == ({}, {})


def test_all_callers_together_are_kept_within_one_bound(monkeypatch):
    monkeypatch.setattr(histories, "MAX_BYTES", len(json.dumps(large(*range(20, 60)))) * 11 // 2)
    monkeypatch.setattr(histories, "_MAX_STARTS", 7)
    known = Histories()

    for number in range(20):
        view_of(Dialect.CHAT, large(*range(number, number + 40)), {}, known, Caller(f"caller {number}"))

    assert [body.caller.name for alike in known.bodies.values() for body in alike] == [
        f"caller {number}" for number in range(15, 20)
    ]
    assert [caller.name for caller, *_ in known.starts] == [f"caller {number}" for number in range(13, 20)]
