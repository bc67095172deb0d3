"""Tools that the client runs itself, over every bridge: offered, forced, called, answered, and across a hop."""

import itertools
import json

import pytest
from hypothesis import given
from hypothesis import strategies as some

from router.contract.errors import Misfit
from tests.tools.bridging import CHAT, MESSAGES, REQUESTS, RESPONSES, answer_to, crossed, heard
from tests.tools.speech import Speech, ToolCall, write_stream, write_whole
from tests.tools.values import make_view

ANSWER_ID = make_view(REQUESTS[RESPONSES], RESPONSES).id.removeprefix("req_")
DIFF = "@@\n-a\n+b\n"
SHELL_OUTPUT = {"stdout": "OUT", "stderr": "ERR", "outcome": {"type": "exit", "exit_code": 1}}
UNLIMITED = {"timeout_ms": None, "max_output_length": None}
# The tool as its caller declares it, and for Responses its call and the output of it; the arguments; what is told of the output.
RESPONSES_CASES = [
    ("shell", {"commands": ["ls", "make"]}, "action", UNLIMITED, {"output": [SHELL_OUTPUT]}, "exit code: 1\nOUT\nstderr:\nERR"),
    ("local_shell", {"command": ["ls", "-l"], "env": {"A": "b"}}, "action", {"type": "exec"}, {"output": "OUT"}, "OUT"),
    ("apply_patch", {"type": "update_file", "path": "a.py", "diff": DIFF}, "operation", {}, {"output": "OUT"}, "OUT"),
    ("apply_patch", {"type": "delete_file", "path": "a.py"}, "operation", {}, {"output": "OUT", "status": "failed"}, "OUT"),
]
MESSAGES_CASES = [
    ("bash_20250124", "bash", {"command": "ls -l"}),
    ("bash_20241022", "bash", {"restart": True}),
    ("text_editor_20250728", "str_replace_based_edit_tool", {"command": "view", "path": "/a", "view_range": [1, -1]}),
    ("text_editor_20250429", "str_replace_based_edit_tool", {"command": "create", "path": "/a", "file_text": "x"}),
    ("text_editor_20250124", "str_replace_editor", {"command": "undo_edit", "path": "/a"}),
    ("text_editor_20241022", "str_replace_editor", {"command": "view", "path": "/"}),
    ("memory_20250818", "memory", {"command": "rename", "old_path": "/memories/a", "new_path": "/memories/b"}),
]
TARGETS_OF_RESPONSES, TARGETS_OF_MESSAGES = [CHAT, MESSAGES], [CHAT, RESPONSES]
EVERY = [
    *((RESPONSES, target, {"type": case[0]}, case[0], case[1]) for case in RESPONSES_CASES for target in TARGETS_OF_RESPONSES),
    *(
        (MESSAGES, target, {"type": kind, "name": name}, name, arguments)
        for kind, name, arguments in MESSAGES_CASES
        for target in TARGETS_OF_MESSAGES
    ),
]


def item_of(case, call_id: str = "call_1") -> dict:
    """A call as the Responses API writes it."""
    name, arguments, field, more, _, _ = case
    prefix = {"shell": "sh", "local_shell": "lsh", "apply_patch": "apc"}[name]
    held = {**arguments, **more}
    return {"id": f"{prefix}_{ANSWER_ID}_0", "type": f"{name}_call", "call_id": call_id, "status": "completed", field: held}


def functions_of(target, body: dict) -> list[dict]:
    return [tool.get("function", tool) for tool in body["tools"]] if target is CHAT else body["tools"]


def spoken(target, name: str, arguments: str, **more) -> Speech:
    return Speech("", (ToolCall("call_1", name, arguments),), **more)


def streamed(caller, target, speech: Speech, **more) -> list[dict]:
    return heard(caller, target, b"".join(write_stream(target.value, speech)), **more)


def told_whole(caller, target, speech: Speech, **more) -> dict:
    return json.loads(answer_to(caller, target, **more).whole(json.dumps(write_whole(target.value, speech)).encode()))


