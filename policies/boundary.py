"""One decision per turn: its tool loop stays on its tier, and a session comes down only where that is cheap."""

from operator import attrgetter
from typing import ClassVar

from pydantic import Field

from router.contract.credential import has_plan
from router.contract.opinions import Insist, Lean, Opinion, PolicyConfig, Rank
from router.contract.request import RequestView
from router.contract.signals import Signals, Trajectory, Turn
from router.contract.words import PlanPhase, Tier, TurnKind

_wait_of = attrgetter("wait_seconds")
_FAST, _DEEP, _COMPACTION = Tier.FAST, Tier.DEEP, TurnKind.COMPACTION

_FAILURES, _REPEATS = 3, 4
"""Failed calls or test runs since the last success that reopen a turn on fast, and calls alike among ten, while failing."""
_GREEN_LOG_ODDS = -0.7
"""Failing tests have just passed on deep."""


class BoundaryConfig(PolicyConfig):
    """Keep a running turn on its tier."""

    longest_wait_seconds: float = Field(default=20.0, ge=0.0, le=3_600.0)
    """A longer wait reopens a turn."""


class BoundaryPolicy:
    """Keeps a running turn on its tier until evidence moves it."""

    name: ClassVar[str] = "boundary"
    Config: ClassVar[type[PolicyConfig]] = BoundaryConfig

    def __init__(self, config: BoundaryConfig) -> None:
        self._longest_wait_seconds = config.longest_wait_seconds

    def judge(self, request: RequestView, signals: Signals) -> tuple[Opinion, ...]:
        turn, position = signals.turn, signals.turn.position
        if position.tier is None:
            return ()
        if turn.kind is _COMPACTION:
            own = (status.target for status in signals.of_tier(position.tier))
            if position.tier is _DEEP and has_plan(own, request.headers, request.dialect):
                return ()  # `side_request` sends it to fast
            return (_stay(position.tier, f"compaction stays with its session on {position.tier}"),)
        if not position.is_running or self._is_closed(signals, position.tier):
            return ()
        if turn.plan is not None and _begins_work(turn):
            return ()
        if position.has_escalated and position.tier is _DEEP:
            return (_stay(position.tier, _say_stays_up(turn)),)
        if position.tier is _FAST and _is_in_trouble(signals.turn.trajectory):
            return ()
        if position.tier is _DEEP and turn.trajectory.is_green:
            return (Lean(_GREEN_LOG_ODDS, "the tests have just passed"),)
        return (_stay(position.tier, f"{_say_where(turn)} a turn on {position.tier}"),)

    def _is_closed(self, signals: Signals, tier: Tier) -> bool:
        """With only long waits on the tier, the estimate decides."""
        return min(map(_wait_of, signals.of_tier(tier)), default=0.0) > self._longest_wait_seconds


def _is_in_trouble(trajectory: Trajectory) -> bool:
    return (
        trajectory.failures >= _FAILURES
        or trajectory.red_runs >= _FAILURES
        or (trajectory.repeats >= _REPEATS and trajectory.failures > 0)
    )


def _begins_work(turn: Turn) -> bool:
    """Whether a running turn begins to plan, or to carry out its plan: that is a boundary too."""
    if turn.position.was_asked_for:
        return False
    return turn.plan is PlanPhase.ACCEPTED or (turn.plan is PlanPhase.PLANNING and turn.position.tier is _FAST)


def _say_where(turn: Turn) -> str:
    if turn.goes_on_after:
        return f"continues, after {turn.goes_on_after},"
    return _say_calls(turn.trajectory)


def _say_stays_up(turn: Turn) -> str:
    if turn.kind is TurnKind.FOLLOW_UP:
        return "continues the last turn, which was moved up to deep"
    return "this turn was moved up to deep and stays there"


def _say_calls(trajectory: Trajectory) -> str:
    return f"{trajectory.calls} tool call{'s' if trajectory.calls > 1 else ''} into" if trajectory.calls else "continues"


def _stay(tier: Tier, because: str) -> Insist:
    return Insist(because, Rank.RUNNING_TURN, tier=tier, yields=True)
