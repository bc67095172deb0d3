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
from router.dialects.compose import Answer, ComposedCall, Finish, Shape, compose
from router.dialects.compose.parts import free_form, write_call
from router.dialects.sse import split_frames

CALL = ComposedCall("call_1", "ls", '{"path": "."}')
USAGE = Usage(11, 5, cached_tokens=2)
EVENTS = {
    Dialect.CHAT: ChatCompletionChunk,
    Dialect.RESPONSES: ResponseStreamEvent,
    Dialect.MESSAGES: RawMessageStreamEvent,
}
WHOLE = {Dialect.CHAT: ChatCompletion, Dialect.RESPONSES: Response, Dialect.MESSAGES: Message, Dialect.COMPLETIONS: Completion}


ANSWER = Answer("x", "m", 1, shapes={"patch": Shape("patch", is_custom=True), "ns__f": Shape("f", "ns")})


def written(dialect: Dialect, finish: Finish = Finish.STOP):
    """An answer with everything in it, as frames and as its composer."""
    composer = compose(dialect, ANSWER)
    pieces = [composer.open(), composer.reasoning("hm"), composer.reasoning("m"), composer.seal("sealed")]
    pieces += [composer.text("a"), composer.text("b"), write_call(composer, CALL)]
    pieces += [write_call(composer, ComposedCall("call_2", "patch", '{"input": "*** Begin"}'))]
    pieces += [write_call(composer, ComposedCall("call_3", "ns__f", "{}")), composer.close(finish, USAGE)]
    return split_frames(b"".join(pieces)), composer


@pytest.mark.parametrize("dialect", list(EVENTS))
@pytest.mark.parametrize("finish", list(Finish))
def test_every_event_fits_the_sdks_type(dialect, finish):
    adapter = TypeAdapter(EVENTS[dialect])
    events = [frame.json() for frame in written(dialect, finish)[0] if frame.data != b"[DONE]"]

    assert len(events) >= 4
    for event in events:
        if dialect is Dialect.CHAT and any(call.get("type") == "custom" for call in _calls_of(event)):
            continue  # the SDK has no type for a free-form call in a stream
        adapter.validate_python(event)


def _calls_of(chunk: dict) -> list[dict]:
    return [call for choice in chunk["choices"] for call in choice["delta"].get("tool_calls", [])]


@pytest.mark.parametrize("dialect", list(Dialect))
def test_a_whole_answer_fits_the_sdks_type(dialect):
    body = written(dialect)[1].whole()

    whole = TypeAdapter(WHOLE[dialect]).validate_json(json.dumps(body))

    said = {
        Dialect.CHAT: lambda: whole.choices[0].message.content,
        Dialect.COMPLETIONS: lambda: whole.choices[0].text,
        Dialect.RESPONSES: lambda: whole.output_text,
        Dialect.MESSAGES: lambda: next(block.text for block in whole.content if block.type == "text"),
    }
    assert said[dialect]() == "ab"


def test_responses_events_number_without_a_gap_and_finish_every_item():
    events = [frame.json() for frame in written(Dialect.RESPONSES)[0]]

    assert [event["sequence_number"] for event in events] == list(range(len(events)))
    kinds = [event["type"] for event in events]
    assert kinds.count("response.output_item.added") == kinds.count("response.output_item.done") == 5
    assert kinds[-1] == "response.completed"
    output = events[-1]["response"]["output"]
    assert [item["type"] for item in output] == ["reasoning", "message", "function_call", "custom_tool_call", "function_call"]
    assert output[3]["input"] == "*** Begin"
    assert (output[4]["namespace"], output[4]["name"]) == ("ns", "f")


def test_an_answer_cut_by_its_limit_says_so_in_every_dialect():
    ends = {dialect: written(dialect, Finish.LENGTH)[1].whole() for dialect in Dialect}

    assert ends[Dialect.CHAT]["choices"][0]["finish_reason"] == "length"
    assert ends[Dialect.COMPLETIONS]["choices"][0]["finish_reason"] == "length"
    assert ends[Dialect.MESSAGES]["stop_reason"] == "max_tokens"
    assert ends[Dialect.RESPONSES]["status"] == "incomplete"
    assert ends[Dialect.RESPONSES]["incomplete_details"] == {"reason": "max_output_tokens"}


@pytest.mark.parametrize(
    ("arguments", "found"),
    [
        ('{"input": "*** Begin Patch"}', "*** Begin Patch"),
        ('{"patch": "*** Begin Patch"}', "*** Begin Patch"),
        ("*** Begin Patch", "*** Begin Patch"),
        ('"*** Begin Patch"', "*** Begin Patch"),
        ('{"a": 1, "b": 2}', '{"a": 1, "b": 2}'),
    ],
)
def test_free_form_input_is_found_however_the_model_wrapped_it(arguments, found):
    assert free_form(arguments) == found
