"""Marks of prompt caching (`cache_control`) over each bridge: how many arrive, and where."""

import pytest

from tests.tools.bridging import CHAT, MESSAGES, RESPONSES, SCHEMA, claude, codex_request, crossed

MARK = {"type": "ephemeral"}
HOUR = {"type": "ephemeral", "ttl": "1h"}


def places(value, path="") -> dict[str, dict]:
    """Every mark in a body, by where it is."""
    if isinstance(value, list):
        return {place: mark for index, part in enumerate(value) for place, mark in places(part, f"{path}[{index}]").items()}
    if not isinstance(value, dict):
        return {}
    here = {path: value["cache_control"]} if "cache_control" in value else {}
    below = (places(part, f"{path}.{name}".strip(".")) for name, part in value.items() if name != "cache_control")
    return here | {place: mark for found in below for place, mark in found.items()}


def text(words: str, mark=None) -> dict:
    return {"type": "text", "text": words, **({"cache_control": mark} if mark else {})}


def claude_code(**more) -> dict:
    """A tool loop as Claude Code marks it: twice in the system prompt, and on the newest block."""
    return claude(
        {"role": "user", "content": [text("look")]},
        {"role": "assistant", "content": [{"type": "tool_use", "id": "t1", "name": "look", "input": {}}]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t1", "content": "seen", "cache_control": MARK}]},
        system=[text("You are it."), text("Rules.", HOUR), text("Where you are.", MARK)],
        tools=[{"name": "look", "description": "", "input_schema": SCHEMA}],
        **more,
    )


def test_the_three_marks_of_claude_code_reach_a_chat_target_that_caches_when_asked():
    body, _ = crossed(MESSAGES, CHAT, claude_code(), caches_when_asked=True)

    assert places(body) == {"messages[0].content[1]": HOUR, "messages[0].content[2]": MARK, "messages[3].content[0]": MARK}
    assert [part["text"] for part in body["messages"][0]["content"]] == ["You are it.", "Rules.", "Where you are."]
    assert body["messages"][3]["content"][0]["text"] == "seen"


@pytest.mark.parametrize("target", [CHAT, RESPONSES])
def test_a_target_that_caches_by_itself_or_refuses_unknown_fields_gets_no_mark(target):
    marked = claude_code(cache_control=MARK)
    marked["tools"][0]["cache_control"] = MARK

    body, dropped = crossed(MESSAGES, target, marked)

    assert places(body) == {}
    assert dropped == ()


def test_marks_on_every_kind_of_block_reach_a_chat_target():
    image = {"type": "image", "source": {"type": "url", "url": "https://x/y.png"}, "cache_control": MARK}
    call = {"type": "tool_use", "id": "t1", "name": "look", "input": {}, "cache_control": MARK}
    nested = {"type": "tool_result", "tool_use_id": "t1", "content": [text("seen", HOUR)]}
    body, _ = crossed(
        MESSAGES,
        CHAT,
        claude(
            {"role": "user", "content": [text("a", MARK), image]},
            {"role": "assistant", "content": [text("I look.", MARK), call]},
            {"role": "user", "content": [nested]},
            tools=[{"name": "look", "input_schema": SCHEMA, "cache_control": MARK}],
        ),
        caches_when_asked=True,
    )

    assert places(body) == {
        "messages[0].content[0]": MARK,
        "messages[0].content[1]": MARK,
        "messages[1].content[0]": MARK,
        "messages[1].tool_calls[0]": MARK,
        "messages[2].content[0]": HOUR,
        "tools[0]": MARK,
    }


def test_a_mark_on_a_system_message_in_mid_conversation_reaches_chat_and_messages():
    later = {"role": "system", "content": [text("Where you are.", MARK)]}
    hi = {"role": "user", "content": "hi"}

    to_chat, _ = crossed(MESSAGES, CHAT, claude(hi, later), caches_when_asked=True)
    to_messages, _ = crossed(CHAT, MESSAGES, {"messages": [hi, later]}, caches_when_asked=True)

    assert places(to_chat) == {"messages[1].content[0]": MARK}
    assert places(to_messages) == {"messages[0].content[1]": MARK}


def test_a_mark_on_a_blank_text_is_left_out_since_it_would_be_refused():
    body, _ = crossed(
        MESSAGES, CHAT, claude({"role": "user", "content": [text("a", MARK), text(" ", MARK)]}), caches_when_asked=True
    )

    assert places(body) == {"messages[0].content[0]": MARK}


def test_a_callers_mark_for_the_whole_request_ends_up_at_the_end_of_the_prompt():
    body, _ = crossed(MESSAGES, CHAT, claude(system="You are it.", cache_control=HOUR), caches_when_asked=True)

    assert places(body) == {"messages[0].content[0]": HOUR, "messages[1].content[0]": HOUR}


def test_a_messages_caller_that_marks_nothing_pays_for_no_cache_it_did_not_ask_for():
    assert places(crossed(MESSAGES, CHAT, claude(system="You are it."), caches_when_asked=True)[0]) == {}


def test_a_codex_request_is_marked_for_chat_at_the_end_of_the_system_prompt_and_of_the_conversation():
    body, _ = crossed(RESPONSES, CHAT, codex_request(), caches_when_asked=True)

    last = max(place for place, message in enumerate(body["messages"]) if message["role"] in ("user", "tool"))
    assert places(body) == {"messages[0].content[0]": MARK, f"messages[{last}].content[0]": MARK}


def test_a_codex_request_is_marked_for_messages_at_the_end_of_the_system_prompt_and_of_the_conversation():
    body, _ = crossed(RESPONSES, MESSAGES, codex_request(), caches_when_asked=True)

    last = len(body["messages"][-1]["content"]) - 1
    assert places(body) == {"system[1]": MARK, f"messages[{len(body['messages']) - 1}].content[{last}]": MARK}


def test_without_a_system_prompt_the_tools_are_what_sessions_share():
    tools = [{"type": "function", "name": "look", "parameters": SCHEMA}]

    body, _ = crossed(RESPONSES, MESSAGES, {"input": "x", "tools": tools}, caches_when_asked=True)

    assert places(body) == {"tools[0]": MARK, "messages[0].content[0]": MARK}


@pytest.mark.parametrize("caller", [CHAT, RESPONSES])
def test_a_messages_target_that_caches_by_itself_gets_no_mark_of_ours(caller):
    bodies = {CHAT: {"messages": [{"role": "user", "content": "x"}]}, RESPONSES: {"input": "x"}}

    assert places(crossed(caller, MESSAGES, bodies[caller])[0]) == {}


def chat_request(**more) -> dict:
    call = {"id": "c1", "type": "function", "function": {"name": "look", "arguments": "{}"}}
    return {
        "messages": [
            {"role": "system", "content": [text("You are it.", MARK)]},
            {"role": "user", "content": "look"},
            {"role": "assistant", "content": "I look.", "tool_calls": [call], "cache_control": MARK},
            {"role": "tool", "tool_call_id": "c1", "content": [text("seen", MARK)]},
        ],
        "tools": [{"type": "function", "function": {"name": "look", "parameters": SCHEMA}, "cache_control": HOUR}],
        **more,
    }


@pytest.mark.parametrize("caches_when_asked", [True, False])
def test_the_marks_of_a_chat_caller_reach_a_messages_target_and_none_is_added(caches_when_asked):
    body, dropped = crossed(CHAT, MESSAGES, chat_request(), caches_when_asked=caches_when_asked)

    assert places(body) == {"system[0]": MARK, "messages[1].content[0]": MARK, "messages[2].content[0]": MARK, "tools[0]": HOUR}
    assert body["messages"][2]["content"][0]["type"] == "tool_result"
    assert dropped == ()


def test_a_chat_caller_that_marks_nothing_is_marked_for_a_messages_target():
    body, _ = crossed(
        CHAT,
        MESSAGES,
        {"messages": [{"role": "system", "content": "You are it."}, {"role": "user", "content": "hi"}]},
        caches_when_asked=True,
    )

    assert places(body) == {"system[0]": MARK, "messages[0].content[0]": MARK}


@pytest.mark.parametrize("caller", [CHAT, MESSAGES])
def test_responses_targets_cache_by_themselves_and_get_no_mark(caller):
    body = chat_request() if caller is CHAT else claude_code()

    assert places(crossed(caller, RESPONSES, body)[0]) == {}
