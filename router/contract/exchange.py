"""One request from its arrival to its last fact: caller, deadline, observers and cancellation."""

import asyncio
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Protocol, TypeVar, TypeVarTuple

from msgspec import Struct
from msgspec.structs import replace

from router.contract.caller import LOCAL, Caller
from router.contract.clock import CLOCK
from router.contract.errors import Superseded, TandemError, Unavailable
from router.contract.facts import AttemptOpened, Fact, QuestionEnded, Queued
from router.contract.relay import RouteRequest
from router.contract.request import NOW, Moment
from router.contract.stores import ResponseStore, WrittenHistory
from router.contract.words import Dialect, Operation, PassedRoute, Word

IDEMPOTENCY_KEY = "idempotency-key"


class Passed(Struct, frozen=True):
    route: PassedRoute
    request: RouteRequest


class Arrival(Struct, frozen=True):
    """A request as the edge admits it: complete, nothing read yet."""

    id: str
    dialect: Dialect
    operation: Operation
    headers: Mapping[str, str]
    raw: bytes
    caller: Caller = LOCAL
    key: str | None = None
    responses: ResponseStore | None = None
    """The store of a socket; None: the one for all."""
    job: str | None = None
    """The background job it is an attempt of: no caller is connected, and the answer goes to the job's log."""
    passed: Passed | None = None
    moment: Moment = NOW
    """When it came: a past time where a turn is replayed."""
    path: str = ""
    """As the caller wrote it, without its query. Empty for a request that did not come over HTTP."""


class Deadline(Struct, frozen=True):
    """When a request with all its attempts must be over, on the monotonic clock."""

    at: float
    paused_seconds: float = 0.0
    """By how much pauses of this process have moved it."""

    def left(self, now: float) -> float:
        return max(0.0, self.at - now)


class CancelReason(Word):
    CALLER_LEFT = "caller_left"
    STOPPING = "stopping"
    INTERRUPTED = "interrupted"
    SUPERSEDED = "superseded"


def cancel_error(reason: CancelReason | None) -> TandemError | None:
    """The error for a caller who is still connected; None if the caller left or interrupted the request."""
    if reason is CancelReason.STOPPING:
        return Unavailable("the router is shutting down")
    if reason is CancelReason.SUPERSEDED:
        return Superseded("superseded by a newer request with the same x-tandem-supersede")
    return None


@contextmanager
def saying_why(exchange: "Exchange") -> Iterator[None]:
    """Turn a cancelled wait into the error that tells a connected caller why."""
    try:
        yield
    except asyncio.CancelledError as cancelled:
        error = cancel_error(exchange.cancelled)
        if error is None:
            raise
        raise error from cancelled


Handler = Callable[["Exchange", Any], None]


class Observer(Protocol):
    def handlers(self) -> Mapping[type[Fact], Handler]:
        """Handlers run on the hot path and must be quick."""
        ...


class Part(Word):
    """The links of the chain, by the names that `tandem status` shows."""

    SESSIONS = "sessions"
    TARGETS = "targets"
    SUPERSEDING = "superseding"
    RESPONSES = "responses"
    RECORDS = "records"
    LOG = "log"
    WATCHERS = "watchers"
    TRACES = "traces"
    METRICS = "metrics"
    PAGE = "page"
    JOBS = "jobs"
    ALERTS = "alerts"


class Link(Struct):
    """One part of the chain. One that observes no facts is listed all the same."""

    name: Part
    observer: Observer | None = None
    is_on: bool = True


class Observers:
    """The chain of parts that observe requests, in order. A link that is off is not called."""

    def __init__(self, links: Iterable[Link], report: Callable[["Exchange", Exception], None]) -> None:
        self.links = list(links)
        self.handlers: defaultdict[type[Fact], list[Handler]] = defaultdict(list)
        self.report = report
        """Called when a handler raises. Neither the request nor other handlers notice."""
        self._connect()

    def add(self, *links: Link) -> None:
        self.links += links
        self._connect()

    def switch(self, name: Part, *, on: bool) -> bool:
        """Switch a link on or off, and ask it for its handlers again. Returns whether it was the other before."""
        link = next(link for link in self.links if link.name is name)
        was_on, link.is_on = link.is_on, on
        self._connect()
        return was_on is not on

    def is_on(self, name: Part) -> bool:
        return any(link.is_on for link in self.links if link.name is name)

    def _connect(self) -> None:
        self.handlers.clear()
        for link in self.links:
            if link.is_on and link.observer is not None:
                for kind, handler in link.observer.handlers().items():
                    self.handlers[kind].append(handler)


UNOBSERVED = Observers((), lambda exchange, error: None)
"""For an exchange that counts in no session, figure or ledger."""


