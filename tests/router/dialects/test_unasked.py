"""Usage that the caller did not ask for: how it is asked for, and that nothing of it is left in the stream."""

import itertools
import json

import pytest
from hypothesis import given
from hypothesis import strategies as some

from router.contract.words import Dialect
from router.dialects.unasked import ask, usage_may_begin, without_usage
from tests.tools.values import make_view

CHAT = {"messages": [{"role": "user", "content": "hi"}], "stream": True}
USAGE = b'"usage":{"prompt_tokens":5,"completion_tokens":2,"total_tokens":7}'
WORD = b'data: {"id":"c","choices":[{"index":0,"delta":{"content":"say \\"usage\\": null"}}]}\n\n'
NULL = b'data: {"id":"c","choices":[{"index":0,"delta":{"content":"a"}}],"usage":null}\n\n'
PLAIN = NULL.replace(b',"usage":null', b"")
ALONE = b'data: {"id":"c","choices":[],%b}\n\n' % USAGE
DONE = b"data: [DONE]\n\n"


def test_usage_is_asked_for_where_the_caller_did_not():
    assert ask(make_view(CHAT)) == {"stream_options": {"include_usage": True}}
    assert ask(make_view({**CHAT, "stream_options": None})) == {"stream_options": {"include_usage": True}}


def test_the_callers_other_options_are_kept():
    options = {"include_usage": False, "include_obfuscation": False}

    assert ask(make_view({**CHAT, "stream_options": options})) == {"stream_options": {**options, "include_usage": True}}


def test_nothing_is_asked_where_the_caller_asks():
    assert ask(make_view({**CHAT, "stream_options": {"include_usage": True}})) == {}


@pytest.mark.parametrize("dialect", [Dialect.RESPONSES, Dialect.MESSAGES])
def test_nothing_is_asked_in_a_dialect_whose_streams_always_tell(dialect):
    assert ask(make_view({**CHAT, "input": "hi", "max_tokens": 5}, dialect)) == {}


def test_the_chunk_with_usage_alone_is_taken_out_and_nothing_else():
    assert without_usage(WORD + ALONE + DONE) == WORD + DONE
    assert without_usage(ALONE) == b""
    assert without_usage(ALONE.replace(b"\n", b"\r\n") + DONE) == DONE


def test_the_timings_in_the_chunk_with_usage_are_passed_on_without_it():
    told = ALONE.replace(b'"id":"c"', b'"id":"c","timings":{"predicted_n":2}')

    sent = without_usage(WORD + told + DONE)

    assert (sent[: len(WORD)], sent[-len(DONE) :]) == (WORD, DONE)
    empty = {"index": 0, "delta": {}, "finish_reason": None}
    chunk = json.loads(sent[len(WORD) : -len(DONE)].removeprefix(b"data: "))
    assert chunk == {"id": "c", "timings": {"predicted_n": 2}, "choices": [empty]}


@pytest.mark.parametrize("frame", [
    b'data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}],%b}\n\n' % USAGE,
    b'data: {"choices":[],"prompt_filter_results":[]}\n\n',
    b'data: {"usage":"none of it"}\n\n',
    b'data: {"choices":[],"usage"\n\n',
])  # fmt: skip
def test_a_chunk_with_choices_or_without_usage_stays_as_it_is(frame):
    assert without_usage(WORD + frame + DONE) == WORD + frame + DONE


@pytest.mark.parametrize("null", [b',"usage":null', b', "usage": null'])
def test_the_nulls_that_a_host_writes_for_whoever_asked_are_taken_out(null):
    assert without_usage(NULL.replace(b',"usage":null', null) + ALONE + DONE) == PLAIN + DONE


@pytest.mark.parametrize("separator", [b"\n\n", b"\r\n\r\n", b"\r\r"])
def test_what_follows_the_end_of_the_frame_before_is_told_apart_from_it(separator):
    rest = separator[len(separator) // 2 :]

    assert without_usage(rest + ALONE) == rest


@given(some.lists(some.sampled_from([WORD, PLAIN, b": hello\n\n", ALONE, DONE]), max_size=6), some.data())
def test_however_a_stream_is_cut_the_whole_of_it_has_no_usage(frames, data):
    """As a relay does it: what may begin a chunk with usage waits for what comes after it."""
    stream, sent, held = b"".join(frames), b"", b""
    cuts = sorted(data.draw(some.sets(some.integers(0, len(stream)), max_size=8)) | {0, len(stream)})
    for begin, end in itertools.pairwise(cuts):
        piece = held + stream[begin:end]
        at = usage_may_begin(piece, b'"delta"')
        held, piece = piece[at:], piece[:at]
        sent += without_usage(piece)

    assert sent + held == b"".join(frame for frame in frames if frame != ALONE)


def test_a_long_frame_or_one_with_a_token_does_not_wait():
    assert usage_may_begin(WORD[:-2], b'"delta"') == len(WORD) - 2
    assert usage_may_begin(b'data: {"choices":[' + b" " * 9_000, b'"delta"') == 9_018
    assert usage_may_begin(b"more of a frame that has begun", b'"delta"') == 30


def test_the_words_of_a_model_are_never_taken_for_usage():
    words = json.dumps({"choices": [{"delta": {"content": ',"usage":null} data: {"choices":[],"usage":{}}'}}]})
    frame = f"data: {words}\n\n".encode()

    assert without_usage(frame) == frame
