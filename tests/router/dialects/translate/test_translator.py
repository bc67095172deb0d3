"""Answers over every bridge: the same words, calls and counts, whatever the target speaks and however its bytes are cut."""

import itertools
import json
import time
from unittest import mock

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as some

from router.contract.usage import Usage
from router.contract.words import Dialect
from router.dialects.answers import read_whole_answer
from router.dialects.composer import Answer, ComposedCall, Finish, write_call
from router.dialects.sse import split_frames
from router.dialects.table import SPECS
from router.dialects.translate.bridges import BRIDGES
from router.dialects.translate.context import WriteContext
from tests.tools.bridging import CALLERS_OF_CHAT, CHAT, MESSAGES, RESPONSES, answer_to, calls_of, chunk, events_in, heard
from tests.tools.values import make_target, make_view
from tests.tools.work import cost_ratio

PAIRS = list(BRIDGES)
USAGE = Usage(100, 20, cached_tokens=40, reasoning_tokens=0)
REQUESTS = {
    Dialect.CHAT: {"messages": [{"role": "user", "content": "x"}], "stream_options": {"include_usage": True}},
    Dialect.RESPONSES: {"input": "x", "include": ["reasoning.encrypted_content"]},
    Dialect.MESSAGES: {"max_tokens": 99, "messages": [{"role": "user", "content": "x"}], "thinking": {"type": "adaptive"}},
}


def translated(caller: Dialect, target: Dialect, body: dict | None = None):
    request = {**REQUESTS[caller], "stream": True, **(body or {})}
    context = WriteContext(make_target(speaks=frozenset({target})), "m")
    return BRIDGES[caller, target].cross(make_view(request, caller), context, created=1)


def tell(composer, finish: Finish = Finish.STOP, calls: int = 2) -> bytes:
    pieces = [composer.open(), composer.reasoning("let me "), composer.reasoning("see"), composer.envelope("target's own")]
    pieces += [composer.text("Hello "), composer.text("wörld\n\n"), composer.text("!")]
    for number in range(calls):
        pieces.append(
            write_call(composer, ComposedCall(f"call_{number}", "ls", orjson.dumps({"path": f"dir {number}"}).decode()))
        )
    return b"".join([*pieces, composer.close(finish, USAGE)])


def answer_of(target: Dialect, finish: Finish = Finish.STOP, calls: int = 2) -> tuple[bytes, bytes]:
    """An answer as a target of this dialect gives it: streamed, and whole."""
    composer = SPECS[target].composer(Answer("t", "m", 1))
    return tell(composer, finish, calls), orjson.dumps(composer.whole())


def gathered(events: list[dict]) -> tuple[str, str, list[tuple[str, str, str]]]:
    """Text, reasoning and calls, as a client of any dialect would put them together."""
    text = thought = ""
    for event in events:
        for delta in (choice["delta"] for choice in event.get("choices", [])):
            text += delta.get("content") or ""
            thought += delta.get("reasoning_content") or ""
        if event.get("type") == "response.output_item.done":
            item = event["item"]
            text += item["content"][0]["text"] if item["type"] == "message" else ""
            thought += "".join(part["text"] for part in item.get("summary", []))
        elif event.get("type") == "content_block_delta":
            text += event["delta"].get("text", "")
            thought += event["delta"].get("thinking", "")
    return text, thought, calls_of(events)


CALLS = [(f"call_{number}", "ls", orjson.dumps({"path": f"dir {number}"}).decode()) for number in range(2)]


@pytest.mark.parametrize(("caller", "target"), PAIRS)
def test_a_stream_carries_text_reasoning_calls_and_usage_in_events_that_the_sdk_takes(sdk, caller, target):
    answer = translated(caller, target).answer

    out = answer.feed(answer_of(target)[0]) + answer.finish()

    events = events_in(out)
    for event in events:
        sdk.events[caller].validate_python(event)
    assert gathered(events) == ("Hello wörld\n\n!", "let me see", CALLS)
    end = SPECS[caller].read_end(split_frames(out))
    assert end.is_complete
    assert (end.usage.input_tokens, end.usage.output_tokens, end.usage.cached_tokens) == (100, 20, 40)


@settings(max_examples=60, deadline=None)
@given(
    pair=some.sampled_from(list(BRIDGES)), sizes=some.lists(some.integers(1, 50), min_size=1, max_size=8), ends=some.booleans()
)
def test_a_stream_in_pieces_of_any_size_and_with_any_line_ends_is_told_the_same(pair, sizes, ends):
    with mock.patch.object(time, "time", return_value=2.0):  # a response says when it was completed
        data = answer_of(pair[1])[0]
        whole = translated(*pair).answer
        expected = whole.feed(data) + whole.finish()
        answer, out, start, turn = translated(*pair).answer, b"", 0, 0
        data = data.replace(b"\n", b"\r\n") if ends else data

        while start < len(data):
            size = sizes[turn % len(sizes)]
            out += answer.feed(data[start : start + size])
            start, turn = start + size, turn + 1

        assert out + answer.finish() == expected


