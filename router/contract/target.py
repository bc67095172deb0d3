"""A target: a model at an address."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Annotated, NamedTuple

from msgspec import Struct
from msgspec.structs import replace
from pydantic import AfterValidator, Field

from router.contract.block import ELSEWHERE, Block, Seconds
from router.contract.economics import FailureRates
from router.contract.errors import TandemError
from router.contract.plan_use import UseUpTo
from router.contract.usage import Usage
from router.contract.words import Dialect, Feature, Tier, Vendor

_MILLION = 1_000_000.0
LEAST_STEP_TOKENS = 10_000
"""Shorter prompts have the first price."""
Dollars = Annotated[float, Field(ge=0)]
NOTHING_LEARNED: Mapping[str, FailureRates] = MappingProxyType({})


class Speed(NamedTuple):
    """As configured (`typical`), or as measured."""

    ttft_seconds: Annotated[float, Field(ge=0, le=600)]
    """To the first token. Default: 0.3 on fast, 1.2 on deep."""
    tokens_per_second: Annotated[float, Field(gt=0, le=100_000)]
    """Written. Default: 600 on fast, 70 on deep."""
    prefill_tokens_per_second: Annotated[float, Field(gt=0)]
    """Read. Default: 20000 on fast, 10000 on deep."""


class PriceStep(Block, frozen=True):
    """USD per million tokens for requests with a long prompt, applied to all of a request's tokens."""

    above_tokens: Annotated[int, Field(ge=LEAST_STEP_TOKENS)]
    """For longer prompts."""
    input: Dollars
    """Prompt."""
    output: Dollars
    """Answer."""
    cached_input: Dollars | None = None
    """Default: in proportion to `input`."""
    cache_write: Dollars | None = None
    """Likewise."""


def _part(price: float | None, share: float) -> float | None:
    return None if price is None else price * share


def _from_short_to_long(steps: tuple[PriceStep, ...]) -> tuple[PriceStep, ...]:
    return tuple(sorted(steps, key=lambda step: step.above_tokens))


class Price(Block, frozen=True, cache_hash=True):
    """USD per million tokens. Without a price, cost is unknown, not 0."""

    input: Dollars
    """Prompt."""
    output: Dollars
    """Answer."""
    cached_input: Dollars | None = None
    """Read from its cache. Default: `input`."""
    cache_write: Dollars | None = None
    """Written to its cache. Default: `input`."""
    cache_minutes: Annotated[float, Field(ge=0, le=10_080)] = 5.0
    """How long its cache stays warm."""
    steps: Annotated[tuple[PriceStep, ...], AfterValidator(_from_short_to_long)] = ()
    """Higher prices for longer prompts."""

    def at(self, prompt_tokens: int) -> "Price":
        """A cache price that a step leaves out rises as `input` does."""
        reached = [step for step in self.steps if prompt_tokens > step.above_tokens]
        if not reached:
            return self
        step = reached[-1]
        factor = step.input / self.input if self.input else 1.0
        read, write = (
            stated if stated is not None else usual * factor if usual is not None else None
            for stated, usual in ((step.cached_input, self.cached_input), (step.cache_write, self.cache_write))
        )
        return Price(step.input, step.output, read, write, self.cache_minutes)

    def times(self, share: float) -> "Price":
        """A share of every price."""
        steps = tuple(
            PriceStep(
                step.above_tokens,
                step.input * share,
                step.output * share,
                _part(step.cached_input, share),
                _part(step.cache_write, share),
            )
            for step in self.steps
        )
        cached, write = _part(self.cached_input, share), _part(self.cache_write, share)
        return Price(self.input * share, self.output * share, cached, write, self.cache_minutes, steps)

    @property
    def write(self) -> float:
        return self.cache_write if self.cache_write is not None else self.input

    @property
    def read(self) -> float:
        return self.cached_input if self.cached_input is not None else self.input

    def cost(self, usage: Usage) -> float:
        """In USD, to 1e-8."""
        price = self.at(usage.input_tokens) if self.steps else self
        read, written = usage.cached_tokens, usage.cache_write_tokens
        usd = max(0, usage.input_tokens - read - written) * price.input + usage.output_tokens * price.output
        if read or written:
            usd += read * price.read + written * price.write
        return round(usd / _MILLION, 8)

    def cost_of_turn(self, *, written_tokens: float, read_tokens: float, output_tokens: float) -> float:
        return (written_tokens * self.write + read_tokens * self.read + output_tokens * self.output) / _MILLION


def price_of_plan(listed: Price | None) -> Price:
    """What a plan's tokens cost: nothing. Their cache lasts as long as at the list price."""
    return Price(0.0, 0.0, cache_minutes=listed.cache_minutes) if listed is not None else Price(0.0, 0.0)


