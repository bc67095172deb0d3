"""What deep gets to see of a turn, by the tools of each client."""

import json

import pytest

from router.contract.request import ToolCall
from router.contract.signals import Turn
from router.contract.words import Dialect, TurnKind
from router.look.gather import MAX_TOKENS_IN, Done, Edit, cut, find_written, gather, show_call, write_question
from router.sense.tokens import HIGH, estimate_tokens
from router.sessions.turns import read_turn
from tests.tools.values import make_view

GREEN, RED = "3 passed in 0.1s", "1 failed, 2 passed"
AIDER = "Act as an expert software developer."
PATCH = "*** Begin Patch\n*** Update File: src/app.py\n@@\n-a = 1\n+a = 2\n*** End Patch"


def calls(*made: tuple[str, object, str], ask="make it two") -> list[dict]:
    """A chat conversation: the ask, then each call with its result."""
    messages: list[dict] = [{"role": "user", "content": ask}]
    for number, (name, arguments, result) in enumerate(made):
        text = arguments if isinstance(arguments, str) else json.dumps(arguments)
        call = {"id": f"c{number}", "type": "function", "function": {"name": name, "arguments": text}}
        messages.append({"role": "assistant", "content": None, "tool_calls": [call]})
        messages.append({"role": "tool", "tool_call_id": f"c{number}", "content": result})
    return messages


def look_at(messages: list[dict], said: str = "Done.", **more) -> Done:
    view = make_view({"messages": messages}, **more)
    return gather(view, read_turn(view), said)


EDIT = ("Edit", {"file_path": "src/app.py", "old_string": "a = 1", "new_string": "a = 2"}, "ok")


@pytest.mark.parametrize(
    ("name", "arguments", "file", "shown"),
    [
        ("Edit", EDIT[1], "src/app.py", ["old_string:\na = 1", "new_string:\na = 2"]),
        ("Write", {"file_path": "src/app.py", "content": "a = 2\n"}, "src/app.py", ["content:\na = 2"]),
        ("edit", {"filePath": "src/app.py", "oldString": "a = 1", "newString": "a = 2"}, "src/app.py", ["newString:\na = 2"]),
        ("apply_patch", {"input": PATCH}, "src/app.py", ["-a = 1\n+a = 2"]),
        ("apply_patch", PATCH, "src/app.py", ["-a = 1\n+a = 2"]),
        ("replace_in_file", {"path": "src/app.py", "diff": "------- SEARCH\na = 1"}, "src/app.py", ["a = 1"]),
        (
            "MultiEdit",
            {
                "file_path": "src/app.py",
                "edits": [{"old_string": "a", "new_string": "b"}, {"old_string": "c", "new_string": "d"}],
            },
            "src/app.py",
            ["old_string:\na", "new_string:\nd"],
        ),
        ("bash", {"command": "cat > src/app.py <<'E'\na = 2\nE"}, "src/app.py", ["cat > src/app.py <<'E'\na = 2\nE"]),
        (
            "shell",
            {"command": ["bash", "-lc", "sed -i s/1/2/ src/app.py"]},
            "src/app.py",
            ["bash -lc sed -i s/1/2/ src/app.py"],
        ),
    ],
)
def test_an_edit_is_shown_as_it_is_in_its_call(name, arguments, file, shown):
    done = look_at(calls((name, arguments, "ok")))

    assert done.files == [file]
    for text in shown:
        assert text in done.edits[0].text


def test_an_edit_in_messages_and_in_responses_is_found():
    tool = {"type": "tool_use", "id": "t1", "name": "Edit", "input": EDIT[1]}
    result = {"type": "tool_result", "tool_use_id": "t1", "content": "ok"}
    messages = [
        {"role": "user", "content": "make it two"},
        {"role": "assistant", "content": [tool]},
        {"role": "user", "content": [result]},
    ]
    items = [
        {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "make it two"}]},
        {"type": "custom_tool_call", "call_id": "c1", "name": "apply_patch", "input": PATCH},
        {"type": "custom_tool_call_output", "call_id": "c1", "output": "ok"},
    ]

    by_messages = make_view({"messages": messages, "max_tokens": 9}, Dialect.MESSAGES)
    by_responses = make_view({"input": items}, Dialect.RESPONSES)

    for view in (by_messages, by_responses):
        assert gather(view, read_turn(view), "Done.").files == ["src/app.py"]


def test_reads_and_edits_that_failed_are_no_edits():
    viewed = ("str_replace_based_edit_tool", {"command": "view", "path": "src/app.py"}, "a = 1")
    tool = {"type": "tool_use", "id": "t1", "name": "Edit", "input": EDIT[1]}
    failed = {"type": "tool_result", "tool_use_id": "t1", "content": "no such text", "is_error": True}
    messages = [
        {"role": "user", "content": "make it two"},
        {"role": "assistant", "content": [tool]},
        {"role": "user", "content": [failed]},
    ]
    view = make_view({"messages": messages, "max_tokens": 9}, Dialect.MESSAGES)

    assert look_at(calls(viewed, ("read_file", {"path": "src/app.py"}, "a = 1"))).edits == ()
    assert gather(view, read_turn(view), "Done.").edits == ()


def test_only_the_edits_of_the_running_turn_count():
    before = [*calls(EDIT), {"role": "assistant", "content": "Done."}]

    assert look_at([*before, {"role": "user", "content": "and what does it do?"}]).edits == ()
    assert len(look_at([*before, *calls(EDIT, EDIT, ask="make it three")]).edits) == 2


