"""Reading a job's log: what is there, what comes, and how it ends."""

import itertools
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from router.contract.job import JobEnding, JobState
from router.dialects.responses.logged import LogFrames
from router.jobs.tail import follow, tail_into
from router.stores.sqlite.jobs import MemoryJobs
from tests.tools.background import SPEECH, events_in
from tests.tools.exchanges import RecordingSink
from tests.tools.jobs import LEASE_SECONDS, MANY, make_job
from tests.tools.kept import ANN
from tests.tools.speech import write_stream
from tests.tools.waiting import later, some_turns

ENDED = JobEnding(JobState.COMPLETED, time.time(), b'{"id":"resp_1","status":"completed"}')


@pytest.fixture
async def store():
    opened = MemoryJobs(keep_seconds=3_600)
    yield opened
    await opened.close()


async def write_log(store, cuts: list[int], *, ends: bool = True):
    """A job whose log is cut in these places."""
    await store.add(make_job(), MANY)
    job = await store.claim("me", LEASE_SECONDS, MANY)
    frames, log = write_stream("responses", SPEECH), LogFrames("resp_1")
    places = sorted({0, *(cut % len(frames) for cut in cuts), len(frames)})
    segments = [log.take(b"".join(frames[start:end])) for start, end in itertools.pairwise(places)]
    await store.append(job, segments if ends else segments[:-1])
    if ends:
        await store.finish(job, ENDED)
    return job, segments


async def read(store, after: int = -1) -> bytes:
    return b"".join([piece async for piece in follow(store, "resp_1", ANN, after)])


@settings(max_examples=30)
@given(st.lists(st.integers(0, 100), max_size=8), st.integers(-1, 30))
async def test_what_follows_a_number_is_the_rest_of_the_stream_wherever_it_was_cut(cuts, after):
    store = MemoryJobs(keep_seconds=3_600)
    await write_log(store, cuts)

    whole, rest = events_in(await read(store)), events_in(await read(store, after))

    assert rest == whole[after + 1 :]
    await store.close()


async def test_a_reader_gets_what_is_written_while_it_reads(store):
    job, segments = await write_log(store, [4], ends=False)
    reading = later(read(store))
    await some_turns()

    await store.append(job, segments[-1:])
    await store.finish(job, ENDED)

    assert len(events_in(await reading)) == len(write_stream("responses", SPEECH))
    assert (await store.find("resp_1", None)).is_collected


async def test_what_is_written_between_two_looks_is_read_although_the_job_is_over(store, monkeypatch):
    job, segments = await write_log(store, [4], ends=False)
    frames, looks = follow(store, "resp_1", ANN, segments[-2].last), itertools.count()

    def end_after_the_first(look):
        async def answer(*given, **more):
            found = await look(*given, **more)
            if not next(looks):
                await store.append(job, segments[-1:])
                await store.finish(job, ENDED)
            return found

        return answer

    for name in ("find", "read"):
        monkeypatch.setattr(store, name, end_after_the_first(getattr(store, name)))

    assert b"".join([piece async for piece in frames]) == segments[-1].frames


async def test_a_job_that_ended_before_it_began_has_a_stream_that_says_so(store):
    await store.add(make_job(), MANY)
    await store.cancel("resp_1", ANN, JobEnding(JobState.CANCELLED, time.time(), b'{"id":"resp_1","status":"cancelled"}'))

    assert [event["type"] for event in events_in(await read(store))] == ["response.created", "response.incomplete"]
    assert [event["type"] for event in events_in(await read(store, 0))] == ["response.incomplete"]
    assert events_in(await read(store, 1)) == events_in(await read(store, 7)) == []


async def test_a_reader_of_a_deleted_job_is_let_go(store):
    await write_log(store, [4], ends=False)
    frames = follow(store, "resp_1", ANN, -1)
    assert events_in(await anext(frames))

    await store.forget("resp_1", None)

    assert [piece async for piece in frames] == []


class Slow(RecordingSink):
    """A caller that takes nothing yet."""

    def feed_from(self, flow) -> None:
        super().feed_from(flow)
        flow.pause()


async def test_a_slow_caller_is_not_sent_more_than_it_takes(store):
    await write_log(store, [1, 2, 3])
    sink = Slow()

    writing = later(tail_into(sink, follow(store, "resp_1", ANN, -1)))
    await some_turns()
    before = sink.body
    sink.flow.resume()
    await writing

    assert before == b""
    assert len(events_in(sink.body)) == len(write_stream("responses", SPEECH))
    assert sink.words[-1] == "end"


async def test_readers_of_a_running_job_are_let_go_when_the_router_stops(store):
    job, _ = await write_log(store, [4], ends=False)
    stopping = []
    frames = follow(store, "resp_1", ANN, -1, lambda: bool(stopping))
    begun = await anext(frames)
    waiting = later(anext(frames, None))
    await some_turns()

    stopping.append(True)
    await store.release(job)

    assert await waiting is None
    assert events_in(begun)[0]["type"] == "response.created"
