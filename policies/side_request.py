"""Requests that a client sends by itself are work for fast."""

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
    search_log_odds: float = Field(default=-4.0, ge=-10.0, le=0.0)
    """How strongly a subagent that only reads and searches, such as `Explore` in Claude Code, leans to fast."""


class SideRequestPolicy:
    """Leans to fast for a client's own requests (titles, commit messages, completions), which are never long tasks.

    Also for subagents that only search: their thoroughness is the model's wish, not the person's.
    """

    name: ClassVar[str] = "side_request"
    Config: ClassVar[type[PolicyConfig]] = SideRequestConfig

    def __init__(self, config: SideRequestConfig) -> None:
        self._log_odds, self._search_log_odds = config.log_odds, config.search_log_odds

    def judge(self, request: RequestView, signals: Signals) -> tuple[Opinion, ...]:
        turn = signals.turn
        if turn.only_reads:
            return (Lean(self._search_log_odds, "a subagent that only reads and searches", names_turn=True),)
        name = _NAMES.get(turn.kind)
        return (Lean(self._log_odds, name, names_turn=True),) if name else ()
