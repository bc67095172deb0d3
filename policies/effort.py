"""Reasoning effort and plan mode."""

from typing import ClassVar

from pydantic import Field

from router.contract.opinions import Lean, Opinion, PolicyConfig
from router.contract.request import RequestView
from router.contract.signals import Signals
from router.contract.words import TurnKind


class EffortConfig(PolicyConfig):
    """Read reasoning effort and plan mode. Only an effort other than the client's default, or a change of it, leans."""

    none: float = Field(default=-0.8, ge=-10.0, le=10.0)
    """For `none` and `minimal`."""
    low: float = Field(default=-0.5, ge=-10.0, le=10.0)
    """For the effort `low`."""
    high: float = Field(default=0.3, ge=-10.0, le=10.0)
    """For the effort `high`."""
    highest: float = Field(default=1.2, ge=-10.0, le=10.0)
    """For `xhigh`, `max` and `ultra`."""
    plan_mode: float = Field(default=1.2, ge=-10.0, le=10.0)
    """A client in plan mode, without `combine.plan`."""


class EffortPolicy:
    """Reads reasoning effort, if unusual or changed, and plan mode."""

    name: ClassVar[str] = "effort"
    Config: ClassVar[type[PolicyConfig]] = EffortConfig

    def __init__(self, config: EffortConfig) -> None:
        self._plan_mode = config.plan_mode
        self._levels = {
            "none": config.none,
            "minimal": config.none,
            "low": config.low,
            "high": config.high,
            "xhigh": config.highest,
            "max": config.highest,
            "ultra": config.highest,
        }

    def judge(self, request: RequestView, signals: Signals) -> tuple[Opinion, ...]:
        """A side request carries its session's effort without meaning it."""
        if not signals.effort and not signals.turn.is_planning:
            return ()
        if signals.turn.kind in (TurnKind.SIDE, TurnKind.PREWARM):
            return ()
        opinions: list[Opinion] = []
        effort, before = signals.effort or "", signals.turn.position.effort
        if before is not None and effort and effort != before:
            log_odds = self._level(effort) - self._level(before)
            if log_odds:
                opinions.append(Lean(log_odds, f"reasoning effort was changed from {_short(before)} to {_short(effort)}"))
        elif effort not in signals.turn.usual_efforts and (log_odds := self._level(effort)):
            opinions.append(Lean(log_odds, f"reasoning effort is {effort}"))
        if signals.turn.is_planning and self._plan_mode and signals.turn.plan is None:  # else `plan_then_edit` leans for it
            opinions.append(Lean(self._plan_mode, "the client is in plan mode"))
        return tuple(opinions)

    def _level(self, effort: str) -> float:
        return self._levels.get(effort, 0.0)


def _short(effort: str) -> str:
    """The effort is the caller's own word, of any length."""
    return effort if effort.isascii() and effort.isalnum() and len(effort) <= 10 else "another"
