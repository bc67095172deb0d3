"""Conversations as chat hosts take them: calls in one message, their results right behind it."""

import json

from router.dialects.hosts import Quirks
from router.dialects.translate.bridges import BRIDGES
from router.dialects.translate.context import WriteContext
from router.dialects.translate.envelope import wrap
from tests.tools.bridging import ASK, CHAT, GEMINI, MESSAGES, OPENAI, PICTURE, RESPONSES, TOOL, claude, claude_request, crossed
from tests.tools.values import make_target, make_view
from tests.tools.work import cost_ratio


def test_a_tool_loop_of_messages_becomes_chat_with_pictures_behind_the_results():
    body, dropped = crossed(MESSAGES, CHAT, claude_request(), quirks=OPENAI)

    assert dropped == ("the tool web", "reasoning of earlier answers")
    assert body == {
        "model": "real-model",
        "messages": [
            {"role": "system", "content": "You are it."},
            {"role": "user", "content": "look"},
            {
                "role": "assistant",
                "content": "I look.",
                "tool_calls": [
                    {"id": "toolu_1", "type": "function", "function": {"name": "look", "arguments": '{"a":"x"}'}},
                    {"id": "toolu_2", "type": "function", "function": {"name": "look", "arguments": "{}"}},
                ],
            },
            {"role": "tool", "tool_call_id": "toolu_1", "content": "seen"},
            {"role": "tool", "tool_call_id": "toolu_2", "content": "Error: not there"},
            {
                "role": "user",
                "content": [
                    {"type": "text", "text": "What the tool call toolu_1 returned:"},
                    {"type": "image_url", "image_url": {"url": PICTURE}},
                ],
            },
            {"role": "user", "content": "go on"},
            {"role": "system", "content": "A reminder."},
        ],
        "tools": [{"type": "function", "function": TOOL}],
        "tool_choice": {"type": "function", "function": {"name": "look"}},
        "parallel_tool_calls": False,
        "max_completion_tokens": 64,
        "stop": ["END"],
        "reasoning_effort": "high",
        "safety_identifier": "u1",
    }


def test_results_stand_right_behind_their_calls_and_other_lines_wait():
    """A chat host refuses calls that are not followed by all of their results at once."""
    calls = [{"type": "function_call", "call_id": name, "name": "f", "arguments": "{}"} for name in "ab"]
    outputs = [{"type": "function_call_output", "call_id": name, "output": name} for name in "ab"]
    note, later = ({"role": role, "content": f"of the {role}"} for role in ("developer", "user"))

    body, _ = crossed(RESPONSES, CHAT, {"input": [*ASK, *calls, note, outputs[0], later, outputs[1], *ASK]})

    said = [(line["role"], line.get("tool_call_id") or line["content"]) for line in body["messages"]]
    waited = [("system", "of the developer"), ("user", "of the user")]
    assert said == [("user", "hi"), ("assistant", None), ("tool", "a"), ("tool", "b"), *waited, ("user", "hi")]


def test_a_call_that_was_never_answered_holds_nothing_back():
    call = {"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}"}

    body, _ = crossed(
        RESPONSES, CHAT, {"input": [*ASK, call, {"role": "user", "content": "stop"}, {"role": "assistant", "content": "ok"}]}
    )

    assert [message["role"] for message in body["messages"]] == ["user", "assistant", "user", "assistant"]


def test_reasoning_that_nothing_followed_is_not_put_before_a_later_answer():
    own = wrap("spark", {"reasoning_content": "A"})
    alone = {"role": "assistant", "content": [{"type": "thinking", "thinking": "", "signature": own}]}

    body, _ = crossed(
        MESSAGES, CHAT, claude(*ASK, alone, *ASK, {"role": "assistant", "content": "b"}), quirks=Quirks(replays_reasoning=True)
    )

    assert "reasoning_content" not in json.dumps(body)


def test_the_first_call_of_each_step_carries_the_signature_that_its_host_takes():
    use = [{"type": "tool_use", "id": f"t{number}", "name": "f", "input": {}} for number in range(2)]
    results = [{"type": "tool_result", "tool_use_id": f"t{number}", "content": "r"} for number in range(2)]

    body, _ = crossed(
        MESSAGES, CHAT, claude(*ASK, {"role": "assistant", "content": use}, {"role": "user", "content": results}), quirks=GEMINI
    )

    first, second = body["messages"][1]["tool_calls"]
    assert first["extra_content"]["google"]["thought_signature"] == "skip_thought_signature_validator"
    assert "extra_content" not in second


def test_many_answers_in_a_row_take_time_in_proportion():
    message = {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "z" * 50}]}
    many, few = (make_view({"input": [message] * count}, RESPONSES) for count in (8_000, 1_000))

    def cross(view) -> None:
        BRIDGES[RESPONSES, CHAT].cross(view, WriteContext(make_target(), "m"), created=1)

    assert cost_ratio(lambda: cross(many), lambda: cross(few), repeats=3) < 24
