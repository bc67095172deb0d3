"""How Responses hosts really answer: items told by deltas, by their end, or both."""

import json

import orjson
import pytest

from tests.tools.bridging import CHAT, MESSAGES, RESPONSES, answer_to, calls_of, heard


def item(number: int, arguments: str = "") -> dict:
    return {"type": "function_call", "id": f"fc_{number}", "call_id": f"c{number}", "name": "f", "arguments": arguments}


def test_calls_of_a_responses_target_that_interleave_are_told_once():
    events = heard(
        CHAT,
        RESPONSES,
        *({"type": "response.output_item.added", "output_index": n, "item": item(n)} for n in (0, 1)),
        *(
            {"type": "response.function_call_arguments.delta", "output_index": n, "item_id": "odd", "delta": "{}"}
            for n in (0, 1)
        ),
        *({"type": "response.output_item.done", "output_index": n, "item": item(n, "{}")} for n in (0, 1)),
        {"type": "response.completed", "response": {"status": "completed"}},
    )

    assert calls_of(events) == [("c0", "f", "{}"), ("c1", "f", "{}")]


@pytest.mark.parametrize("place", [{"output_index": 0}, {"item_id": "msg_1"}])
def test_an_items_text_is_told_once_whether_the_host_names_its_place_or_its_id(place):
    message = {"type": "message", "id": "msg_1", "role": "assistant", "content": [{"type": "output_text", "text": "Hello"}]}
    done = {"type": "response.output_item.done", **{key: place[key] for key in place if key != "item_id"}, "item": message}

    events = heard(
        CHAT, RESPONSES, {"type": "response.output_text.delta", "delta": "Hello", **place}, done, {"type": "response.completed"}
    )

    assert [
        choice["delta"]["content"] for event in events for choice in event["choices"] if choice["delta"].get("content")
    ] == ["Hello"]


def test_hidden_reasoning_that_says_and_keeps_nothing_makes_no_block():
    empty = {"type": "reasoning", "id": "rs", "summary": []}
    message = {"type": "message", "id": "m", "content": [{"type": "output_text", "text": "ok"}]}

    told = json.loads(
        answer_to(MESSAGES, RESPONSES, thinking={"type": "adaptive"}).whole(
            orjson.dumps({"status": "completed", "output": [empty, message]})
        )
    )

    assert [block["type"] for block in told["content"]] == ["text"]
