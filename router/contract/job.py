"""Work that goes on without its caller: a request that was accepted, and the log of its answer.

A job is one request of the Responses API with `background: true`. Its id is that of the response. It is run by an owner, for
as long as the owner renews its lease; an owner that is gone loses it to another, whose attempt has a higher number.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Annotated, Protocol

from msgspec import Struct
from pydantic import Field

from router.contract.block import ELSEWHERE, Block, Seconds
from router.contract.caller import Caller
from router.contract.words import Word


class JobState(Word):
    """How far a job is. The last four are final."""

    QUEUED = "queued"
    RUNNING = "running"
    COMPLETED = "completed"
    INCOMPLETE = "incomplete"
    FAILED = "failed"
    CANCELLED = "cancelled"


LOG_ID = "log"
"""Id prefix of output items that hold what an agent printed."""
MAX_TITLE = 80
FINAL = frozenset({JobState.COMPLETED, JobState.INCOMPLETE, JobState.FAILED, JobState.CANCELLED})


class JobTerms(Block, frozen=True):
    """Background work: requests with `background: true` (`jobs:`)."""

    most_running: Annotated[int, Field(ge=1, le=1_000)] = 8
    """Jobs that run at once in this router."""
    most_for_a_caller: Annotated[int, Field(ge=1, le=1_000)] = 2
    """Jobs of one caller that run at once. The others wait."""
    most_queued: Annotated[int, Field(ge=1, le=100_000)] = 200
    """Jobs that may wait; more are refused with 429 `too_many_jobs`."""
    deadline_seconds: Seconds = 14_400.0
    """For a whole job, instead of `limits.deadline_seconds`."""
    keep_hours: Annotated[float, Field(gt=0, le=720)] = 24.0
    """How long a job is kept after its end, with the text of its answer. Until then it can be read; `DELETE` removes it
    earlier."""
    takes_agents: Annotated[bool, ELSEWHERE] = False
    """Whether an admin's command may keep the work of an agent that it runs as a job (`delegation.runner`)."""


USUAL_TERMS = JobTerms()


class Job(Struct, frozen=True):
    """One request to be served in the background, and who serves it now."""

    id: str
    caller: Caller
    created_at: float
    body: bytes
    """The request as it was sent. `claim` alone returns it, and it is deleted when the job ends.

    Empty from the start where no request is to be served: the work is done outside of the router (`router/jobs/outside.py`).
    """
    headers: Mapping[str, str]
    """Its headers, as far as they are read on the road. Keys are never among them. Returned and deleted with `body`."""
    queued: bytes
    """The response as it was answered at first, `status: queued`. Empty once the job is over: see `JobEnding.response`."""
    key: str | None = None
    """The id of the key by which its caller was known."""
    session: str | None = None
    """The session that it was given in, so that its end can be told there."""
    title: str = ""
    """The beginning of what was asked, to tell jobs apart in a list."""
    tier: str = ""
    """The tier that was chosen when it was accepted."""
    state: JobState = JobState.QUEUED
    attempt: int = 0
    """How often somebody began it. A segment says which attempt wrote it."""
    owner: str = ""
    ended_at: float | None = None
    is_cancelled: bool = False
    """Somebody asked to cancel it: its owner stops at once when it renews, or is told."""
    is_handed_out: bool = False
    """Some of this attempt's content was read by its caller: another attempt would contradict it."""
    is_unrecorded: bool = False
    """Set by `claim` alone: the lease of its last owner ran out, which may not have recorded what its attempt cost. Whoever
    has claimed the job records that, and then releases it. Attempt and log are still those of the last owner."""
    is_lost: bool = False
    """Set by `claim` alone: the job cannot be begun again. Whoever has claimed it ends it: cancelled where `is_cancelled`, else
    failed with the code `interrupted`. Its log is as its last owner left it."""
    is_collected: bool = False
    """Its caller has read its end."""
    response: bytes = b""
    """The response at its end: whole, or as far as it came. Empty until then."""


class Segment(Struct, frozen=True):
    """A few frames of an answer's stream, cut at the end of a frame."""

    first: int
    """The sequence number of its first frame."""
    last: int
    frames: bytes
    has_content: bool = True
    """Whether it holds more than the frames by which a response begins."""


class JobEnding(Struct, frozen=True):
    """How a job ended. The events for webhooks are written together with it."""

    state: JobState
    at: float
    response: bytes
    """The response as JSON, whole or as far as it came."""


class JobsPage(Struct, frozen=True):
    """Some jobs, newest first, and where the next page begins; None at the end."""

    jobs: Sequence[Job]
    before: str | None = None


class WebhookEvent(Struct, frozen=True):
    """One event that one address is still to be told of."""

    id: str
    """The same for every try, so that a receiver can tell that it was told before."""
    job_id: str
    address: str
    event: str
    """Its type, such as `response.completed`."""
    at: float
    """When the job ended."""
    tries: int = 0
    """How often it was sent in vain."""
    next_at: float = 0.0
    """When it is sent next; of a dead one, when it was given up."""


class JobWatch(Protocol):
    """Reports that something happened to a job, or to any."""

    async def wait(self, seconds: float) -> bool:
        """Wait until something happens, at most so long. Answers at once where something has happened since the last wait."""
        ...

    def close(self) -> None:
        """Watch no longer."""
        ...


