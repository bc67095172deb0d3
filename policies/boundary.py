"""One decision per turn: its tool loop stays on its tier, and a session comes down only where that is cheap."""

import math
from operator import attrgetter
from typing import ClassVar

from pydantic import Field

from router.contract.credential import has_plan
from router.contract.opinions import Insist, Lean, Opinion, PolicyConfig, Rank
from router.contract.request import RequestView
from router.contract.rescue import SHIPPED
from router.contract.signals import SessionPosition, Signals, Trajectory, Turn
from router.contract.target import Speed, TargetStatus
from router.contract.words import PlanPhase, Tier, TurnKind

_wait_of = attrgetter("wait_seconds")
_FAST, _DEEP, _COMPACTION = Tier.FAST, Tier.DEEP, TurnKind.COMPACTION
_CHARS_PER_TOKEN = 4
_TOLD_COLD_TOKENS = 1_000
_GROWN_EDITS, _GROWN_FILES, _GROWN_TOKENS, _GROWN_CALLS = 5, 4, 6_000, 20
"""From these counts on, a turn is longer than a quick ask."""
_LONG_FAILS = math.log(0.25 / 0.75)
"""Fast fails in a quarter of long turns where deep would not. Published pairs of models show 15 to 35 %."""
_CALLS_LEFT = 20
"""In recorded turns, 14 to 25 more calls follow any call between the fifth and the fortieth."""
_TOKENS_PER_CALL = 199
_HOP_SECONDS = 1.0


class BoundaryConfig(PolicyConfig):
    """Keep a running turn on its tier."""

    failures_to_reopen: int = Field(default=3, ge=1, le=50)
    """Failed calls or test runs in a row that reopen a turn on fast."""
    repeats_to_reopen: int = Field(default=4, ge=2, le=50)
    """Repeats among ten calls, while failing, that also do."""
    failure_seconds: float = Field(default=120.0, ge=0.0, le=86_400.0)
    """Cost of a wrong result, besides redoing it."""
    longest_wait_seconds: float = Field(default=20.0, ge=0.0, le=3_600.0)
    """A longer wait reopens a turn."""
    green_log_odds: float = Field(default=-0.7, ge=-10.0, le=0.0)
    """Failing tests have just passed on deep."""


class BoundaryPolicy:
    """Keeps a running turn on its tier until evidence moves it."""

    name: ClassVar[str] = "boundary"
    Config: ClassVar[type[PolicyConfig]] = BoundaryConfig

    def __init__(self, config: BoundaryConfig) -> None:
        self._config = config

    def judge(self, request: RequestView, signals: Signals) -> tuple[Opinion, ...]:
        turn, position = signals.turn, signals.turn.position
        is_grown = turn.goes_on and _may_move(position) and _has_grown(turn.trajectory)
        if is_grown and self._is_sooner_done_on_deep(signals):
            return (Insist(_say_move(signals), Rank.RUNNING_TURN, tier=_DEEP, yields=True),)
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
        if position.tier is _FAST and self._is_in_trouble(signals):
            return ()
        trajectory = turn.trajectory
        if position.tier is _DEEP and trajectory.is_green:
            return (Lean(self._config.green_log_odds, "the tests have just passed"),)
        stays = f"{_say_where(turn)} a turn on {position.tier}"
        return (_stay(position.tier, f"{stays}; moving it up would take longer" if is_grown else stays),)

    def _is_sooner_done_on_deep(self, signals: Signals) -> bool:
        """Whether the expected cost of a failure exceeds that of moving up.

        A failure costs the person's time, and the work so far is done again on deep. Moving costs the hop, reading what deep
        has not cached, and deep's slower pace.
        """
        fast, deep = _soonest(signals, _FAST), _soonest(signals, _DEEP)
        if deep is None or deep.wait_seconds > self._config.longest_wait_seconds:
            return False
        trajectory, slow = signals.turn.trajectory, deep.speed
        done_tokens = max(trajectory.calls * _TOKENS_PER_CALL, trajectory.written_chars / _CHARS_PER_TOKEN)
        failure = self._config.failure_seconds + _seconds(slow, trajectory.calls, done_tokens)
        left_tokens = _CALLS_LEFT * _TOKENS_PER_CALL
        slower = _seconds(slow, _CALLS_LEFT, left_tokens)
        if fast is not None:
            slower -= _seconds(fast.speed, _CALLS_LEFT, left_tokens)
        moving = deep.wait_seconds + _HOP_SECONDS + _cold_tokens(signals, deep) / slow.prefill_tokens_per_second + slower
        return _chance_of_failure(trajectory) * failure > moving

    def _is_closed(self, signals: Signals, tier: Tier) -> bool:
        """With only long waits on the tier, the estimate decides."""
        return min(map(_wait_of, signals.of_tier(tier)), default=0.0) > self._config.longest_wait_seconds

    def _is_in_trouble(self, signals: Signals) -> bool:
        trajectory, config = signals.turn.trajectory, self._config
        return (
            trajectory.failures >= config.failures_to_reopen
            or trajectory.red_runs >= config.failures_to_reopen
            or (trajectory.repeats >= config.repeats_to_reopen and trajectory.failures > 0)
        )


