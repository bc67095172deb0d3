"""Budgets that several routers share: what may be spent is set aside for this router in a store, before it is held here."""

import asyncio
import time
from collections.abc import Callable

from router.contract.allowance import Allowance, SpentPart, Use
from router.contract.exchange import Exchange
from router.contract.facts import Decided
from router.contract.rights import Rights
from router.contract.spending import Period, Span
from router.contract.target import Target
from router.contract.words import Operation
from router.limits.accounts import Purse, limits_of
from router.limits.budgets import Budgets, ReadSpending, Spending
from router.limits.shared_limits import unknown

_GIVE_SECONDS = 1.0
"""How long a request waits for what other routers have and do not need: they give it back within this time."""


class SharedPurse(Purse):
    """One budget of one caller, of which this router has a part. `spent` is what all routers spent, as far as it is known."""

    __slots__ = ("_allowance", "_name", "_part", "_recorded")

    def __init__(self, allowance: Allowance, name: str, period: Period, span: Span, recorded: int = 0) -> None:
        super().__init__(period, span, recorded)
        self._allowance, self._name, self._recorded = allowance, name, recorded
        self._part: SpentPart | None = None

    def room(self, limit: int) -> int:
        part = self._find(limit)
        return part.allowed - self.held

    @property
    def held_by_all(self) -> int:
        return self.held + (self._part.held_elsewhere if self._part is not None else 0)

    def settle(self, held: int, cost: int) -> None:
        super().settle(held, cost)
        self._recorded += cost
        if self._part is not None:
            self._part.spend(cost)

    def recall(self, spent: int) -> None:
        self._recorded = max(self._recorded, spent)
        if self._part is None:
            super().recall(spent)
        else:
            self._part.recall(spent)

    def renew(self, span: Span) -> Purse:
        if self._part is not None:
            self._part.close()
        return SharedPurse(self._allowance, self._name, self.period, span)

    def share(self, limit: int) -> None:
        """Have all routers count what the ledger says, also before anybody asks for this budget here."""
        if self._recorded:
            self._find(limit)

    async def reach(self, limit: int, needed: int) -> bool:
        """Try to have room for this much; False where nobody can be asked whether there is."""
        part, until = self._find(limit), time.monotonic() + _GIVE_SECONDS
        while (room := self.room(limit)) < needed:
            part.ask(needed - room, part.slice)
            if await part.answered():
                continue
            if part.is_blind or not part.held_elsewhere or time.monotonic() >= until:
                return not part.is_blind
            await asyncio.sleep(part.asks_in_seconds or 0)
        return True

    def _find(self, limit: int) -> SpentPart:
        part = self._part
        if part is None:
            name = (self._name, self.period.value, str(int(self.span.begins)))
            part = self._part = self._allowance.budget(name, limit, lambda: Use(self.held), self._learn)
            part.recall(self._recorded)
        part.limit = limit
        return part

    def _learn(self) -> None:
        if self._part is not None:
            self.spent = self._part.spent


class SharedBudgets(Budgets):
    """Counts what callers spend at all routers that share a store."""

    def __init__(self, read: ReadSpending | None, allowance: Allowance, now: Callable[[], float] = time.time) -> None:
        super().__init__(read, now)
        self._allowance = allowance

    def make_purse(self, name: str, period: Period, span: Span, spent: int) -> Purse:
        return SharedPurse(self._allowance, name, period, span, spent)

    def recall(self, spending: Spending) -> None:
        super().recall(spending)
        for _, limits in self.known_limits():
            for purse, limit in limits:
                if isinstance(purse, SharedPurse):
                    purse.share(limit)

    async def reach(self, exchange: Exchange, decided: Decided | None, rights: Rights) -> None:
        """Try to have what a request may cost at most. Raises `StoreUnavailable` where nobody knows what is left."""
        if not rights.has_budget or decided is None or decided.view.operation is Operation.COUNT_TOKENS:
            return
        _, most = self.bound(exchange, decided)
        await self._reach(exchange.caller.name, rights, most)

    async def reach_another(self, exchange: Exchange, target: Target) -> None:
        rights = self._terms.rights.get(exchange.caller.name)
        if rights is not None and rights.has_budget and (missing := self.missing_for(exchange, target)) > 0:
            await self._reach(exchange.caller.name, rights, missing)

    async def _reach(self, caller: str, rights: Rights, units: int) -> None:
        for purse, limit in limits_of(self.purses_of(caller), rights):
            if isinstance(purse, SharedPurse) and not await purse.reach(limit, units):
                raise unknown("what is left of your budget")
