"""Requests of Chat Completions."""

import pytest
from msgspec.structs import replace

from router.contract.request import ToolCall
from router.contract.words import Feature
from router.dialects.chat.request import add_instructions, read_message
from router.dialects.opaque import all_keys, without_foreign
from tests.tools.values import make_view

USER = {"role": "user", "content": "x"}
CALL = {"id": "c", "type": "function", "function": {"name": "ls", "arguments": "{}"}}


def test_calls_and_results_are_told_from_texts():
    called = read_message({"role": "assistant", "content": "I look.", "tool_calls": [CALL]})
    custom = read_message({"role": "assistant", "tool_calls": [{"id": "d", "custom": {"name": "patch", "input": "***"}}]})
    result = read_message({"role": "tool", "tool_call_id": "c", "content": [{"type": "text", "text": "a"}]})

    assert (called.texts, called.calls) == (("I look.",), (ToolCall("c", "ls", "{}"),))
    assert custom.calls == (ToolCall("d", "patch", "***"),)
    assert (result.role, result.results[0].call_id, result.results[0].text) == ("tool", "c", "a")


@pytest.mark.parametrize(
    ("item", "seen"),
    [
        (USER, ("user", ())),
        ({"role": "assistant", "tool_calls": [CALL, {"function": None}]}, ("assistant", ("ls", ""))),
        ({"role": "narrator"}, ("narrator", ())),
        ({"role": 7}, ("", ())),
        ("x", ("", ())),
    ],
)
def test_a_message_shows_its_role_and_the_names_that_it_calls_however_odd_it_is(item, seen):
    message = read_message(item)

    assert (message.role, tuple(call.name for call in message.calls)) == seen


@pytest.mark.parametrize(("role", "system"), [("system", "S"), ("developer", "S"), ("user", "")])
def test_the_first_message_may_be_the_system_prompt(role, system):
    assert make_view({"messages": [{"role": role, "content": "S"}, USER]}).system == system


@pytest.mark.parametrize(
    ("body", "need"),
    [
        ({"tools": [CALL]}, Feature.TOOLS),
        ({"tools": [{"type": "custom"}]}, Feature.CUSTOM_TOOLS),
        ({"response_format": {"type": "json_schema"}}, Feature.JSON_SCHEMA),
        ({"reasoning_effort": "low"}, Feature.REASONING),
        ({"reasoning": {"effort": "low"}}, Feature.REASONING),
        ({"messages": [{"role": "user", "content": [{"type": "input_audio", "input_audio": {"data": "AA"}}]}]}, Feature.FILES),
    ],
)
def test_what_a_request_needs_is_read_from_its_fields(body, need):
    assert make_view({"messages": [USER], **body}).needs == {Feature.TEXT, need}


def test_instructions_come_right_behind_the_system_message_in_its_own_role():
    changes: dict = {}

    add_instructions({"messages": [{"role": "developer", "content": "S"}, USER]}, "T", changes)

    assert changes["messages"] == [{"role": "developer", "content": "S"}, {"role": "developer", "content": "T"}, USER]


def test_instructions_are_added_to_messages_that_were_already_changed():
    changes: dict = {"messages": [USER, USER]}

    add_instructions({"messages": [USER]}, "T", changes)

    assert changes["messages"] == [{"role": "system", "content": "T"}, USER, USER]


def test_a_chat_hosts_thoughts_are_taken_out_of_their_message():
    view = make_view({"messages": [USER, {"role": "assistant", "content": "a", "reasoning_content": "hm"}, USER]})
    (key,) = all_keys(view)

    assert without_foreign(replace(view, origins={key: "sage"}), "spark") == [USER, {"role": "assistant", "content": "a"}, USER]
