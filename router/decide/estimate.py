"""Expected time and money to done, for each tier, and where the choice would flip.

`calls` and `output` are the same mix for both tiers, `(1-p)·quick + p·long`, times each target's own learned ratio, and so are
the chance that fast's work must be done again and what that costs: every figure is a polynomial in p. That keeps the flip in
closed form.
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
_price_of = attrgetter("target.price")
_speed_of, _ratio_of, _wait_of = attrgetter("speed"), attrgetter("ratio"), attrgetter("wait_seconds")
_ALIKE = 1.1
"""A target that costs at most this many times as much as the cheapest of its tier is as good."""


class Worth(Protocol):
    """What must be known of the economics to weigh projections: it is kept with every decision."""

    @property
    def usd_per_second(self) -> float: ...


class _Rates(NamedTuple):
    """What a turn takes of a target, apart from its speed and the prompt. `more_` is by how much more when it is long."""

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
    """Worked out once for a price and a ratio.

    What is cold of the prompt is written to the cache once, then all of it is read from there by every further call.
    """
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
    """The time and money of a turn on one target. What it still has warm of the prompt costs no reading and little money."""
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
    """What a turn costs on a target, but for its wait, the prompt and the score."""

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
    """Worked out once for a target, until it is called again and its speed changes."""
    calls, output, more_calls, more_output, *usd = _rates(economics, price, ratio)
    ttft, tokens_per_second, prefill = speed
    work = calls * ttft + output / tokens_per_second
    return _Terms(work, more_calls * ttft + more_output / tokens_per_second, prefill, *usd)


def _costs(names: Sequence[str], signals: Signals, hop_seconds: float, p: float, economics: Economics) -> dict[str, float]:
    """What a turn would cost on each target in USD: to the last bit what `weigh` makes of `project`.

    Only the target that wins is projected. The others need a place in the order, and where there are fifty of them every step
    counts: all columns are taken from the targets without a step of Python for each.
    """
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
    """Put the open targets of a tier in order."""
    now_on = signals.turn.position.tier
    hop_seconds = 0.0 if now_on is None or now_on is tier else economics.hop_seconds
    names = signals.names_of(tier)
    if ruled_out:
        names = tuple([name for name in names if name not in ruled_out])
    if len(names) < 2:
        return Ranked(names, hop_seconds)
    costs = _costs(names, signals, hop_seconds, p, economics)
    return Ranked(tuple(sorted(costs, key=costs.__getitem__)), hop_seconds, costs)


def project_first(ranked: Ranked, signals: Signals, economics: Economics) -> Projection:
    """What the turn would take on the cheapest target of a tier."""
    name, warm = ranked.names[0], signals.turn.position.warm
    return project(signals.statuses[name], signals.prompt.tokens, economics, warm.get(name, 0), ranked.hop_seconds)


def count_alike(ranked: Ranked, signals: Signals, p: float, economics: Economics) -> int:
    """How many of a tier's targets, cheapest first, are as good as the first. A session stays where its prefix is warm."""
    names, costs = ranked.names, ranked.costs
    if costs is None or ranked.hop_seconds:
        costs = _costs(names, signals, 0.0, p, economics)
    max_cost, warm = costs[names[0]] * _ALIKE, signals.turn.position.warm
    alike = len(list(takewhile(max_cost.__ge__, map(costs.__getitem__, names))))
    if warm and alike > 1:
        most = warm.get(names[0], 0)
        return len(list(takewhile(lambda name: warm.get(name, 0) >= most, names[:alike])))
    return alike


_weights: Callable[[Preference, FailureRates], RedoWeights] = lru_cache(maxsize=256)(weigh_redo)


def price_redo(fast: Projection, deep: Projection, rates: FailureRates, preference: Preference) -> Redo:
    """What a wrong first answer of fast costs: what fast saves in several right ones, and at least the turn on deep.

    It is in proportion to the work. Waits and warm caches are not in it: they count once, and not again for a redo.
    Deep's money counts at least once where the turn is long; that of a quick turn must not take it from fast.
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
    usd = max(0.0, (deep_usd - fast.usd) * money)
    long_usd = max(long_deep_usd, (long_deep_usd - fast.usd - fast.usd_slope) * money)
    return Redo(quick_rate, long_rate, seconds, long_seconds - seconds, usd, long_usd - usd, turns)


def chance_of_redo(redo: Redo, p: float) -> float:
    """The chance that fast's first answer is wrong, for a turn that is long with the chance p."""
    return redo.quick_rate + (redo.long_rate - redo.quick_rate) * p


