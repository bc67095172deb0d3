"""How targets really answer: calls announced early or under one number, text in odd places, ends that are none."""

import json
import time

import orjson
import pytest

from router.contract.words import Dialect
from router.dialects.answers import read_stream_end
from router.dialects.bridge import BRIDGES
from router.dialects.bridge.writing import Writing
from router.dialects.sse import split_frames
from tests.tools.values import make_target, make_view

CHAT, RESPONSES, MESSAGES = Dialect.CHAT, Dialect.RESPONSES, Dialect.MESSAGES
REQUESTS = {
    CHAT: {"messages": [{"role": "user", "content": "x"}]},
    RESPONSES: {"input": "x"},
    MESSAGES: {"max_tokens": 9, "messages": [{"role": "user", "content": "x"}]},
}
CALLERS_OF_CHAT = [RESPONSES, MESSAGES]


def answer_to(caller: Dialect, target: Dialect, **more):
    view = make_view({**REQUESTS[caller], **more}, caller)
    return BRIDGES[caller, target].cross(view, Writing(make_target(speaks=frozenset({target})), "m"), created=1).answer


def heard(caller: Dialect, target: Dialect, *events: dict | bytes, **more) -> list[dict]:
    """The events that a caller gets for those of a target."""
    answer = answer_to(caller, target, stream=True, **more)
    out = b""
    for event in events:
        out += answer.feed(event if isinstance(event, bytes) else b"data: " + json.dumps(event).encode() + b"\n\n")
    return [frame.json() for frame in split_frames(out + answer.finish()) if frame.data != b"[DONE]"]


def chunk(delta: dict | None = None, finish: str | None = None) -> dict:
    return {"choices": [{"index": 0, "delta": delta or {}, "finish_reason": finish}]}


def call(index: int | None, call_id: str = "", name: str = "", arguments: object = "") -> dict:
    head = {} if index is None else {"index": index}
    function = {**({"name": name} if name else {}), "arguments": arguments}
    return chunk({"tool_calls": [{**head, **({"id": call_id} if call_id else {}), "function": function}]})


def calls_of(events: list[dict]) -> list[tuple[str, str, str]]:
    """Id, name and arguments, as a client of any dialect puts them together."""
    calls: dict[object, list[str]] = {}
    for event in events:
        block = event.get("content_block", {})
        if block.get("type") == "tool_use":
            calls[event["index"]] = [block["id"], block["name"], ""]
        elif event.get("delta") and event.get("type") == "content_block_delta" and "partial_json" in event["delta"]:
            calls[event["index"]][2] += event["delta"]["partial_json"]
        elif event.get("type") == "response.output_item.done" and event["item"]["type"] == "function_call":
            item = event["item"]
            calls[event["output_index"]] = [item["call_id"], item["name"], item["arguments"]]
        for choice in event.get("choices", []):
            for piece in choice["delta"].get("tool_calls", []):
                known = calls.setdefault(piece["index"], ["", "", ""])
                known[0] += piece.get("id", "")
                known[1] += piece["function"].get("name", "")
                known[2] += piece["function"]["arguments"]
    return [tuple(found) for found in calls.values()]


@pytest.mark.parametrize("caller", CALLERS_OF_CHAT)
def test_calls_that_are_announced_before_any_argument_keep_their_arguments(caller):
    events = heard(
        caller,
        CHAT,
        call(0, "a", "f"),
        call(1, "b", "g"),
        call(0, arguments='{"x":1}'),
        call(1, arguments='{"y":2}'),
        chunk(finish="tool_calls"),
    )

    assert calls_of(events) == [("a", "f", '{"x":1}'), ("b", "g", '{"y":2}')]


@pytest.mark.parametrize("caller", CALLERS_OF_CHAT)
@pytest.mark.parametrize("index", [0, None])
def test_calls_that_all_carry_the_same_index_are_told_apart_by_their_ids(caller, index):
    events = heard(
        caller,
        CHAT,
        call(index, "a", "f", '{"x":1}'),
        call(index, "b", "g", "{"),
        call(index, arguments="}"),
        chunk(finish="stop"),
    )

    assert calls_of(events) == [("a", "f", '{"x":1}'), ("b", "g", "{}")]


def test_a_name_that_is_repeated_with_every_piece_is_one_call():
    events = heard(MESSAGES, CHAT, call(0, "a", "f", '{"x"'), call(0, "a", "f", ":1}"), call(0, "a", "f"), chunk(finish="stop"))

    assert calls_of(events) == [("a", "f", '{"x":1}')]