@pytest.mark.parametrize(
    ("after", "is_green"),
    [
        ([("bash", {"command": "pytest"}, GREEN)], True),
        ([("bash", {"command": "pytest"}, RED)], False),
        ([("bash", {"command": "pytest"}, GREEN), EDIT], False),
        ([("bash", {"command": "pytest"}, GREEN), ("bash", {"command": "ls"}, "src")], True),
        ([("bash", {"command": "pytest"}, GREEN), ("bash", {"command": "pytest"}, RED)], False),
        ([("grep", {"pattern": "passed"}, GREEN)], False),
        ([], False),
    ],
)
def test_a_turn_is_green_if_the_last_test_run_after_its_last_edit_passed(after, is_green):
    assert look_at(calls(EDIT, *after)).is_green is is_green


def test_a_command_that_edits_and_tests_at_once_is_green_by_its_own_output():
    assert look_at(calls(("bash", {"command": "sed -i s/1/2/ src/app.py && pytest"}, GREEN))).is_green


def test_what_commands_printed_after_the_first_edit_is_gathered():
    done = look_at(calls(("bash", {"command": "ls"}, "before"), EDIT, ("bash", {"command": "make"}, "after")))

    assert done.printed == ("after",)


SEARCH = "src/app.py\n```python\n<<<<<<< SEARCH\na = 1\n=======\na = 2\n>>>>>>> REPLACE\n```\n"


@pytest.mark.parametrize(
    ("said", "found"),
    [
        (f"I change it.\n\n{SEARCH}", [Edit(("src/app.py",), "replace:\na = 1\nby:\na = 2")]),
        ("**src/app.py**\n<<<<<<< SEARCH\n=======\na = 2\n>>>>>>> REPLACE", [Edit(("src/app.py",), "replace:\nby:\na = 2")]),
        ("```diff\n--- a/x.py\n+++ b/x.py\n@@ @@\n-a\n+b\n```", [Edit(("x.py",), "--- a/x.py\n+++ b/x.py\n@@ @@\n-a\n+b")]),
        ("src/app.py\n```python\na = 2\n```", [Edit(("src/app.py",), "a = 2")]),
        ("You could write:\n```python\na = 2\n```", []),
        ("<<<<<<< SEARCH\na", [Edit(("",), "replace:\na\nby:")]),
        ("no code", []),
    ],
)
def test_edits_in_an_answers_text_are_found(said, found):
    assert find_written(said) == found


def test_edits_in_text_count_only_for_clients_that_apply_them():
    system = {"role": "system", "content": AIDER}
    ask = {"role": "user", "content": "make it two"}

    assert look_at([system, ask], SEARCH).files == ["src/app.py"]
    assert look_at([ask], SEARCH).edits == ()


def test_endless_marks_in_an_answer_are_read_once():
    assert len(find_written("<<<<<<< SEARCH\n" * 13_000)) == 1


def test_binary_content_is_left_out():
    text = show_call(ToolCall("1", "Write", {"file_path": "logo.png", "content": "\x89PNG\x00\x01" * 500}))

    assert text == "Write\nfile_path: logo.png\ncontent:\n(3000 characters of binary content)"


def test_arguments_that_are_cut_or_nested_are_shown_as_far_as_they_go():
    deep: object = "x"
    for _ in range(50):
        deep = [deep, {}]

    assert (
        show_call(ToolCall("1", "Write", '{"file_path": "a.py", "content": "a = '))
        == 'Write\n{"file_path": "a.py", "content": "a = '
    )
    assert show_call(ToolCall("1", "Write", {"file_path": "a.py", "content": deep})) == "Write\nfile_path: a.py"


def test_a_long_text_keeps_its_beginning_and_its_end():
    assert cut("a" * 10 + "b" * 10, 6) == "aaa\n… (14 characters left out)\nbbb"
    assert cut("abc", 3) == "abc"


TURN = Turn(TurnKind.TOOL_LOOP, "s", "unknown", "make it two", "make it two")


def test_the_question_holds_all_of_a_small_turn():
    done = Done((Edit(("a.py",), "edit one"), Edit(("b.py",), "edit two")), ("printed",), is_green=False)

    question = write_question("Look it over.", TURN, done, "All done.")

    places = [
        question.index(text)
        for text in ("Look it over.", "JSON", "make it two", "edit one", "edit two", "printed", "All done.")
    ]
    assert places == sorted(places)


@pytest.mark.parametrize(
    "text", ["def f(a):\n    return {a: [1, 2]}\n", "日本語のコメント。", "Ключ и значение ", "a9+/Zx8=", "\n"]
)
def test_the_question_has_12_000_tokens_at_most_and_every_part_of_it(text):
    edits = tuple(Edit((f"f{number}.py",), f"edit {number} {text * 4_000}") for number in range(40))
    done = Done(edits, (text * 50_000,) * 9, is_green=False)
    turn = Turn(TurnKind.TOOL_LOOP, "s", "unknown", ask_text=text * 9_000)

    question = write_question("Look it over.", turn, done, text * 90_000)

    assert estimate_tokens(question.encode()) * HIGH < MAX_TOKENS_IN
    assert "edit 39" in question
    for section in ("request", "edits", "printed by commands after the first edit", "last words"):
        assert f"end of {section}" in question


def test_a_compacted_history_is_named():
    turn = Turn(TurnKind.TOOL_LOOP, "s", "unknown", goes_on_after="compaction")
    done = Done((Edit(("a.py",), "edit"),), (), is_green=False)

    question = write_question("Look it over.", turn, done, "Done.")

    assert "The conversation was compacted" in question
    assert "(not in the conversation any more)" in question
