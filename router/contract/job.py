"""Background jobs: Responses requests with `background: true`, and the logs of their answers.

An owner runs a job while it renews a lease; after that another takes it, with a higher attempt number.
"""

from collections.abc import Collection, Mapping, Sequence
from typing import Annotated, Protocol

from msgspec import Struct
from pydantic import Field

from router.contract.block import ELSEWHERE, RESTART, Block, Seconds
from router.contract.caller import Caller
from router.contract.share import has_room
from router.contract.words import Word


class JobState(Word):
    """The last four are final."""

    QUEUED = "queued"
    RUNNING = "running"
    COMPLETED = "completed"
    INCOMPLETE = "incomplete"
    FAILED = "failed"
    CANCELLED = "cancelled"


MAX_TITLE = 80
COME_BACK_SECONDS = 5.0
"""After how long a job that was refused may be sent again."""
PART_BYTES = 1 << 17
"""How much of a log or response is read at once: a slow reader holds no more than that in memory."""
FINAL = frozenset({JobState.COMPLETED, JobState.INCOMPLETE, JobState.FAILED, JobState.CANCELLED})


class JobTerms(Block, frozen=True):
    """Background work: requests with `background: true` (`jobs:`)."""

    most_running: Annotated[int, Field(ge=1, le=1_000)] = 8
    """Jobs running at once."""
    most_for_a_caller: Annotated[int, Field(ge=1, le=1_000)] = 2
    """Of one caller."""
    most_queued: Annotated[int, Field(ge=1, le=100_000)] = 200
    """Waiting jobs; more get 429 `too_many_jobs`."""
    max_disk_mb: Annotated[int, Field(ge=100)] = 4_096
    """Disk; when full, likewise."""
    deadline_seconds: Seconds = 14_400.0
    """For each run of a job."""
    keep_hours: Annotated[float, Field(gt=0, le=720), RESTART] = 24.0
    """For ended jobs, with their texts."""
    share: Annotated[float, ELSEWHERE] = 1.0
    """The part of the queue and of the disk that one caller may have alone (`limits.share`)."""

    def may_queue(self, own: int, taken: int) -> bool:
        """Whether a caller with this many waiting jobs, of this many in all, may have another wait."""
        return has_room(own, taken, self.most_queued, self.share)

    def may_write(self, caller: str, sizes: Mapping[str, int]) -> bool:
        """Whether a caller may take more disk, where the jobs of each caller take so many bytes.

        A caller's running jobs may have written more than its share: that is not held against the others.
        """
        whole = self.max_disk_mb << 20
        taken = sum(min(size, int(whole * self.share)) for size in sizes.values())
        return has_room(sizes.get(caller, 0), taken, whole, self.share)


USUAL_TERMS = JobTerms()


class Job(Struct, frozen=True):
    id: str
    caller: Caller
    created_at: float
    body: bytes
    """The request; empty for a text that is kept. Only `claim` and `find_body` return it."""
    headers: Mapping[str, str]
    """Headers needed to serve it, never keys. Only `claim` returns them; deleted at the end."""
    queued: bytes
    """The first answer, `status: queued`. Empty once the job has ended."""
    key: str | None = None
    session: str | None = None
    """Where its end is announced."""
    title: str = ""
    """The start of the request's text."""
    tier: str = ""
    state: JobState = JobState.QUEUED
    attempt: int = 0
    owner: str = ""
    ended_at: float | None = None
    is_cancelled: bool = False
    """The owner stops as soon as it knows."""
    is_newly_cancelled: bool = False
    """Set by `cancel` for a running job that nobody had cancelled before."""
    is_handed_out: bool = False
    """The caller has read this attempt's content, which another attempt would contradict."""
    is_unrecorded: bool = False
    """Set by `claim`: the last owner's lease ran out, perhaps before its cost was recorded. The new owner records that and
    releases the job; attempt and log are still the last owner's."""
    is_lost: bool = False
    """Set by `claim`: the job cannot be restarted. The new owner ends it: cancelled if `is_cancelled`, else failed with the
    code `interrupted`. The log stays."""
    is_collected: bool = False


class Segment(Struct, frozen=True):
    """Cut at a frame's end."""

    first: int
    last: int
    frames: bytes
    has_content: bool = True
    """Whether it holds more than a response's opening frames."""
    rest_at: int = 0
    """Where the part after this one begins; 0 if there is none."""


class JobEnding(Struct, frozen=True):
    """How a job ended. Its webhook events are written with it."""

    state: JobState
    at: float
    response: bytes


class JobsPage(Struct, frozen=True):
    """Jobs, newest first; `before` is the next page's cursor."""

    jobs: Sequence[Job]
    before: str | None = None


class WebhookEvent(Struct, frozen=True):
    """An event one address has not received yet."""

    id: str
    """Identical for every try, so that receivers can detect repeats."""
    job_id: str
    address: str
    event: str
    at: float
    tries: int = 0
    next_at: float = 0.0
    """When it is sent next; for a dead event, when it was given up."""


