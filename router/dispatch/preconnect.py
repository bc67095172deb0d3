"""Connections that are ready before a request needs them: when a session begins, and when the other tier was nearly chosen."""

from collections.abc import Callable, Mapping

from router.contract.decision import Decision
from router.contract.facts import Decided
from router.contract.relay import Dialing
from router.dispatch.outgoing import Reachable

_LOOK_SECONDS = 1.0
"""Not more often than this is a request looked at: an idle connection is good for most of a minute."""
_MAX_TARGETS = 8


def no_rival(decision: Decision) -> str:
    """Nobody was nearly chosen."""
    return ""


class Preconnector:
    """Has targets dialled in the background. Adapters that dial nobody are left out, and no failure is heard of."""

    def __init__(self, reachable: Mapping[str, Reachable], find_rival: Callable[[Decision], str] = no_rival) -> None:
        self._reachable, self._find_rival = reachable, find_rival
        self.due = float("-inf")
        """When a request is to be looked at next. Compared on the road, so that nothing is called for most requests."""

    def look(self, decided: Decided, now: float) -> None:
        """Look at a request that is about to be sent, for what its session may need next."""
        self.due = now + _LOOK_SECONDS
        decision = decided.decision
        if decided.session.state.target is None:
            self.connect(but=(decision.targets or decision.spill)[0])
        elif rival := self._find_rival(decision):
            self._connect(rival)

    def connect(self, but: str = "") -> None:
        """Have a connection ready to every target of both tiers, of many to the first few; not to one that is called now."""
        for name in list(self._reachable)[:_MAX_TARGETS]:
            if name != but:
                self._connect(name)

    def _connect(self, name: str) -> None:
        reachable = self._reachable[name]
        if isinstance(reachable.adapter, Dialing):
            reachable.adapter.connect_ahead(reachable.target)
