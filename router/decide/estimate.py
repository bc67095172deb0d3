"""Expected time and money to done, for each tier, and where the choice would flip.

`calls` and `output` are the same mix for both tiers, `(1-p)·quick + p·long`, times each target's own learned ratio, so every
figure is a polynomial in p. That keeps the flip in closed form.
"""

import math
from dataclasses import dataclass, field
from typing import NamedTuple

from router.contract.decision import Estimate, Flip
from router.contract.target import Price, TargetStatus, WorkRatio

_AS_EXPECTED = WorkRatio()


@dataclass(frozen=True, slots=True)
class TurnSize:
    """What a turn of one kind takes: calls of the model, and tokens that it writes."""

    calls: float
    output_tokens: float


@dataclass(frozen=True, slots=True)
class Economics:
    """The settings of the decision. `redo_factor` is that of the preference in force."""

    value_of_time_usd_per_hour: float
    redo_factor: float
    hop_seconds: float
    quick: TurnSize
    long: TurnSize
    base_rate: float
    personal_log_odds: float = 0.0
    usd_per_second: float = field(init=False)
    prior: float = field(init=False)
    """The log-odds of a long task before anything is known."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "usd_per_second", self.value_of_time_usd_per_hour / 3600.0)
        object.__setattr__(self, "prior", math.log(self.base_rate / (1 - self.base_rate)))


class Projection(NamedTuple):
    """What a turn would take on one target, before any redo: when it is quick, and by how much more when it is long."""

    target: str
    wait_seconds: float
    seconds: float
    seconds_slope: float
    usd: float
    usd_slope: float
    has_price: bool
    ratio: WorkRatio = WorkRatio()


def project(
    status: TargetStatus, prompt_tokens: int, economics: Economics, warm_tokens: int = 0, hop_seconds: float = 0.0
) -> Projection:
    """The time and money of a turn on one target. What it still has warm of the prompt costs no reading and little money."""
    target, (ttft, speed, prefill), wait, _, ratio = status
    quick, long = economics.quick, economics.long
    if ratio != _AS_EXPECTED:
        quick, long = (TurnSize(size.calls * ratio.calls, size.output_tokens * ratio.output) for size in (quick, long))
    cold_tokens = max(0, prompt_tokens - warm_tokens)
    seconds = wait + hop_seconds + cold_tokens / prefill + quick.calls * ttft + quick.output_tokens / speed
    slope = (long.calls - quick.calls) * ttft + (long.output_tokens - quick.output_tokens) / speed
    price = target.price
    if price is None:
        return Projection(target.name, wait, seconds, slope, 0.0, 0.0, has_price=False, ratio=ratio)
    usd = _money(price, prompt_tokens, cold_tokens, quick)
    more = _money(price, prompt_tokens, cold_tokens, long) - usd
    return Projection(target.name, wait, seconds, slope, usd, more, has_price=True, ratio=ratio)


def _money(price: Price, prompt_tokens: int, cold_tokens: int, size: TurnSize) -> float:
    """USD for a turn: what is cold is written once, then all of the prefix is read from the cache by every further call."""
    read_tokens = prompt_tokens - cold_tokens + prompt_tokens * max(size.calls - 1, 0)
    return price.cost_of_turn(written_tokens=cold_tokens, read_tokens=read_tokens, output_tokens=size.output_tokens)


def weigh(projection: Projection, p: float, economics: Economics) -> Estimate:
    """The estimate of a target whose work needs no redo."""
    target, wait, seconds, slope, usd, usd_slope, has_price, ratio = projection
    seconds += slope * p
    usd += usd_slope * p
    return Estimate(target, seconds, usd if has_price else None, seconds * economics.usd_per_second + usd, wait, 0.0, ratio)


def weigh_with_redo(projection: Projection, deep: Estimate, p: float, economics: Economics) -> Estimate:
    """The estimate of fast: with the chance of a long task, deep does it again, after it was found and undone."""
    target, wait, seconds, slope, usd, usd_slope, has_price, ratio = projection
    redo = p * economics.redo_factor * deep.seconds
    seconds += slope * p + redo
    usd += usd_slope * p + p * (deep.money_usd or 0.0)
    return Estimate(target, seconds, usd if has_price else None, seconds * economics.usd_per_second + usd, wait, redo, ratio)


def find_flip(fast: Projection, deep: Projection, p: float, economics: Economics) -> Flip:
    """The chance of a long task, and the wait on fast, at which both tiers cost the same. None where no value does."""
    rate, factor = economics.usd_per_second, economics.redo_factor
    _, wait, seconds, slope, usd, usd_slope, _, _ = fast
    _, _, deep_seconds, deep_slope, deep_usd, deep_usd_slope, _, _ = deep
    # cost(fast) - cost(deep) = square·p² + linear·p + constant
    square = rate * factor * deep_slope + deep_usd_slope
    linear = rate * (slope - deep_slope + factor * deep_seconds) + usd_slope - deep_usd_slope + deep_usd
    constant = rate * (seconds - deep_seconds) + usd - deep_usd
    root = _find_root(square, linear, constant, p)
    wait = wait - ((square * p + linear) * p + constant) / rate if rate > 0 else -1.0
    return Flip(root, wait if wait >= 0 else None)


def _find_root(square: float, linear: float, constant: float, p: float) -> float | None:
    """The root between 0 and 1 that is nearest to p."""
    if abs(square) < 1e-15:
        roots = [] if abs(linear) < 1e-15 else [-constant / linear]
    else:
        discriminant = linear * linear - 4 * square * constant
        if discriminant < 0:
            return None
        # The form that subtracts no two nearly equal numbers.
        half = -0.5 * (linear + math.copysign(math.sqrt(discriminant), linear))
        roots = [half / square] if half == 0 else [half / square, constant / half]
    return min([root for root in roots if 0.0 < root < 1.0], key=lambda root: abs(root - p), default=None)
