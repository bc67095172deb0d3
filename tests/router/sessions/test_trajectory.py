import json
from functools import partial

import pytest

from router.contract.signals import Trajectory
from router.contract.words import Dialect
from router.sessions.trajectory import is_edit
from router.sessions.turns import read_turn
from tests.tools.values import make_view

USER = {"role": "user", "content": "make the tests pass"}


def turn_of(dialect: Dialect, *steps: tuple) -> Trajectory:
    """A running turn of calls: a tool's name, its arguments, what came back, what was said before it, and whether it failed."""
    items: list[dict] = []
    for number, (name, arguments, result, *more) in enumerate(steps):
        said, is_error = (*more, *("", False)[len(more) :])
        items += _STEPS[dialect](f"c{number}", name, arguments, result, said, is_error)
    return read(dialect, items)


def read(dialect: Dialect, items: list[dict]) -> Trajectory:
    field = "input" if dialect is Dialect.RESPONSES else "messages"
    return read_turn(make_view({field: [USER, *items], "max_tokens": 9}, dialect)).trajectory


def _chat(call_id, name, arguments, result, said, _):
    call = {"id": call_id, "type": "function", "function": {"name": name, "arguments": arguments}}
    return [
        {"role": "assistant", "content": said or None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": call_id, "content": result},
    ]


def _responses(call_id, name, arguments, result, said, _):
    return [
        {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": said}]},
        {"type": "function_call", "call_id": call_id, "name": name, "arguments": arguments},
        {"type": "function_call_output", "call_id": call_id, "output": result},
    ]


def _messages(call_id, name, arguments, result, said, is_error):
    blocks = [{"type": "text", "text": said}] if said else []
    answer = {"type": "tool_result", "tool_use_id": call_id, "content": result, "is_error": is_error}
    return [
        {"role": "assistant", "content": [*blocks, {"type": "tool_use", "id": call_id, "name": name, "input": arguments}]},
        {"role": "user", "content": [answer]},
    ]


_STEPS = {Dialect.CHAT: _chat, Dialect.RESPONSES: _responses, Dialect.MESSAGES: _messages}
loop = partial(turn_of, Dialect.CHAT)
RED, GREEN = "==== 2 failed, 3 passed in 1.2s ====", "==== 5 passed in 1.2s ===="


def test_failures_in_a_row_are_counted_and_a_success_ends_them():
    bad, good = ("shell", "a", "Process exited with code 2"), ("shell", "b", "Process exited with code 0")

    assert loop(bad, bad, bad).failures == 3
    assert loop(bad, bad, good).failures == 0
    assert loop(bad, ("read_file", "x", "def exit(): pass"), bad).failures == 2


def test_tests_are_red_or_turn_green():
    assert loop(("shell", "t", RED), ("edit_file", "e", "ok"), ("shell", "t", RED)).red_runs == 2
    assert loop(("shell", "t", RED), ("edit_file", "e", "ok"), ("shell", "t", GREEN)).is_green
    assert not loop(("shell", "t", GREEN)).is_green


def test_the_same_call_again_and_again_is_seen():
    seen = loop(*[("shell", "make", "x")] * 4, *[("edit_file", '{"path": "a.py"}', "ok")] * 3)

    assert seen.repeats == 4
    assert (seen.calls, seen.edits) == (7, 3)


@pytest.mark.parametrize(
    "text",
    [
        "Traceback (most recent call last):\n  ...",
        "bash: foo: command not found",
        "Command failed with exit code 1",
        "Exit Code: 127",
        "error[E0308]: mismatched types",
        "src/a.ts(3,4): error TS2322: no",
        "npm ERR! missing script",
        "thread panicked\npanic: runtime error",
    ],
)
def test_failures_are_known_in_many_tongues_of_tools(text):
    assert loop(("shell", "x", text)).failures == 1


@pytest.mark.parametrize(
    "text",
    [
        "exit code 0",
        "0 failed, 12 passed",
        "the word error: stands in a log",
        "no failures found",
        "exited with code 0\nok",
        "Exit code: 0\nOutput:\nif x; then exit 1; fi",
    ],
)
def test_what_only_sounds_like_failure_is_none(text):
    assert loop(("shell", "x", text)).failures == 0


def test_a_long_result_is_read_at_its_ends_only():
    assert loop(("shell", "x", "a" * 500_000 + "\nProcess exited with code 1")).failures == 1


def test_no_captured_tool_loop_raises_an_alarm(shared):
    """The false alarms on what real clients sent: none of these loops had failed."""
    import json

    from router.contract.words import TurnKind

    loops = 0
    for file in sorted((shared / "wire").glob("*/*.json")):
        capture = json.loads(file.read_text())
        body, path = capture.get("body"), capture.get("path", "").partition("?")[0]
        dialects = {"completions": Dialect.CHAT, "responses": Dialect.RESPONSES, "messages": Dialect.MESSAGES}
        dialect = dialects.get(path.rsplit("/", 1)[-1])
        if capture.get("method") != "POST" or dialect is None or not isinstance(body, dict):
            continue
        headers = {name.lower(): value for name, value in (capture.get("headers") or {}).items()}
        turn = read_turn(make_view({**body, "model": "auto"}, dialect, headers))
        if turn.kind is TurnKind.TOOL_LOOP:
            loops += 1
            assert (turn.trajectory.failures, turn.trajectory.red_runs) == (0, 0), file.name

    assert loops >= 30


def test_a_client_that_marks_red_tests_as_errors_is_understood_through_its_edits():
    seen = turn_of(Dialect.MESSAGES, *[("Bash", {}, RED, "", True), ("Edit", {}, "ok")] * 3)

    assert (seen.failures, seen.red_runs) == (3, 3)


def test_reasoning_between_calls_takes_no_room():
    items = []
    for number in range(9):
        items.append({"type": "reasoning", "id": f"rs_{number}", "summary": []})
        items += _responses(f"c{number}", "shell", f"{number}", RED, "hm", False)

    assert read(Dialect.RESPONSES, items).red_runs == 9


def test_green_ends_what_was_red_before():
    assert loop(("shell", "t", RED), ("shell", "t", GREEN), ("shell", "t", RED)).red_runs == 1


def test_the_result_of_a_look_is_no_failure_however_many_calls_were_made_since():
    items = [{"type": "function_call", "call_id": "look", "name": "read_file", "arguments": "log.txt"}]
    items += [
        {"type": "function_call", "call_id": f"c{number}", "name": "shell", "arguments": f"{number}"} for number in range(10)
    ]
    items += [{"type": "function_call_output", "call_id": "look", "output": RED}]

    assert read(Dialect.RESPONSES, items).failures == 0


def test_all_calls_of_a_turn_are_counted_and_the_last_of_them_looked_at():
    seen = loop(*[("edit_file", f'{{"path": "{number}.py"}}', RED) for number in range(30)], *[("shell", "make", RED)] * 300)

    assert (seen.calls, seen.edits) == (330, 30)
    assert (seen.repeats, seen.red_runs) == (10, 10)


@pytest.mark.parametrize(("name", "edits"), [("Edit", True), ("apply_patch", True), ("Read", False), ("exec_command", False)])
def test_tools_that_change_files_are_known_by_their_names(name, edits):
    assert is_edit(name) == edits


SHELLS = {
    Dialect.CHAT: lambda command: ("bash", json.dumps({"command": command})),
    Dialect.RESPONSES: lambda command: ("shell", json.dumps({"command": ["bash", "-lc", command]})),
    Dialect.MESSAGES: lambda command: ("Bash", {"command": command}),
}
"""A call of the only tool of a client that edits in a shell, as the clients of each dialect send it."""


@pytest.mark.parametrize("dialect", SHELLS)
def test_edits_made_in_a_shell_count(dialect):
    seen = turn_of(dialect, *[(*SHELLS[dialect](f"sed -i 's/a/b/' src/{number}.py"), "ok") for number in range(7)])

    assert (seen.calls, seen.edits) == (7, 7)


def run_by_client(name: str, held: dict, output: dict) -> list[dict]:
    """A call of a tool that the Responses API knows by its type, and its output."""
    field = "operation" if name == "apply_patch" else "action"
    call = {"type": f"{name}_call", "call_id": json.dumps(held), field: held}
    return [call, {"type": f"{name}_call_output", "call_id": json.dumps(held), **output}]


def test_shells_and_patches_of_the_responses_api_count_as_commands_and_edits():
    red = {"output": [{"stdout": RED, "stderr": "", "outcome": {"type": "exit", "exit_code": 1}}]}
    late = {"output": [{"stdout": "", "stderr": "", "outcome": {"type": "timeout"}}]}
    items = [
        *run_by_client("apply_patch", {"type": "update_file", "path": "a.py", "diff": "+x"}, {"output": "ok"}),
        *run_by_client("shell", {"commands": ["cd src", "sed -i s/a/b/ b.py"]}, red),
        *run_by_client("local_shell", {"type": "exec", "command": ["pytest"], "env": {}}, {"output": RED}),
        *run_by_client("shell", {"commands": ["make"]}, late),
        *run_by_client("apply_patch", {"type": "delete_file", "path": "a.py"}, {"status": "failed", "output": "not there"}),
    ]

    seen = read(Dialect.RESPONSES, items)

    assert (seen.calls, seen.edits) == (5, 3)
    assert (seen.red_runs, seen.failures) == (2, 4)


@pytest.mark.parametrize("is_text", [False, True])
def test_an_editor_that_only_views_and_notes_in_a_memory_change_no_file(is_text):
    uses = [
        ("str_replace_based_edit_tool", {"command": "view", "path": "/a.py"}),
        ("str_replace_based_edit_tool", {"command": "create", "path": "/a.py", "file_text": '"command": "view"'}),
        ("str_replace_editor", {"path": "/a.py", "command": "str_replace", "old_str": "a", "new_str": "b"}),
        ("bash", {"command": "sed -i s/a/b/ /b.py"}),
        ("memory", {"command": "create", "path": "/memories/a", "file_text": "x"}),
    ]
    if is_text:
        seen = loop(*[(name, json.dumps(given), "ok") for name, given in uses])
    else:
        blocks = [{"type": "tool_use", "id": f"t{at}", "name": name, "input": given} for at, (name, given) in enumerate(uses)]
        seen = read(Dialect.MESSAGES, [{"role": "assistant", "content": blocks}])

    assert (seen.calls, seen.edits) == (4, 3)


def test_typing_into_a_running_command_is_no_edit():
    assert loop(("write_stdin", '{"chars": "y"}', "")).edits == 0


@pytest.mark.parametrize("levels", [200, 300, 900])
def test_arguments_of_any_depth_are_read(levels):
    nested: dict = {}
    for _ in range(levels):
        nested = {"x": nested}

    assert loop(("shell", nested, "Process exited with code 2")).failures == 1
