"""A running turn that goes wrong is longer than it looked."""

from typing import ClassVar

from pydantic import Field

from router.contract.asked_again import is_same_ask
from router.contract.opinions import Lean, Opinion, PolicyConfig
from router.contract.request import RequestView
from router.contract.signals import Signals, Turn
from router.contract.words import Tier, TurnKind


class TrajectoryConfig(PolicyConfig):
    """Read how the running turn goes."""

    failing_log_odds: float = Field(default=1.5, ge=0.0, le=10.0)
    """Per further failed call in a row, three at most."""
    red_log_odds: float = Field(default=0.8, ge=0.0, le=10.0)
    """Per failed test run, likewise."""
    circling_log_odds: float = Field(default=1.0, ge=0.0, le=10.0)
    """One call four times among ten, failing."""
    asked_again_log_odds: float = Field(default=1.2, ge=0.0, le=10.0)
    """Nearly the same request again after fast."""


class TrajectoryPolicy:
    """Leans to deep when a turn goes badly."""

    name: ClassVar[str] = "trajectory"
    Config: ClassVar[type[PolicyConfig]] = TrajectoryConfig

    def __init__(self, config: TrajectoryConfig) -> None:
        self._config = config

    def judge(self, request: RequestView, signals: Signals) -> tuple[Opinion, ...]:
        turn, config = signals.turn, self._config
        if turn.history.last and _repeats_itself(turn):
            return (Lean(config.asked_again_log_odds, "the same ask again, after fast served it"),)
        trajectory = turn.trajectory
        if not trajectory.failures and not trajectory.red_runs:
            return ()
        failed, red = trajectory.failures, trajectory.red_runs
        shares = [
            (config.failing_log_odds * min(max(failed - 1, 0), 3), f"{failed} calls failed"),
            (config.red_log_odds * min(max(red - 1, 0), 3), f"{red} test runs failed"),
            (config.circling_log_odds if trajectory.failures and trajectory.repeats >= 4 else 0.0, "the same call is repeated"),
        ]
        found = [(log_odds, words) for log_odds, words in shares if log_odds]
        if not found:
            return ()
        told = [words for _, words in found]
        if failed == red and config.failing_log_odds and config.red_log_odds and failed > 1:
            del told[0]  # mostly those same test runs
        return (Lean(sum(log_odds for log_odds, _ in found), "in this turn " + " and ".join(told)),)


def _repeats_itself(turn: Turn) -> bool:
    is_after_fast = turn.kind is TurnKind.ASK and turn.position.tier is Tier.FAST
    return is_after_fast and is_same_ask(turn.history.last[-1].words, turn.person_text or "")
