"""Requests that a client sends by itself (titles, commit messages, prewarm) are small work for the fast tier."""

from typing import ClassVar

from pydantic import Field

from router.contract.opinions import Lean, Opinion, PolicyConfig
from router.contract.request import RequestView
from router.contract.signals import Signals
from router.contract.words import TurnKind

_NAMES = {
    TurnKind.SIDE: "a side request of the client (title, commit message, completion)",
    TurnKind.PREWARM: "a prewarm request that generates nothing",
}


class SideRequestConfig(PolicyConfig):
    """Send the client's own small requests to fast."""

    log_odds: float = Field(default=-4.0, ge=-10.0, le=0.0)
    """How strongly such a request leans to fast."""


class SideRequestPolicy:
    """Leans to fast for a client's own requests (titles, commit messages, completions), which are never long tasks."""

    name: ClassVar[str] = "side_request"
    Config: ClassVar[type[PolicyConfig]] = SideRequestConfig

    def __init__(self, config: SideRequestConfig) -> None:
        self._log_odds = config.log_odds

    def judge(self, request: RequestView, signals: Signals) -> tuple[Opinion, ...]:
        """Lean to fast when the request is not a person's turn."""
        name = _NAMES.get(signals.turn.kind)
        return (Lean(self._log_odds, name, names_turn=True),) if name else ()
