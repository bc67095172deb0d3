"""How much work each target makes of a turn: what it took over what was expected of those very turns.

Never a plain mean for each target: deep gets the long turns, and would be charged for them.
"""

from collections import defaultdict
from collections.abc import Iterable
from typing import NamedTuple

from router.contract.economics import Economics
from router.contract.entry import FinishedWork
from router.contract.target import WorkRatio

_PRIOR_TURNS = 20.0
"""What "as expected" weighs: few turns change little."""
_MAX_RATIO = 3.0


class _Sums(NamedTuple):
    turns: int = 0
    calls: float = 0.0
    expected_calls: float = 0.0
    output: float = 0.0
    expected_output: float = 0.0


def learn_ratios(turns: Iterable[FinishedWork], economics: Economics) -> dict[str, WorkRatio]:
    """The ratios of every target that finished turns of its own."""
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
    """Seen over expected, as if some turns more had gone as expected, and within bounds: models differ by a factor of three."""
    prior = _PRIOR_TURNS * expected / turns
    return min(_MAX_RATIO, max(1 / _MAX_RATIO, (seen + prior) / (expected + prior)))
