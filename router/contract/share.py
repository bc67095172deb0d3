"""How callers share what there is one of: slots, waiting jobs, disk, kept text. Pure.

While nobody else asks, one caller may have nearly all of it (`limits.share`). As soon as another does, whoever has more than an
equal part gets no more, or loses its oldest, until all are within theirs.
"""

from router.contract.caller import Caller

_MOST_REMEMBERED = 1_024


def has_room(own: int, taken: int, whole: int, share: float) -> bool:
    """Whether a caller that holds `own` may take more, where all callers together hold `taken` of the whole.

    A caller may hold a multiple of what is free: 7 times as much for a share of 7/8, at which one alone stops. Each other one
    that takes some leaves less free, so those that hold most are refused first, and all end with equal parts. The last one is
    for a caller that has none.
    """
    free = whole - taken
    if not own or share >= 1:
        return free > 0
    return free > 1 and own * (1 - share) < free * share


class Holdings:
    """How much each caller holds of something."""

    __slots__ = ("_of", "total")

    def __init__(self) -> None:
        self._of: dict[Caller, int] = {}
        self.total = 0

    def of(self, caller: Caller) -> int:
        return self._of.get(caller, 0)

    def add(self, caller: Caller, amount: int) -> None:
        """Count more, or less for a negative amount. A caller that holds nothing is forgotten."""
        self.total += amount
        self._of[caller] = own = self.of(caller) + amount
        if not own:
            del self._of[caller]

    def find_most(self) -> Caller:
        """The caller that holds most, which is never less than an equal part."""
        return max(self._of, key=self._of.__getitem__)


class Turns:
    """Whose turn it is: the caller that was served least recently, or never."""

    def __init__(self) -> None:
        self._served: dict[str, int] = {}
        self._number = 0

    def last(self, caller: str) -> int:
        """A number that grows with every turn; 0 for a caller that had none."""
        return self._served.get(caller, 0)

    def take(self, caller: str) -> None:
        self._number += 1
        self._served.pop(caller, None)
        self._served[caller] = self._number
        if len(self._served) > _MOST_REMEMBERED:
            del self._served[next(iter(self._served))]
