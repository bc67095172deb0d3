"""A running turn that goes wrong is longer than it looked."""

from typing import ClassVar

from router.contract.asked_again import is_same_ask
from router.contract.opinions import Lean, Opinion, PolicyConfig
from router.contract.request import RequestView
from router.contract.signals import Signals, Turn
from router.contract.words import Tier, TurnKind

_FAILED, _RED, _MOST = 1.5, 0.8, 3
"""Log-odds of each further failed call in a row, and of each further failed test run; no more than so many count."""
_CIRCLING, _REPEATS = 1.0, 4
"""Log-odds of one call that was made so often among ten, while it fails."""
_ASKED_AGAIN = 1.2
"""Log-odds of nearly the same request again after fast."""


class TrajectoryPolicy:
    """Leans to deep when a turn goes badly."""

    name: ClassVar[str] = "trajectory"
    Config: ClassVar[type[PolicyConfig]] = PolicyConfig

    def __init__(self, _: PolicyConfig) -> None: ...

    def judge(self, request: RequestView, signals: Signals) -> tuple[Opinion, ...]:
        turn = signals.turn
        if turn.history.last and _repeats_itself(turn):
            return (Lean(_ASKED_AGAIN, "the same ask again, after fast served it"),)
        trajectory = turn.trajectory
        if not trajectory.failures and not trajectory.red_runs:
            return ()
        failed, red = trajectory.failures, trajectory.red_runs
        shares = [
            (_FAILED * min(max(failed - 1, 0), _MOST), f"{failed} calls failed"),
            (_RED * min(max(red - 1, 0), _MOST), f"{red} test runs failed"),
            (_CIRCLING if failed and trajectory.repeats >= _REPEATS else 0.0, "the same call is repeated"),
        ]
        found = [(log_odds, words) for log_odds, words in shares if log_odds]
        if not found:
            return ()
        told = [words for _, words in found]
        if failed == red and failed > 1:
            del told[0]  # mostly those same test runs
        return (Lean(sum(log_odds for log_odds, _ in found), "in this turn " + " and ".join(told)),)


def _repeats_itself(turn: Turn) -> bool:
    is_after_fast = turn.kind is TurnKind.ASK and turn.position.tier is Tier.FAST
    return is_after_fast and is_same_ask(turn.history.last[-1].words, turn.person_text or "")
