"""litellm's objects as Chat bytes. Stand-ins with its shapes: what its own objects do is tried in `test_litellm`."""

import json
from types import SimpleNamespace

import pytest

from adapters.litellm_answers import ChunkWriter, answer_headers, read_usage, stream_usage, write_whole


class Dumped:
    """Something of litellm's: its fields, and what is hidden beside them."""

    def __init__(self, usage=None, hidden=None, **fields) -> None:
        self.fields, self.usage, self._hidden_params = fields, usage, hidden

    def model_dump(self, **_):
        return self.fields


def chunk(delta=None, finish=None, **more):
    return Dumped(choices=[{"index": 0, "delta": delta or {}, "finish_reason": finish}], id="c1", created=7, model="m", **more)


def read(frame: bytes) -> dict:
    assert frame.startswith(b"data: ")
    assert frame.endswith(b"\n\n")
    return json.loads(frame[6:])


def test_all_chunks_have_the_id_time_and_model_of_the_first():
    writer = ChunkWriter()
    first = read(writer.frame(chunk({"content": "a"})))
    second = Dumped(choices=[{"delta": {"content": "b"}}], id="other", created=9, model="another")

    later, usage = read(writer.frame(second)), read(writer.usage_frame({"prompt_tokens": 1}))

    head = {"id": "c1", "object": "chat.completion.chunk", "created": 7, "model": "m"}
    for body in (first, later, usage):
        assert {key: body[key] for key in head} == head
    assert (usage["choices"], usage["usage"]) == ([], {"prompt_tokens": 1})


@pytest.mark.parametrize("empty", [chunk(), Dumped(choices=[]), Dumped(choices=None), Dumped()])
def test_a_chunk_that_says_nothing_is_no_frame(empty):
    assert ChunkWriter().frame(empty) == b""


def test_a_chunk_that_only_ends_the_answer_is_a_frame():
    assert read(ChunkWriter().frame(chunk(finish="stop")))["choices"][0]["finish_reason"] == "stop"


def test_what_only_litellm_knows_is_left_out_of_a_chunk():
    body = read(
        ChunkWriter().frame(chunk({"content": "a", "provider_specific_fields": {"x": 1}}, usage={"a": 1}, citations=[]))
    )

    assert body["choices"][0]["delta"] == {"content": "a"}
    assert not {"usage", "citations"} & set(body)


def test_the_type_of_a_tool_call_belongs_to_the_fragment_with_its_id():
    calls = [
        {"index": 0, "id": "call_1", "type": "function", "function": {"name": "ls", "arguments": ""}},
        {"index": 0, "type": "function", "function": {"arguments": "{}"}},
    ]

    first, second = (
        read(ChunkWriter().frame(chunk({"tool_calls": [call]})))["choices"][0]["delta"]["tool_calls"][0] for call in calls
    )

    assert first == calls[0]
    assert second == {"index": 0, "function": {"arguments": "{}"}}


def test_logprobs_are_kept_where_there_are_some():
    with_some = Dumped(choices=[{"delta": {"content": "a"}, "logprobs": {"content": []}}])

    assert read(ChunkWriter().frame(with_some))["choices"][0]["logprobs"] == {"content": []}
    assert "logprobs" not in read(ChunkWriter().frame(chunk({"content": "a"})))["choices"][0]


def test_a_whole_answer_keeps_its_dialects_fields_and_no_others():
    call = {"id": "call_1", "type": "function", "function": {"name": "ls", "arguments": "{}"}, "index": 0}
    message = {"role": "assistant", "tool_calls": [call], "reasoning_content": "hm", "provider_specific_fields": {}}
    usage = Dumped(prompt_tokens=5, completion_tokens=2, total_tokens=7, cache_read_input_tokens=0)
    answer = Dumped(
        usage, id="c1", created=7, model="m", choices=[{"message": message, "finish_reason": "tool_calls"}], extra=1
    )

    body = json.loads(write_whole(answer))

    assert set(body) == {"id", "object", "created", "model", "choices", "usage"}
    assert body["choices"][0]["message"] == {
        "role": "assistant",
        "content": None,
        "reasoning_content": "hm",
        "tool_calls": [{key: call[key] for key in ("id", "type", "function")}],
    }
    assert body["usage"] == {"prompt_tokens": 5, "completion_tokens": 2, "total_tokens": 7}


def test_an_answer_without_usage_says_none():
    assert "usage" not in json.loads(write_whole(Dumped(choices=[])))
    assert read_usage(Dumped()) is None


def test_empty_details_of_usage_are_left_out():
    assert read_usage(Dumped(Dumped(prompt_tokens=5, prompt_tokens_details={}, completion_tokens=None))) == {"prompt_tokens": 5}


def test_of_a_streams_usage_only_what_its_provider_said_is_believed():
    last = Dumped(Dumped(prompt_tokens=9, completion_tokens=3, prompt_tokens_details={"cached_tokens": 0}))
    stated = Dumped(Dumped(prompt_tokens=9, completion_tokens=3))

    assert stream_usage(SimpleNamespace(chunks=[Dumped(), stated]), last) == {"prompt_tokens": 9, "completion_tokens": 3}
    assert stream_usage(SimpleNamespace(chunks=[Dumped()]), last) is None
    assert stream_usage(SimpleNamespace(chunks=[stated]), Dumped()) is None
    assert stream_usage(SimpleNamespace(), last) is None


def test_a_providers_own_headers_pass_if_they_mean_something_to_a_caller():
    given = {
        "llm_provider-x-ratelimit-remaining-requests": 9,
        "X-Request-Id": "r1",
        "llm_provider-set-cookie": "secret",
        "x-request-id-of-somebody": "x",
        "openai-model": "m",
    }

    assert dict(answer_headers(Dumped(hidden={"additional_headers": given}))) == {
        "x-ratelimit-remaining-requests": "9",
        "x-request-id": "r1",
    }
    assert answer_headers(Dumped()) == ()
    assert answer_headers(Dumped(hidden={"additional_headers": None})) == ()
