"""The end of a job's answer: what is cut when, what is stored, and what happens while nothing can be stored."""

import asyncio
import json
import threading

import pytest

from router.contract.job import JobState
from router.contract.stores import StoreUnusable
from router.dialects.responses.logged import LogFrames, split_at_frame_end
from router.jobs import log_sink
from router.jobs.log_sink import LogSink, SharedLog
from router.stores.sqlite.jobs import MemoryJobs
from tests.tools.background import SPEECH, events_in
from tests.tools.jobs import LEASE_SECONDS, MANY, make_job, read_log
from tests.tools.speech import write_stream
from tests.tools.waiting import later, some_turns, until

FRAMES = write_stream("responses", SPEECH)


class Flow:
    """One who pushes, and notes when it is asked to stop."""

    def __init__(self) -> None:
        self.told: list[str] = []

    def pause(self) -> None:
        self.told.append("pause")

    def resume(self) -> None:
        self.told.append("resume")


class Store(MemoryJobs):
    """A store that notes what is appended, and can be away."""

    def __init__(self) -> None:
        super().__init__(keep_seconds=3_600)
        self.appended, self.is_away = [], False

    async def append(self, job, segments):
        if self.is_away:
            raise StoreUnusable("the disk is full")
        self.appended += segments
        return await super().append(job, segments)


async def begin(store: Store, shared: SharedLog | None = None) -> tuple[LogSink, asyncio.Future[None]]:
    await store.add(make_job(), MANY)
    job = await store.claim("me", LEASE_SECONDS, MANY)
    sink = LogSink(job, store, shared or SharedLog())
    sink.start(200, ())
    return sink, later(write_to_its_end(sink))


async def write_to_its_end(sink: LogSink) -> None:
    await sink.write_log()
    await sink.finish()


@pytest.fixture
async def store():
    opened = Store()
    yield opened
    await opened.close()


async def test_frames_of_one_moment_are_one_segment(store):
    sink, writing = await begin(store)

    for frame in FRAMES[:6]:
        sink.write(frame)
    await until(lambda: store.appended)
    sink.abandon()
    await writing

    assert [(segment.first, segment.last) for segment in store.appended] == [(0, 5)]


@pytest.mark.parametrize("line_end", [b"\n", b"\r\n", b"\r"])
@pytest.mark.parametrize("size", [1, 2, 7, 1_000])
async def test_a_frame_that_comes_in_pieces_is_logged_whole(store, size, line_end):
    sink, writing = await begin(store)
    sent = b"".join(FRAMES).replace(b"\n", line_end)

    for start in range(0, len(sent), size):
        sink.write(sent[start : start + size])
    sink.end()
    await writing

    assert (await store.find("resp_1", None)).state is JobState.COMPLETED
    logged = events_in(b"".join(segment.frames for segment in store.appended))
    assert [event["type"] for event in logged] == [event["type"] for event in events_in(b"".join(FRAMES))]


async def test_a_frame_of_many_megabytes_is_joined_once_and_not_for_each_piece(store, monkeypatch):
    cuts = []
    monkeypatch.setattr(log_sink, "split_at_frame_end", lambda data: cuts.append(len(data)) or split_at_frame_end(data))
    shared = SharedLog()
    sink, writing = await begin(store, shared)
    room = shared.left
    picture = json.dumps({"type": "response.image_generation_call.partial_image", "partial_image_b64": "A" * 3_000_000})
    frame = b"event: response.image_generation_call.partial_image\ndata: " + picture.encode() + b"\n\n"

    for start in range(0, len(frame), 16_384):
        held = room - shared.left
        sink.write(frame[start : start + 16_384])
    await until(lambda: store.appended)
    sink.abandon()
    await writing

    assert cuts == [len(frame)]
    assert held > len(frame) - 100_000
    assert shared.left == room


async def test_memory_for_frames_of_a_job_that_is_lost_while_they_are_written_is_given_back_once(store, monkeypatch):
    shared = SharedLog()
    room = shared.left
    sink, writing = await begin(store, shared)

    async def lose(job, segments) -> bool:
        sink.abandon()
        return True

    monkeypatch.setattr(store, "append", lose)
    sink.write(FRAMES[0])
    await writing

    assert shared.left == room


async def test_a_last_frame_without_an_empty_line_ends_the_job(store):
    sink, writing = await begin(store)

    sink.write(b"".join(FRAMES).rstrip(b"\n"))
    sink.end()
    await writing

    assert (await store.find("resp_1", None)).state is JobState.COMPLETED


async def test_a_last_frame_that_was_cut_is_not_logged(store):
    sink, writing = await begin(store)

    sink.write(b"".join(FRAMES[:3]) + FRAMES[3][:-20])
    sink.end()
    sink.close(JobState.FAILED, {})
    await writing

    assert events_in(b"".join(segment.frames for segment in store.appended))[-1]["sequence_number"] == 3
    assert FRAMES[3][:-20] not in b"".join(segment.frames for segment in store.appended)


