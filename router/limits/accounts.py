"""What a caller has spent in a day and a month, and what is held for its requests under way. No clock, no file.

A request is held and settled in the budgets of the day and month in which it began to be served, as the ledger counts it. All
amounts are whole units of money (`contract.spending`).
"""

import asyncio
import time
from collections.abc import Iterable
from datetime import tzinfo
from typing import NamedTuple

from router.contract.allowance import Allowance, SpentPart, Use
from router.contract.rights import Rights
from router.contract.spending import Period, Span, as_units, span_of
from router.limits.whole import ALONE

_GIVE_SECONDS = 1.0
"""How long a request waits for what other routers have and do not need: they give it back within this time."""
FIRST_LENGTH = 2_000.0
"""How long an answer is taken to be until some were seen."""
_WEIGHT = 0.1
"""How much one answer changes what is usual; the first ones change it more."""
_MOST_LENGTHS = 64
"""Targets of a caller whose answers are remembered, the latest ones."""


class Budget:
    """What one caller may spend in one day or month. It is counted without a limit too: a reload may set one."""

    def __init__(self, caller: str, period: Period, span: Span, recorded: int = 0, allowance: Allowance = ALONE) -> None:
        """`recorded` is what the ledger of this router says that was spent."""
        self._caller, self.period, self.span, self._recorded, self._allowance = caller, period, span, recorded, allowance
        self.held = 0
        self._part: SpentPart | None = None
        """What this router may spend, once a limit was asked for."""
        self.near_since: float | None = None
        """When it was logged that the budget is nearly spent, in seconds since 1970; None before that."""
        self.refused_since: float | None = None
        """When a request was first refused because too little is left; None before that, and once another was served."""
        self.refused_with = 0
        """The limit at that time: a higher one may have been set since."""

    @property
    def spent(self) -> int:
        """What all routers spent, as far as it is known here."""
        return self._recorded if self._part is None else max(self._recorded, self._part.spent)

    @property
    def held_by_all(self) -> int:
        """Units held for requests under way, here and at other routers."""
        return self.held + (self._part.held_elsewhere if self._part is not None else 0)

    def room(self, limit: int) -> int:
        """The units that this router may still hold."""
        return self.part(limit).allowed - self.held

    def free(self, limit: int) -> int:
        """The units that no request holds, here or at other routers."""
        return limit - self.spent - self.held_by_all

    async def reach(self, limit: int, needed: int, wanted: int) -> bool:
        """Try to have room for what is wanted, and wait for what is needed. False where nobody can be asked for that."""
        part, until = self.part(limit), time.monotonic() + _GIVE_SECONDS
        while (room := self.room(limit)) < wanted:
            part.ask(max(1, needed - room), max(part.slice, wanted - max(needed, room)))
            has_answer = await part.answered()
            if self.room(limit) >= needed:
                return True
            if has_answer:
                continue
            # What is free by all that is known here may be kept for another router that asked first, and has left since.
            may_come = part.held_elsewhere or self.free(limit) >= needed
            if part.is_blind or not may_come or time.monotonic() >= until:
                return not part.is_blind
            await asyncio.sleep(part.asks_in_seconds or 0)
        return True

    async def hold(self, limit: int, units: int) -> bool:
        """Hold this much, with what other routers give. False where that is too little."""
        if units > self.room(limit):
            await self.reach(limit, units, units)
            if units > self.room(limit):
                return False
        self.held += units
        return True

    def settle(self, held: int, cost: int) -> None:
        """Give back what was held for something, and count what it came to."""
        self.held -= held
        self._recorded += cost
        if self._part is not None:
            self._part.spend(cost)

    def recall(self, recorded: int) -> None:
        """Count what the ledger says, where that is more."""
        self._recorded = max(self._recorded, recorded)
        if self._part is not None:
            self._part.recall(recorded)

    def close(self) -> None:
        """Give other routers back what this one set aside: its day or month is not the present one."""
        if self._part is not None:
            self._part.close()

    def reopen(self) -> "Budget":
        """Ask for a part of it again: the clock was set back to its day or month."""
        self._part = None
        return self

    def renew(self, span: Span) -> "Budget":
        return Budget(self._caller, self.period, span, 0, self._allowance)

    def share(self, limit: int) -> None:
        """Have all routers count what the ledger says, also before anybody asks for this budget here."""
        if self._recorded:
            self.part(limit)

    def part(self, limit: int) -> SpentPart:
        part = self._part
        if part is None:
            name = (self._caller, self.period.value, str(int(self.span.begins)))
            part = self._part = self._allowance.budget(name, limit, lambda: Use(self.held), lambda: None)
            part.recall(self._recorded)
        part.limit = limit
        return part


