"""Bodies for targets that speak responses."""

from router.dialects.translate.envelope import wrap
from tests.tools.bridging import (
    ASK,
    CHAT,
    MESSAGES,
    OPENAI,
    PICTURE,
    RESPONSES,
    SCHEMA,
    TOOL,
    claude,
    claude_request,
    crossed,
    thought,
)


def test_a_tool_loop_of_chat_becomes_items():
    body, dropped = crossed(
        CHAT,
        RESPONSES,
        {
            "messages": [
                {"role": "system", "content": "Be brief."},
                {
                    "role": "user",
                    "content": [{"type": "text", "text": "see"}, {"type": "image_url", "image_url": {"url": PICTURE}}],
                },
                {
                    "role": "assistant",
                    "content": "I look.",
                    "tool_calls": [
                        {"id": "c1", "type": "function", "function": {"name": "look", "arguments": '{"a":"x"}'}},
                        {"id": "c2", "type": "function", "function": {"name": "look", "arguments": '{"a":"y"}'}},
                    ],
                },
                {"role": "tool", "tool_call_id": "c1", "content": "one"},
                {"role": "tool", "tool_call_id": "c2", "content": [{"type": "text", "text": "two"}]},
                {"role": "developer", "content": "Careful."},
            ],
            "tools": [{"type": "function", "function": {**TOOL, "strict": True}}],
            "tool_choice": "required",
            "parallel_tool_calls": False,
            "max_completion_tokens": 77,
            "temperature": 0.5,
            "reasoning_effort": "high",
            "verbosity": "low",
            "metadata": {"k": "v"},
            "prompt_cache_key": "s1",
            "response_format": {"type": "json_schema", "json_schema": {"name": "n", "schema": SCHEMA, "strict": True}},
            "stream": True,
        },
    )

    assert dropped == ()
    assert body == {
        "model": "real-model",
        "instructions": "Be brief.",
        "input": [
            {
                "type": "message",
                "role": "user",
                "content": [
                    {"type": "input_text", "text": "see"},
                    {"type": "input_image", "image_url": PICTURE, "detail": "auto"},
                ],
            },
            {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "I look."}]},
            {"type": "function_call", "call_id": "c1", "name": "look", "arguments": '{"a":"x"}'},
            {"type": "function_call", "call_id": "c2", "name": "look", "arguments": '{"a":"y"}'},
            {"type": "function_call_output", "call_id": "c1", "output": "one"},
            {"type": "function_call_output", "call_id": "c2", "output": "two"},
            {"type": "message", "role": "developer", "content": [{"type": "input_text", "text": "Careful."}]},
        ],
        "tools": [{"type": "function", **TOOL, "strict": True}],
        "tool_choice": "required",
        "parallel_tool_calls": False,
        "text": {"format": {"type": "json_schema", "name": "n", "schema": SCHEMA, "strict": True}, "verbosity": "low"},
        "max_output_tokens": 77,
        "temperature": 0.5,
        "reasoning": {"effort": "high"},
        "metadata": {"k": "v"},
        "prompt_cache_key": "s1",
        "store": False,
        "stream": True,
    }


def test_a_tool_loop_of_messages_becomes_items_with_pictures_in_the_results():
    body, dropped = crossed(MESSAGES, RESPONSES, claude_request(stream=True), quirks=OPENAI)

    assert dropped == ("the tool web", "reasoning of earlier answers", "stop sequences")
    assert [item["type"] for item in body["input"]] == [
        "message", "message", "function_call", "function_call", "function_call_output", "function_call_output", "message",
        "message",
    ]  # fmt: skip
    assert body["input"][4]["output"][1] == {"type": "input_image", "image_url": PICTURE, "detail": "auto"}
    assert body["input"][5]["output"] == "Error: not there"
    assert body["input"][7]["role"] == "developer"
    assert body["tool_choice"] == {"type": "function", "name": "look"}
    assert body["reasoning"] == {"effort": "high", "summary": "auto"}
    assert body["include"] == ["reasoning.encrypted_content"]


def test_a_limit_below_what_responses_take_is_raised():
    body, dropped = crossed(MESSAGES, RESPONSES, claude(max_tokens=1))

    assert (body["max_output_tokens"], dropped) == (16, ("max_tokens raised to 16",))


def test_reasoning_goes_back_only_before_what_followed_it():
    own = wrap("spark", {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "E"})
    alone = {"role": "assistant", "content": [{"type": "thinking", "thinking": "", "signature": own}]}

    body, dropped = crossed(MESSAGES, RESPONSES, claude(*ASK, alone, *ASK))
    whole, _ = crossed(MESSAGES, RESPONSES, claude(*ASK, thought(own), *ASK))

    assert [item["type"] for item in body["input"]] == ["message", "message"]
    assert dropped == ("reasoning of earlier answers",)
    assert [item["type"] for item in whole["input"]] == ["message", "reasoning", "message", "message"]
