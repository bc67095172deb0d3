"""The end of an answer that is held back, and the text that is added before it."""

import asyncio
import json
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as some

from router.contract.errors import UpstreamCut
from router.contract.sinks import Serving
from router.contract.usage import Usage
from router.contract.words import Dialect
from router.dialects.composer import Answer, Finish
from router.dialects.table import SPECS
from router.dispatch.streaming import HEARTBEAT, HEARTBEAT_SECONDS
from router.look import held
from router.look.held import HeldEnd
from tests.conformance.reading import hear
from tests.conformance.road import Reply
from tests.tools.exchanges import RecordingSink
from tests.tools.scripted import EVENTS, JSON
from tests.tools.speech import Speech, ToolCall, write_stream, write_whole

pytestmark = pytest.mark.jumping_clock

DIALECTS = [Dialect.CHAT, Dialect.RESPONSES, Dialect.MESSAGES]
SAID, NOTE = "I renamed it.", "deep looked this over: 1) calc.py:3 divides by zero."
SPEECH = Speech(SAID, thinking="Two files.")
CALL = ToolCall("call_1", "read_file", '{"path": "a.py"}')
OPEN = {
    "a call": Speech(SAID, (CALL,)),
    "only a call": Speech("", (CALL,)),
    "a cut": Speech(SAID, is_cut=True),
}
END_FRAMES = {Dialect.CHAT: 3, Dialect.RESPONSES: 1, Dialect.MESSAGES: 2}


def bridged(dialect: Dialect, *words: str) -> list[bytes]:
    """A stream as a bridge writes it: its end is one piece with what precedes it."""
    composer = SPECS[dialect].composer(Answer("x", "m", 1, asked={"stream": True}))
    return [composer.open(), *map(composer.text, words), composer.close(Finish.STOP, Usage(90, 12))]


def stream_into(sink: RecordingSink, dialect: Dialect, pieces: list[bytes], *, ends: bool = True) -> HeldEnd:
    end = HeldEnd(sink, dialect, is_streaming=True)
    end.start(200, EVENTS)
    for piece in pieces:
        end.write(piece)
    if ends:
        end.end()
    return end


def send_whole(sink: RecordingSink, dialect: Dialect, speech: Speech = SPEECH) -> HeldEnd:
    end, body = HeldEnd(sink, dialect, is_streaming=False), json.dumps(write_whole(dialect, speech)).encode()
    end.start(200, (*JSON, ("x-tandem-tier", "fast"), ("content-length", str(len(body)))))
    end.write(body)
    end.end()
    return end


def heard(dialect: Dialect, sink: RecordingSink):
    """What a strict client of the dialect makes of it."""
    return hear(dialect, Reply(sink.status, dict(sink.headers), sink.body, sink.words[-1] == "end"))


@pytest.mark.parametrize("dialect", DIALECTS)
async def test_all_of_a_stream_but_its_end_passes_as_it_comes(dialect):
    frames, sink = write_stream(dialect, SPEECH), RecordingSink()
    end = HeldEnd(sink, dialect, is_streaming=True)
    end.start(200, EVENTS)
    count = END_FRAMES[dialect]

    for number, frame in enumerate(frames[:-count], 1):
        end.write(frame)
        assert sink.body == b"".join(frames[:number])
    for frame in frames[-count:]:
        end.write(frame)
    end.end()

    assert sink.body == b"".join(frames[:-count])
    assert sink.words == ["start", "write"]
    assert (end.is_holding, end.is_final, end.text) == (True, True, SAID)


@pytest.mark.parametrize("dialect", DIALECTS)
async def test_a_release_without_a_text_sends_a_stream_as_it_came(dialect):
    frames, sink = write_stream(dialect, SPEECH), RecordingSink()

    end = stream_into(sink, dialect, frames)
    end.release()
    end.release(NOTE)

    assert sink.body == b"".join(frames)
    assert sink.words == ["start", "write", "end"]
    assert not end.is_holding


@pytest.mark.parametrize("dialect", DIALECTS)
async def test_a_text_is_a_part_of_the_stream_like_any_other(dialect):
    frames, sink, before = write_stream(dialect, SPEECH), RecordingSink(), RecordingSink()
    stream_into(before, dialect, frames).release()

    stream_into(sink, dialect, frames).release(NOTE)

    plain, noted = heard(dialect, before), heard(dialect, sink)
    assert sink.body.startswith(b"".join(frames[: -END_FRAMES[dialect]]))
    assert noted.text.replace("\n\n", "") == SAID + NOTE
    assert (noted.thinking, noted.end) == (plain.thinking, plain.end)