class JobWatch(Protocol):
    async def wait(self, seconds: float) -> bool:
        """Wait for a change. Returns at once if one came since the last wait."""
        ...

    def close(self) -> None: ...


class JobObserver:
    """Observes a store's jobs. Methods do nothing unless overridden."""

    def addresses_for(self, state: JobState) -> Sequence[str]:
        return ()

    def job_ended(self, job: Job, ending: JobEnding) -> None:
        """A job ended here."""

    def job_ended_elsewhere(self, job_id: str) -> None:
        """A job ended at another router that shares the store."""

    def job_read(self, job_id: str) -> None:
        """A job's end was read, or the job deleted, at any router."""

    def updates_missed(self) -> None:
        """The store was away: other routers' changes may have been missed."""


class JobStore(Protocol):
    """Stores jobs and their logs until they expire. Checked by `tests/contract/test_job_store.py`.

    Results survive a crash of process and machine, except unread log of a running job. Raises `StoreUnusable`; any call may be
    repeated. A caller sees its own jobs only; None sees all.
    """

    async def add(
        self, job: Job, terms: JobTerms, most_of_caller: int | None = None, lease_seconds: float | None = None
    ) -> bool:
        """False if the queue, the disk or the caller's share is full. With a lease the job is its owner's, and lost with it."""
        ...

    async def claim(self, owner: str, lease_seconds: float, terms: JobTerms) -> Job | None:
        """Claim a queued job: the oldest of the caller with fewest running, or else served least recently here.

        Jobs of a caller wait while its ended ones take its share of the disk.
        Expired leases come first, with `is_unrecorded`; an owner's own never expire. A released job restarts with an empty log,
        unless its content was read, it was begun three times, or cancelled: then `is_lost` is set.
        """
        ...

    async def renew(self, job: Job, owner: str, lease_seconds: float) -> bool:
        """Extend the lease. False: cancelled, or taken over. Stop at once."""
        ...

    async def release(self, job: Job) -> None:
        """Give up this attempt, once its cost is recorded or about to be. A later attempt of its owner goes on."""
        ...

    async def append(self, job: Job, segments: Sequence[Segment]) -> bool:
        """Replaces the log from the first of these numbers on. False: the attempt lost the job."""
        ...

    async def finish(self, job: Job, ending: JobEnding) -> bool:
        """Queues an event per webhook named by the observer. False: the attempt lost the job."""
        ...

    async def find(self, job_id: str, caller: Caller | None) -> Job | None:
        """Without `body` and `headers`."""
        ...

    async def find_body(self, job_id: str, caller: Caller | None) -> bytes:
        """The request, as long as the job is kept. Empty for a kept text, and for a job that is not there."""
        ...

    async def find_listed(self, job_id: str) -> Job | None:
        """For any caller, without its request."""
        ...

    async def read_response(self, job_id: str, caller: Caller | None, start: int = 0) -> tuple[bytes, int]:
        """A part of the final response, or of how far it came, and the size of the whole; nothing if there is none.

        A part has `PART_BYTES` at most: the whole may be many megabytes.
        """
        ...

    async def read(
        self, job_id: str, caller: Caller | None, after: int, limit_bytes: int = PART_BYTES, *, part_at: int | None = None
    ) -> Sequence[Segment]:
        """The first segment may begin before `after`. Unless `caller` is None, content counts as read.

        With `part_at`, a segment larger than the limit is read in parts, this one from there on. Parts have no frame up to
        `after`.
        """
        ...

    def watch(self, job_id: str | None, *, for_owner: bool = False) -> JobWatch:
        """Watch a job's log, state and cancellation; None: any claimable job. Owners only hear of a cancel or deletion."""
        ...

    def observe(self, observer: JobObserver) -> None: ...

    async def collected(self, job_id: str) -> None: ...

    async def cancel(self, job_id: str, caller: Caller | None, ending: JobEnding) -> Job | None:
        """A running job is ended by its owner. Returns the job as it is now, or None."""
        ...

    async def forget(self, job_id: str, caller: Caller | None) -> bool: ...

    async def list_jobs(self, caller: Caller | None, state: JobState | None, limit: int, before: str | None) -> JobsPage:
        """Newest first, without `body`, `headers`, `queued` and `response`."""
        ...

    async def take_due(
        self, now: float, hold_seconds: float, limit: int = 16, not_for: Collection[str] = ()
    ) -> Sequence[WebhookEvent]:
        """Events due now, except for some addresses, hidden from other senders while held."""
        ...

    async def note_delivered(self, event_id: str) -> None: ...

    async def note_undelivered(self, event_id: str, next_at: float | None) -> None:
        """None gives the event up."""
        ...

    async def list_dead(self) -> Sequence[WebhookEvent]: ...

    async def close(self) -> None: ...


class EndedJob(Struct, frozen=True):
    id: str
    caller: Caller
    session: str | None
    state: JobState
    title: str
    ended_at: float
