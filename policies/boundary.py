"""One decision for a turn: its tool loop stays where it began, and a session comes down only where that is cheap."""

from typing import ClassVar

from pydantic import Field

from router.contract.opinions import Insist, Lean, Opinion, PolicyConfig, Rank
from router.contract.request import RequestView
from router.contract.signals import Signals
from router.contract.words import Tier, TurnKind


class BoundaryConfig(PolicyConfig):
    """Keep a running turn on its tier."""

    failures_to_reopen: int = Field(default=3, ge=1, le=50)
    """Tool calls that failed in a row, or failed test runs, after which a turn on fast is decided anew."""
    repeats_to_reopen: int = Field(default=4, ge=2, le=50)
    """The same call made so often, among the last eight, reopens it too."""
    green_log_odds: float = Field(default=-0.7, ge=-10.0, le=0.0)
    """How strongly tests that just turned green lean to fast: what is left is small."""


class BoundaryPolicy:
    """Up needs evidence, down needs a boundary. Compaction stays with its session; what is no turn of the person's is free."""

    name: ClassVar[str] = "boundary"
    Config: ClassVar[type[PolicyConfig]] = BoundaryConfig

    def __init__(self, config: BoundaryConfig) -> None:
        self._config = config

    def judge(self, request: RequestView, signals: Signals) -> tuple[Opinion, ...]:
        """Insist on the running turn's tier, unless it is in trouble there or has just come out of it."""
        turn, place = signals.turn, signals.turn.place
        if place.tier is None:
            return ()
        if turn.kind is TurnKind.COMPACTION:
            return (
                Insist(f"compaction stays with its session on {place.tier}", Rank.RUNNING_TURN, tier=place.tier, yields=True),
            )
        if turn.kind is not TurnKind.TOOL_LOOP or not place.is_running:
            return ()
        trajectory = turn.trajectory
        if place.tier is Tier.FAST:
            if self._is_in_trouble(signals):
                return ()
        elif trajectory.is_green and not place.has_escalated:
            return (Lean(self._config.green_log_odds, "the tests just turned green"),)
        why = "it was moved up, and stays" if place.has_escalated else "its turn began there"
        return (
            Insist(
                f"call {trajectory.calls} of a turn on {place.tier}: {why}", Rank.RUNNING_TURN, tier=place.tier, yields=True
            ),
        )

    def _is_in_trouble(self, signals: Signals) -> bool:
        trajectory, config = signals.turn.trajectory, self._config
        return (
            trajectory.failures >= config.failures_to_reopen
            or trajectory.red_runs >= config.failures_to_reopen
            or (trajectory.repeats >= config.repeats_to_reopen and trajectory.failures > 0)
        )


def _stay(tier: Tier, because: str) -> Insist:
    return Insist(because, Rank.RUNNING_TURN, tier=tier, yields=True)
