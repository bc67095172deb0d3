"""Ends that no owner of a job brings about: attempts whose owner is gone, and jobs whose key was revoked or has expired.

Jobs that run at other routers are stopped there: each looks at its own keys.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial
from typing import Literal, NamedTuple

from router.contract.entry import Attempt, Entry
from router.contract.exchange import UNOBSERVED, Deadline, Exchange
from router.contract.facts import AttemptEnded, AttemptOpened, Ending, Settled
from router.contract.job import FINAL, Job, JobEnding, JobState, JobStore
from router.contract.request import JsonObject
from router.contract.stores import StoreUnusable
from router.contract.words import Operation, Outcome
from router.dialects.responses.answer import read_usage
from router.dialects.responses.background import request_id_of, with_status, write_arrival
from router.dialects.responses.failures import write_error
from router.dialects.responses.logged import parse_response, write_response
from router.dispatch.meter import cost_of, measure_usage
from router.edge.admission import report_fault
from router.house import House
from router.jobs.log_sink import LogAgain, LogSink, SharedLog, read_again
from router.loop.supervisor import supervise
from router.loop.tasks import spawn
from router.settle.entry import write_entry
from router.telemetry import events

REVOKED: JsonObject = {"error": write_error("key_revoked", "the key was revoked")}
LEASE_SECONDS, RENEW_SECONDS = 15.0, 5.0
INTERRUPTED = "interrupted"
_RETRY_SECONDS = 1.0
_OF_AN_AGENT = b'{"agent":true,'
"""How the body of a job begins that an older release had an agent do: nothing here can."""
_MOST_SETTLING = 8
"""How many jobs are settled at once. Their logs are read whole."""
_AT_ONCE = 100
_SERVED, _CUT = Ending(Outcome.SERVED, 200), Ending(Outcome.INTERRUPTED, 499)
_Work = Callable[[Job], Awaitable[None]]


def write_revoked(job: Job) -> JobEnding:
    """The end of a job that was not begun before its key was revoked."""
    return JobEnding(JobState.CANCELLED, time.time(), with_status(job.queued, "cancelled", **REVOKED))


class EndedWork(NamedTuple):
    key: str | None
    kind: Literal["waiting_jobs", "running_jobs"]


async def cancel_revoked(store: JobStore, is_revoked: Callable[[Job], bool]) -> list[EndedWork]:
    """Cancel jobs that wait. Raises `StoreUnusable`; what was not cancelled then is found again."""
    ended: list[EndedWork] = []
    before, is_last = None, False
    while not is_last:
        page = await store.list_jobs(None, JobState.QUEUED, _AT_ONCE, before)
        cancelled = await asyncio.gather(*(_cancel(store, job) for job in page.jobs if is_revoked(job)))
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
    return write_entry(exchange, Settled(now, _SERVED if found.log.ended is not None else _CUT), time.time())


class Settling:
    """Finishes attempts of owners that are gone, and jobs that are not to be begun. One that has to wait holds up no other."""

    def __init__(self, house: House, store: JobStore, shared: SharedLog, owner: str, on_room: Callable[[], None]) -> None:
        """`on_room` is called when one has been settled."""
        self._house, self._store, self._shared, self._owner, self._on_room = house, store, shared, owner, on_room
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._is_stopping = False

    @property
    def is_full(self) -> bool:
        return len(self._tasks) >= _MOST_SETTLING

    def take_over(self, job: Job) -> None:
        self._begin(job, self._take_over, self._give_back)

    def end_lost(self, job: Job) -> None:
        self._begin(job, self._end_lost, self._end_unread)

    def end_revoked(self, job: Job) -> None:
        self._begin(job, self._end_revoked, self._give_back)

    async def stop(self, within_seconds: float) -> None:
        """Wait a while for those under way, and leave the rest to their leases: a released job counts as recorded."""
        self._is_stopping = True
        if tasks := list(self._tasks.values()):
            await asyncio.wait(tasks, timeout=within_seconds)
            for task in tasks:
                task.cancel()

    def _begin(self, job: Job, work: _Work, otherwise: _Work) -> None:
        self._tasks[job.id] = spawn(self._settle(job, work, otherwise), name=f"{job.id} settled")

    async def _settle(self, job: Job, work: _Work, otherwise: _Work) -> None:
        """Try until the store can be used. A defect is reported and costs this job alone: `otherwise` is done then."""
        holding = supervise(partial(self._hold, job), name="hold a lease")
        try:
            while True:
                with suppress(StoreUnusable):
                    await self._settle_once(job, work, otherwise)
                    return
                if self._is_stopping:
                    return
                await asyncio.sleep(_RETRY_SECONDS)
        finally:
            holding.cancel()
            del self._tasks[job.id]
            if not self._is_stopping:
                self._on_room()

    async def _settle_once(self, job: Job, work: _Work, otherwise: _Work) -> None:
        try:
            await work(job)
        except StoreUnusable:
            raise
        except Exception as error:  # noqa: BLE001  nobody would take a job from its owner that keeps its lease
            report_fault(error, request_id_of(job.id, job.attempt))
            await otherwise(job)

    async def _hold(self, job: Job) -> None:
        while True:
            await asyncio.sleep(RENEW_SECONDS)
            with suppress(StoreUnusable):
                await self._store.renew(job, self._owner, LEASE_SECONDS)

    async def _take_over(self, job: Job) -> None:
        """Record the cost of a dead owner's attempt, then release the job; finish it if its log is complete."""
        if not job.body or job.body.startswith(_OF_AN_AGENT):
            await self._end_unread(job)
            return
        found = await read_again(self._store, job.id, self._shared)
        self._house.state.entries.append(await write_lost_entry(self._house, job, found))
        await self._house.state.entries.sync()
        if found.log.ended is not None:
            await self._end_lost(job)
            return
        await self._give_back(job)

    async def _give_back(self, job: Job) -> None:
        """Release a job whose last attempt is recorded, or cannot be."""
        await self._store.release(job)

    async def _end_lost(self, job: Job) -> None:
        """End a job that cannot be begun again: its caller has read what another attempt would contradict."""
        found = await read_again(self._store, job.id, self._shared)
        said = parse_response(job.queued)
        if job.is_cancelled:
            state, said = JobState.CANCELLED, {**said, "status": "cancelled"}
        else:
            words = "the router that served this response stopped in the middle of it"
            state, said = JobState.FAILED, {**said, "status": "failed", "error": write_error(INTERRUPTED, words)}
        sink = LogSink(job, self._store, self._shared, found.log)
        sink.close(state, said)
        await sink.write_log()
        await sink.finish()

    async def _end_revoked(self, job: Job) -> None:
        if await self._store.finish(job, write_revoked(job)):
            events.job_ended(job=job.id, state=JobState.CANCELLED)

    async def _end_unread(self, job: Job) -> None:
        """End a job whose log cannot be made sense of."""
        state = JobState.CANCELLED if job.is_cancelled else JobState.FAILED
        told = write_error(INTERRUPTED, "the router that served this response stopped, and what it had said cannot be read")
        said = write_response({**parse_response(job.queued), "status": str(state), "error": told})
        await self._store.finish(job, JobEnding(state, time.time(), said))