@pytest.mark.parametrize("caller", CALLERS_OF_CHAT)
def test_arguments_for_a_call_that_has_ended_fail_the_answer(caller):
    pieces = (call(0, "a", "f", "{}"), call(1, "b", "g", "{"), call(0, arguments='{"more":1}'), chunk(finish="stop"))

    events = heard(caller, CHAT, *pieces)

    assert events[-1]["type"] in ("response.failed", "error")
    assert "upstream_malformed" in json.dumps(events[-1])


def test_text_between_the_pieces_of_a_call_comes_after_it():
    said = (chunk({"content": "note"}), chunk({"reasoning_content": "hm"}))

    events = heard(MESSAGES, CHAT, call(0, "a", "f", '{"x":'), *said, call(0, arguments="1}"), chunk(finish="stop"))

    assert calls_of(events) == [("a", "f", '{"x":1}')]
    blocks = [event["index"] for event in events if event["type"].startswith("content_block_")]
    assert blocks == sorted(blocks)
    assert [event["delta"]["text"] for event in events if "text" in event.get("delta", {})] == ["note"]


@pytest.mark.parametrize("reason", ["error", "abort", "insufficient_system_resource"])
def test_an_end_that_means_failure_is_one_streamed_or_whole(reason):
    events = heard(RESPONSES, CHAT, chunk({"content": "half"}), chunk(finish=reason), b"data: [DONE]\n\n")

    assert events[-1]["type"] == "response.failed"
    with pytest.raises(ValueError, match="failed"):
        answer_to(RESPONSES, CHAT).whole(
            json.dumps({"choices": [{"message": {"content": "half"}, "finish_reason": reason}]}).encode()
        )


def test_an_empty_finish_reason_is_no_end():
    events = heard(RESPONSES, CHAT, chunk({"content": "half"}, finish=""))

    assert events[-1]["type"] == "response.output_text.delta"


@pytest.mark.parametrize("caller", CALLERS_OF_CHAT)
def test_an_event_that_is_not_json_fails_the_answer(caller):
    events = heard(caller, CHAT, chunk({"content": "one"}), b'data: {"choices":[{"delta":\n\n', chunk(finish="stop"))

    assert events[-1]["type"] in ("response.failed", "error")


def test_a_frame_without_end_fails_the_answer():
    answer = answer_to(RESPONSES, CHAT, stream=True)
    out = b""

    for _ in range(17):
        out += answer.feed(b"x" * (1 << 20))

    assert read_stream_end(RESPONSES, split_frames(out)).has_failed


def test_many_events_in_one_piece_take_time_in_proportion():
    answer = answer_to(MESSAGES, CHAT, stream=True)
    data = b'data: {"choices":[{"index":0,"delta":{"content":"tok "}}]}\n\n' * 20_000
    began = time.perf_counter()

    answer.feed(data)

    assert time.perf_counter() - began < 2


def test_a_failure_goes_on_with_the_streams_own_id_and_numbers():
    events = heard(RESPONSES, CHAT, chunk({"content": "one"}), {"error": {"message": "boom", "code": 500}})

    assert [event["sequence_number"] for event in events] == list(range(len(events)))
    assert events[-1]["response"]["id"] == events[0]["response"]["id"]
    assert events[-1]["response"]["error"] == {"code": "500", "message": "boom"}


def test_a_failure_for_length_inside_a_stream_has_the_code_on_which_clients_compact():
    error = {"type": "invalid_request_error", "message": "prompt is too long: 5000 tokens > 3000 maximum"}

    told = heard(RESPONSES, MESSAGES, {"type": "message_start", "message": {}}, {"type": "error", "error": error})
    words = {"error": {"message": "This model's maximum context length is 8192 tokens, you sent 9000"}}
    claude = heard(MESSAGES, CHAT, chunk({"content": ""}), words)

    assert told[-1]["response"]["error"]["code"] == "context_length_exceeded"
    assert claude[-1]["error"]["message"].startswith("prompt is too long: 9000 tokens > 8192 maximum")


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


@pytest.mark.parametrize(("thinking", "count"), [({}, 0), ({"thinking": {"type": "adaptive"}}, 1)])
def test_a_messages_caller_gets_thinking_only_if_it_asked_for_it(thinking, count):
    body = {"choices": [{"message": {"reasoning_content": "hm", "content": "hi"}, "finish_reason": "stop"}]}

    told = json.loads(answer_to(MESSAGES, CHAT, **thinking).whole(orjson.dumps(body)))

    assert [block["type"] for block in told["content"]].count("thinking") == count