@pytest.mark.parametrize("dialect", DIALECTS)
async def test_the_end_of_a_bridged_stream_is_held_apart_from_what_precedes_it(dialect):
    pieces, sink = bridged(dialect, "I ", "renamed it."), RecordingSink()

    end = stream_into(sink, dialect, pieces)
    passed = sink.body
    end.release(NOTE)

    assert b"".join(pieces).startswith(passed)
    assert passed.startswith(b"".join(pieces[:-1]))
    assert sink.body.startswith(passed)
    assert heard(dialect, sink).text.replace("\n\n", "") == SAID + NOTE


@pytest.mark.parametrize("dialect", DIALECTS)
async def test_a_whole_answer_is_held_with_its_head(dialect):
    sink, body = RecordingSink(), json.dumps(write_whole(dialect, SPEECH)).encode()

    end = send_whole(sink, dialect)
    assert (sink.told, end.is_final, end.text) == ([], True, SAID)
    end.release()

    assert sink.body == body
    assert sink.words == ["start", "write", "end"]
    assert sink.headers == (*JSON, ("x-tandem-tier", "fast"), ("content-length", str(len(body))))


@pytest.mark.parametrize("dialect", DIALECTS)
async def test_a_text_in_a_whole_answer_leaves_the_rest_of_it_as_it_was(dialect):
    sink, before = RecordingSink(), write_whole(dialect, SPEECH)

    send_whole(sink, dialect).release(NOTE)

    after = json.loads(sink.body)
    assert heard(dialect, sink).text.replace("\n\n", "") == SAID + NOTE
    assert dict(sink.headers)["content-length"] == str(len(sink.body))
    changed = {name for name in before if before[name] != after[name]}
    assert (changed, set(after)) == ({{"chat": "choices", "responses": "output"}.get(dialect, "content")}, set(before))


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("kind", OPEN)
async def test_an_answer_that_is_not_the_last_word_is_never_held(dialect, kind):
    frames, stream, whole = write_stream(dialect, OPEN[kind]), RecordingSink(), RecordingSink()

    ends = stream_into(stream, dialect, frames), send_whole(whole, dialect, OPEN[kind])

    assert not any(end.is_holding or end.is_final for end in ends)
    assert (stream.body, stream.words) == (b"".join(frames), ["start", "write", "end"])
    assert (json.loads(whole.body), whole.words) == (write_whole(dialect, OPEN[kind]), ["start", "write", "end"])


async def test_calls_and_further_choices_that_end_with_stop_are_not_final():
    call = {"index": 0, "id": "c", "type": "function", "function": {"name": "ls", "arguments": "{}"}}
    for choices in (
        [{"index": 0, "delta": {"content": "x", "tool_calls": [call]}}],
        [{"index": 0, "delta": {"function_call": {"name": "ls", "arguments": ""}}}],
        [{"index": 1, "delta": {"content": "x"}}],
    ):
        first = b"data: " + json.dumps({"choices": choices}).encode() + b"\n\n"
        last = b'data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}\n\n'
        sink = RecordingSink()

        end = stream_into(sink, Dialect.CHAT, [first, last], ends=False)

        assert not end.is_holding
        assert sink.body == first + last


async def test_an_answer_without_text_is_held_and_not_final():
    sink = RecordingSink()

    end = stream_into(sink, Dialect.MESSAGES, write_stream("messages", Speech("", thinking="Hm.")))

    assert (end.is_holding, end.is_final) == (True, False)


