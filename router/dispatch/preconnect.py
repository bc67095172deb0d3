"""Connections that are ready before a request needs them: when a session begins, and when the other tier was nearly chosen."""

from collections.abc import Mapping

from router.contract.facts import Decided
from router.contract.relay import Dialing
from router.dispatch.outgoing import Reachable

_LOOK_SECONDS = 1.0
"""At most one request in this time is looked at: an idle connection is good for most of a minute."""
_MAX_TARGETS = 8


class Preconnector:
    """Has targets dialled in the background. Adapters that dial nobody are left out, and failures are ignored."""

    def __init__(self, reachable: Mapping[str, Reachable]) -> None:
        self._reachable = reachable
        self.due = float("-inf")
        """When a request is to be looked at next. Compared on the road, so that nothing is called for most requests."""

    def look(self, decided: Decided, now: float) -> None:
        """Look at a request that is about to be sent, for what its session may need next."""
        self.due = now + _LOOK_SECONDS
        decision = decided.decision
        if decided.session.state.target is None:
            self.connect(but=(decision.targets or decision.spill)[0])
        elif decision.rival:
            self._connect(decision.rival)

    def connect(self, but: str = "") -> None:
        """Have a connection ready to every target of both tiers, of many to the first few; not to one that is called now."""
        for name in list(self._reachable)[:_MAX_TARGETS]:
            if name != but:
                self._connect(name)

    def _connect(self, name: str) -> None:
        reachable = self._reachable[name]
        if isinstance(reachable.adapter, Dialing):
            reachable.adapter.connect_ahead(reachable.target)
