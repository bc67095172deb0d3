"""Sends subagents to the tier that `subagents:` names."""

from typing import ClassVar

from router.contract.opinions import Lean, Opinion, PolicyConfig
from router.contract.request import RequestView
from router.contract.signals import Signals
from router.contract.words import Tier, TurnKind

_LOG_ODDS = 4.0
"""As strong as the lean of side requests: only a prompt or wait that a tier cannot take outweighs it."""


class SubagentPolicy:
    """Leans to one tier for subagents; those that only read and search keep their lean to fast (`policies/side_request.py`)."""

    name: ClassVar[str] = "subagent"
    Config: ClassVar[type[PolicyConfig]] = PolicyConfig

    def __init__(self, tier: Tier) -> None:
        log_odds = _LOG_ODDS if tier is Tier.DEEP else -_LOG_ODDS
        self._opinions = (Lean(log_odds, f"a subagent, and subagents lean to {tier}", names_turn=True),)
        self._is_deep = tier is Tier.DEEP

    def judge(self, request: RequestView, signals: Signals) -> tuple[Opinion, ...]:
        turn = signals.turn
        if turn.kind is not TurnKind.SUBAGENT or (self._is_deep and turn.only_reads):
            return ()
        return self._opinions
