"""What one request holds of its caller's budgets, and the cap that this puts on its answer."""

from collections.abc import Sequence
from typing import Protocol

from router.contract.errors import TandemError, UpstreamTimeout
from router.contract.facts import AttemptEnded, AttemptOpened, Decided, Fact
from router.contract.rights import Rights
from router.contract.spending import as_units
from router.contract.target import Target
from router.dialects.cap import Cap
from router.limits.accounts import Budget, Limited, limits_of
from router.limits.bounds import Bound, RequestSize, measure
from router.limits.limit import Reservation, unknown

_LEFT = frozenset({"abandoned", UpstreamTimeout.code})
"""Errors of an attempt that was given up while its target may have been writing."""
_BY_REST, _BY_BUDGET = "by what is left of your budget", "since your key has a budget and the request no limit"
_NO_SIZE = RequestSize(0, None)
_MORE = 1.25
"""How much longer an answer may become than it is, where its target ignored its cap."""


class Owner(Protocol):
    """What `Budgets` does for the money that is held of them."""

    def budgets_of(self, caller: str) -> tuple[Budget, ...]: ...

    def bound(self, caller: str, size: RequestSize, target: Target) -> Bound: ...

    def refuse(self, money: "Money", units: int, further: str = "") -> TandemError: ...

    def learn(self, money: "Money", answers: int, facts: Sequence[Fact]) -> None: ...

    def tell_near(self, caller: str, limits: list[Limited]) -> None: ...


class Money(Reservation):
    """Units held for one request, in every budget that it will be paid from, until it is known what its attempts came to."""

    __slots__ = (
        "_bound",
        "_is_streaming",
        "_owner",
        "_size",
        "_spent",
        "budgets",
        "caller",
        "cap",
        "held_at",
        "limits",
        "units",
    )

    def __init__(self, owner: Owner, caller: str, rights: Rights, decided: Decided | None = None) -> None:
        super().__init__()
        self._owner, self.caller, self.units = owner, caller, 0
        self._size = _NO_SIZE if decided is None else measure(decided.view, decided.decision.signals.prompt)
        self._is_streaming = decided is not None and decided.view.is_streaming
        self.cap: Cap | None = None
        """Of the answer to the next attempt."""
        self.held_at: dict[str, int] = {}
        """By target: what was held for an attempt there, at most."""
        self.budgets = owner.budgets_of(caller)
        self.limits = limits_of(self.budgets, rights)

    async def hold_for(self, target: Target, facts: Sequence[Fact] = ()) -> None:
        """Hold what an attempt at this target may cost, after others that are known by their facts, and cap its answer.

        Raises `BudgetSpent`, or `StoreUnavailable` where nobody knows what is left.
        """
        self._bound = bound = self._owner.bound(self.caller, self._size, target)
        if not self._is_streaming:  # nothing can cut it, so what others went over by must be known first
            await self.tell()
        self._spent = spent = self.cost_of(facts)
        missing = spent - self.units
        free = min(budget.free(limit) for budget, limit in self.limits) - missing
        needed, wanted = missing + bound.least_units, missing + bound.choose_units(free)
        if not self.hold_now(wanted):
            has_room = self.hold_now(await self._reach(needed, wanted, target.name if facts else ""))
            assert has_room
        own = self.units - spent
        self.held_at[target.name] = max(own, self.held_at.get(target.name, 0))
        tokens = bound.tokens(own)
        ours = _BY_REST if tokens < bound.most_tokens else _BY_BUDGET if self._size.answer_tokens is None else ""
        self.cap = Cap(tokens, ours)

    async def _reach(self, needed: int, wanted: int, further: str) -> int:
        """Ask other routers for what is wanted of all budgets, or less. One that is reached is kept while the next is asked."""
        kept: list[tuple[Budget, int]] = []
        try:
            for budget, limit in self.limits:
                if not await budget.reach(limit, needed, wanted):
                    raise unknown("what is left of your budget")
                if (wanted := min(wanted, budget.room(limit))) < needed:
                    break
                budget.held += wanted
                kept.append((budget, wanted))
        finally:
            for budget, units in kept:
                budget.held -= units
        if wanted < needed:
            raise self._owner.refuse(self, needed, further)
        return wanted

    def exceed(self, cost_usd: float) -> bool:
        """Hold what the present attempt came to, where that is more than was held for it: its target ignored the cap."""
        over = self._spent + as_units(cost_usd) - self.units
        if over <= 0:
            return False
        self.units += over
        for budget in self.budgets:
            budget.held += over
        return True

    async def tell(self) -> None:
        """Exchange with other routers what each of them holds and has spent."""
        for budget, limit in self.limits:
            await budget.part(limit).confirm()

    def cover(self, tokens: int) -> float:
        """How many tokens all answers to the present attempt may have. More is held if they have this many already."""
        bound, answers = self._bound, self._size.answers
        covered = bound.covered(self.units - self._spent) * answers
        if covered > tokens:
            return covered
        wanted = self._spent + bound.units(tokens * _MORE / answers) - self.units
        self.hold_now(max(0, min(wanted, *(budget.room(limit) for budget, limit in self.limits))))
        return bound.covered(self.units - self._spent) * answers

    def hold_now(self, units: int) -> bool:
        """Hold this much more, or less, if there is room without asking anybody."""
        if units > 0 and any(limited.lacks(units) for limited in self.limits):
            return False
        self.units += units
        for budget in self.budgets:
            budget.held += units
        return True

    def cost_of(self, facts: Sequence[Fact]) -> int:
        """What attempts came to. One that is not known, or has no end, counts as what was held for it."""
        total, under_way = 0, None
        for fact in facts:
            if isinstance(fact, AttemptEnded):
                under_way = None
                total += self._cost_of(fact)
            elif isinstance(fact, AttemptOpened):
                under_way = fact.target.name
        return total if under_way is None else total + self.held_at.get(under_way, 0)

    def _cost_of(self, ended: AttemptEnded) -> int:
        """An answer in one piece that was not awaited may have been written whole."""
        held, cost = self.held_at.get(ended.target.name, 0), ended.attempt.cost_usd
        is_unknown = cost is None or (
            not self._is_streaming and ended.attempt.error in _LEFT and ended.usage is not None and ended.usage.is_estimated
        )
        return max(held, as_units(cost or 0.0)) if is_unknown else as_units(cost or 0.0)

    def _settle(self, facts: Sequence[Fact], now: float) -> None:
        self._give_back(self.cost_of(facts))
        self._owner.learn(self, self._size.answers, facts)
        self._owner.tell_near(self.caller, self.limits)

    def _release(self, now: float) -> None:
        self._give_back(0)

    def _give_back(self, cost: int) -> None:
        for budget in self.budgets:
            budget.settle(self.units, cost)
