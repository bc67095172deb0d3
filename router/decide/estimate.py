"""Expected time and money of each tier until a turn is done, and where the choice flips.

Calls and output are `(1-p)·quick + p·long` on both tiers, times each target's learned ratio. Redo depends on p alone too, so
every figure is a polynomial in p and the flip has a closed form.
"""

import math
from collections.abc import Callable, Container, Iterable, Sequence
from functools import lru_cache
from itertools import repeat, takewhile
from operator import attrgetter
from typing import NamedTuple, Protocol

from router.contract.decision import Decision, Estimate, Flip, Projection, Ranked, Redo, Weighing
from router.contract.economics import ASSUMED_RATES, Economics, FailureRates, RedoWeights, weigh_redo
from router.contract.signals import Signals
from router.contract.target import LEAST_STEP_TOKENS, Price, Speed, TargetStatus, WorkRatio
from router.contract.words import Preference, Tier, TurnKind

_MILLION = 1_000_000.0
_SIDE = TurnKind.SIDE
_price_of = attrgetter("target.price")
_speed_of, _ratio_of, _wait_of = attrgetter("speed"), attrgetter("ratio"), attrgetter("wait_seconds")
_ALIKE = 1.1
"""A target at up to this many times the cost of its tier's cheapest is as good."""


class Worth(Protocol):
    """Economics kept with every decision."""

    @property
    def usd_per_second(self) -> float: ...


class _Rates(NamedTuple):
    """A turn on a target, apart from speed and prompt. `more_`: what a long turn adds."""

    calls: float
    output_tokens: float
    more_calls: float
    more_output_tokens: float
    usd: float = 0.0
    usd_per_cold_token: float = 0.0
    usd_per_prompt_token: float = 0.0
    more_usd: float = 0.0
    more_usd_per_prompt_token: float = 0.0


@lru_cache(maxsize=256)
def _rates(economics: Economics, price: Price | None, ratio: WorkRatio) -> _Rates:
    """The prompt's cold part is written to the cache once; every further call reads all of it from there."""
    calls, output = economics.quick.calls * ratio.calls, economics.quick.output_tokens * ratio.output
    more_calls = economics.long.calls * ratio.calls - calls
    more_output = economics.long.output_tokens * ratio.output - output
    if price is None:
        return _Rates(calls, output, more_calls, more_output)
    write, read, answer = price.write / _MILLION, price.read / _MILLION, price.output / _MILLION
    again, long_again = max(calls - 1, 0), max(calls + more_calls - 1, 0)
    return _Rates(
        calls,
        output,
        more_calls,
        more_output,
        usd=output * answer,
        usd_per_cold_token=write - read,
        usd_per_prompt_token=(1 + again) * read,
        more_usd=more_output * answer,
        more_usd_per_prompt_token=(long_again - again) * read,
    )


def project(
    status: TargetStatus, prompt_tokens: int, economics: Economics, warm_tokens: int = 0, hop_seconds: float = 0.0
) -> Projection:
    """A turn on one target. The warm part of its prompt costs no reading and little money."""
    target, (ttft, speed, prefill), wait, ratio = status.target, status.speed, status.wait_seconds, status.ratio
    price = target.price
    if prompt_tokens >= LEAST_STEP_TOKENS and price is not None and price.steps:
        price = price.at(prompt_tokens)
    calls, output, more_calls, more_output, usd, per_cold, per_prompt, more_usd, more_per_prompt = _rates(
        economics, price, ratio
    )
    cold_tokens = prompt_tokens - warm_tokens if prompt_tokens > warm_tokens else 0
    work = calls * ttft + output / speed
    return Projection(
        target.name,
        wait,
        wait + hop_seconds + cold_tokens / prefill + work,
        more_calls * ttft + more_output / speed,
        usd + cold_tokens * per_cold + prompt_tokens * per_prompt,
        more_usd + prompt_tokens * more_per_prompt,
        price is not None,
        ratio,
        prompt_tokens / prefill + work,
    )


