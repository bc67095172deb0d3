"""How Messages hosts really answer."""

import json

import orjson
import pytest

from router.dialects.composer import Answer
from router.dialects.messages.compose import MessagesComposer
from router.dialects.messages.parse import MessagesParser
from router.dialects.translate.envelope import THINKING_BLOCK, unwrap
from tests.tools.bridging import CHAT, MESSAGES, RESPONSES, answer_to


def test_counts_of_cache_writes_and_reasoning_cross():
    counts = {"input_tokens": 10, "cache_creation_input_tokens": 1000, "cache_read_input_tokens": 5, "output_tokens": 3}
    claude = {"content": [], "usage": {**counts, "output_tokens_details": {"thinking_tokens": 2}}}
    openai = {
        "output": [],
        "usage": {"input_tokens": 10, "output_tokens": 30, "output_tokens_details": {"reasoning_tokens": 20}},
    }

    chat = json.loads(answer_to(CHAT, MESSAGES).whole(orjson.dumps(claude)))["usage"]
    messages = json.loads(answer_to(MESSAGES, RESPONSES).whole(orjson.dumps(openai)))["usage"]

    assert chat["prompt_tokens_details"] == {"cached_tokens": 5, "cache_write_tokens": 1000}
    assert chat["completion_tokens_details"] == {"reasoning_tokens": 2}
    assert messages["output_tokens_details"] == {"thinking_tokens": 20}


def parsed(*events: dict) -> tuple[MessagesParser, dict]:
    composer = MessagesComposer(Answer("x", "m", 1))
    composer.open()
    parser = MessagesParser(composer, "spark", "x")
    for event in events:
        parser.parse(event)
    parser.finish()
    return parser, composer.whole()


def block(index: int, content: dict, *deltas: dict) -> list[dict]:
    return [
        {"type": "content_block_start", "index": index, "content_block": content},
        *({"type": "content_block_delta", "index": index, "delta": delta} for delta in deltas),
        {"type": "content_block_stop", "index": index},
    ]


END = {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 2}}
STOP = {"type": "message_stop"}


def test_thinking_and_its_signature_come_back_in_one_envelope():
    thinking = block(
        0,
        {"type": "thinking", "thinking": ""},
        {"type": "thinking_delta", "thinking": "let me "},
        {"type": "thinking_delta", "thinking": "see"},
        {"type": "signature_delta", "signature": "s"},
    )

    _, whole = parsed(*thinking, END, STOP)

    state = unwrap(whole["content"][0]["signature"], "spark", THINKING_BLOCK)
    assert state == {"type": "thinking", "thinking": "let me see", "signature": "s"}


def test_redacted_thinking_is_carried_though_it_says_nothing():
    _, whole = parsed(*block(0, {"type": "redacted_thinking", "data": "d"}), END, STOP)

    assert unwrap(whole["content"][0]["signature"], "spark", THINKING_BLOCK) == {"type": "redacted_thinking", "data": "d"}


def test_input_that_stands_in_the_blocks_beginning_is_read():
    _, whole = parsed(*block(0, {"type": "tool_use", "id": "t", "name": "ls", "input": {"path": "."}}), END, STOP)

    assert whole["content"][0]["input"] == {"path": "."}
    assert whole["stop_reason"] == "tool_use"


@pytest.mark.parametrize("last", [(), (END,)], ids=["nothing", "a stop reason alone"])
def test_a_stream_without_its_last_event_has_no_end(last):
    parser, _ = parsed(*block(0, {"type": "text", "text": "half"}), *last)

    assert not parser.is_complete
    assert not parser.has_finish


def test_a_last_event_without_a_stop_reason_is_an_end_as_it_is_in_a_whole_answer():
    parser, whole = parsed(*block(0, {"type": "text", "text": "all"}), STOP)

    assert parser.is_complete
    assert whole["stop_reason"] == "end_turn"


@pytest.mark.parametrize(("reason", "told"), [("max_tokens", "max_tokens"), ("refusal", "refusal"), ("pause_turn", "end_turn")])
def test_why_it_ended_is_kept_where_it_is_known(reason, told):
    _, whole = parsed(*block(0, {"type": "text", "text": "a"}), {**END, "delta": {"stop_reason": reason}}, STOP)

    assert whole["stop_reason"] == told
