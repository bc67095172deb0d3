"""Every figure of judged items: those of `tandem eval`, and what a maintainer compares weights and preferences by."""

import math
from collections import defaultdict
from collections.abc import Sequence
from typing import NamedTuple

from router.contract.target import Speed
from router.contract.words import Tier
from router.decide.yardstick import Assumptions, regret_of, to_done, took
from router.past.figures import Judged, auroc, measure, share

LONG_TO_FAST_COST, QUICK_TO_DEEP_COST = regret_of(Tier.FAST, is_long=True), regret_of(Tier.DEEP, is_long=False)
"""Regret: what a wrong choice costs, as `balanced` weighs it."""
_LEAST_IN_REPO = 10
_RELIABILITY_BINS = 10
Figures = dict[str, float | None]


class Pace(NamedTuple):
    """What time to done is measured by: the speed of each tier, and what is assumed of wrong answers."""

    fast: Speed
    deep: Speed
    assumed: Assumptions = Assumptions()


def measure_all(judged: Sequence[Judged], pace: Pace) -> Figures:
    """All figures of a set that is not empty, by name. A figure that the set cannot show is None."""
    count, known = len(judged), measure(judged)
    long = sum(entry.item.is_long for entry in judged)
    fast = [entry for entry in judged if entry.is_fast]
    lowest = sorted(judged, key=lambda entry: entry.score)[: math.ceil(count * 0.28)]
    return {
        **known._asdict(),
        **measure_to_done(judged, pace),
        "long_share": long / count,
        "auroc_within": auroc_within(judged),
        "accuracy": sum(entry.is_fast != entry.item.is_long for entry in judged) / count,
        "regret": regret(judged),
        "regret_always_deep": QUICK_TO_DEEP_COST * (count - long) / count,
        "regret_always_fast": LONG_TO_FAST_COST * long / count,
        "quick_precision": share(sum(not entry.item.is_long for entry in fast), len(fast)),
        "quick_precision_at_28": share(sum(not entry.item.is_long for entry in lowest), len(lowest)),
        "calibration_error": sum(abs(mean - part) * size for mean, part, size in reliability(judged)) / count,
        "brier": sum((entry.score - entry.item.is_long) ** 2 for entry in judged) / count,
        "auroc_of_length": auroc([(float(len(entry.item.prompt)), entry.item.is_long) for entry in judged]),
    }


def measure_to_done(judged: Sequence[Judged], pace: Pace) -> Figures:
    """Mean time to done by the yardstick, over items whose calls were recorded, and wrong first answers, over all items."""
    assumed = pace.assumed
    wrong = [(entry.is_fast, assumed.chance(float(entry.item.is_long))) for entry in judged]
    chosen = always_deep = always_fast = 0.0
    timed = [(entry, float(entry.item.work_calls)) for entry in judged if entry.item.work_calls is not None]
    for entry, calls in timed:
        fast, deep = took(pace.fast, calls), took(pace.deep, calls)
        on_fast, on_deep = (
            to_done(tier, fast, deep, float(entry.item.is_long), assumed).seconds for tier in (Tier.FAST, Tier.DEEP)
        )
        chosen += on_fast if entry.is_fast else on_deep
        always_fast += on_fast
        always_deep += on_deep
    means = [seconds / len(timed) if timed else None for seconds in (chosen, always_deep, always_fast)]
    return {
        "timed_items": len(timed),
        **dict(zip(("seconds", "seconds_always_deep", "seconds_always_fast"), means, strict=True)),
        "against_deep": chosen / always_deep if timed else None,
        "fast_against_deep": always_fast / always_deep if timed else None,
        "wrong_per_100": 100 * sum(chance for is_fast, chance in wrong if is_fast) / len(judged),
        "wrong_per_100_always_fast": 100 * sum(chance for _, chance in wrong) / len(judged),
    }


def regret(judged: Sequence[Judged], threshold: float | None = None) -> float:
    """The mean cost of the choices made, or of sending everything that scores below a threshold to fast."""
    cost = 0.0
    for entry in judged:
        is_fast = entry.is_fast if threshold is None else entry.score < threshold
        cost += regret_of(Tier.FAST if is_fast else Tier.DEEP, is_long=entry.item.is_long)
    return cost / len(judged)


def auroc_within(judged: Sequence[Judged]) -> float | None:
    """AUROC inside one repository, over those with ten items and both kinds, each counting its pairs."""
    groups: dict[str, list[tuple[float, bool]]] = defaultdict(list)
    for entry in judged:
        groups[entry.item.repo].append((entry.score, entry.item.is_long))
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
        (sum(e.score for e in group) / len(group), sum(e.item.is_long for e in group) / len(group), len(group))
        for _, group in sorted(bins.items())
    ]


def cost_curve(judged: Sequence[Judged], steps: int = 60) -> list[tuple[float, float]]:
    """Regret by the score below which turns go to fast."""
    return [(step / steps, regret(judged, step / steps)) for step in range(steps + 1)]
