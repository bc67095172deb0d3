"""The end of a job's answer: its frames, cut into segments, go into the store's log instead of to a caller."""

import asyncio
import time
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar, TypeVarTuple

from router.contract.digits import as_written
from router.contract.errors import TandemError, UpstreamCut
from router.contract.job import Job, JobEnding, JobState, JobStore, Segment
from router.contract.parts import write_parts
from router.contract.relay import Flow, Headers
from router.contract.request import JsonObject
from router.contract.sinks import AnswerFact
from router.contract.stores import StoreUnusable
from router.dialects.responses.logged import (
    RESPONSE_KEY,
    LogFrames,
    LoggedOutput,
    end_frame,
    ends_frame,
    has_output,
    is_terminal,
    split_at_frame_end,
)
from router.dialects.sse import count_written

_T = TypeVar("_T")
_Given = TypeVarTuple("_Given")
_CUT_SECONDS, _CUT_BYTES = 0.05, 65_536
_MAX_WAITING_BYTES = 64 << 20
_RETRY_SECONDS, _MAX_RETRY_SECONDS = 0.1, 2.0
_ERROR_BYTES = 65_536
MAX_LOG_BYTES = 64 << 20
"""For the answer of one job: a target that does not stop would fill the disk."""
_HEAVY_BYTES = 1 << 19
"""Frames larger than this are parsed off the loop."""
_THREADS = 2


class SharedLog:
    """What the logs of one process share: the moment at which they are cut, and the memory for what cannot be stored now.

    All that was said in a moment is then stored in one transaction, of however many jobs it is.
    """

    def __init__(self, max_bytes: int = _MAX_WAITING_BYTES) -> None:
        self.left = max_bytes
        self._paused: list[Flow] = []
        self._due: list[LogSink] = []
        self._threads = ThreadPoolExecutor(_THREADS, "job logs")

    async def run(self, work: Callable[[*_Given], _T], *given: *_Given) -> _T:
        """Do work on large parts of a log off the loop, two at a time."""
        return await asyncio.get_running_loop().run_in_executor(self._threads, lambda: work(*given))

    def close(self) -> None:
        self._threads.shutdown(wait=False)

    def cut_soon(self, sink: "LogSink") -> None:
        """Cut a log together with all others in which something is said meanwhile."""
        if not self._due:
            asyncio.get_running_loop().call_later(_CUT_SECONDS, self._cut)
        self._due.append(sink)

    def _cut(self) -> None:
        due, self._due = self._due, []
        for sink in due:
            sink.cut()

    def take(self, size: int, flow: Flow | None) -> None:
        """Hold more. A target whose words find no room is paused until there is some."""
        self.left -= size
        if self.left <= 0 and flow is not None and flow not in self._paused:
            self._paused.append(flow)
            flow.pause()

    def give_back(self, size: int) -> None:
        self.left += size
        if self.left > 0 and self._paused:
            paused, self._paused = self._paused, []
            for flow in paused:
                flow.resume()


