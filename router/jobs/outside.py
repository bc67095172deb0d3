"""Jobs that are done outside of the router: `tandem delegate --agent` runs a coding agent and keeps its log and change here.

The router starts no process. It leases the job to that command, takes the log in pieces, and stores the end. A command that is
gone loses the job when its lease runs out: the runner then ends it, with the log so far. What the agent prints is the reasoning
of the job's response, and its change is the message.
"""

import secrets
import time
from collections.abc import Callable, Sequence
from typing import Protocol, TypeVar, TypeVarTuple

import orjson
from msgspec.structs import replace

from router.contract.caller import Caller
from router.contract.errors import JobGone, TooManyJobs
from router.contract.exchange import work_here
from router.contract.job import FINAL, LOG_ID, MAX_TITLE, Job, JobEnding, JobState, JobStore, JobTerms, Segment
from router.contract.request import Json, JsonObject
from router.dialects.composer import Answer
from router.dialects.fields import as_text
from router.dialects.responses.background import job_id_of
from router.dialects.responses.compose import ResponsesComposer
from router.dialects.responses.failures import write_error
from router.dialects.responses.logged import LogFrames, join_frames, write_response
from router.dialects.sse import split_frames
from router.telemetry import events

_T = TypeVar("_T")
_Given = TypeVarTuple("_Given")
LEASE_SECONDS = 60.0
"""Longer than that of a runner: while a router restarts, it cannot be told that the agent still works."""
_COME_BACK_SECONDS = 5.0
_OUTSIDE = "outside-"
_TASK = b'{"agent":true,'
"""How the body of a job begins whose task only an agent can do."""
_LOGGED = "response.reasoning_summary_text.delta"


class Run(Protocol):
    async def __call__(self, work: Callable[[*_Given], _T], *given: *_Given) -> _T: ...


class AgentComposer(ResponsesComposer):
    """Writes a part of an agent's stream. Another process may have written the part before, so it is given what came before."""

    def __init__(self, job: Job, log: str = "", number: int = 0) -> None:
        super().__init__(Answer(job.id.removeprefix("resp_"), "auto", int(job.created_at)))
        self.head = self.open() + self.reasoning("")
        """The frames before the first line of the log."""
        self._pieces.append(log)
        self._sequence = number

    def end_items(self, change: str) -> bytes:
        """The frames that end the log, and those of the change, if there is one."""
        frames = self._end()
        return frames + self.text(change) + self._end() if change else frames

    def _reasoning(self, summary: list[Json]) -> JsonObject:
        return {**super()._reasoning(summary), "id": f"{LOG_ID}_{self._answer.id}"}

    def describe(self, status: str) -> JsonObject:
        """The response so far."""
        return {**self._response(status), "background": True}


def write_job(request_id: str, caller: Caller, key: str | None, task: str) -> Job:
    """A job whose owner is outside. That name is not of a process: nobody can look whether it is gone."""
    state, owner, now = JobState.RUNNING, f"{_OUTSIDE}{secrets.token_hex(16)}", time.time()
    title, body = " ".join(task.split())[:MAX_TITLE], _TASK + orjson.dumps({"input": task})[1:]
    job = Job(job_id_of(request_id), caller, now, body, {}, b"", key, title=title, state=state, attempt=1, owner=owner)
    return replace(job, queued=write_response(AgentComposer(job).describe("queued")))


def is_outside(job: Job) -> bool:
    """Whether a job's owner is not a router."""
    return job.owner.startswith(_OUTSIDE)


def is_of_agent(job: Job) -> bool:
    """Whether a claimed job is an agent's, whose command is gone. Older releases kept no task."""
    return not job.body or job.body.startswith(_TASK)


