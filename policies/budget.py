"""Prefers fast near the end of a caller's budget. In use where a key has one (`budgets.near: lean`); no config lists it."""

from collections.abc import Callable
from typing import ClassVar

from router.contract.opinions import BUDGET, Lean, Opinion, PolicyConfig, RuleOut
from router.contract.request import RequestView
from router.contract.signals import Signals
from router.contract.spending import Standing
from router.contract.words import Tier

_LOG_ODDS = -2.0
"""What is not clearly a long task goes to fast."""
_ONLY_FAST_FROM = 0.95


class BudgetPolicy:
    """Leans to fast, and then rules deep out as long as fast can serve and nobody asked for deep.

    Unlike other policies it reads what changes with every request: what is left.
    """

    name: ClassVar[str] = BUDGET
    Config: ClassVar[type[PolicyConfig]] = PolicyConfig

    def __init__(self, read: Callable[[RequestView, Signals], Standing | None], near_from: float) -> None:
        self._read, self._near_from, self._only_fast_from = read, near_from, max(near_from, _ONLY_FAST_FROM)

    def judge(self, request: RequestView, signals: Signals) -> tuple[Opinion, ...]:
        standing = self._read(request, signals)
        if standing is None:
            return ()
        share = standing.share
        # Rounded down: 100 % is for a budget that is spent to the last cent.
        spent = f"{int(share * 100)} % of {standing.period.possessive} budget is spent"
        deep = [name for name, status in signals.statuses.items() if status.target.tier is Tier.DEEP]
        because = "what is left of your budget does not cover it"
        if share >= self._only_fast_from:
            because = spent
        else:
            deep = [name for name in deep if name in standing.uncovered]
        out = tuple(RuleOut(name, because, lasting=False, yields=True) for name in deep)
        return (Lean(_LOG_ODDS, spent), *out) if share >= self._near_from else out
