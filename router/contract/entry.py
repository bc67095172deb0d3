"""The record of one admitted request, and who keeps it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from router.contract.decision import Decision
from router.contract.errors import TandemError
from router.contract.request import Json
from router.contract.words import Dialect, Outcome, Tier


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens of one answer. `input_tokens` includes the cached ones. Estimated where the upstream said nothing."""

    input_tokens: int
    output_tokens: int
    cached_tokens: int = 0
    cache_write_tokens: int = 0
    reasoning_tokens: int = 0
    is_estimated: bool = False


class Attempt(NamedTuple):
    """One call to one target. `error` is the code of what went wrong, None for the one that served."""

    target: str
    status: int | None
    error: str | None
    seconds: float


@dataclass(slots=True)
class Dispatched:
    """What became of a request, filled as it goes: true at every moment, since a caller may leave at any."""

    outcome: Outcome = Outcome.ABANDONED
    status: int = 499
    error: TandemError | None = None
    attempts: list[Attempt] = field(default_factory=list)
    target: str | None = None
    first_token_at: float | None = None
    usage: Usage | None = None
    tokens_per_second: float | None = None
    failed: str = ""
    """The attempts that failed before this one, in words."""
    dropped: tuple[str, ...] = ()
    """What the request lost on its way to the target: fields that it refuses, or that its dialect has no word for."""
    refused_state: tuple[str, ...] = ()
    """Keys of hidden state that a target would not take, and that was left out when it was asked again."""
    answer: list[bytes] | None = None
    """The answer's pieces, when someone wants them kept."""


class Entry(NamedTuple):
    """One admitted request, from arrival to end. Durations come from a monotonic clock."""

    id: str
    at: float
    caller: str
    dialect: Dialect
    model: str
    is_streaming: bool
    outcome: Outcome
    status: int
    error: str | None
    decision: Decision | None
    because: str | None
    attempts: tuple[Attempt, ...]
    tier: Tier | None
    target: str | None
    overhead_ms: float
    ttft_ms: float | None
    duration_ms: float
    tokens_per_second: float | None
    usage: Usage | None
    cost_usd: float | None
    dropped: tuple[str, ...] = ()
    prompt_text: str | None = None
    answer_text: str | None = None


class FinishedWork(NamedTuple):
    """A turn that one target finished by itself, and that nobody had asked for there: what was expected, and what it took."""

    target: str
    score: float
    calls: int
    output_tokens: int


class Ledger(Protocol):
    """Keeps entries. Recording never blocks and never fails the request."""

    def record(self, entry: Entry) -> None:
        """Take an entry, to be written soon."""
        ...

    def find_decision(self, request_id: str, caller: str) -> Mapping[str, Json] | None:
        """The explanation of a request that this caller made."""
        ...

    def close(self) -> None:
        """Write what is left."""
        ...
