"""Requests of the Responses API."""

import pytest
from msgspec.structs import replace

from router.contract.errors import BadRequest
from router.contract.request import ToolCall, ToolResult
from router.contract.words import Dialect, Feature
from router.dialects.opaque import all_keys, without_foreign
from router.dialects.responses.request import (
    add_instructions,
    opaque_keys,
    read_item,
    without_link,
    without_opaque,
    without_wrapped,
)
from router.dialects.translate.envelope import wrap
from tests.tools.values import make_view

CALL = {"type": "function_call", "call_id": "c", "name": "ls", "arguments": "{}"}


def read(**body):
    return make_view(body, Dialect.RESPONSES)


def test_calls_belong_to_the_assistant_and_their_outputs_to_the_tool():
    called, output = read_item(CALL), read_item({"type": "function_call_output", "call_id": "c", "output": "a"})
    shell = read_item({"type": "local_shell_call", "call_id": "s", "action": {"command": ["ls"]}})

    assert (called.role, called.calls) == ("assistant", (ToolCall("c", "ls", "{}"),))
    assert (output.role, output.results[0].text) == ("tool", "a")
    assert shell.calls == (ToolCall("s", "local_shell_call", {"command": ["ls"]}),)


def test_calls_of_tools_that_the_client_runs_show_what_they_do_and_what_came_of_it():
    operation = {"type": "delete_file", "path": "a"}
    patch = read_item({"type": "apply_patch_call", "call_id": "p", "operation": operation})
    outcome = {"stdout": "a", "stderr": "", "outcome": {"type": "exit", "exit_code": 1}}
    outputs = [
        {"type": "shell_call_output", "call_id": "s", "output": [outcome]},
        {"type": "local_shell_call_output", "id": "l", "output": "b"},
        {"type": "apply_patch_call_output", "call_id": "p", "status": "failed", "output": "c"},
    ]

    assert patch.calls == (ToolCall("p", "apply_patch_call", operation),)
    assert [read_item(item).results[0] for item in outputs] == [
        ToolResult("s", "exit code: 1\na", True),
        ToolResult("l", "b"),
        ToolResult("p", "c", True),
    ]


@pytest.mark.parametrize(
    ("item", "seen"),
    [
        ({"role": "user", "content": "x"}, ("user", ())),
        (CALL, ("assistant", ("ls",))),
        ({"type": "custom_tool_call_output"}, ("tool", ())),
        ({"type": "reasoning"}, ("reasoning", ())),
        (None, ("", ())),
    ],
)
def test_an_item_shows_who_speaks_and_what_it_calls(item, seen):
    message = read_item(item)

    assert (message.role, tuple(call.name for call in message.calls)) == seen


def test_input_may_be_a_string_a_list_or_with_something_stored_absent():
    assert read(input="x").conversation[0].texts == ("x",)
    assert len(read(previous_response_id="resp_1", input=[]).conversation) == 0
    assert len(read(prompt={"id": "p"}).conversation) == 0


def test_a_response_that_it_goes_on_from_is_told_by_its_id_and_only_here():
    assert read(input="x", previous_response_id="resp_1").previous_response_id == "resp_1"
    assert read(input="x", previous_response_id="").previous_response_id is None
    chat = make_view({"messages": [{"role": "user", "content": "x"}], "previous_response_id": "resp_1"})
    assert chat.previous_response_id is None


@pytest.mark.parametrize("field", ["store", "background"])
@pytest.mark.parametrize("value", ["false", "true", "", 0, 1, 0.0, [], {}, [True]])
def test_a_flag_that_is_neither_a_boolean_nor_null_is_refused(field, value):
    with pytest.raises(BadRequest, match=f"{field}: must be true or false") as refused:
        read(**{"input": "x", "background": True, field: value})

    assert refused.value.param == field


@pytest.mark.parametrize("flags", [{"store": None, "background": None}, {"store": True}, {"store": False, "background": False}])
def test_a_flag_may_be_a_boolean_or_null(flags):
    assert len(read(input="x", **flags).conversation) == 1


def test_a_developers_first_words_are_the_system_prompt_where_there_are_no_instructions():
    developer = {"role": "developer", "content": "D"}

    assert read(input=[developer]).system == "D"
    assert read(input=[developer], instructions="I").system == "I"


def test_reasoning_is_needed_as_soon_as_it_is_configured():
    view = read(input="x", reasoning={"summary": "auto"})

    assert view.needs == {Feature.TEXT, Feature.REASONING}
    assert view.effort is None


@pytest.mark.parametrize(("given", "becomes"), [({}, "T"), ({"instructions": "S"}, "S\n\nT")])
def test_instructions_are_joined(given, becomes):
    changes: dict = {}

    add_instructions(given, "T", changes)

    assert changes == {"instructions": becomes}


USER = {"role": "user", "content": "x"}


def reasoning(blob: str) -> dict:
    return {"type": "reasoning", "id": f"rs_{blob}", "summary": [], "encrypted_content": blob}


def test_foreign_reasoning_goes_whole_and_what_followed_it_is_unlinked():
    call = {"type": "function_call", "id": "fc_1", "call_id": "c", "name": "f", "arguments": "{}"}
    output = {"type": "function_call_output", "call_id": "c", "output": "ok"}
    items = [reasoning("mine"), {**call, "call_id": "b"}, {**output, "call_id": "b"}, reasoning("theirs"), call, output]
    view = make_view({"input": [USER, *items, USER]}, Dialect.RESPONSES)
    mine, theirs = all_keys(view)

    kept = without_foreign(replace(view, origins={mine: "spark", theirs: "sage"}), "spark")

    unlinked = {name: value for name, value in call.items() if name != "id"}
    assert kept == [USER, reasoning("mine"), {**call, "call_id": "b"}, {**output, "call_id": "b"}, unlinked, output, USER]


def test_calls_of_tools_that_the_client_runs_are_unlinked_too():
    calls = [{"type": f"{name}_call", "id": "hosts", "call_id": "c"} for name in ("shell", "apply_patch", "local_shell")]

    assert [without_link(call).get("id") for call in calls] == [None, None, "lsh_c"]  # the last is refused without one
    assert without_opaque([reasoning("theirs"), *calls], lambda key: True) == list(map(without_link, calls))


def test_every_kind_of_hidden_item_has_a_key_and_long_ones_are_told_apart_by_their_ends():
    kinds = [{"type": kind, "id": kind} for kind in ("reasoning", "compaction", "context_compaction")]
    long = [reasoning("a" * 999 + end) for end in "12"]
    keys = [key for item in [*kinds, *long, {"type": "message"}] for key in opaque_keys(item)]

    assert len(keys) == len(set(keys)) == 5


def test_reasoning_that_was_written_here_is_left_out_by_its_id_or_its_envelope():
    ours = {"type": "reasoning", "id": "rs_tandem_1", "summary": []}
    wrapped = {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": wrap("spark", {})}

    assert without_wrapped([USER, ours, wrapped, reasoning("theirs")]) == [USER, reasoning("theirs")]