def _begins_work(turn: Turn) -> bool:
    """Whether a running turn begins to plan, or to carry out its plan: that is a boundary too."""
    if turn.position.was_asked_for:
        return False
    return turn.plan is PlanPhase.ACCEPTED or (turn.plan is PlanPhase.PLANNING and turn.position.tier is _FAST)


def _may_move(position: SessionPosition) -> bool:
    return position.tier is not _DEEP and not position.was_asked_for


def _has_grown(trajectory: Trajectory) -> bool:
    return (
        trajectory.calls >= _GROWN_CALLS
        or trajectory.edits >= _GROWN_EDITS
        or trajectory.files >= _GROWN_FILES
        or trajectory.written_chars >= _GROWN_TOKENS * _CHARS_PER_TOKEN
    )


def _chance_of_failure(trajectory: Trajectory) -> float:
    """Counts that raise an alarm raise a long turn's chance. Others prove nothing."""
    odds = _LONG_FAILS + SHIPPED.hear(trajectory.calls, trajectory.edits, trajectory.unevenness)
    return 1.0 / (1.0 + math.exp(-odds))


def _seconds(speed: Speed, calls: float, tokens: float) -> float:
    return calls * speed.ttft_seconds + tokens / speed.tokens_per_second


def _soonest(signals: Signals, tier: Tier) -> TargetStatus | None:
    return min(signals.of_tier(tier), key=_wait_of, default=None)


def _cold_tokens(signals: Signals, status: TargetStatus) -> int:
    return max(0, signals.prompt.tokens - signals.turn.position.warm.get(status.target.name, 0))


def _say_where(turn: Turn) -> str:
    if turn.goes_on_after:
        return f"continues, after {turn.goes_on_after},"
    return f"{_say_calls(turn.trajectory)} into" if turn.trajectory.calls else "continues"


def _say_stays_up(turn: Turn) -> str:
    if turn.kind is TurnKind.FOLLOW_UP:
        return "continues the last turn, which was moved up to deep"
    return "this turn was moved up to deep and stays there"


def _say_move(signals: Signals) -> str:
    trajectory, deep = signals.turn.trajectory, _soonest(signals, _DEEP)
    cold = _cold_tokens(signals, deep) if deep else 0
    cost = f"; {cold / 1000:.0f}k tokens to read again" if cold >= _TOLD_COLD_TOKENS else ""
    # Of a turn that is not remembered nobody knows where it was.
    moved = "moved up" if signals.turn.position.is_running else "a turn"
    return f"{moved} after {_say_calls(trajectory)}{_say_edits(trajectory)}, more than the ask promised{cost}"


def _say_calls(trajectory: Trajectory) -> str:
    return f"{trajectory.calls} tool call{'s' if trajectory.calls > 1 else ''}"


def _say_edits(trajectory: Trajectory) -> str:
    if not trajectory.edits:
        return ""
    edits = f": {trajectory.edits} edit{'s' if trajectory.edits > 1 else ''}"
    return f"{edits} in {trajectory.files} files" if trajectory.files > 1 else edits


def _stay(tier: Tier, because: str) -> Insist:
    return Insist(because, Rank.RUNNING_TURN, tier=tier, yields=True)