async def test_a_long_burst_is_cut_before_the_moment_is_over(store, monkeypatch):
    monkeypatch.setattr(log_sink, "_CUT_SECONDS", 3_600.0)
    sink, writing = await begin(store)

    for number in range(200):
        body = {"type": "response.output_text.delta", "sequence_number": number, "delta": "x" * 1_000}
        sink.write(f"event: response.output_text.delta\ndata: {json.dumps(body)}\n\n".encode())
    await until(lambda: len(store.appended) == 3)
    sink.abandon()
    await writing

    assert all(len(segment.frames) < 70_000 for segment in store.appended)


async def test_a_refusal_is_kept_apart_from_the_log(store):
    sink, writing = await begin(store)

    sink.start(503, ())
    sink.write(b'{"error": {}}')
    sink.end()
    assert sink.refusal == b'{"error": {}}'
    sink.forget_refusal()

    assert (sink.refusal, sink.has_started, store.appended) == (b"", False, [])
    sink.abandon()
    await writing


async def test_nothing_is_lost_while_the_store_is_away(store):
    store.is_away = True
    sink, writing = await begin(store)

    for frame in FRAMES:
        sink.write(frame)
    await some_turns()
    store.is_away = False
    await writing

    assert (await store.find("resp_1", None)).state is JobState.COMPLETED
    assert len(events_in(b"".join(segment.frames for segment in await read_log(store, "resp_1")))) == len(FRAMES)


async def test_a_target_is_paused_when_too_much_waits_and_resumed_when_it_is_stored(store):
    store.is_away = True
    sink, writing = await begin(store, SharedLog(max_bytes=100))
    sink.feed_from(flow := Flow())

    for frame in FRAMES[:-1]:
        sink.write(frame)
    await until(lambda: flow.told)
    store.is_away = False
    sink.write(FRAMES[-1])
    await writing

    assert flow.told == ["pause", "resume"]


@pytest.mark.parametrize("frames_before", [0, len(FRAMES)], ids=["log", "end"])
async def test_a_job_that_was_deleted_or_taken_meanwhile_is_let_go_of(store, frames_before):
    await store.add(make_job(), MANY)
    job, lost = await store.claim("me", LEASE_SECONDS, MANY), []
    sink = LogSink(job, store, SharedLog(), on_lost=lambda: lost.append(sink))
    sink.start(200, ())
    for frame in FRAMES[:frames_before]:
        sink.write(frame)
    if frames_before:
        await sink.write_log()
    await store.forget("resp_1", None)

    for frame in FRAMES[frames_before:]:
        sink.write(frame)
    await (sink.finish() if frames_before else sink.write_log())

    assert (sink.is_lost, lost) == (True, [sink])


def end_with(text: str) -> bytes:
    """A last frame with a large response."""
    item = {"type": "message", "content": [{"type": "output_text", "text": text}]}
    body = {"type": "response.completed", "sequence_number": 99, "response": {"id": "resp_0", "output": [item]}}
    return b"event: response.completed\ndata: " + json.dumps(body).encode() + b"\n\n"


async def test_large_frames_are_parsed_and_written_off_the_loop_and_in_order(store, monkeypatch):
    threads = set()

    def note(parse):
        def parse_and_note(*given):
            threads.add(threading.current_thread() is threading.main_thread())
            return parse(*given)

        return parse_and_note

    text = "x" * 2_000_000
    monkeypatch.setattr(LogFrames, "_read_response", note(LogFrames._read_response))
    monkeypatch.setattr(log_sink, "write_parts", note(log_sink.write_parts))
    sink, writing = await begin(store)

    sink.write(end_with(text))
    sink.write(b"data: [DONE]\n\n")
    await writing

    kept, size = await store.read_response("resp_1", None)
    assert (sink.state, threads) == (JobState.COMPLETED, {False})
    assert kept.startswith(b'{"id":"resp_1"')
    assert size > len(text)


async def test_a_job_whose_answer_is_too_large_fails_and_its_target_is_left(store):
    await store.add(make_job(), MANY)
    job, lost = await store.claim("me", LEASE_SECONDS, MANY), asyncio.Event()
    sink = LogSink(job, store, SharedLog(), on_lost=lost.set, max_bytes=len(b"".join(FRAMES)) - 1)
    sink.start(200, ())
    for frame in FRAMES:
        sink.write(frame)
    await asyncio.wait_for(lost.wait(), 30)

    assert str(sink.error) == "the answer is over 64 MB, the limit for a background job"
    sink.close(JobState.FAILED, {"status": "failed"})
    await write_to_its_end(sink)
    kept = json.loads((await store.read_response("resp_1", None))[0])
    assert (kept["status"], kept["output"][-1]["content"][0]["text"]) == ("failed", SPEECH.text)


async def test_an_answer_that_ends_with_an_empty_output_is_kept_with_what_its_log_says(store):
    sink, writing = await begin(store)
    head, _, data = FRAMES[-1].partition(b"data: ")
    ended = json.loads(data)
    said, ended["response"]["output"] = ended["response"]["output"], []

    for frame in (*FRAMES[:-1], head + b"data: " + json.dumps(ended).encode() + b"\n\n"):
        sink.write(frame)
    await writing

    kept = json.loads((await store.read_response("resp_1", None))[0])
    assert (kept["status"], len(kept["output"])) == ("completed", len(said))
    assert kept["output"]
