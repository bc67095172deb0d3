"""What a caller has spent in a day and a month, and what is held for its requests under way. No clock, no file.

A purse is one day's or one month's budget of one caller. What is held is held in the purses of the moment in which the request
began to be served, and is settled in the same, even if another day has begun meanwhile: the ledger too counts a request for the
day of its arrival. All amounts are whole units of money (`contract.spending`).
"""

from datetime import tzinfo
from typing import NamedTuple

from router.contract.rights import Rights
from router.contract.spending import Period, Span, as_units, span_of


class Purse:
    """One budget of one caller, for one day or month."""

    __slots__ = ("held", "near_since", "period", "refused_since", "refused_with", "span", "spent")

    def __init__(self, period: Period, span: Span, spent: int = 0) -> None:
        self.period, self.span, self.spent, self.held = period, span, spent, 0
        self.near_since: float | None = None
        """When it was logged that the budget is nearly spent, in seconds since 1970; None before that."""
        self.refused_since: float | None = None
        """When a request was first refused because too little is left; None before that."""
        self.refused_with = 0
        """The limit at that time: a higher one may have been set since."""

    @property
    def held_by_all(self) -> int:
        """Units held for requests under way, here and at other routers."""
        return self.held

    def room(self, limit: int) -> int:
        """The units left of a limit if everything that is held is spent."""
        return limit - self.spent - self.held

    def settle(self, held: int, cost: int) -> None:
        """Give back what was held for something, and count what it came to."""
        self.held -= held
        self.spent += cost

    def recall(self, spent: int) -> None:
        """Count what the ledger says, where that is more."""
        self.spent = max(self.spent, spent)

    def renew(self, span: Span) -> "Purse":
        return Purse(self.period, span)


class Limited(NamedTuple):
    """A purse with the limit that its caller has there."""

    purse: Purse
    limit: int

    @property
    def share(self) -> float:
        """How much of it is spent: 1 is all."""
        return self.purse.spent / self.limit

    def lacks(self, needed: int) -> bool:
        """Whether this much more is too much."""
        return needed > self.purse.room(self.limit)


class Account:
    """Both purses of a caller. Both are counted, whichever has a limit: a reload may set the other."""

    __slots__ = ("_purses",)

    def __init__(self, *purses: Purse) -> None:
        self._purses = {purse.period: purse for purse in purses}

    def purses(self, now: float, zone: tzinfo) -> tuple[Purse, ...]:
        """Those of this moment: a new one where a day or month is over. A clock that is set back begins none."""
        for period, purse in self._purses.items():
            if now >= purse.span.ends:
                self._purses[period] = purse.renew(span_of(period, now, zone))
        return tuple(self._purses.values())

    def catch_up(self, period: Period, span: Span, spent: int) -> None:
        """Take what the ledger says of a period, where that is more: requests that nobody counted, since no budget was set.

        It is never less than the truth that is counted here, unless rows were deleted or could not be written.
        """
        purse = self._purses[period]
        if purse.span == span:
            purse.recall(spent)


def limits_of(purses: tuple[Purse, ...], rights: Rights) -> list[Limited]:
    limits = {Period.DAY: rights.daily_usd, Period.MONTH: rights.monthly_usd}
    return [Limited(purse, as_units(usd)) for purse in purses if (usd := limits[purse.period]) is not None]


class Reservation:
    """Units held for one request, in every purse that it will be paid from. It is settled once."""

    __slots__ = ("_purses", "is_settled", "units")

    def __init__(self, purses: tuple[Purse, ...]) -> None:
        self._purses, self.units, self.is_settled = purses, 0, False

    def hold(self, units: int) -> None:
        self.units += units
        for purse in self._purses:
            purse.held += units

    def settle(self, cost: int) -> None:
        """Give back what was held, and count what it came to. A second time changes nothing."""
        if self.is_settled:
            return
        self.is_settled = True
        for purse in self._purses:
            purse.settle(self.units, cost)