def costs_of(fast: Projection, deep: Projection, redo: Redo, p: float, worth: Worth) -> tuple[float, float]:
    """The cost of a turn in USD on fast and on deep: what the estimates say of it, without making them."""
    rate = worth.usd_per_second
    chance = redo.quick_rate + (redo.long_rate - redo.quick_rate) * p
    again = chance * ((redo.seconds + redo.seconds_slope * p) * rate + redo.usd + redo.usd_slope * p)
    fast_usd, deep_usd = fast.usd + fast.usd_slope * p, deep.usd + deep.usd_slope * p
    fast_seconds, deep_seconds = fast.seconds + fast.seconds_slope * p, deep.seconds + deep.seconds_slope * p
    return fast_seconds * rate + fast_usd + again, deep_seconds * rate + deep_usd


def worth_waiting(decision: Decision) -> float:
    """How long a wait at the chosen target may become until the other tier is the better choice.

    Any wait is, where somebody asked for this tier or no other can serve.
    """
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
    """What a decision was weighed by or, where somebody insisted, would have been."""
    if decision.weighing is not None:
        return decision.weighing
    signals, score, economics, ranked = decision.signals, decision.score, decision.economics, decision.ranked
    if ranked is None:
        ruled_out = {opinion.target for _, opinion in decision.opinions.ruled_out}
        fast = rank_tier(signals, ruled_out, Tier.FAST, score, economics)
        ranked = fast, rank_tier(signals, ruled_out, Tier.DEEP, score, economics)
    return weigh_up(*ranked, signals, economics)


def weigh_up(fast: Ranked, deep: Ranked, signals: Signals, economics: Economics) -> Weighing:
    """The cheapest of each tier, and what a redo would cost between the two."""
    first_fast = project_first(fast, signals, economics) if fast.names else None
    first_deep = project_first(deep, signals, economics) if deep.names else None
    if first_fast is None or first_deep is None:
        return Weighing(first_fast, first_deep, len(fast.names) > 1)
    return Weighing(first_fast, first_deep, len(fast.names) > 1, redo_between(first_fast, first_deep, signals, economics))


_NO_REDO = Redo(0.0, 0.0, 0.0, 0.0, 0.0, 0.0)


def redo_between(fast: Projection, deep: Projection, signals: Signals, economics: Economics) -> Redo:
    """What a wrong first answer costs, by what has been learned of these two targets. Nobody asks for a poor title again."""
    if signals.turn.kind is TurnKind.SIDE:
        return _NO_REDO
    rates = signals.statuses[fast.target].failures.get(deep.target, ASSUMED_RATES)
    return price_redo(fast, deep, rates, economics.preference)


def estimates_of(weighing: Weighing, p: float, worth: Worth) -> dict[Tier, Estimate]:
    """Expected time and money of each tier that has an open target."""
    fast, deep, redo = weighing.fast, weighing.deep, weighing.redo
    if deep is None:
        return {} if fast is None else {Tier.FAST: weigh(fast, p, worth)}
    if fast is None or redo is None:
        return {Tier.DEEP: weigh(deep, p, worth)}
    return {Tier.FAST: weigh(fast, p, worth, redo), Tier.DEEP: weigh(deep, p, worth)}


def flip_of(weighing: Weighing, p: float, worth: Worth) -> Flip:
    """What would have changed the tier. With one tier alone, nothing."""
    if weighing.fast is None or weighing.deep is None or weighing.redo is None:
        return Flip(None, None)
    flip = find_flip(weighing.fast, weighing.deep, weighing.redo, p, worth)
    # With a second fast target, a queue at the first moves the work to that one, not to the other tier.
    return Flip(flip.score, None) if weighing.has_other_fast else flip


def weigh(projection: Projection, p: float, worth: Worth, redo: Redo | None = None) -> Estimate:
    """The estimate of a target: its own work and, with the chance of a wrong first answer of fast, what that costs."""
    seconds = projection.seconds + projection.seconds_slope * p
    usd = projection.usd + projection.usd_slope * p
    again = 0.0
    if redo is not None:
        chance = chance_of_redo(redo, p)
        again = chance * (redo.seconds + redo.seconds_slope * p)
        seconds += again
        usd += chance * (redo.usd + redo.usd_slope * p)
    return Estimate(
        projection.target,
        seconds,
        usd if projection.has_price else None,
        seconds * worth.usd_per_second + usd,
        projection.wait_seconds,
        again,
        projection.ratio,
    )


def find_flip(fast: Projection, deep: Projection, redo: Redo, p: float, worth: Worth) -> Flip:
    """The chance of a long task, and the wait on fast, at which both tiers cost the same. None where no value does."""
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