def test_hidden_reasoning_that_says_and_keeps_nothing_makes_no_block():
    empty = {"type": "reasoning", "id": "rs", "summary": []}
    message = {"type": "message", "id": "m", "content": [{"type": "output_text", "text": "ok"}]}

    told = json.loads(
        answer_to(MESSAGES, RESPONSES, thinking={"type": "adaptive"}).whole(
            orjson.dumps({"status": "completed", "output": [empty, message]})
        )
    )

    assert [block["type"] for block in told["content"]] == ["text"]


def test_a_chat_answer_in_parts_and_with_arguments_as_an_object_is_read():
    message = {
        "content": [{"type": "text", "text": "hi"}],
        "tool_calls": [{"id": "a", "function": {"name": "f", "arguments": {"x": 1}}}],
    }

    told = json.loads(
        answer_to(MESSAGES, CHAT).whole(orjson.dumps({"choices": [{"message": message, "finish_reason": "tool_calls"}]}))
    )

    assert told["content"] == [{"type": "text", "text": "hi"}, {"type": "tool_use", "id": "a", "name": "f", "input": {"x": 1}}]


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


def test_made_up_ids_differ_between_answers_and_odd_ids_become_plain():
    nameless = {"choices": [{"message": {"tool_calls": [{"function": {"name": "f"}}]}, "finish_reason": "tool_calls"}]}
    odd = {"choices": [{"message": {"tool_calls": [{"id": "functions.f:0", "function": {"name": "f"}}]}}]}

    made = json.loads(answer_to(RESPONSES, CHAT).whole(orjson.dumps(nameless)))
    plain = json.loads(answer_to(MESSAGES, CHAT).whole(orjson.dumps(odd)))

    assert made["id"].removeprefix("resp_") in made["output"][0]["call_id"]
    assert plain["content"][0]["id"] == "functions_f_0"


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


@pytest.mark.parametrize(
    ("raw", "words"),
    [
        (b'{"detail":[{"loc":["body","tools"],"msg":"extra fields"}]}', "extra fields"),
        (b'{"object":"error","message":{"detail":[{"msg":"bad"}]},"type":"invalid"}', "bad"),
        (b'{"error":null,"message":"m"}', "m"),
        (b'{"error":"no such thing"}', "no such thing"),
        (b'{"odd":1}', '{"odd":1}'),
        (b"", "the target reported an error"),
    ],
)
def test_a_refusal_is_told_in_the_hosts_words_wherever_they_stand(raw, words):
    assert words in json.loads(answer_to(MESSAGES, CHAT).refusal(400, raw))["error"]["message"]


LLAMA = {
    "code": 400,
    "message": "the request exceeds the available context size, try increasing it",
    "type": "exceed_context_size_error",
}
OPENAI = "maximum context length is 8192 tokens. However, you requested 10000 tokens (9000 in the messages, 1000 more)."
GEMINI = "The input token count (1200000) exceeds the maximum number of tokens allowed (1048576)."
CLAUDE = "input length and `max_tokens` exceed context limit: 190000 + 32000 > 200000, decrease input length"


@pytest.mark.parametrize(
    ("error", "begins"),
    [
        (LLAMA, "prompt is too long: the target's window is smaller. the request exceeds"),
        ({"message": OPENAI}, "prompt is too long: 10000 tokens > 8192 maximum. "),
        ({"message": GEMINI, "status": "INVALID_ARGUMENT"}, "prompt is too long: 1200000 tokens > 1048576 maximum. "),
        ({"message": CLAUDE}, "prompt is too long: "),
    ],
)
def test_a_refusal_for_length_is_known_by_its_type_or_words(error, begins):
    told = json.loads(answer_to(MESSAGES, CHAT).refusal(400, json.dumps({"error": error}).encode()))["error"]

    assert told["code"] == "context_length_exceeded"
    assert told["message"].startswith(begins)


def test_a_limit_that_is_too_large_is_no_refusal_for_length():
    words = "'max_tokens' or 'max_completion_tokens' is too large: 128000. This model's maximum context length is 131072 tokens"

    told = json.loads(answer_to(MESSAGES, CHAT).refusal(400, json.dumps({"error": {"message": words}}).encode()))["error"]

    assert told["code"] != "context_length_exceeded"
    assert told["message"] == words
