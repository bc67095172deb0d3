"""Runs jobs: claims them one after another, serves each as any request is served, and keeps its lease meanwhile."""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from functools import partial

from router.contract.clock import CLOCK
from router.contract.errors import ResponseForgotten
from router.contract.exchange import CancelReason, Deadline, Exchange
from router.contract.job import Job, JobState, JobStore
from router.contract.keys import rights_of
from router.contract.request import JsonObject
from router.contract.rights import NOTHING
from router.contract.stores import StoreUnusable
from router.dialects.refusals import failure_words
from router.dialects.responses.background import is_broken_off, is_busy, request_id_of, write_arrival
from router.dialects.responses.failures import read_refusal, write_error
from router.dialects.responses.logged import parse_response
from router.edge.admission import report_fault
from router.edge.routes import new_request_id
from router.house import House
from router.jobs.endings import INTERRUPTED, LEASE_SECONDS, RENEW_SECONDS, REVOKED, EndedWork, Settling, cancel_revoked
from router.jobs.log_sink import LogSink, SharedLog
from router.loop.supervisor import supervise
from router.loop.tasks import spawn
from router.plan import Plan
from router.stores.job_records import MOST_ATTEMPTS
from router.stores.owners import name_owner
from router.telemetry import events

_LOOK_SECONDS = 1.0
"""How often an owner looks whether its job was cancelled, in case that the notification was lost."""
_POLL_SECONDS = 5.0
"""How often a runner looks for jobs whose owner is gone."""
_HANG_UP_SECONDS = 1.0
"""How long a target has to close a stream that it has ended."""
_BUSY_SECONDS = 5.0
"""When a job tries again that found all targets busy."""
_STOP_SECONDS = 6.0
"""How long a runner that stops goes on settling such jobs: a ledger that is locked holds them up for five seconds."""
_KEEP_RESPONSES = "If the router was restarted: set store.path in its config, so that it keeps responses over a restart"


class _Attempt:
    """One job under way."""

    __slots__ = ("exchange", "hung_up", "is_cancelled", "is_revoked", "job", "over", "sink")

    def __init__(
        self, job: Job, exchange: Exchange, store: JobStore, shared: SharedLog, on_refused: "Callable[[_Attempt], None]"
    ) -> None:
        self.job, self.exchange = job, exchange
        self.sink = LogSink(job, store, shared, on_lost=self.hang_up, on_refused=partial(on_refused, self))
        self.is_cancelled = self.is_revoked = False
        self.hung_up, self.over = asyncio.Event(), asyncio.Event()

    @property
    def is_over(self) -> bool:
        """Whether nothing more is to be asked of a target."""
        return self.hung_up.is_set() or self.sink.has_ended

    def hang_up(self) -> None:
        """Close the connection to the target at once."""
        self.hung_up.set()
        self.exchange.cancel(CancelReason.CALLER_LEFT)

    def cancel(self, *, is_revoked: bool = False) -> None:
        self.is_cancelled, self.is_revoked = True, is_revoked
        self.hang_up()

    def drop(self) -> None:
        """Stop, and write nothing more."""
        self.sink.abandon()


