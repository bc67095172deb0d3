"""Labelled lines: kinds of turns, known by their fields, remarks, and turns call by call."""

import gzip
import json
from pathlib import Path

import pytest

from router.contract.words import TurnKind
from router.dialects.requests import read_request
from router.past.labelled import (
    ASKS,
    COMMITS,
    MEANING,
    BadData,
    Item,
    arrival_of,
    chat_body,
    load_items,
    load_remarks,
    load_turns,
)
from router.sessions.turns import read_turn

TURN = {
    "id": "t1",
    "source": "agent_session_x",
    "repo": "tandem",
    "prompt": "rename the parser",
    "label": "quick",
    "context": {
        "has_tools": True,
        "prior_turns": 3,
        "prior_tool_calls": [4, 20],
        "prior_edits": [1, 6],
        "prev_prompt": "write the parser",
    },
}
ASK = {"id": "a7", "text": "rename the parser", "label": "quick", "setting": "agent"}
COMMIT = {"id": "c1", "words": "Add a parser", "label": "long", "repo": "tandem"}


@pytest.fixture
def write(tmp_path):
    """Write lines to a file in an empty folder."""

    def write_it(*lines: object, name: str = "data.jsonl") -> Path:
        content = "\n".join(line if isinstance(line, str) else json.dumps(line) for line in lines).encode()
        path = tmp_path / name
        path.write_bytes(gzip.compress(content) if path.suffix == ".gz" else content)
        return path

    return write_it


@pytest.fixture
def load(write):
    """The items of lines."""
    return lambda *lines: load_items([write(*lines)])


def test_a_recorded_turn_is_read_with_what_was_before_it(load):
    (item,) = load(TURN)

    assert item == Item(
        source="agent_session_x",
        repo="tandem",
        prompt="rename the parser",
        is_long=False,
        is_clear=True,
        has_tools=True,
        prior_turns=3,
        calls=(4, 20),
        edits=(1, 6),
        previous="write the parser",
        id="t1",
    )
    assert item.set_name == "agent_session_x"


def test_a_recorded_turn_may_be_unclear_and_may_tell_the_work_that_followed(load):
    middle, told = load({**TURN, "band": "middle"}, {**TURN, "evidence": {"tool_calls": 4}})

    assert (middle.is_clear, middle.work_calls, told.is_clear, told.work_calls) == (False, None, True, 5)


@pytest.mark.parametrize(
    ("label", "is_long", "is_clear"), [("quick", False, True), ("long", True, True), ("unclear", False, False)]
)
def test_an_ask_may_be_quick_long_or_unclear(load, label, is_long, is_clear):
    (item,) = load({**ASK, "label": label})

    assert (item.is_long, item.is_clear, item.kind, item.prompt) == (is_long, is_clear, ASKS, "rename the parser")


@pytest.mark.parametrize(
    ("more", "name"),
    [
        ({"setting": "agent"}, "asks: first asks with tools"),
        ({"setting": "chat"}, "asks: first asks without tools"),
        ({"setting": "agent", "previous": "write it"}, "asks: later turns"),
    ],
)
def test_the_figures_of_an_ask_stand_under_where_it_was_asked(load, more, name):
    (item,) = load({**ASK, **more})

    assert item.set_name == name
    assert ("tools" in chat_body(item)) is item.has_tools is (more["setting"] == "agent")


def test_an_ask_without_tools_had_none_used_before_it(load):
    (item,) = load({**ASK, "setting": "chat", "previous": "write it", "previous_size": "long"})

    assert (item.prior_turns, item.calls, item.edits) == (1, (0,), (0,))


def test_the_turn_before_a_later_ask_was_of_the_size_that_the_line_says(load):
    quick, long, unsaid, first = load(
        {**ASK, "previous": "write it", "previous_size": "quick"},
        {**ASK, "previous": "write it", "previous_size": "long"},
        {**ASK, "previous": "write it"},
        ASK,
    )

    assert quick.previous == long.previous == "write it"
    assert max(quick.calls) < 5 <= 10 < min(long.calls)
    assert max(quick.edits) <= 2 < 6 <= min(long.edits)
    assert unsaid.calls == quick.calls
    assert (first.prior_turns, first.calls, first.previous) == (0, (), "")


