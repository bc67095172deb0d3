"""Labelled lines: kinds of turns, known by their fields."""

import gzip
import json
from pathlib import Path

import pytest

from router.contract.words import TurnKind
from router.dialects.requests import read_request
from router.sessions.turns import read_turn
from tests.lab.labelled import ASKS, COMMITS, MEANING, BadData, Item, arrival_of, chat_body, load_items

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


@pytest.mark.parametrize(
    ("label", "is_long", "is_clear"), [("quick", False, True), ("long", True, True), ("unclear", False, False)]
)
def test_an_ask_may_be_quick_long_or_unclear(load, label, is_long, is_clear):
    (item,) = load({**ASK, "label": label})

    assert (item.is_long, item.is_clear, item.kind, item.prompt) == (is_long, is_clear, ASKS, "rename the parser")


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
    ],
)
def test_a_line_that_cannot_be_read_is_named_with_its_file_and_number(write, line, said):
    path = write(ASK, line)

    with pytest.raises(BadData) as caught:
        load_items([path])

    assert str(caught.value).startswith(f"{path} line 2: ")
    assert said in str(caught.value)


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


CALL = ["shell", 0, 0, "00000001", "f1", 120, 60]
