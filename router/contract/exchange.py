"""One request from its arrival to its last fact: who owns it, how long it may take, and why it was cut off."""

import asyncio
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Protocol, TypeVar, TypeVarTuple

from msgspec import Struct
from msgspec.structs import replace

from router.contract.caller import LOCAL, Caller
from router.contract.errors import Superseded, TandemError, Unavailable
from router.contract.facts import AttemptOpened, Fact, QuestionEnded, Queued
from router.contract.relay import RouteRequest
from router.contract.stores import ResponseStore
from router.contract.words import Dialect, Operation, PassedRoute, Word

IDEMPOTENCY_KEY = "idempotency-key"
"""The header by which a caller says that a request is one that it may have sent before."""


class Passed(Struct, frozen=True):
    """A request for a route that is not decided, as it goes to the target that the config names for it."""

    route: PassedRoute
    request: RouteRequest


class Arrival(Struct, frozen=True):
    """A request as the edge hands it over: admitted, its body whole, nothing read yet."""

    id: str
    dialect: Dialect
    operation: Operation
    headers: Mapping[str, str]
    raw: bytes
    caller: Caller = LOCAL
    key: str | None = None
    """The id of the key by which its caller is known, if keys are asked for."""
    responses: ResponseStore | None = None
    """Where responses are kept and found for it: a socket has its own. None: those of all."""
    job: str | None = None
    """The background job that it is an attempt of. Its caller is not there, and its answer goes to the job's log."""
    passed: Passed | None = None
    """What is passed on as it is. Then there is nothing to read or to decide."""


class Deadline(Struct, frozen=True):
    """The moment by which a request must be over, on the monotonic clock: one for all of its attempts."""

    at: float

    def left(self, now: float) -> float:
        """Seconds that are left: never less than none."""
        return max(0.0, self.at - now)


class CancelReason(Word):
    """Why an exchange was cancelled."""

    CALLER_LEFT = "caller_left"
    STOPPING = "stopping"
    INTERRUPTED = "interrupted"
    """The person said something else meanwhile."""
    SUPERSEDED = "superseded"
    """A newer request took its place."""


def cancel_error(reason: CancelReason | None) -> TandemError | None:
    """What a caller who is still there is told; None where nobody is, or where it was the caller's own doing."""
    if reason is CancelReason.STOPPING:
        return Unavailable("the router is shutting down")
    if reason is CancelReason.SUPERSEDED:
        return Superseded("superseded by a newer request with the same x-tandem-supersede")
    return None


@contextmanager
def saying_why(exchange: "Exchange") -> Iterator[None]:
    """Around a wait that may be cancelled: a caller who is still there gets an error that says why the request ends."""
    try:
        yield
    except asyncio.CancelledError as cancelled:
        error = cancel_error(exchange.cancelled)
        if error is None:
            raise
        raise error from cancelled


Handler = Callable[["Exchange", Any], None]
"""Takes a fact of the kind that it was given for."""


class Observer(Protocol):
    """Somebody who wants to know of some kinds of facts."""

    def handlers(self) -> Mapping[type[Fact], Handler]:
        """What it does on each kind. Called on the road of a request: it must be quick."""
        ...


class Observers:
    """All observers, by the kind of fact. Those of one kind are called in the order in which they were given."""

    def __init__(self, observers: Iterable[Observer], report: Callable[["Exchange", Exception], None]) -> None:
        self.handlers: defaultdict[type[Fact], list[Handler]] = defaultdict(list)
        for observer in observers:
            self.add(observer)
        self.report = report
        """Called when one of them failed: its defect costs neither the others nor the caller anything."""

    def add(self, observer: Observer) -> None:
        """Call another one, after those of the same kinds."""
        for kind, handler in observer.handlers().items():
            self.handlers[kind].append(handler)

    def remove(self, observer: Observer) -> None:
        """Call one no longer. Its handlers must be methods, or functions that stay the same."""
        for kind, handler in observer.handlers().items():
            self.handlers[kind].remove(handler)


UNOBSERVED = Observers((), lambda exchange, error: None)
"""For an exchange that counts in no session, figure or ledger."""


class HasBody(Protocol):
    """A request, read or not."""

    @property
    def raw(self) -> bytes: ...


