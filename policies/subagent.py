"""What `subagents:` in the config says: the person's own turns are decided as ever while their subagents go to one tier."""

from typing import ClassVar

from router.contract.opinions import Lean, Opinion, PolicyConfig
from router.contract.request import RequestView
from router.contract.signals import Signals
from router.contract.words import Tier, TurnKind

_LOG_ODDS = 4.0
"""As strong as the lean of a client's own small requests: only a prompt or a wait that a tier cannot take outweighs it."""


class SubagentPolicy:
    """Leans to one tier for subagents. With `subagents: auto` it is not in use, and no request pays for it.

    A subagent that only reads and searches keeps its lean to fast (`policies/side_request.py`) where the others go to deep.
    """

    name: ClassVar[str] = "subagent"
    Config: ClassVar[type[PolicyConfig]] = PolicyConfig

    def __init__(self, tier: Tier) -> None:
        log_odds = _LOG_ODDS if tier is Tier.DEEP else -_LOG_ODDS
        self._opinions = (Lean(log_odds, f"a subagent, and subagents lean to {tier}", names_turn=True),)
        self._is_deep = tier is Tier.DEEP

    def judge(self, request: RequestView, signals: Signals) -> tuple[Opinion, ...]:
        """Lean to the configured tier for a subagent."""
        turn = signals.turn
        if turn.kind is not TurnKind.SUBAGENT or (self._is_deep and turn.only_reads):
            return ()
        return self._opinions
