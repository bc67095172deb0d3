"""The record of one admitted request, and who keeps it."""

from typing import NamedTuple

from router.contract.caller import Caller
from router.contract.decision import Decision
from router.contract.usage import Usage
from router.contract.words import Dialect, Outcome, Tier


class Attempt(NamedTuple):
    """One call to one target. `error` is the code of what went wrong, None for the one that served."""

    target: str
    status: int | None
    error: str | None
    seconds: float


class Entry(NamedTuple):
    """One admitted request, from arrival to end. Durations come from a monotonic clock."""

    id: str
    at: float
    caller: Caller
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
    """A turn that one target finished alone and without an override: what was expected, and what it took."""

    target: str
    score: float
    calls: int
    output_tokens: int
