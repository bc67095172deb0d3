"""What the ledger teaches about targets. Work is relative to expectation: a plain mean would charge deep for long turns."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from router.contract.economics import ASSUMED_RATES, Economics, FailureRates
from router.contract.entry import FinishedWork
from router.contract.target import WorkRatio

_PRIOR_TURNS = 20.0
"""Weight of "as expected", in turns: few turns change little."""
_MAX_RATIO = 3.0
_PRIOR_FAILURES = 300.0
"""In turns of each kind. High: a silent person is not always content."""
_MAX_FACTOR = 1.5
"""Bounds learned rates to 2/3 and 3/2 of the assumed ones."""
_STEPS = 20


class _Sums(NamedTuple):
    turns: int = 0
    calls: float = 0.0
    expected_calls: float = 0.0
    output: float = 0.0
    expected_output: float = 0.0


def learn_ratios(turns: Iterable[FinishedWork], economics: Economics) -> dict[str, WorkRatio]:
    sums: defaultdict[str, _Sums] = defaultdict(_Sums)
    quick, long = economics.quick, economics.long
    for turn in turns:
        p, known = turn.score, sums[turn.target]
        sums[turn.target] = _Sums(
            known.turns + 1,
            known.calls + turn.calls,
            known.expected_calls + (1 - p) * quick.calls + p * long.calls,
            known.output + turn.output_tokens,
            known.expected_output + (1 - p) * quick.output_tokens + p * long.output_tokens,
        )
    return {
        target: WorkRatio(
            _shrink(known.calls, known.expected_calls, known.turns), _shrink(known.output, known.expected_output, known.turns)
        )
        for target, known in sums.items()
    }


def _shrink(seen: float, expected: float, turns: int) -> float:
    """Seen over expected, shrunk towards 1 and bounded: models differ by a factor of three."""
    prior = _PRIOR_TURNS * expected / turns
    return min(_MAX_RATIO, max(1 / _MAX_RATIO, (seen + prior) / (expected + prior)))


def learn_failures(turns: Iterable[FinishedWork]) -> dict[str, dict[str, FailureRates]]:
    """How often each fast target's work was redone, by the deep target that would have served."""
    pairs: defaultdict[str, defaultdict[str, list[FinishedWork]]] = defaultdict(lambda: defaultdict(list))
    for turn in turns:
        if turn.deep_target:
            pairs[turn.target][turn.deep_target].append(turn)
    return {fast: {deep: _fit_rates(seen) for deep, seen in by_deep.items()} for fast, by_deep in pairs.items()}


def _fit_rates(turns: Sequence[FinishedWork]) -> FailureRates:
    """Fit both rates by EM: of each turn only the chance of being long is known."""
    failed = [turn.score for turn in turns if turn.has_failed]
    long_turns = sum(turn.score for turn in turns)
    quick_turns = len(turns) - long_turns
    quick, long = ASSUMED_RATES.quick, ASSUMED_RATES.long
    for _ in range(_STEPS):
        long_failed = sum(p * long / (p * long + (1 - p) * quick) for p in failed)
        long = _shrink_rate(long_failed, long_turns, ASSUMED_RATES.long)
        quick = _shrink_rate(len(failed) - long_failed, quick_turns, ASSUMED_RATES.quick)
    return FailureRates(quick, long, len(turns))


def _shrink_rate(failed: float, turns: float, assumed: float) -> float:
    rate = (failed + _PRIOR_FAILURES * assumed) / (turns + _PRIOR_FAILURES)
    return min(_MAX_FACTOR * assumed, max(assumed / _MAX_FACTOR, rate))