def test_a_second_label_is_joined_to_the_turn_of_the_file_next_to_it(write):
    write(TURN, {**TURN, "id": "t2", "prompt": "another"}, name="turns.jsonl")
    meaning = write({"id": "t1", "file": "turns.jsonl", "label": "long"}, name="meaning.jsonl")

    (item,) = load_items([meaning])

    assert (item.prompt, item.repo, item.calls) == ("rename the parser", "tandem", (4, 20))
    assert (item.is_long, item.is_clear, item.kind) == (True, True, MEANING)
    assert item.set_name == "real prompts: later turns"


def test_a_second_label_may_say_that_a_first_turn_is_unclear(write):
    first = {name: value for name, value in TURN.items() if name != "context"}
    write(first, name="turns.jsonl")

    (item,) = load_items([write({"id": "t1", "file": "turns.jsonl", "label": "unclear"}, name="meaning.jsonl")])

    assert not item.is_clear
    assert item.set_name == "real prompts: first turns"


@pytest.mark.parametrize("name", ["commits.jsonl", "commits.jsonl.gz"])
def test_a_commit_is_its_words(write, name):
    path = write(COMMIT, {**COMMIT, "label": "quick", "band": "middle"}, name=name)

    clear, middle = load_items([path])

    assert (clear.prompt, clear.is_long, clear.is_clear, clear.kind) == ("Add a parser", True, True, COMMITS)
    assert (clear.repo, clear.set_name, clear.prior_turns, clear.has_tools) == ("tandem", "commits", 0, False)
    assert not middle.is_clear


def test_the_items_of_all_files_come_in_order_and_empty_lines_are_passed_over(write):
    one, two = write(ASK, "", "  ", COMMIT, name="one.jsonl"), write(TURN, name="two.jsonl")

    assert [item.id for item in load_items([two, one])] == ["t1", "a7", "c1"]


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("{", "is not JSON"),
        ("[]", "a line must be a JSON object"),
        ({"text": "x"}, '"label" is missing'),
        ({"text": "x", "label": "maybe"}, 'label must be "quick", "long" or "unclear"'),
        ({"text": "x", "label": ["long"]}, 'label must be "quick", "long" or "unclear"'),
        ({"label": "long"}, '"prompt" is missing'),
        ({"label": "unclear", "prompt": "x"}, 'label must be "quick" or "long"'),
        ({"label": "long", "prompt": 7}, "prompt must be text"),
        ({"label": "long", "text": 7}, "text must be a string"),
        ({"label": "long", "words": None}, "words must be a string"),
        ({**ASK, "previous": "x", "previous_size": "huge"}, 'previous_size must be "quick" or "long"'),
        ({**ASK, "setting": "agnet"}, 'setting must be "agent" or "chat", not "agnet": did you mean agent?'),
        ({**ASK, "setting": 7}, 'setting must be "agent" or "chat", not "7"'),
        ({**ASK, "setting": ["agent"]}, 'setting must be "agent" or "chat"'),
        ({"says": "still red", "label": "bad"}, '"says" belongs to another kind of file: use --kind complaints'),
        ({"calls": [], "label": "bad"}, '"calls" belongs to another kind of file: use --kind rescue'),
    ],
)
def test_a_line_that_cannot_be_read_is_named_with_its_file_and_number(write, line, said):
    path = write(ASK, line)

    with pytest.raises(BadData) as caught:
        load_items([path])

    assert str(caught.value).startswith(f"{path} line 2: ")
    assert said in str(caught.value)


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ({"id": "t9", "file": "turns.jsonl"}, "meaning.jsonl line 1: turns.jsonl has no item t9"),
        ({"file": "turns.jsonl"}, 'meaning.jsonl line 1: "id" is missing'),
        ({"id": "t1", "file": "none.jsonl"}, "none.jsonl: No such file"),
    ],
    ids=["another turn", "no turn", "no file"],
)
def test_a_second_label_without_its_turn_is_named(write, line, said):
    write(TURN, name="turns.jsonl")
    meaning = write({**line, "label": "long"}, name="meaning.jsonl")

    with pytest.raises(BadData, match=said):
        load_items([meaning])


