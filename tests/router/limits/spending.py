"""Callers that spend at once: requests that hold, fail, are left and end in any order, on real budgets and without a socket."""

import random
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from msgspec.structs import replace

from router.contract.caller import Caller
from router.contract.entry import Attempt
from router.contract.errors import BudgetSpent
from router.contract.exchange import Arrival, Deadline, Exchange
from router.contract.facts import AttemptEnded, AttemptOpened, Decided, Fact
from router.contract.rights import Rights
from router.contract.signals import TokenCount
from router.contract.spending import as_units
from router.contract.target import Target
from router.contract.usage import Usage
from router.contract.words import Dialect, Operation
from router.limits.budgets import Budgets, Terms
from router.limits.callers import CallerLimits, Holding
from router.limits.rates import CallerRates
from router.limits.whole import ALONE
from tests.tools.exchanges import Told, make_decided, make_decision
from tests.tools.values import ask, make_signals, stand

ADA = Caller("ada")
SOON_SECONDS = 60.0
"""Who is told to come again later than this does not."""


def make_budgets(
    rights: Rights, *, read=lambda span: {}, now=lambda: 1_000_000.0, caller: str = ADA.name, allowance=ALONE, **terms
) -> Budgets:
    budgets = Budgets(read, now, allowance)
    budgets.follow(Terms({caller: rights}, **terms))
    budgets.recall(budgets.read_spending())
    return budgets


def open_for(budgets: Budgets, exchange: Exchange, decided: Decided, rights: Rights) -> Holding:
    holding = CallerLimits({exchange.caller.name: rights}, CallerRates(), budgets).open(exchange, decided)
    assert holding is not None
    return holding


@asynccontextmanager
async def hold(budgets: Budgets, exchange: Exchange, decided: Decided, rights: Rights):
    """One request, from before its first attempt until it is settled. Gives what its answer tells."""
    holding = open_for(budgets, exchange, decided, rights)
    try:
        first = decided.decision.targets[0]
        yield await holding.admit(decided.decision.signals.statuses[first].target)
    finally:
        holding.settle()


def exchange_of(name: str = "req_1", caller: Caller = ADA, **arrival) -> Exchange:
    return Exchange(Arrival(name, Dialect.CHAT, Operation.CREATE, {}, b"", caller, **arrival), 0.0, Deadline(600.0), Told())


def decided_for(
    *targets: Target, prompt_tokens: int = 1_000, spill: tuple[Target, ...] = (), alike: int = 1, **body
) -> Decided:
    """A decision that leads to these targets."""
    signals = make_signals(*(stand(target) for target in (*targets, *spill)), tokens=prompt_tokens)
    names, others = tuple(target.name for target in targets), tuple(target.name for target in spill)
    decision = make_decision(targets=names, spill=others, signals=signals, prompt_tokens=prompt_tokens, alike=alike)
    return make_decided(replace(ask(**body), caller=ADA), decision)


def ended(
    target: Target, cost: float | None, output_tokens: int = 100, error: str | None = None, *, is_estimated: bool = False
) -> Fact:
    usage = Usage(10, output_tokens, is_estimated=is_estimated)
    return AttemptEnded(1.0, target, Attempt(target.name, 200, error, 1.0, usage, cost), None, usage, None)


def opened(target: Target) -> Fact:
    return AttemptOpened(0.5, target, "", ())


@dataclass
class Wish:
    """A request that somebody wants served: how long its prompt and its answer turn out to be, where nothing caps that."""

    prompt_tokens: int
    output_tokens: int
    limit: int | None
    fails_first: bool
    is_left: bool

    def decide(self, template: Decided) -> Decided:
        """The same decision for this request."""
        count, decision = self.prompt_tokens, template.decision
        signals = replace(decision.signals, prompt=TokenCount(count, count, count))
        body = template.view.body if self.limit is None else {**template.view.body, "max_tokens": self.limit}
        view, decision = replace(template.view, body=body), replace(decision, signals=signals, prompt_tokens=count)
        return replace(template, view=view, decision=decision)

    def usage(self, holding: Holding, share: float = 1.0) -> Usage:
        assert holding.cap is not None
        return Usage(self.prompt_tokens, int(min(self.output_tokens, holding.cap.tokens) * share))


@dataclass
class Crowd:
    """Callers who all come at once, and come again when they were refused for the sake of others."""

    budgets: Budgets
    rights: Rights
    targets: tuple[Target, ...]
    random: random.Random
    spent: int = 0
    served: int = 0
    refused: int = 0
    most_at_once: int = 0
    running: list[tuple[Wish, Exchange, Holding]] = field(default_factory=list)

    async def serve(self, wishes: list[Wish]) -> None:
        """Until nobody is left who might still be served."""
        template = decided_for(*self.targets)
        waiting = [(wish, wish.decide(template)) for wish in wishes]
        while waiting or self.running:
            self.random.shuffle(waiting)
            waiting = [each for each in waiting if not await self._begin(*each)]
            self.most_at_once = max(self.most_at_once, len(self.running))
            assert self.running or not waiting, "nobody holds anything, and somebody is told to wait"
            if not self.running:
                return
            for _ in range(self.random.randint(1, len(self.running))):
                await self._end(*self.running.pop(self.random.randrange(len(self.running))))

    async def _begin(self, wish: Wish, decided: Decided) -> bool:
        """False for a caller who comes again: others hold what it needs."""
        exchange = exchange_of()
        holding = open_for(self.budgets, exchange, decided, self.rights)
        try:
            await holding.admit(self.targets[0])
        except BudgetSpent as refusal:
            self.refused += (is_spent := (refusal.retry_after_seconds or 0) > SOON_SECONDS)
            return is_spent
        self.running.append((wish, exchange, holding))
        return True

    async def _end(self, wish: Wish, exchange: Exchange, holding: Holding) -> None:
        first = last = self.targets[0]
        try:
            if wish.fails_first:
                self._attempt(exchange, first, wish.usage(holding, self.random.random()), error="upstream_cut")
                last = self.targets[-1]
                try:
                    await holding.admit(last)
                except BudgetSpent:
                    return
            usage = wish.usage(holding, self.random.random() if wish.is_left else 1.0)
            self._attempt(exchange, last, usage, error="abandoned" if wish.is_left else None)
            self.served += 1
        finally:
            holding.settle()

    def _attempt(self, exchange: Exchange, target: Target, usage: Usage, error: str | None) -> None:
        assert target.price is not None
        cost = target.price.cost(usage)
        exchange.note(opened(target))
        exchange.note(AttemptEnded(1.0, target, Attempt(target.name, 200, error, 1.0, usage, cost), None, usage, None))
        self.spent += as_units(cost)
