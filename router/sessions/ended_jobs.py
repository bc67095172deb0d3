"""Ended jobs that were not collected, in memory: answers of their session name them until they are read."""

import asyncio
from collections import Counter
from collections.abc import Callable, Mapping, Sequence

from router.contract.caller import Caller
from router.contract.clock import CLOCK
from router.contract.job import FINAL, USUAL_TERMS, EndedJob, Job, JobEnding, JobState, JobStore
from router.contract.relay import Headers
from router.contract.words import Tier

HEADER = "x-tandem-jobs"
_MOST, _MOST_NAMED = 1_000, 8
_PAGE = 100
_KEEP_SECONDS = USUAL_TERMS.keep_hours * 3_600


class EndedJobs:
    """Ended jobs by id and session, and counts of this process's endings. Empty in a router without jobs."""

    def __init__(self, keep_seconds: float = _KEEP_SECONDS, clock: Callable[[], float] = CLOCK.trusted) -> None:
        self._keep_seconds, self._clock = keep_seconds, clock
        self._jobs: dict[str, EndedJob] = {}
        self.by_session: dict[tuple[Caller, str | None], dict[str, EndedJob]] = {}
        """Checked by every request."""
        self._recalling = asyncio.Lock()
        self._read_meanwhile: set[str] = set()
        """Jobs read while the store was listing all."""
        self.counts: Counter[JobState] = Counter()
        """Endings of this process since start."""

    def list_all(self) -> Sequence[EndedJob]:
        """All callers' jobs, newest last."""
        self._forget_old()
        return tuple(self._jobs.values())

    def list_of(self, caller: Caller, session: str) -> Sequence[EndedJob]:
        """One session's jobs, newest last."""
        self._forget_old()
        jobs = self.by_session.get((caller, session))
        return [*jobs.values()] if jobs is not None else []

    def name_in(self, carried: Mapping[Tier, Headers], caller: Caller, session: str) -> Mapping[Tier, Headers]:
        """Add a header with a session's newest jobs to each tier's headers."""
        jobs = self.list_of(caller, session)
        if not jobs:
            return carried
        named = (HEADER, ", ".join(f"{job.id}={job.state}" for job in jobs[-_MOST_NAMED:]))
        return {tier: (*carried.get(tier, ()), named) for tier in Tier}

    def note_end(self, job: Job, ending: JobEnding) -> None:
        self.counts[ending.state] += 1
        self._add(job, ending.state, ending.at)

    def note_left(self, job: Job) -> None:
        """A job ended at another router, or before this process began."""
        self._add(job, job.state, job.ended_at or self._clock())

    def discard(self, job_id: str) -> None:
        """A job's end was read, or it was deleted."""
        if self._recalling.locked():
            self._read_meanwhile.add(job_id)
        job = self._jobs.pop(job_id, None)
        if job is None:
            return
        of_session = self.by_session[job.caller, job.session]
        del of_session[job_id]
        if not of_session:
            del self.by_session[job.caller, job.session]

    async def recall(self, store: JobStore, *, are_elsewhere: bool = False) -> None:
        """Load what earlier processes left. Raises `StoreUnusable`.

        From a store that routers share: add endings missed elsewhere, and drop jobs read or deleted there.
        """
        async with self._recalling:
            self._read_meanwhile.clear()
            known = list(self._jobs)
            found = await _list_uncollected(store)
            for job in found:
                if job.id not in self._read_meanwhile:
                    self.note_left(job)
        if are_elsewhere and len(found) < _MOST:
            for job_id in set(known).difference(job.id for job in found):
                self.discard(job_id)
        self._sort()  # some may have ended here meanwhile

    def _add(self, job: Job, state: JobState, ended_at: float) -> None:
        """Skips cancelled jobs: the canceller knows."""
        if state is JobState.CANCELLED or job.is_collected or job.id in self._jobs:
            return
        self._put(EndedJob(job.id, job.caller, job.session, state, job.title, ended_at))
        if len(self._jobs) > _MOST:
            self.discard(next(iter(self._jobs)))

    def _put(self, job: EndedJob) -> None:
        self._jobs[job.id] = job
        self.by_session.setdefault((job.caller, job.session), {})[job.id] = job

    def _sort(self) -> None:
        jobs = sorted(self._jobs.values(), key=lambda job: job.ended_at)
        self._jobs, self.by_session = {}, {}
        for job in jobs:
            self._put(job)

    def _forget_old(self) -> None:
        """The store expires jobs itself. The first one here is the oldest."""
        oldest = self._clock() - self._keep_seconds
        while self._jobs and (job := next(iter(self._jobs.values()))).ended_at < oldest:
            self.discard(job.id)


async def _list_uncollected(store: JobStore) -> list[Job]:
    """All of them, or about as many as are kept, newest last. Raises `StoreUnusable`."""
    found: list[Job] = []
    for state in sorted(FINAL - {JobState.CANCELLED}):
        before: str | None = None
        while len(found) < _MOST:
            page = await store.list_jobs(None, state, _PAGE, before)
            found += [job for job in page.jobs if not job.is_collected]
            if (before := page.before) is None:
                break
    return sorted(found, key=lambda job: job.ended_at or 0.0)
