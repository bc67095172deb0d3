"""A streamed message, put together: the same as the whole answer, however the bytes are cut, or nothing at all."""

import json
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from router.responses.assemble import MessageAssembler, read_whole

BLOCKS = [
    {"type": "thinking", "thinking": "hm, so", "signature": "signed"},
    {"type": "redacted_thinking", "data": "sealed"},
    {"type": "text", "text": "I read ünicode.", "citations": [{"cited_text": "a"}, {"cited_text": "b"}]},
    {"type": "tool_use", "id": "toolu_1", "name": "ls", "input": {"path": "a/ü", "deep": [1, None]}},
    {"type": "tool_use", "id": "toolu_2", "name": "ping", "input": {}},
]
START = {"type": "message_start", "message": {"id": "msg_1", "role": "assistant", "content": []}}
STOP = {"type": "message_stop"}


def frame(event: dict) -> bytes:
    return f"event: {event['type']}\ndata: {json.dumps(event)}\n\n".encode()


def halves(text: str) -> tuple[str, str]:
    return text[: len(text) // 2], text[len(text) // 2 :]


def events_of(index: int, block: dict) -> list[dict]:
    match block["type"]:
        case "thinking":
            empty = {"thinking": "", "signature": ""}
            deltas = [{"type": "thinking_delta", "thinking": half} for half in halves(block["thinking"])]
            deltas.append({"type": "signature_delta", "signature": block["signature"]})
        case "text":
            empty = {"text": "", "citations": []}
            deltas = [{"type": "citations_delta", "citation": citation} for citation in block["citations"]]
            deltas += [{"type": "text_delta", "text": half} for half in halves(block["text"])]
        case "tool_use":
            empty = {"input": {}}
            written = json.dumps(block["input"]) if block["input"] else ""
            deltas = [{"type": "input_json_delta", "partial_json": half} for half in halves(written)]
        case _:
            empty, deltas = {}, []
    return [
        {"type": "content_block_start", "index": index, "content_block": {**block, **empty}},
        *({"type": "content_block_delta", "index": index, "delta": delta} for delta in deltas),
        {"type": "content_block_stop", "index": index},
    ]


EVENTS = [START, {"type": "ping"}, *(event for index, block in enumerate(BLOCKS) for event in events_of(index, block)), STOP]
STREAM = b"".join(map(frame, EVENTS))


def assemble(*events: dict) -> dict | None:
    assembler = MessageAssembler()
    found = [assembler.add(frame(event)) for event in events]
    return next((message for message in [*found, assembler.finish()] if message), None)


def test_every_block_comes_back_as_a_whole_answer_has_it():
    assert assemble(*EVENTS) == {"id": "msg_1", "role": "assistant", "content": BLOCKS}


@given(st.lists(st.integers(0, len(STREAM)), max_size=6))
def test_it_is_the_same_however_the_bytes_are_cut_and_told_with_the_last_of_them(cuts):
    places = [0, *sorted(cuts), len(STREAM)]
    assembler = MessageAssembler()

    found = [assembler.add(STREAM[start:stop]) for start, stop in pairwise(places)]

    told = [message for message in found if message is not None]
    assert [message["content"] for message in told] == [BLOCKS]
    assert all(message is None for message, stop in zip(found, places[1:], strict=True) if stop < len(STREAM) - 1)
    assert assembler.finish() is None


def test_a_last_event_without_its_empty_line_is_read_at_the_end():
    assembler = MessageAssembler()

    assert assembler.add(STREAM.removesuffix(b"\n\n")) is None
    assert assembler.finish()["content"] == BLOCKS


@pytest.mark.parametrize(
    "events",
    [
        [START, *events_of(0, BLOCKS[0])],
        [START, {"type": "error", "error": {"type": "overloaded_error"}}],
        [START, {"type": "content_block_start", "index": 0, "content_block": {"type": "text"}},
         {"type": "content_block_delta", "index": 0, "delta": {"type": "new_delta", "new": "x"}}, STOP],
        [START, {"type": "content_block_delta", "index": 7, "delta": {"type": "text_delta", "text": "x"}}, STOP],
        [START, {"type": "content_block_start", "content_block": {"type": "text"}}, STOP],
        [START, {"type": "content_block_start", "index": 0, "content_block": {"type": "tool_use", "input": {}}},
         {"type": "content_block_delta", "index": 0, "delta": {"type": "input_json_delta", "partial_json": '{"a'}}, STOP],
        [{**START, "message": {"role": "assistant"}}, STOP],
        [STOP],
    ],
    ids=["cut", "error", "unknown delta", "no block", "no index", "cut arguments", "no id", "nothing"],
)  # fmt: skip
def test_a_message_that_cannot_be_told_right_is_not_told(events):
    assert assemble(*events) is None


def test_broken_bytes_end_it_quietly():
    assembler = MessageAssembler()

    assert [assembler.add(data) for data in (b"data: {nonsense\n\n", STREAM)] == [None, None]
    assert assembler.finish() is None


def test_a_stream_without_end_is_not_held():
    assembler = MessageAssembler()
    begun = frame(START) + frame({"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}})
    piece = frame({"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "x" * 1_000_000}})

    assert [assembler.add(data) for data in (begun, *[piece] * 40, frame(STOP))] == [None] * 42


def test_a_whole_answer_is_its_own_message():
    message = {"id": "msg_1", "content": BLOCKS}

    assert read_whole(json.dumps(message).encode(), "content") == message
    for other in (b"", b"[]", b"{}", b'{"id":"msg_1"}', b'{"content":[]}', b'{"id":"msg_1","content":"x"}'):
        assert read_whole(other, "content") is None
