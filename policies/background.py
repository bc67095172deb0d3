"""Background work leans to deep: nobody waits for it, and it is handed over because it is long."""

from typing import ClassVar

from router.contract.opinions import Lean, Opinion, PolicyConfig
from router.contract.request import RequestView
from router.contract.signals import Signals

_OPINIONS = (Lean(6.0, "background work, which nobody waits for", names_turn=True),)


class BackgroundPolicy:
    """Leans to deep, always: it is among the policies of requests with `background: true` alone (`Plan.for_background`)."""

    name: ClassVar[str] = "background"
    Config: ClassVar[type[PolicyConfig]] = PolicyConfig

    def judge(self, request: RequestView, signals: Signals) -> tuple[Opinion, ...]:
        """Lean to deep. A tier that somebody insists on outranks it."""
        return _OPINIONS