def test_it_is_offered_as_a_function_that_takes_its_arguments_and_can_be_forced(subtests):
    for caller, target, tool, name, arguments in EVERY:
        with subtests.test(caller=caller, target=target, tool=tool, name=name, arguments=arguments):
            choice = {"type": "tool", "name": name} if caller is MESSAGES else {"type": name}

            asked = {
                **REQUESTS[caller],
                "tools": [tool],
                "tool_choice": choice,
                **({"max_tokens": 99} if caller is MESSAGES else {}),
            }

            body, dropped = crossed(caller, target, asked)

            (function,) = functions_of(target, body)
            schema = function.get("parameters") or function["input_schema"]
            assert function["name"] == name
            assert function["description"]
            assert set(schema["required"]) <= arguments.keys() <= schema["properties"].keys()
            assert name in json.dumps(body["tool_choice"])
            assert dropped == ()


@pytest.mark.parametrize("case", RESPONSES_CASES, ids=lambda case: case[0])
@pytest.mark.parametrize("target", TARGETS_OF_RESPONSES)
def test_a_call_comes_back_to_a_responses_caller_as_the_item_of_its_tool(sdk, case, target):
    name, arguments, field, _, _, _ = case
    asked, speech = {"tools": [{"type": name}]}, spoken(target, name, json.dumps(arguments))

    whole, events = told_whole(RESPONSES, target, speech, **asked), streamed(RESPONSES, target, speech, **asked)

    assert whole["output"] == events[-1]["response"]["output"] == [item_of(case)]
    assert sdk.responses.Response.model_validate(whole, strict=True).output[0].type == f"{name}_call"
    assert [event["sequence_number"] for event in events] == list(range(len(events)))
    kinds = [event["type"].removeprefix("response.") for event in events[2:-1]]
    commands = [f"shell_call_command.{step}" for _ in arguments.get("commands", []) for step in ("added", "delta", "done")]
    assert kinds == ["output_item.added", *commands, "output_item.done"]
    assert events[2]["item"] == {**item_of(case), "status": "in_progress", field: events[2]["item"][field]}


@pytest.mark.parametrize("target", TARGETS_OF_RESPONSES)
def test_the_commands_of_a_shell_are_put_together_from_their_events(target):
    speech = spoken(target, "shell", '{"commands": ["ls", "make"]}')

    events = streamed(RESPONSES, target, speech, tools=[{"type": "shell"}])

    told: dict[int, str] = {}
    for event in events:
        if event["type"] == "response.output_item.added":
            assert event["item"]["action"]["commands"] == []
        if event["type"] in ("response.shell_call_command.added", "response.shell_call_command.delta"):
            told[event["command_index"]] = told.get(event["command_index"], "") + (
                event.get("command") or event.get("delta", "")
            )
        if event["type"] == "response.shell_call_command.done":
            assert event["command"] == told[event["command_index"]]
    assert told == {0: "ls", 1: "make"}


def test_a_call_comes_back_to_a_messages_caller_with_its_name_and_input(subtests):
    for (kind, name, arguments), target in itertools.product(MESSAGES_CASES, TARGETS_OF_MESSAGES):
        with subtests.test(kind=kind, name=name, arguments=arguments, target=target):
            asked, speech = {"tools": [{"type": kind, "name": name}]}, spoken(target, name, json.dumps(arguments))

            whole, events = told_whole(MESSAGES, target, speech, **asked), streamed(MESSAGES, target, speech, **asked)

            assert whole["content"] == [{"type": "tool_use", "id": "call_1", "name": name, "input": arguments}]
            begun = [event["content_block"] for event in events if event["type"] == "content_block_start"]
            pieces = [event["delta"]["partial_json"] for event in events if event["type"] == "content_block_delta"]
            assert begun == [{"type": "tool_use", "id": "call_1", "name": name, "input": {}}]
            assert json.loads("".join(pieces)) == arguments


@pytest.mark.parametrize("case", RESPONSES_CASES, ids=lambda case: case[0])
@pytest.mark.parametrize("target", TARGETS_OF_RESPONSES)
def test_a_call_and_its_output_are_a_functions_in_a_later_turn(case, target):
    name, arguments, _, _, output, text = case
    result = {"type": f"{name}_call_output", "call_id": "call_1", **output}
    history = [{"role": "user", "content": "go"}, item_of(case), result]

    body, dropped = crossed(RESPONSES, target, {"input": history, "tools": [{"type": name}]})

    _, call, answer = body["messages"]
    has_failed = output.get("status") == "failed"
    if target is CHAT:
        (called,) = call["tool_calls"]
        assert (called["id"], called["function"]["name"]) == ("call_1", name)
        assert json.loads(called["function"]["arguments"]) == arguments
        told = f"Error: {text}" if has_failed else text
        assert answer == {"role": "tool", "tool_call_id": "call_1", "content": told}
    else:
        assert call["content"] == [{"type": "tool_use", "id": "call_1", "name": name, "input": arguments}]
        more = {"is_error": True} if has_failed else {}
        told = [{"type": "text", "text": text}]
        assert answer["content"] == [{"type": "tool_result", "tool_use_id": "call_1", "content": told, **more}]
    assert dropped == ()


