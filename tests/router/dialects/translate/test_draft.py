"""What a draft holds to, whoever filled it."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as some

from router.contract.errors import Misfit
from router.dialects.translate.draft import ToolNames
from tests.tools.bridging import CHAT, MESSAGES, REQUESTS, RESPONSES, claude, crossed, tool
from tests.tools.values import make_view


@pytest.mark.parametrize(("caller", "body"), [
    (RESPONSES, {"input": "x", "tools": [{"type": "web_search"}], "tool_choice": "required"}),
    (MESSAGES, claude(tools=[{"type": "web_search_20250305", "name": "web_search"}], tool_choice={"type": "any"})),
    (RESPONSES, {"input": "x", "tools": [tool("f")], "tool_choice": {"type": "allowed_tools", "mode": "required", "tools": []}}),
])  # fmt: skip
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
    content = [{"type": "text", "text": "see"}, *[{"type": "hologram", "hologram": {}}] * 50]

    _, dropped = crossed(CHAT, MESSAGES, {"messages": [{"role": "user", "content": content}] * 9})

    assert dropped == ("parts of type hologram",)


WORDS = {CHAT: {"type": "text", "text": "see"}, RESPONSES: {"type": "input_text", "text": "see"}}
WORDS[MESSAGES] = WORDS[CHAT]
FILE_BY_ID = {"type": "file", "file_id": "file_1"}
BOUND = [
    (CHAT, {"type": "file", "file": {"file_id": "file_1"}}),
    (CHAT, {"type": "input_audio", "input_audio": {"data": "AA", "format": "wav"}}),
    (RESPONSES, {"type": "input_file", "file_id": "file_1"}),
    (RESPONSES, {"type": "input_image", "file_id": "file_1"}),
    (RESPONSES, {"type": "input_audio", "input_audio": {"data": "AA", "format": "wav"}}),
    (MESSAGES, {"type": "document", "source": FILE_BY_ID}),
    (MESSAGES, {"type": "image", "source": FILE_BY_ID}),
    (MESSAGES, {"type": "container_upload", "file_id": "file_1"}),
]


def with_content(caller, content: list[dict]) -> dict:
    """A request of one message."""
    name = "input" if caller is RESPONSES else "messages"
    return {**REQUESTS[caller], name: [{"role": "user", "content": content}]}


def test_what_a_person_attached_is_never_left_out_of_a_translation(subtests):
    for caller, part, target in [(*bound, target) for bound in BOUND for target in REQUESTS if target is not bound[0]]:
        with subtests.test(caller=caller, part=part, target=target):
            for content in ([part], [WORDS[caller], part]):
                body = with_content(caller, content)

                with pytest.raises(Misfit, match="cannot be passed to a target that speaks another dialect"):
                    crossed(caller, target, body)
                assert make_view(body, caller).bound


@pytest.mark.parametrize(("caller", "target"), [(one, other) for one in REQUESTS for other in REQUESTS if one is not other])
def test_a_message_of_unknown_parts_alone_is_never_an_empty_one(caller, target):
    unknown = {"type": "hologram", "data": "AA"}

    with pytest.raises(Misfit):
        crossed(caller, target, with_content(caller, [unknown]))
    assert "parts of type hologram" in crossed(caller, target, with_content(caller, [unknown, WORDS[caller]]))[1]


LONG = "mcp__" + "x" * 90


def test_a_name_that_fits_stays_as_it_is_and_one_of_a_group_is_joined_to_it():
    names = ToolNames()

    assert names.seen("look") == "look"
    assert names.seen("a" * 64) == "a" * 64
    assert names.seen("find", "mcp") == "mcp__find"


def test_a_tool_that_is_named_as_another_would_be_does_not_become_it():
    made = ToolNames().seen(LONG)
    first, second = ToolNames(), ToolNames()

    assert first.seen(made) != first.seen(LONG)
    assert second.seen(LONG) != second.seen(made)


@given(some.sets(some.tuples(some.none() | some.text(max_size=70), some.text(min_size=1, max_size=140)), max_size=12))
def test_every_tool_has_a_name_of_its_own_that_every_host_takes(tools):
    names = ToolNames()

    seen = [names.seen(name, namespace) for namespace, name in tools]

    assert all(re.fullmatch("[a-zA-Z0-9_-]{1,64}", name) for name in seen)
    assert len(set(seen)) == len({(namespace or "", name) for namespace, name in tools})
