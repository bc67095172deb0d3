"""How well scores and choices fit how the turns ended. Every figure is taken on clear items."""

import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from router.contract.target import Speed
from router.contract.words import Tier
from router.decide.yardstick import Assumptions, regret_of, to_done, took

LONG_TO_FAST_COST, QUICK_TO_DEEP_COST = regret_of(Tier.FAST, is_long=True), regret_of(Tier.DEEP, is_long=False)
"""Regret: what a wrong choice costs, as `balanced` weighs it."""
_LEAST_IN_REPO = 10
_RELIABILITY_BINS = 10


class Judged(NamedTuple):
    """One item with the score and the choice that it got."""

    source: str
    repo: str
    is_long: bool
    score: float
    is_fast: bool
    characters: int
    calls: int | None = None
    """The calls of the model that it took, where that was recorded."""


class Pace(NamedTuple):
    """What time to done is measured by: the speed of each tier, and what is assumed of wrong answers."""

    fast: Speed
    deep: Speed
    assumed: Assumptions = Assumptions()


@dataclass(frozen=True, slots=True)
class Figures:
    """The figures of one set of judged items. A figure that the set cannot show is None."""

    items: int
    long_share: float
    auroc: float | None
    auroc_within: float | None
    accuracy: float
    regret: float
    regret_always_deep: float
    regret_always_fast: float
    fast_share: float
    quick_precision: float | None
    quick_recall: float | None
    long_recall: float | None
    quick_precision_at_28: float | None
    calibration_error: float
    brier: float
    auroc_of_length: float | None


def split_by_set(judged: Sequence[Judged]) -> dict[str, list[Judged]]:
    """Real prompts first, then agent sessions: they are what a router sees. Then each other set, then all."""
    sets: dict[str, list[Judged]] = {}
    for source in sorted({entry.source for entry in judged}, key=_order):
        sets[source] = [entry for entry in judged if entry.source == source]
    return {**sets, "all": list(judged)} if len(sets) > 1 else sets


def _order(name: str) -> tuple[int, str]:
    starts = ("real prompts", "agent_session")
    return next((index for index, start in enumerate(starts) if name.startswith(start)), len(starts)), name


def measure(judged: Sequence[Judged]) -> Figures:
    """All figures of a set that is not empty."""
    count = len(judged)
    long = sum(entry.is_long for entry in judged)
    fast = [entry for entry in judged if entry.is_fast]
    quick_on_fast = sum(not entry.is_long for entry in fast)
    by_score = sorted(judged, key=lambda entry: entry.score)[: math.ceil(count * 0.28)]
    return Figures(
        items=count,
        long_share=long / count,
        auroc=auroc([(entry.score, entry.is_long) for entry in judged]),
        auroc_within=auroc_within(judged),
        accuracy=sum(entry.is_fast != entry.is_long for entry in judged) / count,
        regret=regret(judged),
        regret_always_deep=QUICK_TO_DEEP_COST * (count - long) / count,
        regret_always_fast=LONG_TO_FAST_COST * long / count,
        fast_share=len(fast) / count,
        quick_precision=quick_on_fast / len(fast) if fast else None,
        quick_recall=quick_on_fast / (count - long) if count > long else None,
        long_recall=1 - (len(fast) - quick_on_fast) / long if long else None,
        quick_precision_at_28=sum(not entry.is_long for entry in by_score) / len(by_score),
        calibration_error=_calibration_error(judged),
        brier=sum((entry.score - entry.is_long) ** 2 for entry in judged) / count,
        auroc_of_length=auroc([(float(entry.characters), entry.is_long) for entry in judged]),
    )


@dataclass(frozen=True, slots=True)
class ToDone:
    """Time to done of a set, over the items whose calls were recorded, and wrong first answers, over all items."""

    items: int
    seconds: float | None
    """The mean, as chosen; then all on deep, and all on fast."""
    seconds_always_deep: float | None
    seconds_always_fast: float | None
    against_deep: float | None
    """As chosen, divided by all on deep; then the same for all on fast."""
    fast_against_deep: float | None
    wrong_per_100: float
    wrong_per_100_always_fast: float


