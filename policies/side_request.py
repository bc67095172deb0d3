"""Requests that a client sends by itself are work for fast."""

from typing import ClassVar

from router.contract.credential import has_plan
from router.contract.opinions import Insist, Lean, Opinion, PolicyConfig, Rank
from router.contract.request import RequestView
from router.contract.signals import Signals
from router.contract.words import Tier, TurnKind

_NAMES = {
    TurnKind.SIDE: "a side request of the client (title, commit message, completion)",
    TurnKind.PREWARM: "a prewarm request that generates nothing",
    TurnKind.COMPACTION: "compaction",
}
_SAVING = (TurnKind.SIDE, TurnKind.COMPACTION)
"""What fast does for a caller whose deep tier is a plan."""
_LOG_ODDS = -4.0


class SideRequestPolicy:
    """Leans to fast for small requests of clients themselves.

    Also for subagents that only search: their thoroughness is the model's wish, not the person's. A caller whose deep tier is
    their own plan has them, and compaction, done on fast: the plan's windows are for turns.
    """

    name: ClassVar[str] = "side_request"
    Config: ClassVar[type[PolicyConfig]] = PolicyConfig

    def __init__(self, _: PolicyConfig) -> None: ...

    def judge(self, request: RequestView, signals: Signals) -> tuple[Opinion, ...]:
        turn = signals.turn
        if turn.only_reads:
            return (Lean(_LOG_ODDS, "a subagent that only reads and searches", names_turn=True),)
        name = _NAMES.get(turn.kind)
        if not name:
            return ()
        own = () if turn.kind is TurnKind.COMPACTION else (Lean(_LOG_ODDS, name, names_turn=True),)
        deep = (status.target for status in signals.of_tier(Tier.DEEP))
        if turn.kind not in _SAVING or not has_plan(deep, request.headers, request.dialect):
            return own
        because = f"{name} goes to fast, which saves your plan's windows"
        return (Insist(because, Rank.RUNNING_TURN, tier=Tier.FAST, yields=True), *own)
