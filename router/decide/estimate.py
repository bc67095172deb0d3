"""Expected time and money to done, for each tier, and where the choice would flip.

`calls` and `output` are the same mix for both tiers, `(1-p)·quick + p·long`, so every figure is a polynomial in p. That
keeps the flip in closed form.
"""

import math
from dataclasses import dataclass
from typing import NamedTuple

from router.contract.decision import Estimate, Flip
from router.contract.target import Price, Standing

MILLION = 1_000_000.0


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

    @property
    def usd_per_second(self) -> float:
        return self.value_of_time_usd_per_hour / 3600.0


class Line(NamedTuple):
    """`at_zero + slope·p`: a figure that grows with the chance of a long task."""

    at_zero: float
    slope: float

    def at(self, p: float) -> float:
        return self.at_zero + self.slope * p


class Prospect(NamedTuple):
    """What a turn would take on one target, before any redo."""

    target: str
    wait_seconds: float
    seconds: Line
    money: Line
    has_price: bool


def foresee(standing: Standing, prompt_tokens: int, economics: Economics) -> Prospect:
    """The time and money of a turn on one target, its prompt cold."""
    pace = standing.pace
    start = standing.wait_seconds + prompt_tokens / pace.prefill_tokens_per_second
    quick, long = economics.quick, economics.long
    quick_seconds = start + quick.calls * pace.ttft_seconds + quick.output_tokens / pace.tokens_per_second
    long_seconds = start + long.calls * pace.ttft_seconds + long.output_tokens / pace.tokens_per_second
    quick_money = _money(standing.target.price, prompt_tokens, quick)
    long_money = _money(standing.target.price, prompt_tokens, long)
    return Prospect(
        target=standing.target.name,
        wait_seconds=standing.wait_seconds,
        seconds=Line(quick_seconds, long_seconds - quick_seconds),
        money=Line(quick_money, long_money - quick_money),
        has_price=standing.target.price is not None,
    )


def _money(price: Price | None, prompt_tokens: int, size: TurnSize) -> float:
    """USD for a turn: the prefix once cold, then read from the cache by every further call. No price counts as none."""
    if price is None:
        return 0.0
    first = price.cache_write if price.cache_write is not None else price.input
    again = price.cached_input if price.cached_input is not None else price.input
    return (prompt_tokens * (first + again * max(size.calls - 1, 0)) + size.output_tokens * price.output) / MILLION


def weigh_alone(prospect: Prospect, p: float, economics: Economics) -> Estimate:
    """The estimate of a target whose work needs no redo."""
    seconds, money = prospect.seconds.at(p), prospect.money.at(p)
    cost = seconds * economics.usd_per_second + money
    return Estimate(prospect.target, seconds, money if prospect.has_price else None, cost, prospect.wait_seconds, 0.0)


def weigh_with_redo(fast: Prospect, deep: Prospect, p: float, economics: Economics) -> Estimate:
    """The estimate of fast: with the chance of a long task, deep does it again, after it was found and undone."""
    redo = p * economics.redo_factor * deep.seconds.at(p)
    seconds = fast.seconds.at(p) + redo
    money = fast.money.at(p) + p * deep.money.at(p)
    cost = seconds * economics.usd_per_second + money
    return Estimate(fast.target, seconds, money if fast.has_price else None, cost, fast.wait_seconds, redo)


def find_flip(fast: Prospect, deep: Prospect, p: float, economics: Economics) -> Flip:
    """The chance of a long task, and the wait on fast, at which both tiers cost the same. None where there is none."""
    rate, factor = economics.usd_per_second, economics.redo_factor
    # cost(fast) - cost(deep) = square·p² + linear·p + constant
    square = rate * factor * deep.seconds.slope + deep.money.slope
    linear = (
        rate * (fast.seconds.slope - deep.seconds.slope + factor * deep.seconds.at_zero)
        + fast.money.slope
        - deep.money.slope
        + deep.money.at_zero
    )
    constant = rate * (fast.seconds.at_zero - deep.seconds.at_zero) + fast.money.at_zero - deep.money.at_zero
    roots = [root for root in _roots(square, linear, constant) if 0.0 < root < 1.0]
    gap = (square * p + linear) * p + constant
    wait = fast.wait_seconds - gap / rate if rate > 0 else -1.0
    return Flip(
        score=min(roots, key=lambda root: abs(root - p)) if roots else None,
        fast_wait_seconds=wait if wait >= 0 else None,
    )


def _roots(square: float, linear: float, constant: float) -> tuple[float, ...]:
    if abs(square) < 1e-15:
        return () if abs(linear) < 1e-15 else (-constant / linear,)
    discriminant = linear * linear - 4 * square * constant
    if discriminant < 0:
        return ()
    # The form that subtracts no two nearly equal numbers.
    half = -0.5 * (linear + math.copysign(math.sqrt(discriminant), linear))
    return (half / square,) if half == 0 else (half / square, constant / half)