@pytest.mark.parametrize(("caller", "target"), PAIRS)
def test_a_whole_answer_fits_the_sdks_type_and_says_what_the_stream_says(sdk, caller, target):
    stream, body = answer_of(target)

    told = json.loads(translated(caller, target, {"stream": False, "stream_options": None}).answer.whole(body))

    sdk.whole[caller].validate_python(told)
    assert read_whole_answer(caller, orjson.dumps(told)).cached_tokens == 40
    streamed = translated(caller, target).answer
    events = events_in(streamed.feed(stream) + streamed.finish())
    if caller is Dialect.RESPONSES:
        assert told["output"] == events[-1]["response"]["output"]
    if caller is Dialect.CHAT:
        message = told["choices"][0]["message"]
        assert (message["content"], message["reasoning_content"]) == gathered(events)[:2]
        assert [call["function"]["arguments"] for call in message["tool_calls"]] == [call[2] for call in CALLS]


@pytest.mark.parametrize(("caller", "target"), PAIRS)
def test_a_stream_that_stops_short_gets_no_end(caller, target):
    data = answer_of(target)[0]
    last = {
        Dialect.CHAT: b'"finish_reason":"',
        Dialect.RESPONSES: b"event: response.completed",
        Dialect.MESSAGES: b"event: message_delta",
    }
    answer = translated(caller, target).answer

    out = answer.feed(data[: data.rindex(last[target])].rpartition(b"\n\n")[0] + b"\n\n") + answer.finish()

    assert not SPECS[caller].read_end(split_frames(out)).is_complete


@pytest.mark.parametrize(("caller", "target"), PAIRS)
def test_an_error_in_the_middle_of_a_stream_is_the_callers_own_kind_of_error(caller, target):
    error = {"type": "overloaded_error", "message": "Busy", "code": "server_is_overloaded"}
    event = {
        Dialect.CHAT: {"error": error},
        Dialect.RESPONSES: {"type": "response.failed", "response": {"error": error}},
        Dialect.MESSAGES: {"type": "error", "error": error},
    }[target]
    answer = translated(caller, target).answer
    opening = SPECS[target].composer(Answer("t", "m", 1)).open()

    out = answer.feed(opening + b"data: " + json.dumps(event).encode() + b"\n\ndata: [DONE]\n\n") + answer.finish()

    end = SPECS[caller].read_end(split_frames(out))
    assert end.has_failed
    assert not end.is_complete
    assert b"server_is_overloaded" in out
    assert b"[DONE]" not in out


def test_a_free_form_tool_and_a_grouped_one_come_back_as_the_caller_knows_them():
    tools = [
        {"type": "custom", "name": "apply_patch", "format": {"type": "grammar", "syntax": "lark", "definition": "start: x"}},
        {"type": "namespace", "name": "mcp", "tools": [{"type": "function", "name": "find", "parameters": {"type": "object"}}]},
    ]
    crossed = translated(Dialect.RESPONSES, Dialect.CHAT, {"tools": tools})
    target = SPECS[Dialect.CHAT].composer(Answer("t", "m", 1))
    data = target.open()
    data += write_call(target, ComposedCall("call_1", "apply_patch", json.dumps({"input": "*** Begin Patch"})))
    data += write_call(target, ComposedCall("call_2", "mcp__find", "{}")) + target.close(Finish.TOOLS, USAGE)

    events = events_in(crossed.answer.feed(data) + crossed.answer.finish())

    offered = {tool["function"]["name"]: tool["function"] for tool in json.loads(crossed.body)["tools"]}
    assert "start: x" in offered["apply_patch"]["description"]
    assert offered["apply_patch"]["parameters"]["required"] == ["input"]
    patch, found = (event["item"] for event in events if event["type"] == "response.output_item.done")
    assert (patch["type"], patch["input"]) == ("custom_tool_call", "*** Begin Patch")
    assert (found["namespace"], found["name"]) == ("mcp", "find")


