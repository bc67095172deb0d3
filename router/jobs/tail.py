"""From a job's log to whoever reads it: what is there, then what comes, until the job is over."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import suppress

from router.contract.caller import Caller
from router.contract.job import FINAL, Job, JobStore, Segment
from router.contract.sinks import AnswerSink
from router.contract.stores import StoreUnusable
from router.dialects.responses.logged import LogFrames, cut_after, parse_response
from router.dispatch.streaming import HEARTBEAT, HEARTBEAT_SECONDS

_RETRY_SECONDS = 1.0


async def follow(
    store: JobStore, job_id: str, caller: Caller | None, after: int, is_stopping: Callable[[], bool] = lambda: False
) -> AsyncIterator[bytes]:
    """The frames of a job's log after a number, also those that are still to come. Ends with the job, or when it is deleted.

    It ends without the job's end where the router stops: who reads can go on from its number at the next one.
    """
    watch, number, part_at = store.watch(job_id), after, 0
    job: Job | None = None
    try:
        while True:
            try:
                if job is None or job.state not in FINAL:
                    job = await store.find(job_id, caller)  # before the log is read: what is written until the end is seen then
                segments = await store.read(job_id, caller, number, part_at=part_at)
                if not segments and job is not None and job.state in FINAL and number < 1:
                    segments = [] if await store.read(job_id, caller, -1) else [await _write_end(store, job)]
            except StoreUnusable:  # which may pass: the log is read on from here then
                yield HEARTBEAT
                await asyncio.sleep(_RETRY_SECONDS)
                continue
            for segment in segments:
                if frames := cut_after(segment, number):
                    yield frames
                if not (part_at := segment.rest_at):
                    number = max(number, segment.last)
            if is_stopping():
                return
            if segments:
                continue
            if job is None or job.state in FINAL:
                break
            if not await watch.wait(HEARTBEAT_SECONDS):
                yield HEARTBEAT
        with suppress(StoreUnusable):
            await store.collected(job_id)
    finally:
        watch.close()


async def _write_end(store: JobStore, job: Job) -> Segment:
    """The stream of a job that ended before anybody worked on it, so its response is small: frames 0 and 1."""
    response, _ = await store.read_response(job.id, None)
    return LogFrames(job.id).close(job.state, parse_response(response), response)


class _Gate:
    """Lets a log be read only as fast as its reader takes it."""

    def __init__(self) -> None:
        self.is_open = asyncio.Event()
        self.is_open.set()

    def pause(self) -> None:
        self.is_open.clear()

    def resume(self) -> None:
        self.is_open.set()


async def tail_into(sink: AnswerSink, frames: AsyncIterator[bytes]) -> None:
    """Write a log to a caller who waits for it."""
    sink.feed_from(gate := _Gate())
    async for piece in frames:
        await gate.is_open.wait()
        sink.write(piece)
    sink.end()