class Timeouts(Struct, frozen=True):
    """How long a call to a target may wait."""

    connect_seconds: Seconds
    """To open a connection."""
    first_byte_seconds: Seconds
    """To the first byte, streamed or not."""
    stall_seconds: Seconds
    """Between two events of a stream."""
    bounds_whole_answers: Annotated[bool, ELSEWHERE] = False
    """Whether `first_byte_seconds` bounds answers in one piece too: only if configured for this target."""


class Quota(Block, frozen=True):
    """Limits of the provider. Requests beyond them wait in a fair queue, or go to another target. None: no such limit."""

    requests_per_minute: Annotated[int, Field(gt=0)] | None = None
    """Requests in any minute."""
    tokens_per_minute: Annotated[int, Field(gt=0)] | None = None
    """Tokens in any minute, prompts and answers together."""
    in_flight: Annotated[int, Field(gt=0)] | None = None
    """Requests at once."""
    max_wait_seconds: Annotated[float, Field(ge=0)] | None = None
    """Longest wait, jobs aside; then another target or 429."""


class Target(Struct, frozen=True):
    """One model at one address. `name` is Tandem's."""

    name: str
    tier: Tier
    speaks: frozenset[Dialect]
    accepts: frozenset[Feature]
    window_tokens: int
    typical: Speed
    timeouts: Timeouts
    price: Price | None = None
    takes_callers_key: bool = False
    accepts_keys_of: frozenset[Vendor] = frozenset()
    """Whose credentials it takes of its callers."""
    is_plan: bool = False
    """Whether its callers' logins pay for it (`billing: plan`)."""
    quota: Quota | None = None
    model: str = ""
    """The model's name at its provider."""
    list_price: Price | None = None
    """Of a plan's target: what its tokens would cost by the token. Its `price` is 0."""
    use_up_to: UseUpTo | None = None
    """Of a plan's target: how much of a window is used while another target can serve."""

    @property
    def max_wait_seconds(self) -> float | None:
        """Longest wait for a turn, in our queue or the target's own."""
        return self.quota.max_wait_seconds if self.quota is not None else None

    @property
    def in_flight(self) -> int | None:
        return self.quota.in_flight if self.quota is not None else None

    def dialect_for(self, dialect: Dialect) -> Dialect:
        """The request's own dialect, if the target speaks it."""
        return dialect if dialect in self.speaks or dialect is Dialect.COMPLETIONS else min(self.speaks)


class LimitWindow(NamedTuple):
    """What is left of a rate limit. Times are monotonic."""

    left: float
    resets_at: float
    counts_prompt: bool
    """Of windows that do not count prompts (requests, answer tokens), one must be left."""
    limit: float | None = None
    """Its size when whole, if it refills steadily from `told_at` on."""
    told_at: float = 0.0

    def wait(self, prompt_tokens: float, now: float) -> float:
        needed = prompt_tokens if self.counts_prompt else 1.0
        missing = needed - self.left
        if missing <= 0:
            return 0.0
        opens_at = self.resets_at
        if self.limit is not None and self.left < needed <= self.limit:
            opens_at = self.told_at + (self.resets_at - self.told_at) * missing / (self.limit - self.left)
        return max(0.0, opens_at - now)


class WorkRatio(NamedTuple):
    """Calls and output relative to what was expected; 1 until known."""

    calls: float = 1.0
    output: float = 1.0


class TargetStatus(Struct, frozen=True):
    """A target as it is now.

    `closed_seconds`: how long it asked to be left alone or, with `is_over_max_wait`, by how much its wait exceeds the config's
    (which refuses no request). `wait_because` explains a wait other than a queue, `is_resting` a rest of our own making.
    `may_probe`: a request that nothing else can serve may try it anyway.
    """

    target: Target
    speed: Speed
    wait_seconds: float = 0.0
    in_flight: int = 0
    ratio: WorkRatio = WorkRatio()
    closed_seconds: float = 0.0
    wait_because: str = ""
    is_resting: bool = False
    is_over_max_wait: bool = False
    failures: Mapping[str, FailureRates] = NOTHING_LEARNED
    """For a fast target: how often each deep target has to redo its work."""
    may_probe: bool = False
    loading: str = ""
    """What it says while it loads its model."""
    window_to_try: int = 0
    """The configured window, when a smaller one that it named is to be checked again."""
    used_up: str = ""
    """Why the caller's own plan is left alone, in words for that person."""
    refusal: TandemError | None = None
    """What that plan itself answered, for a request that nothing else can serve."""

    def with_wait(self, seconds: float, because: str = "", *, is_resting: bool = False) -> "TargetStatus":
        """Set the wait. At deep it is weighed, never bounded: on fast a long task may have to be done twice."""
        status = replace(self, wait_seconds=seconds, wait_because=because, is_resting=is_resting)
        if self.is_over_max_wait:
            status = replace(status, closed_seconds=0.0, is_over_max_wait=False)
        most = self.target.max_wait_seconds
        if most is None or self.target.tier is not Tier.FAST or seconds <= most or status.closed_seconds:
            return status
        return replace(status, closed_seconds=seconds - most, is_over_max_wait=True)