def test_a_result_belongs_to_its_call_in_a_later_turn(subtests):
    for (kind, name, arguments), target in itertools.product(MESSAGES_CASES, TARGETS_OF_MESSAGES):
        with subtests.test(kind=kind, name=name, arguments=arguments, target=target):
            messages = [
                {"role": "user", "content": "go"},
                {"role": "assistant", "content": [{"type": "tool_use", "id": "toolu_1", "name": name, "input": arguments}]},
                {
                    "role": "user",
                    "content": [{"type": "tool_result", "tool_use_id": "toolu_1", "content": "OUT", "is_error": True}],
                },
            ]

            body, _ = crossed(
                MESSAGES, target, {"max_tokens": 9, "messages": messages, "tools": [{"type": kind, "name": name}]}
            )

            if target is CHAT:
                (call,) = body["messages"][1]["tool_calls"]
                assert json.loads(call["function"]["arguments"]) == arguments
                assert body["messages"][2] == {"role": "tool", "tool_call_id": "toolu_1", "content": "Error: OUT"}
            else:
                call, output = body["input"][1:]
                assert (call["name"], json.loads(call["arguments"])) == (name, arguments)
                assert (output["type"], output["call_id"]) == ("function_call_output", "toolu_1")


TEXTS, LIMITS = some.text(), some.none() | some.integers(1, 10**9)
HELD = some.one_of(
    some.tuples(
        some.just(("shell", "action")),
        some.fixed_dictionaries({"commands": some.lists(TEXTS, min_size=1), "timeout_ms": LIMITS, "max_output_length": LIMITS}),
    ),
    some.tuples(
        some.just(("local_shell", "action")),
        some.fixed_dictionaries(
            {
                "type": some.just("exec"),
                "command": some.lists(TEXTS, min_size=1),
                "env": some.dictionaries(TEXTS, TEXTS, max_size=3),
            },
            optional={"timeout_ms": some.integers(1, 10**9), "user": some.text(min_size=1)},
        ),
    ),
    some.tuples(
        some.just(("apply_patch", "operation")),
        some.fixed_dictionaries(
            {"type": some.sampled_from(["create_file", "update_file"]), "path": some.text(min_size=1), "diff": TEXTS}
        )
        | some.fixed_dictionaries({"type": some.just("delete_file"), "path": some.text(min_size=1)}),
    ),
)


@given(HELD, some.sampled_from(TARGETS_OF_RESPONSES), some.booleans())
def test_any_call_is_the_same_item_after_a_way_there_and_back(call, target, is_streamed):
    (name, field), held = call
    item = {"type": f"{name}_call", "call_id": "call_1", field: held}
    asked = {"tools": [{"type": name}]}

    body, _ = crossed(RESPONSES, target, {"input": [{"role": "user", "content": "go"}, item], **asked})
    if target is CHAT:
        arguments = body["messages"][1]["tool_calls"][0]["function"]["arguments"]
    else:
        arguments = json.dumps(body["messages"][1]["content"][0]["input"])
    speech = spoken(target, name, arguments)
    if is_streamed:
        whole = streamed(RESPONSES, target, speech, **asked)[-1]["response"]
    else:
        whole = told_whole(RESPONSES, target, speech, **asked)

    (back,) = whole["output"]
    assert {**item, **back} == back