class Runner:
    """The jobs of one process. It has no task until it is first woken."""

    def __init__(self, house: House, store: JobStore) -> None:
        self._house, self._store, self._owner, self._shared = house, store, name_owner(), SharedLog()
        self._running: dict[str, _Attempt] = {}
        self._settling = Settling(house, store, self._shared, self._owner, self._fill_soon)
        self._loop: asyncio.Task[None] | None = None
        self._claiming = asyncio.Lock()
        self._is_stopping = False

    def is_stopping(self) -> bool:
        return self._is_stopping

    def wake(self) -> None:
        """Look for jobs from now on."""
        if self._loop is None and not self._is_stopping:
            self._loop = supervise(self._claim_jobs, name="run jobs")

    async def cancel(self, job_id: str, within_seconds: float) -> bool:
        """Cancel a job and wait a while until that is stored; False where it does not run here."""
        if (attempt := self._running.get(job_id)) is None:
            return False
        attempt.cancel()
        with suppress(TimeoutError):
            await asyncio.wait_for(attempt.over.wait(), within_seconds)
        return True

    async def end_revoked(self) -> list[EndedWork]:
        """Stop jobs that run here and cancel those that wait, if their key no longer works. Raises `StoreUnusable`."""
        revoked = [one for one in self._running.values() if not one.is_over and self.is_revoked(one.job)]
        for attempt in revoked:
            attempt.cancel(is_revoked=True)
        stopped = [EndedWork(attempt.job.key, "running_jobs") for attempt in revoked]
        return stopped + await cancel_revoked(self._store, self.is_revoked)

    def is_revoked(self, job: Job) -> bool:
        """Whether the key that a job was begun with no longer works."""
        return rights_of(self._house.plan.keys, job.caller, job.key, CLOCK.trusted()) is NOTHING

    def drop(self, job_id: str) -> None:
        """Stop a job that was deleted, if it runs here."""
        if (attempt := self._running.get(job_id)) is not None:
            attempt.drop()

    async def stop(self) -> None:
        """Release running jobs, so that another process can go on with them at once."""
        self._is_stopping = True
        attempts = list(self._running.values())
        for attempt in attempts:
            attempt.drop()
        if self._loop is None:
            return
        async with self._claiming:
            self._loop.cancel()
            with suppress(StoreUnusable):
                for attempt in attempts:
                    await self._store.release(attempt.job)
        with suppress(TimeoutError):
            async with asyncio.timeout(_STOP_SECONDS):
                for attempt in attempts:
                    await attempt.over.wait()
        await self._settling.stop(_STOP_SECONDS)
        self._shared.close()

    async def _claim_jobs(self) -> None:
        watch = self._store.watch(None)
        try:
            while True:
                await self._fill()
                await watch.wait(_POLL_SECONDS)
        finally:
            watch.close()

    def _fill_soon(self) -> None:
        spawn(self._fill(), name="claim jobs")

    async def _fill(self) -> None:
        """Begin jobs while there are some, and room for them."""
        async with self._claiming:
            with suppress(StoreUnusable):
                while not self._is_stopping and await self._claim_one():
                    pass

    async def _claim_one(self) -> bool:
        """Begin the next job, if there is one and room for it."""
        terms = self._house.plan.jobs
        if len(self._running) >= terms.most_running or self._settling.is_full:
            return False
        job = await self._store.claim(self._owner, LEASE_SECONDS, terms)
        if job is None:
            return False
        if job.is_unrecorded:
            self._settling.take_over(job)
        elif self._is_stopping:
            await self._store.release(job)
        elif job.is_lost:
            self._settling.end_lost(job)
        elif self.is_revoked(job):
            self._settling.end_revoked(job)
        else:
            self._begin(job)
        return True

    def _begin(self, job: Job) -> None:
        plan = self._house.plan.for_background()
        exchange = self._arrive(job, plan)
        attempt = self._running[job.id] = _Attempt(job, exchange, self._store, self._shared, self._set_apart)
        events.job_started(job=job.id, attempt=job.attempt)
        spawn(self._run(attempt), name=job.id)

    def _arrive(self, job: Job, plan: Plan, deadline: Deadline | None = None) -> Exchange:
        request_id = request_id_of(job.id, job.attempt)
        now, state = self._house.clock(), self._house.state
        deadline = deadline or Deadline(now + plan.deadline_seconds)
        return Exchange(write_arrival(job, request_id), now, deadline, state.observers, plan, state.speedups.off_loop)

    async def _run(self, attempt: _Attempt) -> None:
        """Serve a job to its end, and see that it is stored."""
        job, sink = attempt.job, attempt.sink
        writing = spawn(sink.write_log(), name=f"{job.id} log")
        keeping = supervise(partial(self._keep, attempt), name="keep a lease")
        try:
            defect = await self._serve_patiently(attempt, writing)
            await sink.parse_heavy()
            if defect is None and await self._is_interrupted(attempt):
                await self._begin_again(attempt)
            if not sink.is_lost:
                sink.close(*_conclude(attempt, defect))
            await writing
            await self._house.state.entries.sync()  # the row of an attempt first: nobody looks at a job again that is over
            await sink.finish()
            if not sink.is_lost:
                events.job_ended(job=job.id, state=sink.state)
        finally:
            keeping.cancel()
            writing.cancel()
            self._running.pop(job.id, None)
            attempt.over.set()
            if not self._is_stopping:
                self._fill_soon()

    async def _serve_patiently(self, attempt: _Attempt, writing: "asyncio.Task[None]") -> BaseException | None:
        """Serve a job until targets no longer refuse it as busy. Returns the defect that ended it, if one did."""
        try:
            defect = await self._serve(attempt, writing)
            while await self._waits_out(attempt):
                defect = await self._serve(attempt, writing)
        except Exception as error:  # noqa: BLE001  a job that has an owner and is not worked on would never end
            return error
        return defect

    async def _serve(self, attempt: _Attempt, writing: "asyncio.Task[None]") -> BaseException | None:
        """Serve a job once, as any request. Returns the defect that ended it, if one did."""
        exchange = attempt.exchange
        serving = spawn(self._house.road(exchange, attempt.sink), name=exchange.id)
        exchange.run_by(serving)
        await asyncio.wait([serving, writing], return_when=asyncio.FIRST_COMPLETED)
        if not serving.done():  # all is written: like any client, hang up on a target that does not do it
            await asyncio.wait([serving], timeout=_HANG_UP_SECONDS)
            exchange.cancel(CancelReason.CALLER_LEFT)
            await asyncio.wait([serving])
        exchange.let_go()
        return None if serving.cancelled() else serving.exception()

    async def _waits_out(self, attempt: _Attempt) -> bool:
        """Whether a job was refused only for now, and has waited until it may try again: nobody waits for it."""
        if not self._is_put_off(attempt):
            return False
        with suppress(TimeoutError):
            await asyncio.wait_for(attempt.hung_up.wait(), _BUSY_SECONDS)
            return False
        if self.is_revoked(attempt.job):
            attempt.cancel(is_revoked=True)
            return False
        attempt.sink.forget_refusal()
        attempt.exchange = self._arrive(attempt.job, attempt.exchange.plan, attempt.exchange.deadline)
        return True

    async def _is_interrupted(self, attempt: _Attempt) -> bool:
        """Whether a job failed for a pause of this process, during which its target hung up, and may be begun again."""
        job, sink, now = attempt.job, attempt.sink, self._house.clock()
        if attempt.hung_up.is_set() or sink.state not in (JobState.RUNNING, JobState.FAILED):
            return False
        if not is_broken_off(sink.refusal, sink.error) or not CLOCK.has_paused(attempt.exchange.began, now):
            return False
        with suppress(StoreUnusable):
            found = await self._store.find(job.id, None)
            return found is not None and not found.is_handed_out and job.attempt < MOST_ATTEMPTS
        return False

    async def _begin_again(self, attempt: _Attempt) -> None:
        """Release a job, so that it is claimed again, by this runner too."""
        attempt.drop()
        await self._house.state.entries.sync()
        while True:
            with suppress(StoreUnusable):
                await self._store.release(attempt.job)
                return
            await asyncio.sleep(_LOOK_SECONDS)

    def _is_put_off(self, attempt: _Attempt) -> bool:
        left = attempt.exchange.deadline.left(self._house.clock())
        return not attempt.is_over and is_busy(attempt.sink.refusal) and left > _BUSY_SECONDS

    def _set_apart(self, attempt: _Attempt) -> None:
        """Record a refusal for now under an id of its own: that of the attempt is for the request that is served at last."""
        if self._is_put_off(attempt):
            attempt.exchange.record_as(new_request_id())

    async def _keep(self, attempt: _Attempt) -> None:
        """Renew the lease of a job, and look whether it was cancelled, deleted or taken over elsewhere."""
        loop, job = asyncio.get_running_loop(), attempt.job
        renewed_at, watch = loop.time(), self._store.watch(job.id, for_owner=True)
        try:
            while True:
                await watch.wait(_LOOK_SECONDS)
                with suppress(StoreUnusable):
                    if loop.time() - renewed_at >= RENEW_SECONDS:
                        await self._store.renew(job, self._owner, LEASE_SECONDS)
                        renewed_at = loop.time()
                    found = await self._store.find(job.id, None)
                    if found is None or (found.owner, found.attempt) != (job.owner, job.attempt):
                        attempt.drop()
                    elif found.is_cancelled:
                        attempt.cancel(is_revoked=self.is_revoked(job))
        finally:
            watch.close()


def _conclude(attempt: _Attempt, defect: BaseException | None) -> tuple[JobState, JsonObject]:
    """How a job ends whose answer does not say it: what its response says from now on."""
    sink, request_id = attempt.sink, attempt.exchange.id
    said = {**parse_response(attempt.job.queued), **sink.response}
    if attempt.is_cancelled:
        return JobState.CANCELLED, {**said, "status": "cancelled", **(REVOKED if attempt.is_revoked else {})}
    error = report_fault(defect, request_id) if isinstance(defect, Exception) else sink.error
    if error is not None:
        told = write_error(error.code, failure_words(error, request_id))
    elif sink.refusal:
        told = read_refusal(sink.refusal)
        if told.get("reason") == ResponseForgotten.code:  # it was there when the job was accepted
            told["message"] = f"{told['message']}. {_KEEP_RESPONSES}"
    else:
        told = write_error(INTERRUPTED, "the job was cut off")
    return JobState.FAILED, {**said, "status": "failed", "error": told}
