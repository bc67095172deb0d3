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
    """Tool calls that failed since one went well, or failed test runs, after which a turn on fast is decided anew."""
    repeats_to_reopen: int = Field(default=4, ge=2, le=50)
    """The same call made so often, among the last ten, reopens it too while calls fail."""
    longest_wait_seconds: float = Field(default=20.0, ge=0.0, le=3_600.0)
    """A turn whose tier must be waited for longer than this is decided anew."""
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
            return (_stay(place.tier, f"compaction stays with its session on {place.tier}"),)
        if not place.is_running or self._is_closed(signals, place.tier):
            return ()
        trajectory = turn.trajectory
        if place.has_escalated:
            return (_stay(place.tier, f"this turn was moved up to {place.tier}, and stays"),)
        if place.tier is Tier.FAST and self._is_in_trouble(signals):
            return ()
        if place.tier is Tier.DEEP and trajectory.is_green:
            return (Lean(self._config.green_log_odds, "the tests just turned green"),)
        return (_stay(place.tier, f"call {trajectory.calls} of a turn that began on {place.tier}"),)

    def _is_closed(self, signals: Signals, tier: Tier) -> bool:
        """Whether nobody on that tier would take the call soon: then the estimate decides, with the wait in it."""
        waits = [standing.wait_seconds for standing in signals.standings.values() if standing.target.tier is tier]
        return min(waits, default=0.0) > self._config.longest_wait_seconds

    def _is_in_trouble(self, signals: Signals) -> bool:
        trajectory, config = signals.turn.trajectory, self._config
        return (
            trajectory.failures >= config.failures_to_reopen
            or trajectory.red_runs >= config.failures_to_reopen
            or (trajectory.repeats >= config.repeats_to_reopen and trajectory.failures > 0)
        )


def _stay(tier: Tier, because: str) -> Insist:
    return Insist(because, Rank.RUNNING_TURN, tier=tier, yields=True)
