"""May this request go to this target? The dispatcher asks that before every attempt, of an object that is always there.

A refusal ends the request: it never goes to another target instead.
"""

from collections.abc import Coroutine, Mapping, Sequence, Set
from typing import Any

from router.contract.caller import Caller
from router.contract.errors import NotPermitted, TandemError, Unauthorized
from router.contract.exchange import Arrival, Exchange
from router.contract.facts import Decided
from router.contract.opinions import MayHook
from router.contract.relay import Headers
from router.contract.request import RequestView
from router.contract.rights import BOTH_TIERS, Rights, rights_in
from router.contract.target import Target
from router.contract.words import Operation, PassedRoute
from router.dialects.cap import Cap
from router.dialects.refusals import limit_headers
from router.limits.budgets import Budgets
from router.limits.money import Money
from router.limits.rates import CallerRates, Counted

KEPT_BY_ACCOUNT = frozenset(
    {
        PassedRoute.VIDEOS,
        PassedRoute.FILES,
        PassedRoute.UPLOADS,
        PassedRoute.BATCHES,
        PassedRoute.VECTOR_STORES,
        PassedRoute.FINE_TUNING,
    }
)
"""Routes on which a provider keeps things for its account, and lists them. All callers share the account of a target's key."""


class CallerLimits:
    """What callers may use, by the rights of one plan. `rights` is None where callers need no key."""

    def __init__(
        self, rights: Mapping[str, Rights] | None, rates: CallerRates, budgets: Budgets, hooks: Sequence[MayHook] = ()
    ) -> None:
        self.rates, self.budgets, self.hooks, self._rights = rates, budgets, hooks, rights
        named = (rights or {}).items()
        unlimited = {name for name, own in named if not own.is_limited and own.tiers == BOTH_TIERS}
        self._unlimited: Set[str] = unlimited if not hooks else frozenset()
        self.is_on = bool(hooks) or len(unlimited) < len(named)
        """Whether any caller has a limit, or the operator a hook: if not, no request need ask."""
        self.has_rates = any(own.requests_per_minute or own.tokens_per_minute for _, own in named)
        """Whether a caller may be refused by its head alone: no other request is asked about."""

    def check(self, caller: Caller) -> None:
        """Refuse a caller that has used up its minute, before its request is read. Raises `RateLimited`."""
        self.rates.check(caller.name, rights_in(self._rights, caller.name))

    def tell(self, error: TandemError, arrival: Arrival) -> None:
        """Have a refusal tell its caller what is left, where nothing was counted."""
        if self.is_on and not error.told:
            name = arrival.caller.name
            error.told = limit_headers(self.rates.report(name, rights_in(self._rights, name)), arrival.dialect)

    def open(self, exchange: Exchange, decided: Decided) -> "Holding | None":
        """What counts a request; None for a caller whose use is not limited."""
        name = exchange.caller.name
        return Holding(self, exchange, rights_in(self._rights, name), decided) if name not in self._unlimited else None

    def open_passed(self, exchange: Exchange, route: PassedRoute) -> "Holding":
        """What counts a request for a route that is not decided."""
        return Holding(self, exchange, rights_in(self._rights, exchange.caller.name), None, route)


NO_LIMITS = CallerLimits(None, CallerRates(), Budgets())


class Holding:
    """What one request takes of its caller's limits, from before its first attempt until it is settled."""

    __slots__ = (
        "_counted",
        "_decided",
        "_exchange",
        "_is_admitted",
        "_limits",
        "_money",
        "_noted",
        "_rights",
        "_route",
        "told",
    )

    def __init__(
        self,
        limits: CallerLimits,
        exchange: Exchange,
        rights: Rights,
        decided: Decided | None,
        route: PassedRoute | None = None,
    ) -> None:
        self._limits, self._exchange, self._rights, self._decided, self._route = limits, exchange, rights, decided, route
        self._noted, self._is_admitted = len(exchange.journal), False
        self._counted: Counted | None = None
        self._money: Money | None = None
        self.told: Headers = ()
        """What an answer, or a refusal, tells the caller of its limits."""

    async def admit(self, target: Target) -> Headers:
        """Take what an attempt at this target needs. Returns `told`, once.

        Raises a `TandemError` where the caller may not go there, or too little is left.
        """
        rights, limits, caller = self._rights, self._limits, self._exchange.caller.name
        check_rights(rights, target, self._route)
        if limits.hooks and self._decided is not None:
            check_hooks(limits.hooks, self._decided.view, target)
        if self._is_admitted:
            if self._money is not None:
                await self._money.hold_for(target, self._exchange.journal[self._noted :])
            return ()
        self._counted = await limits.rates.hold(caller, rights, self._decided)
        self._is_admitted, decided = True, self._decided
        if self._counted is not None:
            self.told = limit_headers(self._counted.left, self._exchange.arrival.dialect)
        if not rights.has_budget or decided is None:
            return self.told
        if decided.view.operation is Operation.COUNT_TOKENS:
            limited = limits.budgets.limits_of(caller, rights)
        else:
            self._money = await limits.budgets.hold(caller, rights, decided, target)
            limited = self._money.limits
        self.told += limits.budgets.headers(limited)
        return self.told

    @property
    def cap(self) -> Cap | None:
        """Of the answer to the attempt that was admitted last; None for a caller without a budget."""
        return self._money.cap if self._money is not None else None

    def cover(self, tokens: int) -> float:
        """How many tokens the answers to an attempt with a cap may have, when they have this many."""
        assert self._money is not None
        return self._money.cover(tokens)

    def exceed(self, cost_usd: float) -> Coroutine[Any, Any, None] | None:
        """Tells other routers what an answer cost, where that is more than was held for it; None where it is not."""
        assert self._money is not None
        return self._money.tell() if self._money.exceed(cost_usd) else None

    def settle(self) -> None:
        """The request is over: count what it took."""
        facts, now = self._exchange.journal[self._noted :], self._limits.rates.clock()
        for reservation in (self._money, self._counted):
            if reservation is not None:
                reservation.settle(facts, now)


def check_hooks(hooks: Sequence[MayHook], view: RequestView, target: Target) -> None:
    """Refuse a request that a hook of the operator's own keeps from a target. Raises `NotPermitted`."""
    for hook in hooks:
        if reason := hook.may(view, target):
            raise NotPermitted(f"{reason} ({hook.name})")


def check_rights(rights: Rights, target: Target, route: PassedRoute | None) -> None:
    """Refuse a caller whose key is not for the target's tier, or not for this route.

    Raises `NotPermitted`, or `Unauthorized` for a caller without any right.
    """
    if not rights.tiers:
        raise Unauthorized
    if target.tier not in rights.tiers:
        own, what = " and ".join(sorted(rights.tiers)), f"{route} goes" if route is not None else "this request would go"
        raise NotPermitted(f"{what} to a {target.tier} target here, and this key is for {own} only (tiers)")
    if route is None:
        return
    if rights.has_budget:
        budget = "daily_usd" if rights.daily_usd is not None else "monthly_usd"
        raise NotPermitted(f"what a request to {route} costs is not known, and this key has a budget ({budget})")
    if route in KEPT_BY_ACCOUNT and not target.takes_callers_key and not rights.is_admin:
        raise NotPermitted(f"{route} shows what every caller keeps at {target.name}, so it needs a key with the right admin")