@pytest.mark.parametrize(
    "content",
    [b"not gzip at all", gzip.compress(b"x" * 1_000)[:-12], b"\x1f\x8b\x08\x00" + b"\xff" * 40],
    ids=["not gzip at all", "cut short", "damaged"],
)
def test_a_damaged_gzip_file_is_named(tmp_path, content):
    path = tmp_path / "commits.jsonl.gz"
    path.write_bytes(content)

    with pytest.raises(BadData) as caught:
        load_items([path])

    assert str(caught.value).startswith(f"{path}: ")


def test_a_file_that_is_not_there_is_named(tmp_path):
    with pytest.raises(BadData, match=r"none.jsonl: No such file"):
        load_items([tmp_path / "none.jsonl"])


def test_a_later_turn_reaches_the_road_with_the_calls_and_edits_before_it(load):
    (item,) = load(TURN)

    turn = read_turn(read_request(arrival_of(item)))

    assert (turn.kind, turn.person_text) == (TurnKind.ASK, "rename the parser")
    assert turn.history.turns == 3
    assert [(past.calls, past.edits) for past in turn.history.last] == [(0, 0), (4, 1), (20, 6)]


def test_what_was_typed_before_stands_right_before_the_ask(load):
    (item,) = load({**ASK, "previous": "write the parser", "previous_size": "quick"})

    said = [message["content"] for message in chat_body(item)["messages"] if message["role"] == "user"]
    assert said == ["write the parser", "rename the parser"]


def test_a_remark_follows_a_short_turn_with_what_was_asked(write):
    path = write({"asked": "fix it", "says": "still red", "label": "bad"}, {"says": "thanks", "label": "fine"})

    bad, fine = load_remarks([path])

    assert (bad.is_complaint, fine.is_complaint, fine.asked) == (True, False, "")
    said = [message["content"] for message in chat_body(bad.as_item())["messages"] if message["role"] == "user"]
    assert said == ["fix it", "still red"]


CALL = ["shell", 0, 0, "00000001", "f1", 120, 60]


def test_both_ways_to_say_how_a_recorded_turn_ended_are_read(write):
    path = write({"label": "bad", "calls": [CALL, CALL], "task": "p1__7"}, {"bad": False, "calls": [CALL], "repo": "r"})

    turns = load_turns([path])

    assert [(turn.is_bad, turn.calls, turn.source, turn.group) for turn in turns] == [
        (True, 2, "data", "p1"),
        (False, 1, "data", "r"),
    ]


@pytest.mark.parametrize(
    ("load_them", "line", "said"),
    [
        (load_remarks, {"asked": "a", "says": "b", "label": "wrong"}, 'says must be text, and label must be "bad" or "fine"'),
        (load_remarks, {"text": "fix it", "label": "quick"}, '"says" is missing'),
        (load_turns, {"label": "bad"}, '"calls" is missing'),
        (load_turns, {"label": "bad", "calls": 7}, "calls must be a list"),
        (load_turns, {"calls": []}, '"label" is missing'),
        (load_turns, {"label": "sad", "calls": []}, 'label must be "bad" or "fine"'),
        (load_turns, {"label": "bad", "calls": [["dance", *CALL[1:]]]}, "a call must be [kind, failed, red, call"),
        (load_turns, {"label": "bad", "calls": [["read"]]}, "a call must be [kind, failed, red, call"),
    ],
)
def test_a_remark_or_a_recorded_turn_that_cannot_be_read_is_named(write, load_them, line, said):
    with pytest.raises(BadData) as caught:
        load_them([write(line)])

    assert "data.jsonl line 1: " in str(caught.value)
    assert said in str(caught.value)