@pytest.mark.parametrize(
    ("arguments", "is_cut"),
    [
        *((arguments, is_cut) for arguments in ('{"commands": ["rm -r', "rm -r x", "[]", "") for is_cut in (False, True)),
        ('{"commands": []}', False),
    ],
)
def test_a_call_that_does_not_fit_its_item_is_a_functions_with_what_the_model_wrote(arguments, is_cut):
    speech = spoken(CHAT, "shell", arguments, is_cut=is_cut)

    whole = told_whole(RESPONSES, CHAT, speech, tools=[{"type": "shell"}])
    events = streamed(RESPONSES, CHAT, speech, tools=[{"type": "shell"}])

    (item,) = whole["output"]
    assert (item["type"], item["name"], item["call_id"]) == ("function_call", "shell", "call_1")
    assert item["arguments"] == (arguments or ("" if is_cut else "{}"))
    assert whole["output"] == events[-1]["response"]["output"]
    assert item["status"] == ("incomplete" if is_cut else "completed")
    deltas = [event["delta"] for event in events if event["type"] == "response.function_call_arguments.delta"]
    assert "".join(deltas) == item["arguments"]
    assert ("response.function_call_arguments.done" in [event["type"] for event in events]) == (not is_cut)


def test_several_calls_at_once_come_back_one_after_another():
    calls = (
        ToolCall("call_1", "shell", '{"commands": ["ls"]}'),
        ToolCall("call_2", "look", "{}"),
        ToolCall("call_3", "apply_patch", '{"type": "delete_file", "path": "a"}'),
    )
    tools = [{"type": "shell"}, {"type": "function", "name": "look", "parameters": {}}, {"type": "apply_patch"}]

    events = streamed(RESPONSES, CHAT, Speech("Look.", calls), tools=tools)

    output = events[-1]["response"]["output"]
    assert [item["type"] for item in output] == ["message", "shell_call", "function_call", "apply_patch_call"]
    done = [event for event in events if event["type"] == "response.output_item.done"]
    assert [(event["output_index"], event["item"]) for event in done] == list(enumerate(output))


def test_the_output_of_the_oldest_shell_has_the_calls_id_as_its_own():
    call = item_of(RESPONSES_CASES[1], "call_9")
    output = {"type": "local_shell_call_output", "id": "call_9", "output": "OUT"}

    body, _ = crossed(RESPONSES, CHAT, {"input": [{"role": "user", "content": "go"}, call, output]})

    assert body["messages"][2] == {"role": "tool", "tool_call_id": "call_9", "content": "OUT"}


def test_an_output_in_fields_that_nobody_knows_is_told_as_it_is():
    call, output = item_of(RESPONSES_CASES[0]), {"type": "shell_call_output", "call_id": "call_1", "output": [{"log": "OUT"}]}

    body, _ = crossed(RESPONSES, CHAT, {"input": [{"role": "user", "content": "go"}, call, output]})

    assert body["messages"][2]["content"] == '[{"log":"OUT"}]'


def test_a_shell_in_a_container_of_the_host_is_not_the_clients():
    hosted = {"type": "shell", "environment": {"type": "container_auto"}}

    body, dropped = crossed(RESPONSES, CHAT, {"input": "x", "tools": [hosted]})

    assert ("tools" in body, dropped) == (False, ("the tool shell",))
    with pytest.raises(Misfit, match="shell"):
        crossed(RESPONSES, CHAT, {"input": "x", "tools": [hosted], "tool_choice": {"type": "shell"}})


def test_the_skills_of_a_local_shell_are_described_and_its_callers_are_named_as_dropped():
    skill = {"name": "pdf", "description": "Reads PDFs", "path": "/skills/pdf"}
    tool = {"type": "shell", "environment": {"type": "local", "skills": [skill]}, "allowed_callers": ["programmatic"]}

    body, dropped = crossed(RESPONSES, CHAT, {"input": "x", "tools": [tool]})

    assert body["tools"][0]["function"]["description"].endswith("\n- pdf: Reads PDFs: /skills/pdf")
    assert dropped == ("allowed_callers of tools",)


def test_an_allow_list_keeps_a_tool_by_its_type():
    choice = {"type": "allowed_tools", "mode": "required", "tools": [{"type": "apply_patch"}, {"type": "web_search"}]}
    tools = [{"type": "shell"}, {"type": "apply_patch"}]

    body, _ = crossed(RESPONSES, CHAT, {"input": "x", "tools": tools, "tool_choice": choice})

    assert [tool["function"]["name"] for tool in body["tools"]] == ["apply_patch"]


def test_the_limit_of_a_view_is_described():
    tool = {"type": "text_editor_20250728", "name": "str_replace_based_edit_tool", "max_characters": 4000}

    body, dropped = crossed(MESSAGES, CHAT, {**REQUESTS[MESSAGES], "tools": [tool]})

    assert body["tools"][0]["function"]["description"].endswith("A view shows at most 4000 characters.")
    assert dropped == ()
