"""What a draft holds to, whoever filled it."""

import pytest

from router.contract.errors import Misfit
from tests.tools.bridging import CHAT, MESSAGES, RESPONSES, claude, crossed, tool


@pytest.mark.parametrize(
    ("caller", "body"),
    [
        (RESPONSES, {"input": "x", "tools": [{"type": "web_search"}], "tool_choice": "required"}),
        (MESSAGES, claude(tools=[{"type": "web_search_20250305", "name": "web_search"}], tool_choice={"type": "any"})),
        (
            RESPONSES,
            {"input": "x", "tools": [tool("f")], "tool_choice": {"type": "allowed_tools", "mode": "required", "tools": []}},
        ),
    ],
)
def test_a_tool_that_must_be_called_when_none_is_left_is_a_misfit(caller, body):
    with pytest.raises(Misfit, match="tool_choice"):
        crossed(caller, CHAT, body)


def test_of_two_tools_with_one_name_the_last_is_offered_and_the_first_is_named_as_lost():
    more = {"type": "additional_tools", "tools": [tool("f", description="new")]}

    body, dropped = crossed(RESPONSES, MESSAGES, {"input": [{"role": "user", "content": "x"}, more], "tools": [tool("f")]})

    assert [(offered["name"], offered["description"]) for offered in body["tools"]] == [("f", "new")]
    assert dropped == ("the first of two tools named f",)


@pytest.mark.parametrize("target", [RESPONSES, MESSAGES])
def test_a_conversation_of_system_texts_alone_is_answered(target):
    messages = [{"role": "system", "content": "rules"}, {"role": "system", "content": "say hi"}]

    body, _ = crossed(CHAT, target, {"messages": messages})

    (only,) = body["messages"] if target is MESSAGES else body["input"]
    assert (only["role"], only["content"][0]["text"]) == ("user", "say hi")


def test_a_picture_has_the_media_type_that_every_host_knows():
    picture = {"type": "image_url", "image_url": {"url": "data:image/jpg;base64,AA"}}

    body, _ = crossed(CHAT, MESSAGES, {"messages": [{"role": "user", "content": [picture]}]})

    assert body["messages"][0]["content"][0]["source"]["media_type"] == "image/jpeg"


def test_many_parts_of_one_unknown_kind_are_named_once():
    content = [{"type": "text", "text": "hear"}, *[{"type": "input_audio", "input_audio": {}}] * 50]

    _, dropped = crossed(CHAT, MESSAGES, {"messages": [{"role": "user", "content": content}] * 9})

    assert dropped == ("parts of type input_audio",)
