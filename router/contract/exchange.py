"""One request from its arrival to its last fact: who owns it, how long it may take, and why it was cut off."""

import asyncio
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, Protocol, TypeVar

from router.contract.caller import LOCAL, Caller
from router.contract.facts import Fact
from router.contract.words import Dialect, Operation, Word


class Arrival(NamedTuple):
    """A request as the edge hands it over: admitted, its body whole, nothing read yet."""

    id: str
    dialect: Dialect
    operation: Operation
    headers: Mapping[str, str]
    raw: bytes
    caller: Caller = LOCAL


class Deadline(NamedTuple):
    """The moment by which a request must be over, on the monotonic clock: one for all of its attempts."""

    at: float

    def left(self, now: float) -> float:
        """Seconds that are left: never less than none."""
        return max(0.0, self.at - now)


class CancelReason(Word):
    """Why an exchange was cancelled."""

    CALLER_LEFT = "caller_left"
    STOPPING = "stopping"


Handler = Callable[["Exchange", Any], None]
"""Takes a fact of the kind that it was given for."""


class Observer(Protocol):
    """Somebody who wants to know of some kinds of facts."""

    def handlers(self) -> Mapping[type[Fact], Handler]:
        """What it does on each kind. Called on the road of a request: it must be quick."""
        ...


class Observers(Protocol):
    """All observers, in the order that wiring gives."""

    @property
    def handlers(self) -> Mapping[type[Fact], tuple[Handler, ...]]:
        """Theirs, by the kind of fact."""
        ...

    def report(self, exchange: "Exchange", error: Exception) -> None:
        """One of them failed: its defect costs neither the others nor the caller anything."""
        ...


_F = TypeVar("_F", bound=Fact)


class Exchange:
    """One request under way. The road notes facts in its journal; whoever wants to know observes them."""

    __slots__ = (
        "_handlers",
        "_newest",
        "_observers",
        "arrival",
        "began",
        "caller",
        "cancelled",
        "deadline",
        "id",
        "journal",
        "plan",
        "task",
    )

    def __init__(self, arrival: Arrival, began: float, deadline: Deadline, observers: Observers, plan: Any = None) -> None:
        self.arrival, self.began, self.deadline = arrival, began, deadline
        self.id, self.caller = arrival.id, arrival.caller
        self.journal: list[Fact] = []
        self._newest: dict[type[Any], Any] = {}
        self.cancelled: CancelReason | None = None
        self._observers, self._handlers = observers, observers.handlers
        self.plan = plan
        """The plan that it began with, which only the house reads."""
        self.task: asyncio.Task[None] | None = None
        """What takes this exchange down the road."""

    def note(self, fact: Fact) -> None:
        """Take a fact down, and tell the observers."""
        self.journal.append(fact)
        kind = type(fact)
        self._newest[kind] = fact
        for handle in self._handlers.get(kind, ()):
            try:
                handle(self, fact)
            except Exception as error:  # noqa: BLE001  an observer's defect must not end the request
                self._observers.report(self, error)

    def last(self, kind: type[_F]) -> _F | None:
        """The newest fact of a kind."""
        return self._newest.get(kind)

    def first(self, kind: type[_F]) -> _F | None:
        """The oldest fact of a kind."""
        if kind not in self._newest:
            return None
        return next((fact for fact in self.journal if isinstance(fact, kind)), None)

    def run_by(self, task: "asyncio.Task[None]") -> None:
        """Say which task takes this exchange down the road: cancelling the exchange cancels it."""
        self.task = task
        if self.cancelled is not None:
            task.cancel()

    def cancel(self, reason: CancelReason) -> None:
        """Cut the exchange off. The first reason counts."""
        if self.cancelled is None:
            self.cancelled = reason
            if self.task is not None:
                self.task.cancel()
