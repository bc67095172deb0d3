"""What is kept of a request that is over until its spans are written: small facts, and nothing that holds its body."""

from typing import NamedTuple

from msgspec.structs import replace

from router.contract.entry import Line
from router.contract.exchange import Exchange
from router.contract.facts import (
    AttemptEnded,
    AttemptOpened,
    Decided,
    Dequeued,
    Fact,
    FirstToken,
    QuestionEnded,
    Queued,
    Recorded,
    ResponseCompleted,
    Settled,
)
from router.contract.words import Dialect, Operation, PassedRoute, Tier
from router.telemetry.trace_context import Parent

_MAX_MODEL_CHARS = 128
"""The longest model name that a trace shows."""
_SMALL = frozenset({Queued, Dequeued, AttemptOpened, FirstToken})
_ENDED = frozenset({AttemptEnded, QuestionEnded})


class AnsweredBy(NamedTuple):
    """The model that an answer names."""

    model: str


class Finished(NamedTuple):
    """What a trace needs of a request that is over. Times are of the monotonic clock."""

    line: Line
    began: float
    ended: float
    dialect: Dialect
    operation: Operation
    method: str
    path: str
    """Empty where it is the route's own."""
    passed: PassedRoute | None
    """Which route it is for, of a request that was only passed on."""
    is_on_socket: bool
    decision: tuple[Tier, str, str] | None
    """The tier that was decided on, by what, and why."""
    parent: Parent | None
    """The caller's span."""
    facts: list[Fact | AnsweredBy]


def gather(exchange: Exchange, recorded: Recorded, parent: Parent | None) -> Finished:
    """What a trace needs of a request. Nothing of it refers to the request's body, or to frames that do."""
    facts: list[Fact | AnsweredBy] = []
    for fact in exchange.journal:
        kind = fact.__class__  # compared by identity, which is quick, and which mypy cannot follow below
        if kind in _SMALL:
            facts.append(fact)
        elif kind in _ENDED:
            facts.append(fact if fact.error is None else replace(fact, error=None))  # type: ignore[attr-defined]
        elif kind is ResponseCompleted and isinstance(model := fact.response.get("model"), str):  # type: ignore[attr-defined]
            facts.append(AnsweredBy(model[:_MAX_MODEL_CHARS]))
    arrival, decided, settled = exchange.arrival, exchange.last(Decided), exchange.last(Settled)
    assert settled is not None  # it is noted before the entry is written
    passed, chosen = arrival.passed, decided.decision if decided is not None else None
    return Finished(
        recorded.entry.line,
        exchange.began,
        settled.at,
        arrival.dialect,
        arrival.operation,
        passed.request.method if passed is not None else "POST",
        arrival.path,
        passed.route if passed is not None else None,
        arrival.responses is not None,
        (chosen.tier, chosen.decided_by, chosen.because) if chosen is not None else None,
        parent,
        facts,
    )