def measure_to_done(judged: Sequence[Judged], pace: Pace) -> ToDone:
    """How long the turns of a set that is not empty take until they are done, by the yardstick."""
    assumed = pace.assumed
    chances = [(entry.is_fast, assumed.chance(float(entry.is_long))) for entry in judged]
    chosen = always_deep = always_fast = 0.0
    counted = [entry for entry in judged if entry.calls is not None]
    for entry in counted:
        calls, p = float(entry.calls or 0), float(entry.is_long)
        fast, deep = took(pace.fast, calls), took(pace.deep, calls)
        on_fast, on_deep = (to_done(tier, fast, deep, p, assumed).seconds for tier in (Tier.FAST, Tier.DEEP))
        chosen += on_fast if entry.is_fast else on_deep
        always_fast += on_fast
        always_deep += on_deep
    count = len(counted)
    return ToDone(
        items=count,
        seconds=chosen / count if count else None,
        seconds_always_deep=always_deep / count if count else None,
        seconds_always_fast=always_fast / count if count else None,
        against_deep=chosen / always_deep if count else None,
        fast_against_deep=always_fast / always_deep if count else None,
        wrong_per_100=100 * sum(chance for is_fast, chance in chances if is_fast) / len(judged),
        wrong_per_100_always_fast=100 * sum(chance for _, chance in chances) / len(judged),
    )


def regret(judged: Sequence[Judged], threshold: float | None = None) -> float:
    """The mean cost of the choices made, or of sending everything that scores below a threshold to fast."""
    cost = 0.0
    for entry in judged:
        is_fast = entry.is_fast if threshold is None else entry.score < threshold
        if is_fast and entry.is_long:
            cost += LONG_TO_FAST_COST
        elif not is_fast and not entry.is_long:
            cost += QUICK_TO_DEEP_COST
    return cost / len(judged)


def auroc(pairs: Sequence[tuple[float, bool]]) -> float | None:
    """The chance that a long item scores above a quick one; ties count half. None when one kind is absent."""
    ordered = sorted(pairs)
    long = sum(is_long for _, is_long in ordered)
    quick = len(ordered) - long
    if not long or not quick:
        return None
    ranks = 0.0
    begin = 0
    while begin < len(ordered):
        end = begin
        while end < len(ordered) and ordered[end][0] == ordered[begin][0]:
            end += 1
        ranks += sum(is_long for _, is_long in ordered[begin:end]) * (begin + end + 1) / 2
        begin = end
    return (ranks - long * (long + 1) / 2) / (long * quick)


def auroc_within(judged: Sequence[Judged]) -> float | None:
    """AUROC inside one repository, over those with ten items and both kinds, each counting its pairs."""
    groups: dict[str, list[tuple[float, bool]]] = defaultdict(list)
    for entry in judged:
        groups[entry.repo].append((entry.score, entry.is_long))
    total = pairs = 0.0
    for group in groups.values():
        found = auroc(group)
        if found is not None and len(group) >= _LEAST_IN_REPO:
            long = sum(is_long for _, is_long in group)
            total += found * long * (len(group) - long)
            pairs += long * (len(group) - long)
    return total / pairs if pairs else None


def reliability(judged: Sequence[Judged]) -> list[tuple[float, float, int]]:
    """Mean score, share of long tasks and count, in ten steps of the score; empty steps are left out."""
    bins: dict[int, list[Judged]] = defaultdict(list)
    for entry in judged:
        bins[min(int(entry.score * _RELIABILITY_BINS), _RELIABILITY_BINS - 1)].append(entry)
    return [
        (sum(e.score for e in group) / len(group), sum(e.is_long for e in group) / len(group), len(group))
        for _, group in sorted(bins.items())
    ]


def _calibration_error(judged: Sequence[Judged]) -> float:
    return sum(abs(mean - share) * count for mean, share, count in reliability(judged)) / len(judged)


def cost_curve(judged: Sequence[Judged], steps: int = 60) -> list[tuple[float, float]]:
    """Regret by the score below which turns go to fast."""
    return [(step / steps, regret(judged, step / steps)) for step in range(steps + 1)]
