"""Responses requests on their way to another dialect: what is read, and what only one host can know."""

import pytest

from router.contract.errors import BadRequest, Misfit, ResponseForgotten
from tests.tools.bridging import ASK, CHAT, MESSAGES, RESPONSES, codex_request, crossed


@pytest.mark.parametrize("field", ["prompt", "conversation", "previous_response_id"])
def test_what_only_one_host_keeps_is_refused_naming_it(field):
    with pytest.raises(BadRequest, match=field):
        crossed(RESPONSES, CHAT, {"input": "x", field: "kept_1"})


@pytest.mark.parametrize("target", [CHAT, MESSAGES])
def test_an_earlier_answer_that_a_target_cannot_know_is_refused_so_that_its_caller_sends_it(target):
    with pytest.raises(ResponseForgotten, match="previous_response_id"):
        crossed(RESPONSES, target, {"input": "again", "previous_response_id": "resp_1"})


def test_calls_of_a_hosts_own_tools_keep_what_they_say():
    patch = {"type": "apply_patch_call", "call_id": "p", "operation": {"type": "update_file", "path": "a", "diff": "DIFF"}}
    shell = {"type": "shell_call", "call_id": "s", "action": {"commands": ["ls"]}}
    outputs = [
        {"type": "apply_patch_call_output", "call_id": "p", "output": "done"},
        {
            "type": "shell_call_output",
            "call_id": "s",
            "output": [{"stdout": "OUT", "outcome": {"type": "exit", "exit_code": 0}}],
        },
    ]

    body, dropped = crossed(RESPONSES, CHAT, {"input": [*ASK, patch, shell, *outputs]})

    assert "DIFF" in body["messages"][1]["tool_calls"][0]["function"]["arguments"]
    assert "OUT" in body["messages"][3]["content"]
    assert dropped == ()


def test_a_free_form_call_of_a_group_has_the_name_under_which_its_tool_is_offered():
    call = {"type": "custom_tool_call", "call_id": "c", "namespace": "g", "name": "p", "input": "i"}
    output = {"type": "custom_tool_call_output", "call_id": "c", "output": "o"}
    tools = [{"type": "namespace", "name": "g", "tools": [{"type": "custom", "name": "p"}]}]

    body, _ = crossed(RESPONSES, CHAT, {"input": [*ASK, call, output], "tools": tools})

    assert body["messages"][1]["tool_calls"][0]["function"]["name"] == body["tools"][0]["function"]["name"] == "g__p"


@pytest.mark.parametrize("target", [CHAT, MESSAGES])
def test_an_allow_list_leaves_only_the_tools_that_it_names(target):
    choice = {"type": "allowed_tools", "mode": "required", "tools": [{"type": "custom", "name": "apply_patch"}]}

    body, _ = crossed(RESPONSES, target, codex_request(tool_choice=choice))

    names = [tool.get("name") or tool["function"]["name"] for tool in body["tools"]]
    assert names == ["apply_patch"]
    assert body["tool_choice"] in ("required", {"type": "any"})


@pytest.mark.parametrize("target", [CHAT, MESSAGES])
def test_a_forced_tool_that_cannot_be_offered_is_refused(target):
    with pytest.raises(Misfit, match="web_search"):
        crossed(RESPONSES, target, codex_request(tool_choice={"type": "web_search"}))
