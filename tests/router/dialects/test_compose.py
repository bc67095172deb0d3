"""What we compose must satisfy the SDKs' own types."""

import json

import pytest
from anthropic.types import Message, RawMessageStreamEvent
from openai.types import Completion
from openai.types.chat import ChatCompletion, ChatCompletionChunk
from openai.types.responses import Response, ResponseStreamEvent
from pydantic import TypeAdapter

from router.contract.entry import Usage
from router.contract.words import Dialect
from router.dialects.compose import ComposedCall, compose
from router.dialects.sse import split_frames

CALL = ComposedCall("call_1", "ls", '{"path": "."}')
USAGE = Usage(11, 5, cached_tokens=2)
EVENTS = {
    Dialect.CHAT: ChatCompletionChunk,
    Dialect.RESPONSES: ResponseStreamEvent,
    Dialect.MESSAGES: RawMessageStreamEvent,
}
WHOLE = {Dialect.CHAT: ChatCompletion, Dialect.RESPONSES: Response, Dialect.MESSAGES: Message, Dialect.COMPLETIONS: Completion}


@pytest.mark.parametrize("dialect", list(EVENTS))
def test_every_event_fits_the_sdks_type(dialect):
    composer = compose(dialect, "x", "m", 1)
    data = composer.open() + composer.text("a") + composer.text("b") + composer.call(CALL) + composer.close(USAGE)
    adapter = TypeAdapter(EVENTS[dialect])

    events = [frame.json() for frame in split_frames(data) if frame.data != b"[DONE]"]

    assert len(events) >= 4
    for event in events:
        adapter.validate_python(event)


@pytest.mark.parametrize("dialect", list(Dialect))
def test_a_whole_answer_fits_the_sdks_type(dialect):
    body = compose(dialect, "x", "m", 1).whole("ab", [] if dialect is Dialect.COMPLETIONS else [CALL], USAGE)

    TypeAdapter(WHOLE[dialect]).validate_json(json.dumps(body))


def test_responses_events_number_without_a_gap_and_finish_every_item():
    composer = compose(Dialect.RESPONSES, "x", "m", 1)

    frames = split_frames(composer.open() + composer.text("a") + composer.call(CALL) + composer.close(USAGE))

    events = [frame.json() for frame in frames]
    assert [event["sequence_number"] for event in events] == list(range(len(events)))
    kinds = [event["type"] for event in events]
    assert kinds.count("response.output_item.added") == kinds.count("response.output_item.done") == 2
    assert kinds[-1] == "response.completed"
    assert [item["type"] for item in events[-1]["response"]["output"]] == ["message", "function_call"]
