"""How many second attempts are made for all requests together, so that targets that fail are not asked ever more often.

No clock and no loop: times are given.
"""

from collections import Counter, deque
from collections.abc import Mapping
from enum import Enum

from msgspec import Struct

_LEAST = 3
_SHARE = 0.2
KEPT_SECONDS = 10.0
"""How long an attempt that failed counts against the budget, and how long what was seen of a target holds for a move to it."""


class Track(Enum):
    """What is known of a target to which a request would move, since the one that it was sent to began to fail."""

    UNKNOWN = "nobody has asked it"
    AWAITED = "somebody has asked it and waits"
    PROVEN = "it has served"
    FAILED = "it fails as well"


class Allowance(Struct, frozen=True):
    """What a request that failed may do now."""

    has_budget: bool
    standings: Mapping[str, Track]

    def standing(self, target: str) -> Track:
        return self.standings.get(target, Track.UNKNOWN)


class RetryBudget:
    """At most 20 % of the active requests, and always 3. An attempt that failed counts for another ten seconds.

    Counted so, it bounds how many are made and not only how many are made at once: without that, requests that fail one
    after the other would each find the budget free again.
    """

    __slots__ = ("_failed_at", "_under_way")

    def __init__(self) -> None:
        self._under_way: Counter[str] = Counter()
        self._failed_at: deque[float] = deque()

    def has_room(self, now: float, active: int) -> bool:
        failed = self._failed_at
        while failed and now - failed[0] >= KEPT_SECONDS:
            failed.popleft()
        return self._under_way.total() + len(failed) < max(_LEAST, int(active * _SHARE))

    def take(self, target: str) -> None:
        self._under_way[target] += 1

    def under_way(self, target: str) -> int:
        """How many are made at a target right now, from before its call is open."""
        return self._under_way[target]

    def give_back(self, target: str, now: float, *, has_failed: bool) -> None:
        """It is over. One that served, or whose caller left, no longer counts."""
        self._under_way[target] -= 1
        if has_failed:
            self._failed_at.append(now)
