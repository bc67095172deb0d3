"""Background work leans to deep: no caller waits."""

from typing import ClassVar

from router.contract.opinions import Lean, Opinion, PolicyConfig
from router.contract.request import RequestView
from router.contract.signals import Signals

_OPINIONS = (Lean(6.0, "background work, which nobody waits for", names_turn=True),)


class BackgroundPolicy:
    """Always leans to deep. Used only for `background: true` (`Plan.for_background`)."""

    name: ClassVar[str] = "background"
    Config: ClassVar[type[PolicyConfig]] = PolicyConfig

    def judge(self, request: RequestView, signals: Signals) -> tuple[Opinion, ...]:
        return _OPINIONS
