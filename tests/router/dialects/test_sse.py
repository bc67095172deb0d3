import json

import pytest
from hypothesis import given
from hypothesis import strategies as some

from router.contract.usage import Usage
from router.contract.words import Dialect
from router.dialects import sse
from router.dialects.answers import TELLING, follow_stream
from router.dialects.composer import Answer, ComposedCall, Finish, write_call
from router.dialects.sse import Tail, split_frames
from router.dialects.table import SPECS
from tests.tools.upstream import CHAT_USAGE, DONE, chat_frame

USAGE = Usage(11, 5)


def whole_stream(dialect: Dialect) -> bytes:
    composer = SPECS[dialect].composer(Answer("x", "m", 1))
    pieces = [composer.open(), *(composer.text(word) for word in ("a ", "b\n\n", "c"))]
    if dialect is not Dialect.COMPLETIONS:
        pieces.append(write_call(composer, ComposedCall("call_1", "ls", '{"path":"."}')))
    return b"".join([*pieces, composer.close(Finish.STOP, USAGE)])


def feed(data: bytes, cuts: list[int], dialect: Dialect = Dialect.CHAT) -> Tail:
    tail, start = Tail(TELLING[dialect]), 0
    for cut in [*sorted(set(cuts)), len(data)]:
        if data[start:cut]:
            tail.add(data[start:cut])
            start = cut
    return tail


@given(some.sampled_from(list(Dialect)), some.lists(some.integers(1, 2_000), max_size=40))
def test_the_end_of_a_stream_is_read_the_same_however_it_was_sliced(dialect, cuts):
    data = whole_stream(dialect)

    end = SPECS[dialect].read_end(feed(data, [cut for cut in cuts if cut < len(data)], dialect).frames())

    assert end.is_complete
    assert not end.has_failed
    assert (end.usage.input_tokens, end.usage.output_tokens) == (11, 5)


@given(some.sampled_from(list(Dialect)), some.floats(0.0, 0.9))
def test_a_stream_cut_before_its_end_is_never_complete(dialect, share):
    data = whole_stream(dialect)
    last = data.rstrip().rfind(b"\n\n")
    # Chat's finish reason is an end of its own, so the cut lies before that frame.
    limit = data.rfind(b'"finish_reason":"') if dialect in (Dialect.CHAT, Dialect.COMPLETIONS) else last

    end = SPECS[dialect].read_end(feed(data[: int(limit * share)], [], dialect).frames())

    assert not end.is_complete


@given(some.integers(1, 400))
def test_one_byte_at_a_time_knows_where_frames_end(count):
    data = b"".join(chat_frame(str(n)) for n in range(8))[:count]

    tail = feed(data, list(range(1, len(data))))

    assert tail.at_frame_end == data.endswith(b"\n\n")


def test_words_of_a_model_cannot_fake_the_end_of_its_stream():
    said = chat_frame("data: [DONE]\n\n event: response.completed")

    assert not SPECS[Dialect.CHAT].read_end(feed(said, []).frames()).is_complete


def test_a_last_frame_of_megabytes_is_still_read():
    text = "x" * 3_000_000
    frame = f'event: response.completed\ndata: {{"type":"response.completed","response":{{"t":"{text}"}}}}\n\n'.encode()

    tail = feed(frame, list(range(0, len(frame), 65_536)), Dialect.RESPONSES)

    assert SPECS[Dialect.RESPONSES].read_end(tail.frames()).is_complete


def test_only_the_ends_of_a_long_stream_are_kept():
    tail = Tail(TELLING[Dialect.CHAT])
    for number in range(10_000):
        tail.add(chat_frame(str(number)))
    tail.add(CHAT_USAGE)
    tail.add(DONE)

    assert len(tail.frames()) < 10
    assert SPECS[Dialect.CHAT].read_end(tail.frames()).usage.output_tokens == 3


def test_line_ends_of_every_kind_make_frames():
    for end in (b"\n", b"\r\n", b"\r"):
        data = b"event: message_stop" + end + b'data: {"type":"message_stop"}' + end + end
        assert SPECS[Dialect.MESSAGES].read_end(feed(data, [], Dialect.MESSAGES).frames()).is_complete


PINGS = [b": ping\n\n"] * 30
ERRORS = {
    Dialect.CHAT: b'data: {"error": {"message": "boom"}}\n\n',
    Dialect.COMPLETIONS: b'data: {"error":{"message":"boom"}}\n\n',
    Dialect.MESSAGES: b'event: error\ndata: {"type":"error","error":{"message":"boom"}}\n\n',
    Dialect.RESPONSES: b'data: {"type": "response.failed", "response": {"error": {"code": "boom"}}}\n\n',
}