class _Terms(NamedTuple):
    work_seconds: float
    more_seconds: float
    prefill: float
    usd: float
    usd_per_cold_token: float
    usd_per_prompt_token: float
    more_usd: float
    more_usd_per_prompt_token: float


@lru_cache(maxsize=1024)
def _terms(economics: Economics, price: Price | None, speed: Speed, ratio: WorkRatio) -> _Terms:
    """Cached until the target's speed changes with its next call."""
    calls, output, more_calls, more_output, *usd = _rates(economics, price, ratio)
    ttft, tokens_per_second, prefill = speed
    work = calls * ttft + output / tokens_per_second
    return _Terms(work, more_calls * ttft + more_output / tokens_per_second, prefill, *usd)


def _costs(names: Sequence[str], signals: Signals, hop_seconds: float, p: float, economics: Economics) -> dict[str, float]:
    """To the last bit `weigh` of `project`. With fifty targets every step counts: no Python step for each."""
    prompt_tokens, rate = signals.prompt.tokens, economics.usd_per_second
    statuses = [*map(signals.statuses.__getitem__, names)]
    prices: Iterable[Price | None] = map(_price_of, statuses)
    if prompt_tokens >= LEAST_STEP_TOKENS:
        prices = [price.at(prompt_tokens) if price is not None and price.steps else price for price in prices]
    terms = map(_terms, repeat(economics), prices, map(_speed_of, statuses), map(_ratio_of, statuses))
    colds = {name: max(prompt_tokens - tokens, 0) for name, tokens in signals.turn.position.warm.items()}
    columns = zip(names, map(_wait_of, statuses), map(colds.get, names, repeat(prompt_tokens)), terms, strict=True)
    return {
        name: (wait + hop_seconds + cold / prefill + work + slope * p) * rate
        + (usd + cold * per_cold + prompt_tokens * per_prompt + (more_usd + prompt_tokens * more_per_prompt) * p)
        for name, wait, cold, (work, slope, prefill, usd, per_cold, per_prompt, more_usd, more_per_prompt) in columns
    }


def rank_tier(signals: Signals, ruled_out: Container[str], tier: Tier, p: float, economics: Economics) -> Ranked:
    now_on = signals.turn.position.tier
    hop_seconds = 0.0 if now_on is None or now_on is tier else economics.hop_seconds
    names = signals.names_of(tier)
    if ruled_out:
        names = tuple([name for name in names if name not in ruled_out])
    if len(names) < 2:
        return Ranked(names, hop_seconds)
    costs = _costs(names, signals, hop_seconds, p, economics)
    ordered = sorted(costs, key=costs.__getitem__)
    if signals.own_plans:
        ordered.sort(key=lambda name: name not in signals.own_plans)
    return Ranked(tuple(ordered), hop_seconds, costs)


def project_first(ranked: Ranked, signals: Signals, economics: Economics) -> Projection:
    name, warm = ranked.names[0], signals.turn.position.warm
    return project(signals.statuses[name], signals.prompt.tokens, economics, warm.get(name, 0), ranked.hop_seconds)


def count_alike(ranked: Ranked, signals: Signals, p: float, economics: Economics) -> int:
    """How many of a tier's first targets are equally good. A session stays where its prefix is warm, and with its plan."""
    names, costs = ranked.names, ranked.costs
    if costs is None or ranked.hop_seconds:
        costs = _costs(names, signals, 0.0, p, economics)
    warm = signals.turn.position.warm
    alike = len(list(takewhile((costs[names[0]] * _ALIKE).__ge__, map(costs.__getitem__, names))))
    if signals.own_plans and names[0] in signals.own_plans:
        return 1
    if warm and alike > 1:
        most = warm.get(names[0], 0)
        return len(list(takewhile(lambda name: warm.get(name, 0) >= most, names[:alike])))
    return alike


_weights: Callable[[Preference, FailureRates], RedoWeights] = lru_cache(maxsize=256)(weigh_redo)


