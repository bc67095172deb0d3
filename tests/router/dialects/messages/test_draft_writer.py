"""Bodies for targets that speak messages."""

from router.dialects.composer import plain_id
from tests.tools.bridging import ASK, CHAT, MESSAGES, RESPONSES, SCHEMA, codex_request, crossed, tool


def test_what_codex_sends_becomes_messages_whose_roles_take_turns():
    body, dropped = crossed(RESPONSES, MESSAGES, codex_request())

    assert dropped == ("the tool web_search", "reasoning of earlier answers", "prompt_cache_key")
    assert body["system"] == [{"type": "text", "text": "You are it."}, {"type": "text", "text": "Rules."}]
    assert [message["role"] for message in body["messages"]] == ["user", "assistant", "user", "assistant", "user"]
    assert body["messages"][1]["content"] == [
        {"type": "tool_use", "id": plain_id("call.1"), "name": "apply_patch", "input": {"input": "*** Begin"}}
    ]
    assert body["messages"][2]["content"][0]["tool_use_id"] == plain_id("call.1")
    assert body["messages"][3]["content"][0]["name"] == "mcp__find"
    result, reminder = body["messages"][4]["content"]
    assert result["content"] == [{"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AAAA"}}]
    assert reminder["text"] == "<system-reminder>\nLater.\n</system-reminder>"
    assert [tool["name"] for tool in body["tools"]] == ["apply_patch", "mcp__find"]
    assert body["output_config"] == {"effort": "max"}
    assert body["thinking"] == {"type": "adaptive"}
    assert body["max_tokens"] > 0


def test_chat_becomes_messages_with_the_limit_that_they_ask_for():
    body, dropped = crossed(
        CHAT,
        MESSAGES,
        {
            "messages": [{"role": "user", "content": "x"}],
            "stop": "END",
            "max_tokens": 5,
            "seed": 1,
            "response_format": {"type": "json_schema", "json_schema": {"name": "n", "schema": SCHEMA}},
            "user": "u",
        },
    )

    assert dropped == ("seed", "the name of the answer's schema")
    assert body == {
        "model": "real-model",
        "max_tokens": 5,
        "messages": [{"role": "user", "content": [{"type": "text", "text": "x"}]}],
        "output_config": {"format": {"type": "json_schema", "schema": SCHEMA}},
        "stop_sequences": ["END"],
        "metadata": {"user_id": "u"},
    }


def test_the_limit_that_messages_ask_for_fits_the_window_too():
    body, dropped = crossed(CHAT, MESSAGES, {"messages": ASK}, window_tokens=16_000, prompt_tokens=6_000)

    assert (body["max_tokens"], dropped) == (10_000, ())


def test_thinking_is_left_out_beside_a_tool_that_must_be_called():
    body, dropped = crossed(
        RESPONSES, MESSAGES, {"input": "x", "tools": [tool("f")], "tool_choice": "required", "reasoning": {"effort": "high"}}
    )

    assert "thinking" not in body
    assert body["tool_choice"] == {"type": "any"}
    assert dropped == ("thinking, together with a required tool call",)


def test_messages_get_one_way_to_sample_within_their_bounds_and_no_blank_stops():
    body, dropped = crossed(CHAT, MESSAGES, {"messages": ASK, "temperature": 1.7, "top_p": 0.9, "stop": ["\n", "END"]})

    assert (body["temperature"], body["stop_sequences"]) == (1.0, ["END"])
    assert "top_p" not in body
    assert set(dropped) == {"blank stop sequences", "top_p, together with temperature", "temperature lowered to 1"}