def verdict(dialect: Dialect, pieces: list[bytes]):
    tail = Tail(TELLING[dialect])
    for piece in pieces:
        tail.add(piece)
    return SPECS[dialect].read_end(tail.frames())


@given(
    some.sampled_from(list(Dialect)),
    some.lists(some.integers(1, 3_000), max_size=30),
    some.lists(some.integers(0, 40), max_size=3),
    some.lists(some.integers(0, 40), max_size=20),
)
def test_the_verdict_on_a_stream_is_that_on_all_of_its_frames(dialect, cuts, failures, comments):
    """Nothing is lost by leaving frames unread, wherever failures and comments are."""
    frames = [frame + b"\n\n" for frame in whole_stream(dialect).split(b"\n\n") if frame]
    for place in failures:
        frames.insert(place, ERRORS[dialect])
    for place in comments:
        frames.insert(place, b': "error": "usage": 1\n\n')
    data = b"".join(frames)

    end = SPECS[dialect].read_end(feed(data, [cut for cut in cuts if cut < len(data)], dialect).frames())

    assert end == SPECS[dialect].read_end(split_frames(data))
    assert end.has_failed == bool(failures)


@given(some.sampled_from(list(Dialect)), some.integers(0, 60), some.integers(0, 60))
def test_a_failure_is_remembered_however_much_comes_after_it(dialect, before, after):
    frames = [frame + b"\n\n" for frame in whole_stream(dialect).split(b"\n\n") if frame]

    end = verdict(dialect, [*frames[:1] * before, ERRORS[dialect], *PINGS, *frames[-2:] * after, *frames])

    assert end.has_failed


def test_the_null_fields_of_each_token_tell_nothing_and_the_last_ones_do():
    telling = TELLING[Dialect.CHAT].search
    token = b'data: {"choices":[{"delta":{"content":"an \\"error\\": \\"x\\""},"finish_reason":null}],"usage": null}\n\n'

    assert not telling(token)
    assert telling(token.replace(b"null}]", b'"stop"}]'))
    assert telling(CHAT_USAGE)


def test_usage_and_a_finish_are_not_lost_in_comments_that_follow():
    end = verdict(Dialect.CHAT, [chat_frame("a"), chat_frame(finish="stop"), CHAT_USAGE, *PINGS])

    assert end.is_complete
    assert end.usage.output_tokens == 3


def test_a_host_that_counts_with_every_token_is_believed_on_its_last_count():
    counted = [b'data: {"choices":[],"usage":{"prompt_tokens":5,"completion_tokens":%d}}\n\n' % n for n in range(1, 100)]

    assert verdict(Dialect.CHAT, [*counted, DONE]).usage == Usage(5, 99)


def choice(index: int, finish: str | None = None, text: str = "a") -> bytes:
    body = {"choices": [{"index": index, "delta": {"content": text}, "text": text, "finish_reason": finish}]}
    return b"data: " + json.dumps(body).encode() + b"\n\n"


SEVERAL = {Dialect.CHAT: {"n": 2}, Dialect.COMPLETIONS: {"prompt": ["a", "b"]}}


def verdict_on_several(dialect: Dialect, pieces: list[bytes]):
    tail = follow_stream(dialect, SEVERAL[dialect])
    for piece in pieces:
        tail.add(piece)
    return SPECS[dialect].read_end(tail.frames())


@pytest.mark.parametrize("dialect", SEVERAL)
@pytest.mark.parametrize("between", [0, 5, 200])
@pytest.mark.parametrize("cut", [0, 1])
@pytest.mark.parametrize("end", [[], [DONE]], ids=["without done", "with done"])
def test_an_answer_of_several_choices_is_whole_when_each_that_began_has_its_finish(dialect, between, cut, end):
    other = 1 - cut
    begun = [choice(0), choice(1), choice(cut), choice(other, "stop")]
    rest = [choice(cut, text="half of")] * between

    assert not verdict_on_several(dialect, [*begun, *rest, *end]).is_complete
    assert verdict_on_several(dialect, [*begun, *rest, choice(cut, "length"), *rest[:0], *end]).is_complete