class HasBody(Protocol):
    @property
    def raw(self) -> bytes: ...


_R = TypeVar("_R", bound=HasBody)
_T = TypeVar("_T")
_More = TypeVarTuple("_More")


class OffLoop(Protocol):
    """Runs work on a request: at once if the request is light, in a thread if it is heavy."""

    async def __call__(self, work: Callable[[_R, *_More], _T], *given: *tuple[_R, *_More]) -> _T: ...


async def work_here(work: Callable[[*_More], _T], *given: *_More) -> _T:
    return work(*given)


_F = TypeVar("_F", bound=Fact)


class FindFact(Protocol):
    def __call__(self, kind: type[_F], /) -> _F | None: ...


class Confirming(Protocol):
    """Holds back the end of an answer until its request's writes to a shared store are confirmed."""

    def wait_for(self, kind: str, written: "asyncio.Future[Any]") -> None:
        """Wait briefly for `sessions` or `responses` to be written. Call this before, or with, the answer's last bytes."""
        ...


_EARLY_SECONDS = 0.001
"""A loop may call a little early."""
_NOTHING: dict[type[object], Any] = {}
_CALLS = (AttemptOpened, Queued)


class Company(Protocol):
    """Requests that arrived at about this time: a step is cheaper right after another request's."""

    def join(self) -> Awaitable[None]: ...

    def catch_up(self) -> Awaitable[None]:
        """Let the others finish the previous step."""
        ...


class Exchange(Struct, eq=False):
    """One request under way, with the journal of its facts."""

    arrival: Arrival
    began: float
    deadline: Deadline
    observers: Observers
    plan: Any = None
    """The plan that it began with; only the house reads it."""
    off_loop: OffLoop = work_here
    company: Company | None = None
    """None for a request that arrived alone."""
    journal: list[Fact] = []
    newest: dict[type[object], Any] = {}
    cancelled: CancelReason | None = None
    task: "asyncio.Task[None] | None" = None
    confirming: Confirming | None = None
    """None where nothing is shared."""
    written: WrittenHistory | None = None
    """Its conversation as it will be stored. None unless it is large: that is written off the loop."""
    id: str = ""
    caller: Caller = LOCAL
    last: FindFact = _NOTHING.get
    """The dictionary's own method, since a request asks ten times."""

    def __post_init__(self) -> None:
        self.id, self.caller, self.last = self.arrival.id, self.arrival.caller, self.newest.get

    def note(self, fact: Fact) -> None:
        kind = fact.__class__
        self.journal.append(fact)
        self.newest[kind] = fact
        for handle in self.observers.handlers[kind]:
            try:
                handle(self, fact)
            except Exception as error:  # noqa: BLE001  an observer's defect must not end the request
                self.observers.report(self, error)

    def amend(self, fact: Fact) -> None:
        """Replace the newest fact of its kind, for those who read it later. Its observers are not called again."""
        self.newest[fact.__class__] = fact

    def record_as(self, request_id: str) -> None:
        """Have its end recorded under another id: that of its arrival is for the request that is served at last."""
        self.arrival = replace(self.arrival, id=request_id)

    def leave_unrecorded(self) -> None:
        """Note what comes for nobody: the attempts of the job that it became are recorded, each as an exchange of its own."""
        self.observers = UNOBSERVED

    def move_deadline(self, seconds: float) -> None:
        """Give the request the time of a pause, in which this process could not work on it."""
        self.deadline = Deadline(self.deadline.at + seconds, self.deadline.paused_seconds + seconds)

    def find_time_left(self, now: float) -> float:
        """Seconds until the deadline, for a timer that may be late: 0 once it has passed."""
        CLOCK.look()
        left = self.deadline.left(now)
        return left if left > _EARLY_SECONDS else 0.0

    def describe_deadline(self) -> str:
        seconds = self.deadline.at - self.deadline.paused_seconds - self.began
        return f"the request's deadline of {seconds:g} s has passed"

    def first_call_at(self) -> float | None:
        """When it first waited for a question of ours, a queue or a target. Until then it is Tandem's own time."""
        for fact in self.journal:
            if isinstance(fact, _CALLS):
                return fact.at
            if isinstance(fact, QuestionEnded):
                return fact.opened_at
        return None

    def run_by(self, task: "asyncio.Task[None]") -> None:
        self.task = task
        if self.cancelled is not None:
            task.cancel()

    def keep_written(self, history: WrittenHistory) -> None:
        self.written = history

    def let_go(self) -> None:
        """Drop the task: a cancelled one keeps all it worked on, this exchange too, until garbage collection."""
        self.task = None

    def cancel(self, reason: CancelReason) -> None:
        """The first reason counts."""
        if self.cancelled is None:
            self.cancelled = reason
            if self.task is not None:
                self.task.cancel()
