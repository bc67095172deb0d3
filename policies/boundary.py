"""One decision for a turn: its tool loop stays where it began, and a session comes down only where that is cheap."""

from typing import ClassVar

from pydantic import Field

from router.contract.opinions import Insist, Lean, Opinion, PolicyConfig, Rank
from router.contract.request import RequestView
from router.contract.signals import Signals, Trajectory
from router.contract.words import Tier, TurnKind

_CHARS_PER_TOKEN = 4
_TOLD_COLD_TOKENS = 1_000


class BoundaryConfig(PolicyConfig):
    """Keep a running turn on its tier."""

    failures_to_reopen: int = Field(default=3, ge=1, le=50)
    """Failed tool calls in a row, or failed test runs, after which a turn on fast is decided again."""
    repeats_to_reopen: int = Field(default=4, ge=2, le=50)
    """How often the same call among the last ten, while calls fail, also reopens the turn."""
    edits_to_move: int = Field(default=5, ge=1, le=1_000)
    """File edits in one turn on fast after which it is moved up, once: a quick ask needs fewer."""
    files_to_move: int = Field(default=4, ge=1, le=1_000)
    """Changed files after which it is moved up."""
    written_tokens_to_move: int = Field(default=6_000, ge=100, le=1_000_000)
    """Tokens written into files after which it is moved up."""
    calls_to_move: int = Field(default=60, ge=1, le=10_000)
    """Calls after which a turn that only reads and searches is moved up. The limit is high because fast reads and
    searches quickly."""
    longest_wait_seconds: float = Field(default=20.0, ge=0.0, le=3_600.0)
    """A turn whose tier has a longer wait than this is decided again."""
    green_log_odds: float = Field(default=-0.7, ge=-10.0, le=0.0)
    """How strongly tests that have just passed lean to fast: little work is left."""


class BoundaryPolicy:
    """A turn moves up on evidence and down only at a boundary. Compaction stays on its session's tier."""

    name: ClassVar[str] = "boundary"
    Config: ClassVar[type[PolicyConfig]] = BoundaryConfig

    def __init__(self, config: BoundaryConfig) -> None:
        self._config = config

    def judge(self, request: RequestView, signals: Signals) -> tuple[Opinion, ...]:
        """Insist on the running turn's tier, unless it is in trouble there or has just come out of it."""
        turn, position = signals.turn, signals.turn.position
        if (
            turn.goes_on
            and position.tier is not Tier.DEEP
            and not position.was_asked_for
            and (grown := self._find_growth(signals))
        ):
            return (Insist(grown, Rank.RUNNING_TURN, tier=Tier.DEEP, yields=True),)
        if position.tier is None:
            return ()
        if turn.kind is TurnKind.COMPACTION:
            return (_stay(position.tier, f"compaction stays with its session on {position.tier}"),)
        if not position.is_running or self._is_closed(signals, position.tier):
            return ()
        trajectory = turn.trajectory
        if position.has_escalated:
            return (_stay(position.tier, f"this turn was moved up to {position.tier} and stays there"),)
        if position.tier is Tier.FAST and self._is_in_trouble(signals):
            return ()
        if position.tier is Tier.DEEP and trajectory.is_green:
            return (Lean(self._config.green_log_odds, "the tests have just passed"),)
        where = f"goes on after {turn.goes_on_after} with" if turn.goes_on_after else f"call {trajectory.calls} of"
        return (_stay(position.tier, f"{where} a turn that began on {position.tier}"),)

    def _find_growth(self, signals: Signals) -> str:
        """Why a running turn is larger than its ask promised, and what moving it costs.

        Empty where it is not, or where no deep target would take it soon.
        """
        trajectory, config = signals.turn.trajectory, self._config
        if not (
            trajectory.edits >= config.edits_to_move
            or trajectory.files >= config.files_to_move
            or trajectory.written_chars >= config.written_tokens_to_move * _CHARS_PER_TOKEN
            or trajectory.calls >= config.calls_to_move
        ) or self._is_closed(signals, Tier.DEEP):
            return ""
        return f"moved up at call {trajectory.calls}: {_say_work(trajectory)}, more than the ask promised{_say_cost(signals)}"

    def _is_closed(self, signals: Signals, tier: Tier) -> bool:
        """Whether no target of that tier would take the call soon: then the estimate decides, with the wait in it."""
        waits = [status.wait_seconds for status in signals.statuses.values() if status.target.tier is tier]
        return min(waits, default=0.0) > self._config.longest_wait_seconds

    def _is_in_trouble(self, signals: Signals) -> bool:
        trajectory, config = signals.turn.trajectory, self._config
        return (
            trajectory.failures >= config.failures_to_reopen
            or trajectory.red_runs >= config.failures_to_reopen
            or (trajectory.repeats >= config.repeats_to_reopen and trajectory.failures > 0)
        )


def _say_work(trajectory: Trajectory) -> str:
    if not trajectory.edits:
        return "a lot of reading"
    edits = f"{trajectory.edits} edit{'s' if trajectory.edits > 1 else ''}"
    return f"{edits} in {trajectory.files} files" if trajectory.files > 1 else edits


def _say_cost(signals: Signals) -> str:
    """What the hop costs: the part of the conversation that is not cached is read again."""
    deep = next((status for status in signals.statuses.values() if status.target.tier is Tier.DEEP), None)
    if deep is None:
        return ""
    cold = max(0, signals.prompt.tokens - signals.turn.position.warm.get(deep.target.name, 0))
    return f"; {cold / 1000:.0f}k tokens to read again" if cold >= _TOLD_COLD_TOKENS else ""


def _stay(tier: Tier, because: str) -> Insist:
    return Insist(because, Rank.RUNNING_TURN, tier=tier, yields=True)