async def begin(store: JobStore, job: Job, terms: JobTerms, most: int | None) -> int:
    """Keep a job. Returns the first number of its log. Raises `TooManyJobs` where its caller has this many already."""
    if not await store.add(job, terms, most, LEASE_SECONDS):
        words = f"background jobs take too much of {terms.max_disk_mb} MB (jobs.max_disk_mb). Delete some that you have read"
        if most is not None:
            words = f"this key may have {most} background jobs at once, or {words}"
        raise TooManyJobs(words, retry_after_seconds=_COME_BACK_SECONDS)
    segment = LogFrames(job.id).take(AgentComposer(job).head)
    assert segment is not None
    await store.append(job, [segment])
    events.job_accepted(job=job.id, tier="", session=None)
    return segment.last + 1


async def find_owned(store: JobStore, job_id: str, caller: Caller, owner: str) -> Job:
    """The job that an owner still has, or had when it ended. Raises `JobGone`."""
    job = await store.find(job_id, caller)
    if job is None or job.owner != owner:
        raise JobGone(f"no background job '{job_id[:80]}' is leased to this command", param="response_id")
    return job


async def write_log(store: JobStore, job: Job, number: int, text: str, run: Run = work_here) -> int:
    """Renew the lease, and store what the agent has printed since. Returns the next number. Raises `JobGone`.

    `run` is what does work off the loop, here and below.
    """
    if text:
        segment = await run(_write_text, job, number, text)
        if segment is None or not await store.append(job, [segment]):
            raise JobGone(f"background job '{job.id}' is over", param="response_id")
        number = segment.last + 1
    await store.renew(job, job.owner, LEASE_SECONDS)
    return number


def _write_text(job: Job, number: int, text: str) -> Segment | None:
    return LogFrames(job.id, number).take(AgentComposer(job, number=number).reasoning(text))


async def end(
    store: JobStore,
    job: Job,
    state: JobState,
    number: int | None,
    run: Run = work_here,
    *,
    change: str = "",
    error: str = "",
    code: str = "agent_failed",
) -> bool:
    """End a job with its log up to a number, or with all of it. A second time changes nothing. False: it has another owner."""
    if job.state in FINAL:
        return True
    log: list[str] = []
    after, now = -1, time.time()
    while segments := await store.read(job.id, None, after):
        log.append(await run(_read_text, segments, number))
        after = segments[-1].last
    number = after + 1 if number is None else number
    told = write_error(code, error) if state is JobState.FAILED else None
    last, ending = await run(_write_end, job, number, "".join(log), JobEnding(state, now, b""), change, told)
    if not await store.append(job, last):
        return False
    is_ended = await store.finish(job, ending)
    if is_ended:
        events.job_ended(job=job.id, state=state)
    return is_ended


def _write_end(
    job: Job, number: int, log: str, ending: JobEnding, change: str, error: JsonObject | None
) -> tuple[list[Segment], JobEnding]:
    """The last part of the log, and the ending with its response."""
    composer, frames = AgentComposer(job, log, number), LogFrames(job.id, number)
    items = frames.take(composer.end_items(change))
    response = composer.describe(ending.state)
    if ending.state is JobState.COMPLETED:
        response["completed_at"] = int(ending.at)
    if error is not None:
        response["error"] = error
    last = frames.close(ending.state, response, written := write_response(response))
    return [last] if items is None else [items, last], replace(ending, response=written)


async def end_lost(store: JobStore, job: Job, run: Run = work_here) -> None:
    """End a job whose command let its lease run out. Its new owner calls this."""
    state = JobState.CANCELLED if job.is_cancelled else JobState.FAILED
    words = "the command that ran the agent has stopped, or has not reached the router for a minute. Its log names its worktree"
    await end(store, job, state, None, run, error=words, code="interrupted")


def _read_text(segments: Sequence[Segment], before: int | None) -> str:
    """What the agent printed in frames with a lower number: a piece that was sent twice counts once."""
    bodies = (frame.json() for frame in split_frames(join_frames(segments)) if frame.kind == _LOGGED)
    return "".join(as_text(body.get("delta")) for body in bodies if before is None or _number_of(body) < before)


def _number_of(body: JsonObject) -> int:
    number = body.get("sequence_number")
    return number if isinstance(number, int) else -1