class JobObserver:
    """Follows what happens to the jobs of a store. Each method does nothing unless it is overridden."""

    def addresses_for(self, state: JobState) -> Sequence[str]:
        """The webhooks that get an event when a job ends in this state."""
        return ()

    def job_ended(self, job: Job, ending: JobEnding) -> None:
        """A job has ended here."""

    def job_ended_elsewhere(self, job_id: str) -> None:
        """A job has ended at another router that shares the store."""

    def job_read(self, job_id: str) -> None:
        """The end of a job was read, or the job was deleted, here or at another router."""

    def updates_missed(self) -> None:
        """The store was away, and what other routers did meanwhile is not known."""


class JobStore(Protocol):
    """Keeps jobs and their logs until they are too old. Held by `tests/contract/test_job_store.py`.

    What it does outlives the process when it returns, and the machine, too, except for parts of a log that nobody has read yet
    of a job that is still under way. Raises `StoreUnusable` where it cannot be done now; all of it may be tried again
    with the same values. A caller sees its own jobs alone, as if there were no others; None as a caller sees all.
    """

    async def add(
        self, job: Job, most_queued: int, most_of_caller: int | None = None, lease_seconds: float | None = None
    ) -> bool:
        """Take a job. False where this many are queued already, or this many of its caller's are queued or running.

        With a lease it is not queued: the owner that is named in it has it from now on, as its first attempt. When that lease
        runs out the job is lost, since nobody else can do it.
        """
        ...

    async def claim(self, owner: str, lease_seconds: float, most_for_a_caller: int) -> Job | None:
        """The next job to run, which this owner has from now on: the oldest queued one whose caller has room for another.

        A job whose lease has run out comes first, with `is_unrecorded`. An owner's own jobs never count as expired. A job that
        was released is begun again, with an empty log, unless its caller has read some of its content, or it was begun three
        times, or cancelled: then `is_lost` is set.
        """
        ...

    async def renew(self, job: Job, owner: str, lease_seconds: float) -> bool:
        """Keep a job. False: it was cancelled, or somebody else has it. Stop at once."""
        ...

    async def release(self, owner: str, job_id: str | None = None) -> None:
        """Give up one job of an owner, or all where it stops, so that another can take them at once.

        What their attempts cost is recorded, or is about to be.
        """
        ...

    async def append(self, job: Job, segments: Sequence[Segment]) -> bool:
        """Write to a job's log, in order. False: this attempt is no longer its owner's. Nothing is written then.

        What the log already holds from the first of these numbers on is replaced.
        """
        ...

    async def finish(self, job: Job, ending: JobEnding) -> bool:
        """End a job, with an event for each webhook that its observer names. False: this attempt is no longer its owner's."""
        ...

    async def find(self, job_id: str, caller: Caller | None) -> Job | None:
        """One job as it is now, without `body` and `headers`."""
        ...

    async def find_listed(self, job_id: str) -> Job | None:
        """One job of anybody as a list shows it: without what was asked and answered, which may be large."""
        ...

    async def read(self, job_id: str, caller: Caller | None, after: int, limit_bytes: int = 1 << 20) -> Sequence[Segment]:
        """What the log holds after a sequence number, a part at a time; the first segment may begin before it.

        Its content counts as handed out from now on, except for what the router reads for itself (None as a caller).
        """
        ...

    def watch(self, job_id: str | None, *, for_owner: bool = False) -> JobWatch:
        """Watch one job: its log, its state, a request to cancel it. None: whether any job is there to be claimed.

        The owner of a job, who writes the rest itself, hears only that it was cancelled or deleted.
        """
        ...

    def observe(self, observer: JobObserver) -> None:
        """Report what happens to jobs to this observer from now on."""
        ...

    async def collected(self, job_id: str) -> None:
        """Note that the caller has read the end of a job."""
        ...

    async def cancel(self, job_id: str, caller: Caller | None, ending: JobEnding) -> Job | None:
        """Ask to cancel a job: a queued one ends so, a running one is ended by its owner. A final one stays as it is.

        Answers the job as it is now; None where there is none.
        """
        ...

    async def forget(self, job_id: str, caller: Caller | None) -> bool:
        """Delete a job with its log in any state. False where there is none."""
        ...

    async def list_jobs(self, caller: Caller | None, state: JobState | None, limit: int, before: str | None) -> JobsPage:
        """Jobs, newest first, without `body`, `headers`, `queued` and `response`."""
        ...

    async def take_due(
        self, now: float, hold_seconds: float, limit: int = 16, not_for: Collection[str] = ()
    ) -> Sequence[WebhookEvent]:
        """Events to be sent now, without those for some addresses. Nobody else is given them while they are held."""
        ...

    async def note_delivered(self, event_id: str) -> None:
        """An event has arrived."""
        ...

    async def note_undelivered(self, event_id: str, next_at: float | None) -> None:
        """An event has not arrived: it is tried again at a moment, or never (None)."""
        ...

    async def list_dead(self) -> Sequence[WebhookEvent]:
        """The events that were given up, newest first, for as long as their jobs are kept."""
        ...

    async def close(self) -> None:
        """Write what is left."""
        ...


class EndedJob(Struct, frozen=True):
    """As little of a job as it takes to collect it."""

    id: str
    caller: Caller
    session: str | None
    state: JobState
    title: str
    ended_at: float


ListEnded = Callable[[], Sequence[EndedJob]]
"""Asks which jobs wait to be collected, the newest last."""
