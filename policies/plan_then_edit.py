"""Deep plans and fast edits: work that its client plans begins on deep, and goes to fast when the plan is accepted."""

from typing import ClassVar

from router.contract.opinions import Lean, Opinion, PolicyConfig
from router.contract.request import RequestView
from router.contract.signals import Signals, Trajectory
from router.contract.words import PlanPhase

_STRONG = 8.0
"""More than any reading of the words: the person chose to plan, and then to carry the plan out."""
_FAILING = 3.0
_NOTHING: tuple[Opinion, ...] = ()


class PlanThenEditPolicy:
    """In the list only where `combine: plan` can be on. A lean, so the estimate weighs the hop and the prompt to read again."""

    name: ClassVar[str] = "plan_then_edit"
    Config: ClassVar[type[PolicyConfig]] = PolicyConfig

    def judge(self, request: RequestView, signals: Signals) -> tuple[Opinion, ...]:
        match signals.turn.plan:
            case PlanPhase.PLANNING:
                return (Lean(_STRONG, "the client is planning"),)
            case PlanPhase.ACCEPTED | PlanPhase.EDITING:
                return _lean_by(signals.turn.trajectory)
            case PlanPhase.UNKNOWN:
                return (Lean(0.0, "this client shows no plan mode that Tandem knows, so combine: plan does nothing"),)
        return _NOTHING


def _lean_by(trajectory: Trajectory) -> tuple[Opinion, ...]:
    """To fast until something fails; `boundary` holds the turn there until that is enough to decide it again."""
    failed = max(trajectory.failures, trajectory.red_runs)
    if failed > 1:
        return (Lean(_FAILING, "the edits of the accepted plan fail"),)
    return _NOTHING if failed else (Lean(-_STRONG, "the plan is accepted"),)
