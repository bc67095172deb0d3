"""Ends that no owner of a job brings about: what a lost attempt has cost, and jobs whose key was revoked or has expired.

Jobs that run at other workers or routers are stopped there: each looks at its own keys.
"""

import asyncio
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Literal, NamedTuple

from msgspec.structs import replace

from router.contract.entry import Attempt, Entry
from router.contract.exchange import UNOBSERVED, Deadline, Exchange
from router.contract.facts import AttemptEnded, AttemptOpened, Ending, Settled
from router.contract.job import FINAL, Job, JobEnding, JobState, JobStore
from router.contract.request import JsonObject
from router.contract.words import Operation, Outcome
from router.dialects.responses.answer import read_usage
from router.dialects.responses.background import request_id_of, with_status, write_arrival
from router.dialects.responses.failures import write_error
from router.dispatch.meter import cost_of, measure_usage
from router.house import House
from router.jobs.log_sink import LogAgain
from router.jobs.outside import is_outside
from router.settle.entry import write_entry

REVOKED: JsonObject = {"error": write_error("key_revoked", "the key was revoked")}
_AT_ONCE = 100
_SERVED, _CUT = Ending(Outcome.SERVED, 200), Ending(Outcome.INTERRUPTED, 499)


def write_revoked(job: Job) -> JobEnding:
    """The end of a job that was not begun before its key was revoked."""
    return JobEnding(JobState.CANCELLED, time.time(), with_status(job.queued, "cancelled", **REVOKED))


class EndedWork(NamedTuple):
    key: str | None
    kind: Literal["waiting_jobs", "running_jobs"]


async def cancel_revoked(store: JobStore, is_revoked: Callable[[Job], bool]) -> list[EndedWork]:
    """Cancel jobs that wait, and agents' work. Raises `StoreUnusable`; what was not cancelled then is found again."""
    ended: list[EndedWork] = []
    for state in (JobState.QUEUED, JobState.RUNNING):
        before, is_last = None, False
        while not is_last:
            page = await store.list_jobs(None, state, _AT_ONCE, before)
            ours = (job for job in page.jobs if state is JobState.QUEUED or (is_outside(job) and not job.is_cancelled))
            cancelled = await asyncio.gather(*(_cancel(store, job) for job in ours if is_revoked(job)))
            ended += [one for one in cancelled if one is not None]
            before, is_last = page.before, page.before is None
    return ended


async def _cancel(store: JobStore, job: Job) -> EndedWork | None:
    """None if it has ended meanwhile, or another process has cancelled it."""
    if (found := await store.find(job.id, None)) is None or found.state in FINAL:
        return None
    after = await store.cancel(job.id, None, ending := write_revoked(found))
    if after is None or after.state not in FINAL:
        return EndedWork(job.key, "running_jobs") if after is not None and after.is_newly_cancelled else None
    return EndedWork(job.key, "waiting_jobs") if after.ended_at == ending.at else None


async def write_lost_entry(house: House, job: Job, found: LogAgain) -> Entry:
    """The ledger's entry of a job's last attempt, whose owner is gone. `found` is what its log says.

    It has the id that the owner would have used, so an attempt is in a ledger once. Its tokens are those that the log names at
    its end, else an estimate: the prompt, and the text in the log. Without a frame it counts as never sent, and costs nothing.
    Its target is the one that the request would go to now. Where none can be chosen any more, target and cost are not known.
    """
    arrival, plan, now = write_arrival(job, request_id_of(job.id, job.attempt)), house.plan.for_background(), house.clock()
    exchange = Exchange(arrival, now, Deadline(now), UNOBSERVED, plan)
    with suppress(Exception):  # a request that cannot be read must not keep its job from going on, or ending
        decided = await house.decide(arrival, plan)
        target = plan.targets[decided.decision.targets[0]]
        told = read_usage(found.log.response.get("usage"))
        seen = house.state.live.of(target).token_size.tokens_in(found.written)
        usage = measure_usage(Operation.CREATE, told, decided.decision.prompt_tokens, seen, is_billed=found.has_frames)
        attempt = Attempt(target.name, 200 if found.has_frames else None, None, 0.0, usage, cost_of(usage, target.price))
        exchange.note(decided)
        exchange.note(AttemptOpened(now, target, "", ()))
        exchange.note(AttemptEnded(now, target, attempt, None, usage, None))
    entry = write_entry(exchange, Settled(now, _SERVED if found.log.ended is not None else _CUT), time.time())
    return replace(entry, places=None)  # nothing is learned from the same words twice
