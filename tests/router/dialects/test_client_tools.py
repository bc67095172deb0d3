"""Tools that the client runs itself: which arguments fit their calls, and what their outputs say."""

import json

import pytest

from router.dialects.client_tools import CALL_ITEMS, MESSAGES_TOOLS, RESPONSES_TOOLS, read_shell_output

SHELL, LOCAL, PATCH = (CALL_ITEMS[f"{name}_call"][1] for name in ("shell", "local_shell", "apply_patch"))
NO_LIMITS = {"timeout_ms": None, "max_output_length": None}


def test_arguments_that_mean_a_call_become_what_its_item_holds(subtests):
    for item, arguments, held in [
        (SHELL, {"commands": ["ls", "pwd"]}, {"commands": ["ls", "pwd"], **NO_LIMITS}),
        (
            SHELL,
            {"commands": ["ls"], "timeout_ms": 5.0, "max_output_length": 9},
            {"commands": ["ls"], "timeout_ms": 5, "max_output_length": 9},
        ),
        (SHELL, {"commands": "ls -l"}, {"commands": ["ls -l"], **NO_LIMITS}),
        (SHELL, {"command": "ls -l"}, {"commands": ["ls -l"], **NO_LIMITS}),
        (SHELL, {"command": ["bash", "-lc", "ls | wc"]}, {"commands": ["bash -lc 'ls | wc'"], **NO_LIMITS}),
        (SHELL, {"commands": ["ls"], "timeout_ms": -1, "max_output_length": "many"}, {"commands": ["ls"], **NO_LIMITS}),
        (SHELL, {"commands": ["ls"], "timeout_ms": 1e300, "max_output_length": 2**62}, {"commands": ["ls"], **NO_LIMITS}),
        (LOCAL, {"command": ["ls", "-l"]}, {"type": "exec", "command": ["ls", "-l"], "env": {}}),
        (LOCAL, {"command": "ls | wc"}, {"type": "exec", "command": ["bash", "-lc", "ls | wc"], "env": {}}),
        (
            LOCAL,
            {"command": ["ls"], "env": {"A": "b"}, "timeout_ms": 9, "working_directory": "/r", "user": "u"},
            {"type": "exec", "command": ["ls"], "env": {"A": "b"}, "timeout_ms": 9, "user": "u", "working_directory": "/r"},
        ),
        (PATCH, {"type": "create_file", "path": "a", "diff": ""}, {"type": "create_file", "path": "a", "diff": ""}),
        (PATCH, {"type": "delete_file", "path": "a", "diff": "x"}, {"type": "delete_file", "path": "a"}),
    ]:
        with subtests.test(item=item, arguments=arguments, held=held):
            assert item.parse(json.dumps(arguments)) == held


def test_arguments_that_do_not_fit_are_no_item(subtests):
    for item, arguments in [
        *(
            (item, text)
            for item in (SHELL, LOCAL, PATCH)
            for text in ("", "null", "[]", '"ls"', "{}", '{"commands": ["ls', "ls")
        ),
        (SHELL, '{"commands": []}'),
        (SHELL, '{"commands": ["\\ud800"]}'),
        (SHELL, '{"commands": ' + "[" * 5000 + '"ls"' + "]" * 5000 + "}"),
        (SHELL, '{"commands": [1]}'),
        (SHELL, '{"commands": [1], "command": ["ls"]}'),
        (LOCAL, '{"command": [], "env": {}}'),
        (LOCAL, '{"command": ["ls"], "env": {"A": 1}}'),
        (LOCAL, '{"command": ["ls"], "env": ["A"]}'),
        (PATCH, '{"type": "update_file", "path": "a"}'),
        (PATCH, '{"type": "update_file", "path": "a", "diff": 1}'),
        (PATCH, '{"type": "move_file", "path": "a", "diff": "x"}'),
        (PATCH, '{"type": "delete_file", "path": ""}'),
    ]:
        with subtests.test(item=item, arguments=arguments):
            assert item.parse(arguments) is None


def test_a_client_that_sorts_the_fields_of_a_call_does_not_change_how_the_model_sees_it():
    assert PATCH.arguments({"diff": "x", "path": "a", "type": "create_file"}) == '{"type":"create_file","path":"a","diff":"x"}'


@pytest.mark.parametrize("tool", [*RESPONSES_TOOLS.values(), *MESSAGES_TOOLS.values()], ids=lambda tool: tool.name)
def test_every_schema_describes_each_of_its_fields_and_requires_only_those(tool):
    fields = tool.schema["properties"]

    assert tool.description.endswith(".")
    assert set(tool.schema["required"]) <= fields.keys()
    assert all(field["description"] for field in fields.values())


@pytest.mark.parametrize(("kind", "field"), [("text_editor_20250728", "insert_text"), ("text_editor_20250124", "new_str")])
def test_each_version_of_the_editor_inserts_under_the_name_that_its_clients_read(kind, field):
    fields = MESSAGES_TOOLS[kind].schema["properties"]

    assert "`insert`" in fields[field]["description"]
    assert ("undo_edit" in fields["command"]["enum"]) == (kind < "text_editor_2025042")


def exited(code, stdout="", stderr=""):
    return {"stdout": stdout, "stderr": stderr, "outcome": {"type": "exit", "exit_code": code}}


@pytest.mark.parametrize(
    ("output", "text", "has_failed"),
    [
        ([], "", False),
        ([exited(0, "a\nb\n")], "exit code: 0\na\nb", False),
        ([exited(0, "a"), exited(2, "", "no")], "exit code: 0\na\nexit code: 2\nstderr:\nno", True),
        ([{"stdout": "a", "stderr": "", "outcome": {"type": "timeout"}}], "timed out\na", True),
        ([{"stdout": "a"}, 3, {"outcome": "odd"}], "a", False),
    ],
)
def test_the_output_of_a_shell_is_told_in_words(output, text, has_failed):
    assert read_shell_output(output) == (text, has_failed)