def price_redo(fast: Projection, deep: Projection, rates: FailureRates, preference: Preference) -> Redo:
    """Fast's wrong first answer costs what it saves in several right ones, and at least the turn on deep.

    In proportion to the work: waits and warm caches count once, not again for a redo. Deep's money counts at least once for
    long turns; a quick turn's must not take it from fast.
    """
    (time, money), (quick_rate, long_rate, turns) = _weights(preference, rates), rates
    deep_seconds, slope = deep.plain_seconds, deep.seconds_slope
    seconds = (deep_seconds - fast.plain_seconds) * time
    long_seconds = seconds + (slope - fast.seconds_slope) * time
    if seconds < deep_seconds:
        seconds = deep_seconds
    if long_seconds < deep_seconds + slope:
        long_seconds = deep_seconds + slope
    if not deep.has_price:
        return Redo(quick_rate, long_rate, seconds, long_seconds - seconds, 0.0, 0.0, turns)
    deep_usd = deep.usd
    long_deep_usd = deep_usd + deep.usd_slope
    usd = (deep_usd - fast.usd) * money
    if usd < 0.0:
        usd = 0.0
    long_usd = (long_deep_usd - fast.usd - fast.usd_slope) * money
    if long_usd < long_deep_usd:
        long_usd = long_deep_usd
    return Redo(quick_rate, long_rate, seconds, long_seconds - seconds, usd, long_usd - usd, turns)


def chance_of_redo(redo: Redo, p: float) -> float:
    return redo.quick_rate + (redo.long_rate - redo.quick_rate) * p


def costs_of(fast: Projection, deep: Projection, redo: Redo, p: float, worth: Worth) -> tuple[float, float]:
    """USD on fast and on deep, as in the estimates, without building them."""
    rate = worth.usd_per_second
    chance = redo.quick_rate + (redo.long_rate - redo.quick_rate) * p
    again = chance * ((redo.seconds + redo.seconds_slope * p) * rate + redo.usd + redo.usd_slope * p)
    fast_usd, deep_usd = fast.usd + fast.usd_slope * p, deep.usd + deep.usd_slope * p
    fast_seconds, deep_seconds = fast.seconds + fast.seconds_slope * p, deep.seconds + deep.seconds_slope * p
    return fast_seconds * rate + fast_usd + again, deep_seconds * rate + deep_usd


def worth_waiting(decision: Decision) -> float:
    """The wait at the chosen target beyond which the other tier is better; infinite if it was asked for or has no rival."""
    weighing = weighing_of(decision)
    fast, deep, redo = weighing.fast, weighing.deep, weighing.redo
    if decision.was_asked_for or not decision.spill or fast is None or deep is None or redo is None:
        return math.inf
    rate = decision.economics.usd_per_second
    if rate <= 0:
        return math.inf
    on_fast, on_deep = costs_of(fast, deep, redo, decision.score, decision.economics)
    chosen, lead = (fast, on_deep - on_fast) if decision.tier is Tier.FAST else (deep, on_fast - on_deep)
    return max(0.0, chosen.wait_seconds + lead / rate)


def weighing_of(decision: Decision) -> Weighing:
    """What a decision was weighed by or, after an insist, would have been."""
    if decision.weighing is not None:
        return decision.weighing
    signals, score, economics, ranked = decision.signals, decision.score, decision.economics, decision.ranked
    if ranked is None:
        ruled_out = {opinion.target for _, opinion in decision.opinions.ruled_out}
        fast = rank_tier(signals, ruled_out, Tier.FAST, score, economics)
        ranked = fast, rank_tier(signals, ruled_out, Tier.DEEP, score, economics)
    return weigh_up(*ranked, signals, economics)


def weigh_up(fast: Ranked, deep: Ranked, signals: Signals, economics: Economics) -> Weighing:
    first_fast = project_first(fast, signals, economics) if fast.names else None
    first_deep = project_first(deep, signals, economics) if deep.names else None
    if first_fast is None or first_deep is None:
        return Weighing(first_fast, first_deep, len(fast.names) > 1)
    redo = redo_between(first_fast, first_deep, signals, economics)
    return Weighing(first_fast, first_deep, len(fast.names) > 1, redo)


