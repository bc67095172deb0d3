"""Background jobs and their stores."""

from pathlib import Path

from msgspec.structs import replace

from router.contract.caller import Caller
from router.contract.job import Job, JobEnding, JobObserver, JobState, JobStore, JobTerms, Segment
from router.stores.sqlite.jobs import SqliteJobs
from router.stores.sqlite.schemas import JOBS
from router.stores.sqlite.writer import SqliteWriter
from tests.tools.kept import ANN, Failures

LEASE_SECONDS = 15.0
MANY = JobTerms(most_queued=1_000, most_for_a_caller=1_000)


class Clock:
    def __init__(self, now: float = 1_800_000_000.0) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now


def make_job(name: str = "resp_1", caller: Caller = ANN, **more) -> Job:
    job = Job(
        id=name,
        caller=caller,
        created_at=1_800_000_000.0,
        body=b'{"model":"auto","input":"hi","background":true}',
        headers={"user-agent": "tests"},
        queued=b'{"id":"resp_1","status":"queued"}',
        key="k_1",
        session="s_1",
        title="hi",
        tier="deep",
    )
    return replace(job, **more)


def make_segment(first: int, last: int | None = None, *, text: str = "", has_content: bool = True) -> Segment:
    last = first if last is None else last
    return Segment(first, last, (text or f"frames {first} to {last}\n\n").encode(), has_content)


def make_ending(state: JobState = JobState.COMPLETED, at: float = 1_800_000_100.0) -> JobEnding:
    return JobEnding(state, at, f'{{"status":"{state}"}}'.encode())


class Observing(JobObserver):
    """Notes what a store reports, and has every end sent to these addresses."""

    def __init__(self, *addresses: str) -> None:
        self.addresses, self.seen = addresses, list[tuple[str, str]]()

    def addresses_for(self, state: JobState) -> tuple[str, ...]:
        return self.addresses

    def job_ended(self, job: Job, ending: JobEnding) -> None:
        self.seen.append(("ended", job.id))

    def job_ended_elsewhere(self, job_id: str) -> None:
        self.seen.append(("ended elsewhere", job_id))

    def job_read(self, job_id: str) -> None:
        self.seen.append(("read", job_id))

    def updates_missed(self) -> None:
        self.seen.append(("missed", ""))


def open_sqlite_jobs(path: Path, failures: Failures, clock: Clock) -> SqliteJobs:
    """A store on a file, with the failures that it reports."""
    writer = SqliteWriter(path, JOBS, on_failure=lambda *seen: failures.append(seen), lock_seconds=0.2)
    return SqliteJobs(writer, keep_seconds=86_400.0, clock=clock)


async def read_log(store: JobStore, job_id: str) -> list[Segment]:
    """The whole log of a job."""
    found: list[Segment] = []
    while more := await store.read(job_id, None, found[-1].last if found else -1):
        found += more
    return found
