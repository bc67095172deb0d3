"""The background work of one router. Nothing but this file is loaded, and nothing runs, until there is a first job."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

from router.contract.errors import JobsUnavailable, TooManyJobs
from router.contract.exchange import Exchange
from router.contract.facts import Ending
from router.contract.job import COME_BACK_SECONDS, FINAL, USUAL_TERMS, Job, JobEnding, JobObserver, JobState, JobStore
from router.contract.sinks import AnswerSink
from router.contract.stores import StoreUnusable
from router.contract.webhooks import JobWebhook
from router.house import House
from router.loop.supervisor import supervise
from router.loop.tasks import spawn
from router.sessions.ended_jobs import EndedJobs
from router.settle.refuse import refuse

if TYPE_CHECKING:
    from router.jobs.endings import EndedWork
    from router.jobs.intake import Intake
    from router.jobs.runner import Runner
    from router.jobs.webhooks import Webhooks

Samples = Mapping[tuple[str, ...], float]
_MOST_COUNTED = 1_000
"""More jobs of one state are not counted for `/metrics`: each is a row that is read."""


def keep_in_memory(keep_seconds: float = USUAL_TERMS.keep_hours * 3_600) -> JobStore:
    """A store without a file: its jobs live as long as the process."""
    from router.stores.sqlite.jobs import MemoryJobs  # loaded with the first job

    return MemoryJobs(keep_seconds=keep_seconds)


class Jobs(JobObserver):
    """Opens the store of jobs when it is first needed, runs what is in it, and reports what ends there."""

    def __init__(self, make_store: Callable[[], JobStore] = keep_in_memory, ended: EndedJobs | None = None) -> None:
        self._make_store, self._opening = make_store, asyncio.Lock()
        self.store: JobStore | None = None
        """The store; None as long as there was no job."""
        self.runner: Runner | None = None
        """Runs jobs in this process; None as long as there was none."""
        self.ended = ended or EndedJobs()
        self._intake: Intake | None = None
        self._webhooks: Webhooks | None = None
        self._hooks: Sequence[JobWebhook] = ()
        self._sending: asyncio.Task[None] | None = None
        self._looking_for: set[str] = set()
        self._recalling: asyncio.Task[None] | None = None
        self._in_use: tuple[float, StoreUnusable] | None = None
        """When another router had the store, by the loop's clock, and the error."""

    def follow(self, hooks: Sequence[JobWebhook]) -> None:
        """Send events of jobs that end to these addresses from now on."""
        self._hooks = hooks
        if self._webhooks is not None:
            self._webhooks.follow(hooks)

    async def accept(self, house: House, exchange: Exchange, caller: AnswerSink) -> Ending:
        """Make a job of a request with `background: true`."""
        try:
            await self.open(house)
        except StoreUnusable as error:
            unavailable = JobsUnavailable(
                f"background jobs cannot be stored now: {error.for_callers}", retry_after_seconds=COME_BACK_SECONDS
            )
            return refuse(unavailable, exchange.arrival, caller)
        assert self._intake is not None
        return await self._intake.accept(exchange, caller)

    async def keep(self, house: House, exchange: Exchange, session: str, title: str, text: str) -> None:
        """Keep a text as a job that has ended, for a session to be told of. Nothing is kept where there is no room."""
        with suppress(StoreUnusable, TooManyJobs):
            await self.open(house)
            assert self._intake is not None
            await self._intake.keep(exchange, session, title, text)

    def open_now(self) -> None:
        """Open the store at the start, before there is a loop. Raises `StoreUnusable`."""
        self.store = self._make_store()

    def leave_to(self, error: StoreUnusable) -> None:
        """Leave the store to another router that has it. It is tried again when a job is asked for."""
        self._in_use = (-COME_BACK_SECONDS, error)

    async def find(self, house: House) -> JobStore | None:
        """The store; None as long as there was no job. Raises `StoreUnusable` while another router has it."""
        if self.store is None and self._in_use is not None:
            tried_at, error = self._in_use
            now = asyncio.get_running_loop().time()
            if now < tried_at + COME_BACK_SECONDS:
                raise error.with_traceback(None)
            try:
                await self.open(house)
            except StoreUnusable as again:
                self._in_use = (now, again)
                raise
            self.resume(house)
        return self.store

    async def open(self, house: House) -> JobStore:
        """The store, opened off the loop with the first job. Raises `StoreUnusable`."""
        async with self._opening:
            if self.store is None:
                self.store = await asyncio.to_thread(self._make_store)
            self._start(house, self.store)
            return self.store

    def resume(self, house: House) -> None:
        """Go on with jobs that an earlier process left. Called once the router serves."""
        if self.store is not None:
            self._start(house, self.store).wake()
            self._recalling = spawn(self._recall(self.store), name="recall jobs")

    def _start(self, house: House, store: JobStore) -> "Runner":
        """Called once the store is open; a second time it does nothing."""
        if self.runner is None:
            from router.jobs.intake import Intake  # with the runner and the log: most routers never run a job
            from router.jobs.runner import Runner
            from router.jobs.webhooks import Webhooks

            self._webhooks = Webhooks(store)
            self._webhooks.follow(self._hooks)
            self._sending = supervise(self._webhooks.run, name="webhooks")
            store.observe(self)
            self.runner = Runner(house, store)
            self._intake = Intake(house, store, self.runner)
        return self.runner

    async def end_revoked(self) -> "Sequence[EndedWork]":
        """End jobs whose key no longer works. Raises `StoreUnusable`."""
        return await self.runner.end_revoked() if self.runner is not None else ()

    def is_stopping(self) -> bool:
        return self.runner is not None and self.runner.is_stopping()

    async def stop(self) -> None:
        """Give running jobs up, so that another process, or the next, can go on with them at once."""
        if self.runner is not None and self._sending is not None:
            await self.runner.stop()
            self._sending.cancel()

    async def close(self) -> None:
        if self._recalling is not None:
            self._recalling.cancel()
        if self.store is not None:
            await self.store.close()

    # As the observer of the store.

    def addresses_for(self, state: JobState) -> Sequence[str]:
        return self._webhooks.addresses_for(state) if self._webhooks is not None else ()

    def job_ended(self, job: Job, ending: JobEnding) -> None:
        self.ended.note_end(job, ending)
        if self._webhooks is not None:
            self._webhooks.send_soon()

    def job_ended_elsewhere(self, job_id: str) -> None:
        self._looking_for.add(job_id)
        spawn(self._find_ended(job_id), name=f"{job_id} ended")

    async def _find_ended(self, job_id: str) -> None:
        with suppress(StoreUnusable):
            job = await self.store.find_listed(job_id) if self.store is not None else None
            if job is not None and job_id in self._looking_for:  # else its end was read meanwhile
                self.ended.note_left(job)
        self._looking_for.discard(job_id)

    def job_read(self, job_id: str) -> None:
        self._looking_for.discard(job_id)
        self.ended.discard(job_id)

    def updates_missed(self) -> None:
        if self.store is not None:
            self._recalling = spawn(self._recall(self.store, are_elsewhere=True), name="recall jobs")

    async def _recall(self, store: JobStore, *, are_elsewhere: bool = False) -> None:
        """Recall what ended earlier, once the store can be used."""
        while True:
            with suppress(StoreUnusable):
                await self.ended.recall(store, are_elsewhere=are_elsewhere)
                return
            await asyncio.sleep(COME_BACK_SECONDS)


async def read_figures(jobs: Jobs) -> dict[str, Samples]:
    """How many jobs wait and run, how those of this process ended, and how many events no webhook took."""
    if jobs.store is None:
        return {}
    ended = jobs.ended.counts
    found: dict[str, Samples] = {"tandem_jobs_ended_total": {(str(state),): ended[state] for state in sorted(FINAL)}}
    try:
        found["tandem_jobs"] = {(str(state),): await _count(jobs.store, state) for state in (JobState.QUEUED, JobState.RUNNING)}
        found["tandem_webhooks_dead"] = {(): len(await jobs.store.list_dead())}
    except StoreUnusable:
        pass
    return found


async def _count(store: JobStore, state: JobState) -> int:
    return len((await store.list_jobs(None, state, _MOST_COUNTED, None)).jobs)
