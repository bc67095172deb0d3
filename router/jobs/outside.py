"""Jobs that are done outside of the router: an admin's command runs a coding agent, and keeps its log and its change here.

The router starts no process. It only leases the job to that command, takes the log in pieces, and stores the end. A command
that is gone loses the job when its lease runs out: the runner then ends it, with the log as far as it came.
"""

import secrets
import time

from router.contract.caller import Caller
from router.contract.errors import JobGone, TooManyJobs
from router.contract.job import FINAL, Job, JobEnding, JobState, JobStore
from router.dialects.responses.agent import AgentComposer, read_log_text
from router.dialects.responses.background import job_id_of, write_error
from router.dialects.responses.logged import LogFrames, join_frames, write_response
from router.jobs.log_sink import read_log
from router.telemetry import events

LEASE_SECONDS = 60.0
"""Longer than that of a runner: a router that is restarted cannot be told meanwhile that the agent goes on."""
_COME_BACK_SECONDS = 5.0


def write_job(request_id: str, caller: Caller, key: str | None, title: str) -> Job:
    """A job whose owner is outside."""
    job_id, now = job_id_of(request_id), time.time()
    queued = write_response(AgentComposer(job_id, int(now)).describe("queued"))
    owner = f"outside-{secrets.token_hex(16)}"  # not the name of a process: nobody can look whether it is gone
    return Job(job_id, caller, now, b"", {}, queued, key, title=title, state=JobState.RUNNING, attempt=1, owner=owner)


async def begin(store: JobStore, job: Job, most: int | None) -> int:
    """Keep a job. Returns the first number of its log. Raises `TooManyJobs` where its caller has this many already."""
    if not await store.add(job, 0, most, LEASE_SECONDS):
        words = f"this key may have {most} background jobs at once"
        raise TooManyJobs(words, retry_after_seconds=_COME_BACK_SECONDS)
    segment = LogFrames(job.id).take(AgentComposer(job.id, int(job.created_at)).begin())
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


async def write_log(store: JobStore, job: Job, number: int, text: str) -> int:
    """Keep the lease, and write what the agent has printed since. Returns the next number. Raises `JobGone`."""
    if text:
        composer = AgentComposer(job.id, int(job.created_at))
        composer.resume("", number)
        segment = LogFrames(job.id, number).take(composer.reasoning(text))
        if segment is None or not await store.append(job, [segment]):
            raise JobGone(f"background job '{job.id}' is over", param="response_id")
        number = segment.last + 1
    await store.renew(job, job.owner, LEASE_SECONDS)
    return number


async def end(
    store: JobStore, job: Job, state: JobState, number: int, *, change: str = "", error: str = "", code: str = "agent_failed"
) -> bool:
    """End a job with all that its log holds below a number. A second time it changes nothing. False: it is somebody else's."""
    if job.state in FINAL:
        return True
    log = read_log_text(join_frames(await read_log(store, job.id)), number)
    composer, frames, now = AgentComposer(job.id, int(job.created_at)), LogFrames(job.id, number), time.time()
    composer.resume(log, number)
    items = frames.take(composer.end_items(change))
    response = composer.describe(state)
    if state is JobState.COMPLETED:
        response["completed_at"] = int(now)
    if state is JobState.FAILED:
        response["error"] = write_error(code, error)
    last = frames.close(state, response)
    if not await store.append(job, [segment for segment in (items, last) if segment is not None]):
        return False
    is_ended = await store.finish(job, JobEnding(state, now, write_response(response)))
    if is_ended:
        events.job_ended(job=job.id, state=state)
    return is_ended


async def end_lost(store: JobStore, job: Job) -> None:
    """End a job whose command was not heard of for as long as its lease. Its new owner calls this."""
    segments = await read_log(store, job.id)
    number = segments[-1].last + 1 if segments else 0
    state = JobState.CANCELLED if job.is_cancelled else JobState.FAILED
    words = "the command that ran the agent has stopped, or has not reached the router for a minute. Its log names its worktree"
    await end(store, job, state, number, error=words, code="interrupted")