class Limited(NamedTuple):
    """A budget with the limit that its caller has there."""

    budget: Budget
    limit: int

    @property
    def share(self) -> float:
        """How much of it is spent: 1 is all."""
        return self.budget.spent / self.limit

    @property
    def is_spent(self) -> bool:
        return self.budget.spent >= self.limit

    @property
    def has_refused(self) -> bool:
        """Whether the last request found too little left, and the budget was not raised since."""
        return self.budget.refused_since is not None and self.budget.refused_with >= self.limit

    def lacks(self, needed: int) -> bool:
        """Whether this much more is too much."""
        return needed > self.budget.room(self.limit)


class Account:
    """Both budgets of a caller, and how long its answers are."""

    __slots__ = ("_budgets", "_lengths", "_others")

    def __init__(self, *budgets: Budget) -> None:
        self._budgets = {budget.period: budget for budget in budgets}
        self._others: dict[Period, Budget] = {}
        """The budgets before those: a clock that is set back returns to them."""
        self._lengths: dict[str, tuple[float, int]] = {}
        """By target: the usual length of this caller's answers, and how many were seen."""

    @property
    def is_held(self) -> bool:
        """Whether requests under way hold a part of a budget."""
        return any(budget.held for budget in (*self._budgets.values(), *self._others.values()))

    def expect(self, target: str) -> float:
        """How long an answer of this target to this caller is likely to be, in tokens."""
        return self._lengths.get(target, (FIRST_LENGTH, 0))[0]

    def learn(self, target: str, tokens: float) -> None:
        usual, seen = self._lengths.pop(target, (FIRST_LENGTH, 0))
        self._lengths[target] = usual + (tokens - usual) * max(_WEIGHT, 1 / (seen + 2)), seen + 1
        if len(self._lengths) > _MOST_LENGTHS:
            del self._lengths[next(iter(self._lengths))]

    def budgets(self, now: float, zone: tzinfo) -> tuple[Budget, ...] | None:
        """Those of this moment, a new one where a day or month is over; None if only the ledger knows what was spent.

        That is so where a day has not begun: the clock was ahead, and what was spent before is not known here.
        """
        for budget in tuple(self._budgets.values()):
            if not (budget.span.begins <= now < budget.span.ends or self._change(budget, now, zone)):
                return None
        return tuple(self._budgets.values())

    def _change(self, budget: Budget, now: float, zone: tzinfo) -> bool:
        period, other = budget.period, self._others.get(budget.period)
        if other is not None and other.span.begins <= now < other.span.ends:
            self._budgets[period] = other.reopen()
        elif now >= budget.span.ends:
            self._budgets[period] = budget.renew(span_of(period, now, zone))
        else:
            return False
        budget.close()
        self._others[period] = budget
        return True

    def replace(self, budgets: Iterable[Budget]) -> tuple[Budget, ...]:
        """Go on with budgets that were read from the ledger. One of the present day or month stays: it knows what is held."""
        for budget in budgets:
            own = self._budgets[budget.period]
            if own.span != budget.span:
                own.close()
                self._budgets[budget.period], self._others[budget.period] = budget, own
        return tuple(self._budgets.values())

    def catch_up(self, period: Period, span: Span, recorded: int) -> None:
        """Count what the ledger says of a period, where that is more: requests that were not counted, since no budget was set.

        It is never less than the truth that is counted here, unless rows were deleted or could not be written.
        """
        budget = self._budgets[period]
        if budget.span == span:
            budget.recall(recorded)


def limits_of(budgets: tuple[Budget, ...], rights: Rights) -> list[Limited]:
    limits = {Period.DAY: rights.daily_usd, Period.MONTH: rights.monthly_usd}
    return [Limited(budget, as_units(usd)) for budget in budgets if (usd := limits[budget.period]) is not None]
