"""What is known of a target: a model behind an address, with what it speaks, takes, costs and how fast it is."""

from dataclasses import dataclass
from typing import NamedTuple

from router.contract.words import Dialect, Feature, Tier


class Speed(NamedTuple):
    """How fast a target is: as configured (`typical`), or as lately seen."""

    ttft_seconds: float
    tokens_per_second: float
    prefill_tokens_per_second: float


@dataclass(frozen=True, slots=True)
class Price:
    """USD per million tokens."""

    input: float
    output: float
    cached_input: float | None = None
    cache_write: float | None = None
    cache_minutes: float = 5.0


@dataclass(frozen=True, slots=True)
class Timeouts:
    """How long one call may wait for each step, in seconds."""

    connect_seconds: float
    first_byte_seconds: float
    stall_seconds: float


@dataclass(frozen=True, slots=True)
class Target:
    """One model behind one address. `name` is ours, and is what headers and pages show."""

    name: str
    tier: Tier
    speaks: frozenset[Dialect]
    accepts: frozenset[Feature]
    window_tokens: int
    typical: Speed
    timeouts: Timeouts
    price: Price | None = None
    takes_callers_key: bool = False

    def dialect_for(self, dialect: Dialect) -> Dialect:
        """The dialect in which this target gets a request: the request's own, if it speaks that."""
        return dialect if dialect in self.speaks or dialect is Dialect.COMPLETIONS else min(self.speaks)


class WorkRatio(NamedTuple):
    """How much more a target takes for a turn than was expected: calls, and tokens written. 1 until something is known."""

    calls: float = 1.0
    output: float = 1.0


class TargetStatus(NamedTuple):
    """A target as it is now: its recent pace, how long a new request would wait, what it is busy with, and how it works."""

    target: Target
    speed: Speed
    wait_seconds: float = 0.0
    in_flight: int = 0
    ratio: WorkRatio = WorkRatio()