_NO_REDO = Redo(0.0, 0.0, 0.0, 0.0, 0.0, 0.0)


def redo_between(fast: Projection, deep: Projection, signals: Signals, economics: Economics) -> Redo:
    """The cost of a redo, by the rates learned for these two targets. People do not ask again for a poor title."""
    if signals.turn.kind is _SIDE:
        return _NO_REDO
    rates = signals.statuses[fast.target].failures.get(deep.target, ASSUMED_RATES)
    return price_redo(fast, deep, rates, economics.preference)


def estimates_of(weighing: Weighing, p: float, worth: Worth) -> dict[Tier, Estimate]:
    fast, deep, redo = weighing.fast, weighing.deep, weighing.redo
    if deep is None:
        return {} if fast is None else {Tier.FAST: weigh(fast, p, worth)}
    if fast is None or redo is None:
        return {Tier.DEEP: weigh(deep, p, worth)}
    return {Tier.FAST: weigh(fast, p, worth, redo), Tier.DEEP: weigh(deep, p, worth)}


def flip_of(weighing: Weighing, p: float, worth: Worth) -> Flip:
    if weighing.fast is None or weighing.deep is None or weighing.redo is None:
        return Flip(None, None)
    flip = find_flip(weighing.fast, weighing.deep, weighing.redo, p, worth)
    # A queue at the first fast target moves work to a second one, not to deep.
    return Flip(flip.score, None) if weighing.has_other_fast else flip


def weigh(projection: Projection, p: float, worth: Worth, redo: Redo | None = None) -> Estimate:
    """Own work and, for fast, the expected redo."""
    seconds = projection.seconds + projection.seconds_slope * p
    usd = projection.usd + projection.usd_slope * p
    again = again_usd = 0.0
    if redo is not None:
        chance = chance_of_redo(redo, p)
        again = chance * (redo.seconds + redo.seconds_slope * p)
        again_usd = chance * (redo.usd + redo.usd_slope * p)
        seconds += again
        usd += again_usd
    return Estimate(
        projection.target,
        seconds,
        usd if projection.has_price else None,
        seconds * worth.usd_per_second + usd,
        projection.wait_seconds,
        again,
        again_usd,
        projection.ratio,
    )


def find_flip(fast: Projection, deep: Projection, redo: Redo, p: float, worth: Worth) -> Flip:
    """The chance of a long task, and the wait on fast, at which both tiers cost as much."""
    rate = worth.usd_per_second
    quick_rate, more_rate = redo.quick_rate, redo.long_rate - redo.quick_rate
    again, more_again = rate * redo.seconds + redo.usd, rate * redo.seconds_slope + redo.usd_slope
    # cost(fast) - cost(deep) = square·p² + linear·p + constant
    square = more_rate * more_again
    linear = (
        rate * (fast.seconds_slope - deep.seconds_slope)
        + fast.usd_slope
        - deep.usd_slope
        + quick_rate * more_again
        + more_rate * again
    )
    constant = rate * (fast.seconds - deep.seconds) + fast.usd - deep.usd + quick_rate * again
    root = _find_root(square, linear, constant, p)
    wait = fast.wait_seconds - ((square * p + linear) * p + constant) / rate if rate > 0 else -1.0
    return Flip(root, wait if wait >= 0 else None)


def _find_root(square: float, linear: float, constant: float, p: float) -> float | None:
    """The root between 0 and 1 nearest to `p`."""
    if abs(square) < 1e-15:
        roots = [] if abs(linear) < 1e-15 else [-constant / linear]
    else:
        discriminant = linear * linear - 4 * square * constant
        if discriminant < 0:
            return None
        # This form subtracts no two nearly equal numbers.
        half = -0.5 * (linear + math.copysign(math.sqrt(discriminant), linear))
        roots = [half / square] if half == 0 else [half / square, constant / half]
    return min([root for root in roots if 0.0 < root < 1.0], key=lambda root: abs(root - p), default=None)