class LogSink:
    """Takes the answer of one attempt. `write_log` is the task that stores it. `finish` ends the job after that."""

    def __init__(
        self,
        job: Job,
        store: JobStore,
        shared: SharedLog,
        frames: LogFrames | None = None,
        *,
        on_lost: Callable[[], None] = lambda: None,
        on_refused: Callable[[], None] = lambda: None,
        max_bytes: int = MAX_LOG_BYTES,
    ) -> None:
        """Calls `on_lost` when the job has another owner or too large an answer, `on_refused` before a refusal is recorded."""
        self._on_lost, self._on_refused, self._left = on_lost, on_refused, max_bytes
        self._job, self._store, self._shared, self._frames = job, store, shared, frames or LogFrames(job.id)
        self._pieces: list[bytes] = []
        self._bytes = self._held = self._status = 0
        self._before = b""
        self._has_frame = False
        """Whether a frame ended since the last cut: a frame of many megabytes comes in thousands of pieces."""
        self._refusal = bytearray()
        self._is_near_end = False
        self._is_due = False
        self._flow: Flow | None = None
        self._segments: list[Segment] = []
        self._heavy: deque[bytes] = deque()
        """Frames that are parsed off the loop, and all that came after them."""
        self._parsing = asyncio.Lock()
        self._ready = asyncio.Event()
        self._ended: tuple[JobState, float] | None = None
        """How and when the job ended."""
        self.error: TandemError | None = None
        """What the answer ended with, where it failed."""
        self.is_lost = False
        """Whether the job is somebody else's by now, or deleted: nothing more is written."""

    # As the sink of the road.

    @property
    def has_started(self) -> bool:
        return self._status != 0

    @property
    def has_ended(self) -> bool:
        """Whether it is settled how the job ends."""
        return self._ended is not None

    def feed_from(self, flow: Flow) -> None:
        self._flow = flow

    def start(self, status: int, headers: Headers) -> None:
        self._status = status

    def tell(self, fact: AnswerFact) -> None:
        """Nobody is there to be told."""

    def write(self, data: bytes) -> None:
        if self._status != 200:
            self._refusal += data[: _ERROR_BYTES - len(self._refusal)]
            return
        self._left -= len(data)
        if self._left < 0:
            self._fill()
            return
        if not self._has_frame:  # one is enough until the next cut
            self._has_frame = ends_frame(self._before, data)
            self._before = (self._before + data)[-3:]
        self._pieces.append(data)
        self._bytes = size = self._bytes + len(data)
        if size >= _CUT_BYTES or self._is_near_end or (RESPONSE_KEY in data and is_terminal(data)):
            if size - self._held > _CUT_BYTES:  # it waits for the end of its frame, so its target is not paused for it
                self._shared.take(size - self._held, None)
                self._held = size
            self._is_near_end = True
            self.cut()
        elif not self._is_due:
            self._is_due = True
            self._shared.cut_soon(self)

    def _fill(self) -> None:
        """End an answer that is too large, once."""
        if self.error is None:
            self.error = UpstreamCut("", f"the answer is over {MAX_LOG_BYTES >> 20} MB, the limit for a background job")
            asyncio.get_running_loop().call_soon(self._on_lost)

    def end(self) -> None:
        self._flow = None
        if self._refusal:
            self._on_refused()
        self.cut()
        if self._pieces and (last := end_frame(b"".join(self._pieces))):
            self._pieces, self._has_frame = [last], True
            self.cut()

    def fail(self, error: TandemError) -> None:
        self._flow, self.error = None, error
        self.cut()

    def cut(self) -> None:
        """Make a segment of the frames that are whole."""
        self._is_due = False
        if not self._has_frame:
            return
        frames, rest = split_at_frame_end(b"".join(self._pieces))
        self._shared.give_back(self._held)
        self._pieces, self._bytes, self._held, self._has_frame = ([rest] if rest else []), len(rest), 0, False
        self._before = rest[-3:]
        self._is_near_end = self._is_near_end and bool(rest)
        if not frames or self.is_lost:
            return
        if self._heavy or len(frames) > _HEAVY_BYTES:
            self._heavy.append(frames)
            self._ready.set()
        else:
            self._keep(self._frames.take(frames))

    async def parse_heavy(self) -> None:
        """Parse the frames that are too large for the loop. Nothing later is parsed before them."""
        async with self._parsing:
            while self._heavy and not self.is_lost:
                segment = await self._shared.run(self._frames.take, self._heavy[0])
                if self._heavy:  # else the job was given up meanwhile
                    self._heavy.popleft()
                    self._keep(segment)

    def _keep(self, segment: Segment | None) -> None:
        if segment is not None:
            self._segments.append(segment)
            self._shared.take(len(segment.frames), self._flow)
            self._ready.set()
        if self._frames.ended is not None and self._ended is None:
            self._end(self._frames.ended)

    def _end(self, state: JobState) -> None:
        self._ended = (state, time.time())
        self._ready.set()

    # As the runner uses it.

    @property
    def state(self) -> JobState:
        """How the job is, as far as its answer says."""
        return self._ended[0] if self._ended is not None else JobState.RUNNING

    @property
    def response(self) -> JsonObject:
        """The response as far as the answer says."""
        return self._frames.response

    @property
    def refusal(self) -> bytes:
        """The body with which the request was refused; empty where it was not."""
        return bytes(self._refusal)

    def forget_refusal(self) -> None:
        """The request is served again."""
        self._status = 0
        self._refusal.clear()

    def close(self, state: JobState, response: JsonObject) -> None:
        """End the job so, unless its answer has an end of its own. Call `parse_heavy` first."""
        self._flow = None
        self.cut()
        if self._frames.ended is None:
            self._frames.end(state, response)
        if self._ended is None:
            self._end(self._frames.ended or state)

    def abandon(self) -> None:
        """Write nothing more: the job goes to another owner, or is deleted."""
        if not self.is_lost:
            self.is_lost = True
            self._shared.give_back(self._held + sum(len(segment.frames) for segment in self._segments))
            self._held = 0
            self._segments.clear()
            self._heavy.clear()
            self._ready.set()
            self._on_lost()

    async def write_log(self) -> None:
        """Store segments as they come, until it is settled how the job ends."""
        while not self.is_lost:
            await self._ready.wait()
            self._ready.clear()
            await self.parse_heavy()
            await self._insist(self._append_all)
            if self._ended is not None and not self._segments:
                return

    async def finish(self) -> None:
        """End the job, once its log is written."""
        await self._insist(self._finish)

    async def _insist(self, write: Callable[[], Awaitable[None]]) -> None:
        """What cannot be stored now is tried again, as long as the job is ours."""
        pause = _RETRY_SECONDS
        while not self.is_lost:
            try:
                await write()
            except StoreUnusable:
                await asyncio.sleep(pause)
                pause = min(pause * 2, _MAX_RETRY_SECONDS)
            else:
                return

    async def _append_all(self) -> None:
        while self._segments and not self.is_lost:
            await self._append(self._segments[:])

    async def _append(self, segments: list[Segment]) -> None:
        if not await self._store.append(self._job, segments):
            self.abandon()
        elif not self.is_lost:
            del self._segments[: len(segments)]
            self._shared.give_back(sum(len(segment.frames) for segment in segments))

    async def _finish(self) -> None:
        """Some servers leave `output` empty at the end, and an answer that was cut has no end: the log has what was said."""
        assert self._ended is not None
        (state, at), frames, output = self._ended, self._frames, None
        if not frames.is_whole or not has_output(frames.response):
            output = (await read_again(self._store, self._job.id, self._shared)).output
        response, last = await self._shared.run(_write_end, frames, state, output)
        is_ours = last is None or await self._store.append(self._job, [last])
        last = None  # as large as the response
        if not is_ours or not await self._store.finish(self._job, JobEnding(state, at, response)):
            self.abandon()


def _write_end(frames: LogFrames, state: JobState, output: LoggedOutput | None) -> tuple[bytes, Segment | None]:
    """The response, with an output that the log has, and the last frame if the answer has none."""
    response = frames.response if output is None else {**frames.response, "output": output.assemble()}
    written = write_parts(response, as_written)
    if frames.is_whole:
        return written, None
    response = {**response, "output": []}  # may be large, and is written
    return written, frames.close(state, response, written)


class LogAgain:
    """What the log of a job says that is read again."""

    def __init__(self, job_id: str) -> None:
        self.log, self.output = LogFrames(job_id), LoggedOutput()
        self.written, self.has_frames = 0, False
        """Bytes of text that the model wrote, and whether there is a log at all."""

    def add(self, segments: Sequence[Segment]) -> None:
        for segment in segments:
            self.log.take(segment.frames)
            self.output.add(segment.frames)
            self.written += count_written(segment.frames)
            self.has_frames = True


async def read_again(store: JobStore, job_id: str, shared: SharedLog) -> LogAgain:
    """Read a log part by part, so that it is never in memory as a whole."""
    found, after = LogAgain(job_id), -1
    while segments := await store.read(job_id, None, after):
        await shared.run(found.add, segments)
        after = segments[-1].last
    return found