def test_a_choice_that_ended_long_ago_has_ended():
    early = [choice(index, finish) for index in range(12) for finish in (None, "stop")]

    assert verdict_on_several(Dialect.CHAT, [choice(20), *early, *[choice(20)] * 300, choice(20, "stop")]).is_complete
    assert not verdict_on_several(
        Dialect.CHAT, [choice(20), *early, choice(13), *[choice(20)] * 300, choice(20, "stop")]
    ).is_complete


def test_one_choice_of_two_is_whole_where_the_host_gives_no_more():
    assert verdict_on_several(Dialect.CHAT, [choice(0), choice(0, "stop")]).is_complete
    assert verdict_on_several(Dialect.CHAT, [choice(0), choice(1), DONE]).is_complete


def test_what_comes_after_a_comment_in_the_same_piece_is_not_taken_for_a_comment():
    end = verdict(
        Dialect.CHAT, [chat_frame("a")] * 20 + [b": ping\n\n" + ERRORS[Dialect.CHAT]] + [chat_frame("a")] * 40 + [DONE]
    )

    assert end.has_failed


def test_only_what_is_no_comment_is_content():
    tail = Tail(TELLING[Dialect.CHAT])
    tail.add(chat_frame("a"))
    before = tail.content_bytes
    for _ in range(100):
        assert not tail.add(b": ping\n\n")
    assert tail.add(b": pi")
    assert tail.add(b"ng\n\n")
    assert tail.content_bytes == before

    for _ in range(100):
        tail.add(chat_frame("a"))
    assert tail.content_bytes == 101 * len(chat_frame("a"))


@pytest.mark.parametrize(
    ("block", "event", "data"),
    [
        (b"event: ping\ndata: {}", "ping", b"{}"),
        (b"event:ping\ndata:{}", "ping", b"{}"),
        (b"event:  ping \ndata:  {}", "ping", b" {}"),
        (b"data: {}", "", b"{}"),
        (b"data: {}\nevent: late", "late", b"{}"),
        (b"event: a\nevent: b\ndata: {}", "b", b"{}"),
        (b"data: a\ndata: b", "", b"a\nb"),
        (b"id: 7\ndata: {}", "", b"{}"),
        (b"event: alone", "alone", b""),
    ],
)
def test_a_frame_is_read_the_same_however_it_is_written(block, event, data):
    (frame,) = split_frames(block + b"\n\n")

    assert (frame.event, frame.data) == (event, data)


def test_the_last_name_of_an_event_counts_where_there_are_several():
    named = b'event: response.created\nevent: response.completed\ndata: {"response":{}}\n\n'

    assert SPECS[Dialect.RESPONSES].read_end(split_frames(named, TELLING[Dialect.RESPONSES])).is_complete


def test_words_of_a_model_in_a_named_frame_tell_nothing():
    said = b'event: response.output_text.delta\ndata: {"delta":"the \\"error\\" is","type":"error"}\n\n'

    assert split_frames(said, TELLING[Dialect.RESPONSES]) == []


@pytest.mark.parametrize("size", [5_000, 16_384, 60_000, 256_000])
def test_a_stream_that_comes_in_large_pieces_is_counted_right_and_little_of_it_is_kept(size):
    words = [f"{number:x}" for number in range(30_000)]
    stream = b"".join(chat_frame(word) for word in words) + chat_frame("", "stop") + CHAT_USAGE + DONE
    tail = Tail(TELLING[Dialect.CHAT])

    for start in range(0, len(stream), size):
        tail.add(stream[start : start + size])

    assert tail.written_bytes == pytest.approx(sum(map(len, words)), rel=0.03)
    assert tail.frames_seen == len(words) + 3
    assert len(tail.newest()) < 512 << 10
    assert SPECS[Dialect.CHAT].read_end(tail.frames()).usage is not None


def test_a_tail_whose_words_nobody_counts_does_not_measure_them_and_tells_all_else(monkeypatch):
    pieces = [*(chat_frame(f"{number:x}") for number in range(30_000)), chat_frame("", "stop"), CHAT_USAGE, DONE]
    measuring, other = Tail(TELLING[Dialect.CHAT]), Tail(TELLING[Dialect.CHAT], measures=False)
    for piece in pieces:
        measuring.add(piece)

    monkeypatch.setattr(sse, "_estimate_written", None)
    for piece in pieces:
        other.add(piece)

    assert other.frames_seen == measuring.frames_seen == len(pieces)
    assert other.content_bytes == measuring.content_bytes
    assert other.frames() == measuring.frames()
    assert other.newest() == measuring.newest()
