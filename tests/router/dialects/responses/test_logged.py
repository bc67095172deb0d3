"""Frames as a job's log has them: numbers, ids, ends, and what can be read back from them."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from router.contract.job import JobState
from router.dialects.responses.logged import (
    LogFrames,
    LoggedOutput,
    cut_after,
    is_terminal,
    split_at_frame_end,
    write_response,
)
from tests.tools.background import SPEECH, events_in
from tests.tools.speech import Speech, ToolCall, write_stream


def assemble(said: list[bytes]) -> list:
    """The output of a log that is read frame by frame."""
    output = LoggedOutput()
    for frames in said:
        output.add(frames)
    return output.assemble()


def frame(kind: str, number: int | None = None, **fields: object) -> bytes:
    body = {"type": kind, **({} if number is None else {"sequence_number": number}), **fields}
    return f"event: {kind}\ndata: {json.dumps(body)}\n\n".encode()


def delta(number: int | None = None, text: str = "x") -> bytes:
    return frame("response.output_text.delta", number, output_index=0, delta=text)


def numbers(frames: bytes) -> list[int]:
    return [event["sequence_number"] for event in events_in(frames)]


def test_frames_with_good_numbers_are_kept_byte_for_byte():
    frames = delta(7) + delta(8)
    log = LogFrames("resp_1")

    segment = log.take(frames)

    assert (segment.first, segment.last, segment.frames, segment.has_content) == (7, 8, frames, True)
    assert log.next_number == 9


@given(st.lists(st.one_of(st.none(), st.integers(0, 30)), min_size=1, max_size=12), st.data())
def test_numbers_always_rise_whatever_a_target_gives(given_numbers, data):
    cut = data.draw(st.integers(0, len(given_numbers)))
    frames = [delta(number) for number in given_numbers]
    log = LogFrames("resp_1")

    segments = [log.take(b"".join(part)) for part in (frames[:cut], frames[cut:]) if part]

    written = numbers(b"".join(segment.frames for segment in segments))
    assert len(written) == len(given_numbers)
    assert written == sorted(set(written))
    assert [(segment.first, segment.last) for segment in segments][-1][1] == written[-1]


def test_the_id_is_replaced_where_the_whole_response_is_and_nowhere_else():
    log, said = LogFrames("resp_ours"), b"".join(write_stream("responses", SPEECH))

    segment = log.take(said)

    before, after = events_in(said), events_in(segment.frames)
    held = [event for event in after if "response" in event]
    assert {event["response"]["id"] for event in held} == {"resp_ours"}
    assert {event["type"] for event in held} == {"response.created", "response.in_progress", "response.completed"}
    assert [event for event in after if "response" not in event] == [event for event in before if "response" not in event]
    assert (log.ended, log.response["output"][0]["type"]) == (JobState.COMPLETED, "reasoning")


def test_comments_and_what_follows_the_end_are_left_out():
    end = frame("response.completed", 2, response={"id": "up", "output": []})
    log = LogFrames("resp_1")

    segment = log.take(b": hello\n\n" + delta(1) + b": there\n\n" + end + b"data: [DONE]\n\n" + delta(3))

    assert numbers(segment.frames) == [1, 2]
    assert b": " not in segment.frames.replace(b'": ', b"").replace(b"event: ", b"").replace(b"data: ", b"")
    assert log.take(delta(4)) is None


@pytest.mark.parametrize("comment", [b": ping\n\n", b": ping\n"])
def test_a_comment_between_or_in_frames_is_left_out_and_hides_no_missing_number(comment):
    nested = frame("response.output_text.delta", 0, part={"sequence_number": 1})

    segment = LogFrames("resp_1").take(comment + nested)

    assert (segment.first, segment.last) == (0, 0)
    assert b"ping" not in segment.frames


def test_line_ends_of_any_kind_are_read():
    log = LogFrames("resp_1")

    segment = log.take(delta(0).replace(b"\n", b"\r\n") + delta(1).replace(b"\n", b"\r"))

    assert numbers(segment.frames) == [0, 1]


def test_the_frames_by_which_a_response_begins_are_no_content():
    begun = frame("response.created", 0, response={}) + frame("response.in_progress", 1, response={})

    assert not LogFrames("resp_1").take(begun).has_content
    assert LogFrames("resp_1").take(begun + delta(2)).has_content
    assert LogFrames("resp_1").take(b": only a comment\n\n") is None


@pytest.mark.parametrize("next_number", [0, 5])
def test_a_stream_without_an_end_is_given_one_and_a_beginning_if_it_has_none(next_number):
    response = {"id": "resp_1", "status": "failed", "error": {"code": "x"}}

    segment = LogFrames("resp_1", next_number).close(JobState.FAILED, response, write_response(response))

    events = events_in(segment.frames)
    kinds = ["response.created", "response.failed"] if not next_number else ["response.failed"]
    assert [event["type"] for event in events] == kinds
    assert numbers(segment.frames) == list(range(next_number, next_number + len(kinds)))
    assert events[-1]["response"]["error"] == {"code": "x"}


def test_a_segment_is_cut_after_a_number():
    segment = LogFrames("resp_1").take(delta(3) + delta(4) + delta(5))

    assert [numbers(cut_after(segment, number)) for number in (-1, 2, 3, 4, 5, 9)] == [
        [3, 4, 5],
        [3, 4, 5],
        [4, 5],
        [5],
        [],
        [],
    ]


@given(st.binary(max_size=20))
def test_splitting_at_the_last_frame_end_loses_no_byte(rest):
    whole, left = split_at_frame_end(delta(0) + rest)

    assert whole + left == delta(0) + rest
    assert whole.endswith((b"\n\n", b"\r\r", b"\r\n\r\n"))


def test_words_of_a_model_are_not_taken_for_an_end():
    assert is_terminal(frame("response.completed", 1))
    assert not is_terminal(delta(1, 'it says "response.completed" and event: response.completed!'))


def test_what_was_said_can_be_read_back_from_a_log_that_was_cut():
    said = write_stream("responses", SPEECH)
    whole = assemble(said)
    *_, message = assemble(said[:-4])

    assert [item["type"] for item in whole] == ["reasoning", "message"]
    assert (message["status"], message["content"][0]["text"]) == ("incomplete", SPEECH.text)


def test_a_call_without_an_end_is_not_shown():
    said = write_stream("responses", Speech("", (ToolCall("call_1", "run", '{"a": 1}'),)))

    assert [item["type"] for item in assemble(said)] == ["function_call"]
    assert assemble(said[:5]) == []


def test_half_of_a_sign_in_an_answer_costs_neither_its_end_nor_its_text():
    item = {"type": "message", "status": "completed", "content": [{"type": "output_text", "text": "ok \ud83d!"}]}
    response = {"id": "resp_theirs", "status": "completed", "model": "m", "output": [item], "usage": {"total_tokens": 3}}
    log = LogFrames("resp_ours")

    segment = log.take(delta(0, "ok \ud83d!") + frame("response.completed", 1, response=response))

    assert (log.ended, log.response["status"], log.response["model"]) == (JobState.COMPLETED, "completed", "m")
    assert log.response["output"][0]["content"][0]["text"] == "ok ?!"
    assert events_in(segment.frames)[-1]["response"]["id"] == "resp_ours"


def test_an_end_that_nobody_can_read_is_a_failure():
    log = LogFrames("resp_ours")
    log.take(frame("response.created", 0, response={"id": "resp_theirs", "model": "m", "status": "in_progress"}))

    segment = log.take(
        b'event: response.completed\ndata: {"type":"response.completed","sequence_number":1,"response":{"output":[\n\n'
    )

    assert (segment, log.ended, log.is_whole) == (None, JobState.FAILED, False)
    assert (log.response["model"], log.response["status"], log.response["error"]["code"]) == ("m", "failed", "server_error")


@pytest.mark.parametrize(
    ("kind", "status", "state"),
    [("response.failed", "failed", JobState.FAILED), ("response.incomplete", "cancelled", JobState.CANCELLED)],
)
def test_the_end_of_a_broken_stream_is_left_to_be_written_with_what_was_said(kind, status, state):
    log, error = LogFrames("resp_1"), {"code": "odd", "message": "no"}
    begun = frame("response.created", 0, response={"id": "up", "model": "m", "status": "in_progress", "error": None})

    segment = log.take(begun + delta(1) + frame(kind, 2, response={"model": "", "status": status, "error": error}))
    last = log.close(state, log.response, write_response({**log.response, "output": ["said"]}))

    assert numbers(segment.frames) == [0, 1]
    assert (log.ended, log.is_whole) == (state, False)
    (event,) = events_in(last.frames)
    assert (event["type"], event["sequence_number"], event["response"]["output"]) == (kind, 2, ["said"])
    assert event["response"]["status"] == status
    if state is JobState.FAILED:
        assert event["response"]["model"] == "m"
        assert event["response"]["error"] == {"code": "server_error", "message": "no", "reason": "odd"}
    again = LogFrames("resp_1")
    again.take(segment.frames + last.frames)
    assert (again.ended, again.next_number) == (state, 2)
