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
    asked = [{"type": "text", "text": "see"}, {"type": "image_url", "image_url": {"url": PICTURE}}]
    calls = {"c1": '{"a":"x"}', "c2": '{"a":"y"}'}
    functions = [{"id": key, "type": "function", "function": {"name": "look", "arguments": calls[key]}} for key in calls]
    form = {"name": "n", "schema": SCHEMA, "strict": True}
    kept = {"tool_choice": "required", "parallel_tool_calls": False, "temperature": 0.5, "metadata": {"k": "v"}}
    kept |= {"prompt_cache_key": "s1", "stream": True}
    request = {
        **kept,
        "messages": [
            {"role": "system", "content": "Be brief."},
            {"role": "user", "content": asked},
            {"role": "assistant", "content": "I look.", "tool_calls": functions},
            {"role": "tool", "tool_call_id": "c1", "content": "one"},
            {"role": "tool", "tool_call_id": "c2", "content": [{"type": "text", "text": "two"}]},
            {"role": "developer", "content": "Careful."},
        ],
        "tools": [{"type": "function", "function": {**TOOL, "strict": True}}],
        "max_completion_tokens": 77,
        "reasoning_effort": "high",
        "verbosity": "low",
        "response_format": {"type": "json_schema", "json_schema": form},
    }

    body, dropped = crossed(CHAT, RESPONSES, request)

    image = {"type": "input_image", "image_url": PICTURE, "detail": "auto"}
    assert dropped == ()
    assert body == {
        **kept,
        "model": "real-model",
        "instructions": "Be brief.",
        "input": [
            {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "see"}, image]},
            {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "I look."}]},
            *({"type": "function_call", "call_id": key, "name": "look", "arguments": calls[key]} for key in calls),
            {"type": "function_call_output", "call_id": "c1", "output": "one"},
            {"type": "function_call_output", "call_id": "c2", "output": "two"},
            {"type": "message", "role": "developer", "content": [{"type": "input_text", "text": "Careful."}]},
        ],
        "tools": [{"type": "function", **TOOL, "strict": True}],
        "text": {"format": {"type": "json_schema", **form}, "verbosity": "low"},
        "max_output_tokens": 77,
        "reasoning": {"effort": "high"},
        "store": False,
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
