"""How many second attempts are made for all requests together, so that targets that fail are not asked ever more often.

No clock and no loop: times are given.
"""

from collections import Counter, deque
from collections.abc import Mapping, Sequence
from enum import Enum

from msgspec import Struct

from router.contract.facts import Fact
from router.limits.limit import Reservation

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


class Chances(Struct, frozen=True):
    """What a request that failed may do now."""

    has_budget: bool
    standings: Mapping[str, Track]

    def standing(self, target: str) -> Track:
        return self.standings.get(target, Track.UNKNOWN)


class Retry(Reservation):
    """A second attempt at a target."""

    __slots__ = ("_limit", "_target")

    def __init__(self, limit: "RetryLimit", target: str) -> None:
        super().__init__()
        self._limit, self._target = limit, target

    def _settle(self, facts: Sequence[Fact], now: float) -> None:
        self._limit.failed_at.append(now)
        self._release(now)

    def _release(self, now: float) -> None:
        self._limit.under_way[self._target] -= 1


class RetryLimit:
    """At most 20 % of the active requests, and always 3. An attempt that failed counts for another ten seconds.

    Counted so, it bounds how many are made and not only how many are made at once: without that, requests that fail one
    after the other would each find the budget free again.
    """

    __slots__ = ("failed_at", "under_way")

    def __init__(self) -> None:
        self.under_way: Counter[str] = Counter()
        """How many are made at each target right now, from before its call is open."""
        self.failed_at: deque[float] = deque()

    def has_room(self, now: float, active: int) -> bool:
        failed = self.failed_at
        while failed and now - failed[0] >= KEPT_SECONDS:
            failed.popleft()
        return self.under_way.total() + len(failed) < max(_LEAST, int(active * _SHARE))

    async def hold(self, target: str) -> Retry:
        """Count an attempt for which there is room, or that the rules make without: to a target that nobody has asked."""
        self.under_way[target] += 1
        return Retry(self, target)