_R = TypeVar("_R", bound=HasBody)
_T = TypeVar("_T")
_More = TypeVarTuple("_More")


class OffLoop(Protocol):
    """Does work on a request: at once if the request is light, and in a thread if it is heavy."""

    async def __call__(self, work: Callable[[_R, *_More], _T], *given: *tuple[_R, *_More]) -> _T:
        """`work(*given)`. The request comes first."""
        ...


async def work_here(work: Callable[[*_More], _T], *given: *_More) -> _T:
    """Do work at once, however heavy it is."""
    return work(*given)


_F = TypeVar("_F", bound=Fact)


class FindFact(Protocol):
    """Answers the fact of a kind; None where there was none."""

    def __call__(self, kind: type[_F], /) -> _F | None: ...


class Confirming(Protocol):
    """Holds the end of an answer back until what its request wrote to a shared store is confirmed there."""

    def wait_for(self, kind: str, written: "asyncio.Future[Any]") -> None:
        """Wait for a write, for a short time. `kind` is what was written: `sessions` or `responses`.

        The future raises where the write failed. Call it before the answer's last bytes are written, or in the same turn of
        the loop.
        """
        ...


_NOTHING: dict[type[Any], Any] = {}
_CALLS = (AttemptOpened, Queued)


class Company(Protocol):
    """The requests that came at about the same time: each step is cheaper right after the same of another."""

    def join(self) -> Awaitable[None]:
        """Wait until all of them are here."""
        ...

    def catch_up(self) -> Awaitable[None]:
        """Let the others take the step before."""
        ...


class Exchange(Struct, eq=False):
    """One request under way. The road notes facts in its journal; whoever wants to know observes them."""

    arrival: Arrival
    began: float
    deadline: Deadline
    observers: Observers
    plan: Any = None
    """The plan that it began with, which only the house reads."""
    off_loop: OffLoop = work_here
    company: Company | None = None
    """Requests with which it takes its steps; None where it was alone when it came."""
    journal: list[Fact] = []
    _newest: dict[type[Any], Any] = {}
    cancelled: CancelReason | None = None
    task: "asyncio.Task[None] | None" = None
    """What takes this exchange down the road."""
    confirming: Confirming | None = None
    """Waits for writes before the answer ends; None where nothing is shared."""
    id: str = ""
    """That of the arrival, as is the caller."""
    caller: Caller = LOCAL
    last: FindFact = _NOTHING.get
    """The newest fact of a kind: the dictionary's own method, since a request asks ten times."""

    def __post_init__(self) -> None:
        self.id, self.caller, self.last = self.arrival.id, self.arrival.caller, self._newest.get

    def note(self, fact: Fact) -> None:
        """Take a fact down, and tell the observers."""
        kind = fact.__class__
        self.journal.append(fact)
        self._newest[kind] = fact
        for handle in self.observers.handlers[kind]:
            try:
                handle(self, fact)
            except Exception as error:  # noqa: BLE001  an observer's defect must not end the request
                self.observers.report(self, error)

    def record_as(self, request_id: str) -> None:
        """Have its end recorded under another id: that of its arrival is for the request that is served at last."""
        self.arrival = replace(self.arrival, id=request_id)

    def leave_unrecorded(self) -> None:
        """Note what comes for nobody: the attempts of the job that it became are recorded, each as an exchange of its own."""
        self.observers = UNOBSERVED

    def first_call_at(self) -> float | None:
        """When the request first waited for somebody else: a second opinion, a queue, a target. Until then it is our time."""
        for fact in self.journal:
            if isinstance(fact, _CALLS):
                return fact.at
            if isinstance(fact, QuestionEnded):
                return fact.opened_at
        return None

    def run_by(self, task: "asyncio.Task[None]") -> None:
        """Say which task takes this exchange down the road: cancelling the exchange cancels it."""
        self.task = task
        if self.cancelled is not None:
            task.cancel()

    def let_go(self) -> None:
        """It is over. A task that was cancelled holds all that it worked on, this exchange too, until the collector comes."""
        self.task = None

    def cancel(self, reason: CancelReason) -> None:
        """Cut the exchange off. The first reason counts."""
        if self.cancelled is None:
            self.cancelled = reason
            if self.task is not None:
                self.task.cancel()
