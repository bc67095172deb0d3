"""The background work of one router. Nothing but this file is loaded, and nothing runs, until there is a first job."""

import asyncio
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from router.contract.errors import JobsUnavailable
from router.contract.exchange import Exchange
from router.contract.facts import Ending
from router.contract.job import EndedJob, JobStore
from router.contract.sinks import AnswerSink
from router.contract.stores import StoreUnusable
from router.contract.webhooks import JobWebhook
from router.house import House
from router.loop.tasks import spawn
from router.settle.refuse import refuse

if TYPE_CHECKING:
    from router.jobs.desk import Desk
    from router.jobs.runner import Runner
    from router.jobs.telling import TellingStore
    from router.jobs.uncollected import Uncollected
    from router.jobs.webhooks import Webhooks


class JobsOpener:
    """Opens a store once, when it is first needed."""

    def __init__(self, make: Callable[[], JobStore]) -> None:
        self._make, self._lock = make, asyncio.Lock()
        self.store: JobStore | None = None
        """The store; None as long as there was no job."""

    def open_now(self) -> None:
        """Open it at the start, before there is a loop. Raises `StoreUnusable`."""
        self.store = self._make()

    async def open(self) -> JobStore:
        """The store, opened off the loop where it is not yet. Raises `StoreUnusable`."""
        async with self._lock:
            if self.store is None:
                self.store = await asyncio.to_thread(self._make)
            return self.store

    async def close(self) -> None:
        if self.store is not None:
            await self.store.close()


class Jobs:
    """Opens the store of jobs when it is first needed, and runs what is in it."""

    def __init__(self, house: House, opener: JobsOpener) -> None:
        self._house, self._opener = house, opener
        self._desk: Desk | None = None
        self._runner: Runner | None = None
        self._store: TellingStore | None = None
        self._webhooks: Webhooks | None = None
        self._hooks: Sequence[JobWebhook] = ()
        self.uncollected: Uncollected | None = None
        """Which jobs wait to be collected; None as long as there was no job."""

    @property
    def store(self) -> JobStore | None:
        """The store; None as long as there was no job."""
        return self._store

    def follow(self, hooks: Sequence[JobWebhook]) -> None:
        """Send word of jobs that end to these addresses from now on."""
        self._hooks = hooks
        if self._webhooks is not None:
            self._webhooks.follow(hooks)

    def list_ended(self) -> Sequence[EndedJob]:
        """The jobs of all callers that wait to be collected, the newest last."""
        return self.uncollected.list_all() if self.uncollected is not None else ()

    @property
    def runner(self) -> "Runner | None":
        """Who runs jobs in this process; None as long as there was none."""
        return self._runner

    async def accept(self, exchange: Exchange, caller: AnswerSink) -> Ending:
        """Make a job of a request with `background: true`."""
        if self._desk is None:
            try:
                await self.open()
            except StoreUnusable as error:
                words = f"background jobs cannot be stored now: {error}"
                return refuse(JobsUnavailable(words), exchange.arrival, caller)
        assert self._desk is not None
        return await self._desk.accept(exchange, caller)

    async def open(self) -> JobStore:
        """The store, which is made where there is none yet. Raises `StoreUnusable`."""
        if self._store is None:
            self._start(await self._opener.open())
        assert self._store is not None
        return self._store

    def resume(self) -> None:
        """Go on with jobs that an earlier process left. Called once the router serves."""
        if self._opener.store is not None:
            self._start(self._opener.store)
            assert self._runner is not None
            assert self.uncollected is not None
            self._runner.wake()
            spawn(self.uncollected.recall(self._opener.store), name="recall jobs")

    def _start(self, store: JobStore) -> None:
        """Called once the store is open; a second time it does nothing."""
        if self._desk is None:
            from router.jobs.desk import Desk  # with the runner and the log: most routers never run a job
            from router.jobs.runner import Runner
            from router.jobs.telling import TellingStore
            from router.jobs.uncollected import Uncollected
            from router.jobs.webhooks import Webhooks

            house = self._house
            self.uncollected = Uncollected(house.state.memory, keep_seconds=house.plan.jobs.keep_hours * 3_600)
            self._webhooks = Webhooks(store)
            self._webhooks.follow(self._hooks)
            spawn(self._webhooks.run(), name="webhooks")
            self._store = TellingStore(store, self.uncollected, self._webhooks)
            self._runner = Runner(house, self._store)
            self._desk = Desk(house, self._store, self._runner)

    async def stop(self) -> None:
        """Give running jobs up, so that another process, or the next, can go on with them at once."""
        if self._runner is not None:
            await self._runner.stop()