@pytest.mark.parametrize("caller", [Dialect.RESPONSES, Dialect.MESSAGES])
def test_a_targets_hidden_reasoning_comes_back_to_it_as_it_was_and_to_nobody_else(caller):
    target = Dialect.MESSAGES if caller is Dialect.RESPONSES else Dialect.RESPONSES
    crossed = translated(caller, target)
    answer = crossed.answer
    events = events_in(answer.feed(answer_of(target, calls=0)[0]) + answer.finish())
    if caller is Dialect.RESPONSES:
        history = {
            "input": [{"role": "user", "content": "x"}, *events[-1]["response"]["output"], {"role": "user", "content": "y"}]
        }
    else:
        signature = next(e["delta"]["signature"] for e in events if e.get("delta", {}).get("type") == "signature_delta")
        thinking = {"type": "thinking", "thinking": "let me see", "signature": signature}
        said = [{"role": "assistant", "content": [thinking, {"type": "text", "text": "a"}]}]
        history = {"messages": [{"role": "user", "content": "x"}, *said, {"role": "user", "content": "y"}]}

    again = translated(caller, target, history)
    other = BRIDGES[caller, target].cross(
        make_view({**REQUESTS[caller], **history}, caller),
        WriteContext(make_target("other", speaks=frozenset({target})), "m"),
        created=1,
    )

    body = json.loads(again.body)
    if target is Dialect.MESSAGES:
        assert body["messages"][1]["content"][0] == {"type": "thinking", "thinking": "let me see", "signature": "target's own"}
    else:
        assert body["input"][1]["encrypted_content"] == "target's own"
        assert body["input"][1]["type"] == "reasoning"
    assert b"target's own" not in other.body
    assert other.dropped == ("reasoning of earlier answers",)


def test_a_refusal_keeps_its_words_however_the_host_writes_them(subtests):
    for (caller, target), raw in itertools.product(
        PAIRS,
        [
            b'{"error": {"message": "Bad field", "type": "invalid_request_error", "param": "x", "code": "unknown_parameter"}}',
            b'{"type": "error", "error": {"type": "invalid_request_error", "message": "Bad field"}}',
            b'[{"error": {"code": 400, "message": "Bad field", "status": "INVALID_ARGUMENT"}}]',
            b'{"object": "error", "message": "Bad field", "type": "BadRequestError", "code": 400}',
            b"Bad field",
        ],
    ):
        with subtests.test(caller=caller, target=target, raw=raw):
            body = json.loads(translated(caller, target).answer.refusal(400, raw))

            assert body["error"]["message"] == "Bad field"
            assert ("type" in body) == (caller is Dialect.MESSAGES)


def test_a_refusal_for_length_carries_the_words_on_which_each_client_compacts():
    words = "This model's maximum context length is 128000 tokens. However, your messages resulted in 130,412 tokens."
    raw = json.dumps({"error": {"message": words, "code": "context_length_exceeded", "type": "invalid_request_error"}}).encode()

    to_messages = json.loads(translated(Dialect.MESSAGES, Dialect.CHAT).answer.refusal(400, raw))
    claude = (
        b'{"type":"error","error":{"type":"invalid_request_error","message":"prompt is too long: 9000 tokens > 8000 maximum"}}'
    )
    to_responses = json.loads(translated(Dialect.RESPONSES, Dialect.MESSAGES).answer.refusal(400, claude))

    assert to_messages["error"]["message"].startswith("prompt is too long: 130412 tokens > 128000 maximum")
    assert to_responses["error"]["code"] == "context_length_exceeded"


@pytest.mark.parametrize("caller", CALLERS_OF_CHAT)
def test_an_event_that_is_not_json_fails_the_answer(caller):
    events = heard(caller, CHAT, chunk({"content": "one"}), b'data: {"choices":[{"delta":\n\n', chunk(finish="stop"))

    assert events[-1]["type"] in ("response.failed", "error")


def test_a_frame_without_end_fails_the_answer():
    answer = answer_to(RESPONSES, CHAT, stream=True)
    out = b""

    for _ in range(17):
        out += answer.feed(b"x" * (1 << 20))

    assert SPECS[RESPONSES].read_end(split_frames(out)).has_failed


def test_many_events_in_one_piece_take_time_in_proportion():
    def feed(count: int) -> None:
        event = b'data: {"choices":[{"index":0,"delta":{"content":"tok "}}]}\n\n'
        assert answer_to(MESSAGES, CHAT, stream=True).feed(event * count).count(b"tok ") == count

    assert cost_ratio(lambda: feed(8_000), lambda: feed(1_000), repeats=3) < 24


@pytest.mark.parametrize(
    ("target", "body"),
    [
        (CHAT, {"choices": [None]}),
        (CHAT, {"choices": []}),
        (RESPONSES, {"status": "queued", "output": []}),
        (RESPONSES, {"status": "cancelled", "output": []}),
        (RESPONSES, {"status": "failed", "output": [], "error": None}),
    ],
)
def test_what_is_no_answer_is_refused(target, body):
    with pytest.raises(ValueError, match="answer"):
        answer_to(MESSAGES, target).whole(orjson.dumps(body))


def test_an_answer_that_is_nested_too_deeply_to_be_written_is_refused():
    deep = '{"a":' * 300 + "1" + "}" * 300
    calls = [{"id": "f", "function": {"name": "f", "arguments": deep}}]
    body = {"choices": [{"message": {"tool_calls": calls}, "finish_reason": "tool_calls"}]}

    with pytest.raises(ValueError, match="nested"):
        answer_to(MESSAGES, CHAT).whole(orjson.dumps(body))
