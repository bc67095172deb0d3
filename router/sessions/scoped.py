"""Wishes that hold for a session (`x-tandem-scope: session`), kept in the process, bounded."""

from collections import OrderedDict

from router.contract.request import Wishes
from router.contract.words import Tier

_MOST_SESSIONS = 4096


class ScopedWishes:
    """The tier that a caller asked for, for the rest of a session. The longest unused is forgotten first."""

    def __init__(self) -> None:
        self._tiers: OrderedDict[tuple[str, str], Tier] = OrderedDict()

    def recall(self, caller: str, session: str) -> Tier | None:
        """The tier that this session was asked to stay on."""
        tier = self._tiers.get((caller, session))
        if tier is not None:
            self._tiers.move_to_end((caller, session))
        return tier

    def note(self, caller: str, session: str, wishes: Wishes) -> None:
        """Take a wish with session scope; "auto" takes it back."""
        if not wishes.for_session:
            return
        if wishes.tier is None:
            self._tiers.pop((caller, session), None)
            return
        self._tiers[caller, session] = wishes.tier
        if len(self._tiers) > _MOST_SESSIONS:
            self._tiers.popitem(last=False)