async def test_last_words_in_the_chunk_with_the_finish_reason_come_before_the_text():
    head = {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m"}
    choice = {"index": 0, "delta": {"role": "assistant", "content": SAID}, "finish_reason": "stop"}
    chunk = {**head, "choices": [choice], "usage": None}
    sink = RecordingSink()

    stream_into(sink, Dialect.CHAT, [f"data: {json.dumps(chunk)}\n\n".encode(), b"data: [DONE]\n\n"]).release(NOTE)

    assert heard(Dialect.CHAT, sink).text == f"{SAID}\n\n{NOTE}"


async def test_an_empty_output_in_the_last_event_stays_empty():
    *frames, last = write_stream("responses", SPEECH)
    event = json.loads(last.partition(b"data: ")[2])
    event["response"]["output"] = []
    sink = RecordingSink()

    stream_into(sink, Dialect.RESPONSES, [*frames, f"data: {json.dumps(event)}\n\n".encode()]).release(NOTE)

    *_, done, completed = [json.loads(block.partition(b"data: ")[2]) for block in sink.body.split(b"\n\n") if block]
    assert (done["type"], done["output_index"]) == ("response.output_item.done", 2)
    assert (completed["response"]["output"], completed["sequence_number"]) == ([], done["sequence_number"] + 1)


async def test_events_without_numbers_get_none():
    last = write_stream("responses", Speech(SAID))[-1]
    event = json.loads(last.partition(b"data: ")[2])
    del event["sequence_number"]
    sink = RecordingSink()

    stream_into(sink, Dialect.RESPONSES, [f"data: {json.dumps(event)}\n\n".encode()]).release(NOTE)

    assert b"sequence_number" not in sink.body
    assert sink.body.count(b"data: ") == 7


async def test_an_end_that_cannot_be_written_again_is_sent_as_it_came():
    deep = "[" * 300 + "]" * 300
    *frames, last = write_stream("responses", SPEECH)
    last = last.replace(b'"metadata": {}', b'"metadata": ' + deep.encode())
    whole = json.dumps(write_whole("responses", SPEECH)).replace('"metadata": {}', f'"metadata": {deep}').encode()
    stream, sink = RecordingSink(), RecordingSink()

    stream_into(stream, Dialect.RESPONSES, [*frames, last]).release(NOTE)
    end = HeldEnd(sink, Dialect.RESPONSES, is_streaming=False)
    end.start(200, (*JSON, ("content-length", str(len(whole)))))
    end.write(whole)
    end.end()
    end.release(NOTE)

    assert stream.body == b"".join([*frames, last])
    assert len(sink.body) == int(dict(sink.headers)["content-length"])
    assert json.loads(sink.body)["metadata"] == json.loads(deep)


async def test_words_that_are_not_written_as_usual_are_read_all_the_same():
    parts = {"choices": [{"index": 0, "delta": {"content": [{"type": "text", "text": SAID}]}}]}
    half = '{"choices":[{"index":0,"delta":{"content":"\\ud83d"}}]}'
    last = b'data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}\n\n'

    read = stream_into(RecordingSink(), Dialect.CHAT, [f"data: {json.dumps(parts)}\n\n".encode(), last])
    unreadable = stream_into(RecordingSink(), Dialect.CHAT, [f"data: {half}\n\n".encode(), last])

    assert read.text == SAID
    assert isinstance(unreadable.text, str)


async def test_a_last_frame_without_its_empty_line_is_an_end():
    *frames, last = write_stream("responses", SPEECH)
    sink = RecordingSink()

    end = stream_into(sink, Dialect.RESPONSES, [*frames, last.rstrip()])
    assert (end.is_final, sink.body) == (True, b"".join(frames))
    end.release()

    assert sink.body == b"".join([*frames, last.rstrip()])


async def test_a_held_stream_is_kept_alive_and_a_whole_answer_is_silent():
    frames, stream, whole = write_stream("messages", SPEECH), RecordingSink(), RecordingSink()
    ends = stream_into(stream, Dialect.MESSAGES, frames), send_whole(whole, Dialect.MESSAGES)

    await asyncio.sleep(2.5 * HEARTBEAT_SECONDS)

    assert stream.body == b"".join(frames[:-2]) + 2 * HEARTBEAT
    assert whole.told == []
    for end in ends:
        end.release()
    await asyncio.sleep(2.5 * HEARTBEAT_SECONDS)
    assert stream.body == b"".join(frames[:-2]) + 2 * HEARTBEAT + b"".join(frames[-2:])


async def test_a_target_that_stays_connected_after_its_last_event_delays_the_end_a_moment():
    frames, sink = write_stream("messages", SPEECH), RecordingSink()
    end = stream_into(sink, Dialect.MESSAGES, frames, ends=False)

    await asyncio.sleep(held._END_SECONDS - 0.01)
    assert end.is_holding
    await asyncio.sleep(0.02)

    assert (end.is_holding, sink.body) == (False, b"".join(frames))
    end.release(NOTE)
    end.end()
    assert (sink.body, sink.words[-1]) == (b"".join(frames), "end")


async def test_a_stream_that_has_ended_is_held_for_as_long_as_it_takes():
    sink = RecordingSink()
    end = stream_into(sink, Dialect.CHAT, write_stream("chat", SPEECH))

    await asyncio.sleep(60)

    assert end.is_final


@pytest.mark.parametrize("dialect", DIALECTS)
async def test_a_failure_sends_what_is_held_and_then_fails(dialect):
    frames, sink = write_stream(dialect, SPEECH), RecordingSink()
    end = stream_into(sink, dialect, [*frames, frames[0][:9]], ends=False)

    end.fail(UpstreamCut("spark", "gone"))
    end.release(NOTE)

    assert sink.body == b"".join(frames) + frames[0][:9]
    assert sink.words == ["start", "write", "fail"]


async def test_a_refusal_and_a_dialect_that_nothing_is_added_to_pass():
    refused, completed = RecordingSink(), RecordingSink()
    for streams in (False, True):
        end = HeldEnd(refused, Dialect.CHAT, is_streaming=streams)
        end.start(500, JSON)
        end.write(b'{"choices":[{"finish_reason":"stop"}]}')
        assert refused.body
        end.end()
        end = HeldEnd(completed, Dialect.COMPLETIONS, is_streaming=streams)
        end.start(200, JSON)
        end.write(b'{"choices":[{"text":"x","finish_reason":"stop"}]}')
        end.end()
        assert not end.is_holding

    assert refused.words == completed.words == ["start", "write", "end", "start", "write", "end"]


async def test_an_answer_of_many_megabytes_is_not_kept():
    sink, long = RecordingSink(), b"data: " + b"x" * (1 << 20) + b"\n\n"
    end = HeldEnd(sink, Dialect.CHAT, is_streaming=True)
    end.start(200, EVENTS)
    for _ in range(9):
        end.write(long)
    last = write_stream("chat", SPEECH)[-3]

    end.write(last)

    assert not end.is_holding
    assert sink.body.endswith(last)
    assert end._said == []


async def test_a_frame_of_many_megabytes_passes_before_its_end():
    sink, piece = RecordingSink(), b"x" * (1 << 20)

    stream_into(sink, Dialect.CHAT, [b"data: ", *[piece] * 9], ends=False)

    assert sink.body == b"data: " + piece * 9


async def test_facts_and_the_flow_reach_the_caller_while_the_end_is_held():
    sink, flow, fact = RecordingSink(), object(), Serving(())
    end = stream_into(sink, Dialect.CHAT, write_stream("chat", SPEECH))

    end.feed_from(flow)
    end.tell(fact)

    assert (sink.flow, sink.facts) == (flow, [fact])


WORDS = some.text(max_size=40) | some.sampled_from(
    [
        '"finish_reason":"stop"',
        'data: {"type":"response.completed","response":{}}\n\n',
        "event: message_delta\n\n",
        '{"delta":{"stop_reason":"end_turn"}}',
        "a\r\n\r\nb",
        '"call_id":"x"',
        "data: [DONE]\n\n",
    ]
)
SPEECHES = some.builds(
    Speech, WORDS, some.sampled_from([(), (CALL,)]), WORDS, some.sampled_from(["", "I will not."]), some.booleans()
)


@some.composite
def cut_streams(draw):
    """A dialect, a host's or a bridge's stream, perhaps with other line ends and comments, in pieces cut anywhere."""
    dialect, speech = draw(some.sampled_from(DIALECTS)), draw(SPEECHES)
    frames = write_stream(dialect, speech) if draw(some.booleans()) else bridged(dialect, speech.text, speech.thinking)
    for _ in range(draw(some.integers(0, 3))):
        frames.insert(draw(some.integers(0, len(frames))), b": OPENROUTER PROCESSING response.completed\n\n")
    data = b"".join(frames)
    if draw(some.booleans()):
        data = data.replace(b"\n", b"\r\n")
    cuts = sorted({0, *draw(some.lists(some.integers(0, len(data)), max_size=30)), len(data)})
    return dialect, [data[begin:end] for begin, end in pairwise(cuts)]


def play(dialect: Dialect, pieces: list[bytes], text: str | None) -> tuple[RecordingSink, bytes, str | None]:
    """The caller's side, what it had before the release, and the words of a final answer."""

    async def run():
        end = stream_into(sink := RecordingSink(), dialect, pieces)
        passed, words = sink.body, end.text if end.is_final else None
        end.release(text if words else None)
        return sink, passed, words

    return asyncio.run(run())


@given(cut_streams())
def test_a_stream_to_which_nothing_is_added_has_the_bytes_that_it_came_with(stream):
    dialect, pieces = stream

    sink, passed, _ = play(dialect, pieces, None)

    assert sink.body == b"".join(pieces)
    assert sink.body.startswith(passed)
    assert sink.words[-1] == "end"


@given(cut_streams())
def test_a_text_is_added_to_a_final_answer_once_and_after_all_that_was_said(stream):
    dialect, pieces = stream
    whole = b"".join(pieces)

    sink, passed, words = play(dialect, pieces, NOTE)

    assert whole.startswith(passed)
    assert sink.body.startswith(passed)
    if words is not None:
        said, noted = (hear(dialect, Reply(200, dict(EVENTS), _plain(body), True)) for body in (whole, sink.body))
        assert words == (said.text or said.refusal)
        joint = "\n\n" if dialect is Dialect.CHAT else ""
        assert noted.text == f"{said.text}{joint}{NOTE}"
        assert (noted.thinking, noted.calls, noted.end) == (said.thinking, said.calls, said.end)
    else:
        assert sink.body == whole


def _plain(stream: bytes) -> bytes:
    """Line ends as the strict reader takes them."""
    return stream.replace(b"\r\n", b"\n")
