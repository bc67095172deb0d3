"""A store of jobs that reports what happens to them: to webhooks, to the session of each, and to the figures.

Everybody who ends, reads or deletes a job does so through its store, so nobody else has to think of it.
"""

from collections.abc import Sequence
from contextlib import suppress

from router.contract.caller import Caller
from router.contract.job import FINAL, Job, JobEnding, JobStore
from router.contract.stores import StoreUnusable
from router.jobs.uncollected import Uncollected
from router.jobs.webhooks import Webhooks
from router.loop.tasks import spawn


class TellingStore:
    """The store below, with word of every end. What only writes or reads is the store's own method, at no cost."""

    def __init__(self, store: JobStore, uncollected: Uncollected, webhooks: Webhooks) -> None:
        self._store, self._uncollected, self._webhooks = store, uncollected, webhooks
        self.add, self.claim, self.renew, self.release = store.add, store.claim, store.renew, store.release
        self.append, self.read, self.watch, self.find = store.append, store.read, store.watch, store.find
        self.list_jobs, self.find_uncollected, self.close = store.list_jobs, store.find_uncollected, store.close
        self.take_due, self.list_dead = store.take_due, store.list_dead
        self.note_delivered, self.note_undelivered = store.note_delivered, store.note_undelivered
        self.find_listed, self.hear, self._looking_for = store.find_listed, store.hear, set[str]()
        store.hear(self._hear_end, self._hear_read, self._look_again)

    async def finish(self, job: Job, ending: JobEnding, addresses: Sequence[str] = ()) -> bool:
        """End a job, with an event for each webhook that wants one of its kind."""
        is_ended = await self._store.finish(job, ending, addresses or self._webhooks.addresses_for(ending.state))
        if is_ended:
            self._tell(job, ending)
        return is_ended

    async def cancel(self, job_id: str, caller: Caller | None, ending: JobEnding, addresses: Sequence[str] = ()) -> Job | None:
        """Cancel a job. A queued one ends with that; the end of a running one is noted by its owner."""
        before = await self._store.find(job_id, caller)
        found = await self._store.cancel(job_id, caller, ending, addresses or self._webhooks.addresses_for(ending.state))
        if found is not None and found.state in FINAL and before is not None and before.state not in FINAL:
            self._tell(found, ending)
        return found

    async def collected(self, job_id: str) -> None:
        await self._store.collected(job_id)
        self._uncollected.discard(job_id)

    async def forget(self, job_id: str, caller: Caller | None) -> bool:
        is_forgotten = await self._store.forget(job_id, caller)
        if is_forgotten:
            self._uncollected.discard(job_id)
        return is_forgotten

    def _hear_end(self, job_id: str) -> None:
        """A job has ended at another router."""
        self._looking_for.add(job_id)
        spawn(self._look_for(job_id), name=f"{job_id} ended")

    async def _look_for(self, job_id: str) -> None:
        with suppress(StoreUnusable):
            job = await self._store.find_listed(job_id)
            if job is not None and job_id in self._looking_for:  # else its end was read meanwhile
                self._uncollected.note_left(job)
        self._looking_for.discard(job_id)

    def _hear_read(self, job_id: str) -> None:
        self._looking_for.discard(job_id)
        self._uncollected.discard(job_id)

    def _look_again(self) -> None:
        """Nothing was heard of other routers for a while."""
        spawn(self._uncollected.recall(self._store, are_elsewhere=True), name="recall jobs")

    def _tell(self, job: Job, ending: JobEnding) -> None:
        self._uncollected.note_end(job, ending)
        self._webhooks.look_soon()
