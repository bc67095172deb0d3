"""Budgets: what a caller may spend in a day and in a month.

Before each attempt, a part of what is left is held for it. What the part covers at the target's price caps the answer (`Cap`),
so the attempt cannot cost more. It is settled with what the request's attempts came to, as the ledger records it. So the
requests under way can never spend more together than what is left, however many there are.

- A request is refused if what is left does not cover its prompt and the shortest useful answer (`bounds`).
- A failed attempt may be billed as well: what is held before a further one covers what the earlier ones came to. Where too
  little is left for that, the request ends there.
- A look has a reservation of its own, until it is answered (`hold_question`).
- A cost that is not known counts as what was held for it. Counting tokens, and what the router answers by itself, costs
  nothing.
"""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, tzinfo
from operator import attrgetter

from msgspec import Struct

from router.contract.allowance import Allowance
from router.contract.errors import BudgetHeld, BudgetSpent, TandemError, Unavailable, UpstreamRefused
from router.contract.exchange import Exchange
from router.contract.facts import AttemptEnded, Decided, Fact, QuestionEnded
from router.contract.notices import Notice, Trouble
from router.contract.relay import Headers
from router.contract.request import Json, RequestView
from router.contract.rights import Rights, rights_in
from router.contract.signals import Signals
from router.contract.spending import UNITS_PER_USD, Period, Span, Standing, as_usd, show_usd, span_of
from router.contract.stores import RETRY_AFTER_SECONDS, StoreUnusable
from router.contract.target import Target
from router.contract.words import Operation
from router.dialects.hosts import find_longest_limit
from router.limits.accounts import FIRST_LENGTH, Account, Budget, Limited, limits_of
from router.limits.bounds import Bound, RequestSize, bound_of, bound_of_question, measure
from router.limits.money import Money
from router.limits.whole import ALONE
from router.telemetry import events

HEADER = "x-tandem-budget"
_SHOWN_UNITS = UNITS_PER_USD // 10_000
_HELD_RETRY_SECONDS = 5.0
"""When to try again where requests under way hold the rest: nobody knows when they end, or how much they leave."""
ReadSpending = Callable[[Span], Mapping[str, int]]
"""What each caller's requests of a day or month came to, by the ledger, in units of money. It blocks."""


class Terms(Struct, frozen=True):
    rights: Mapping[str, Rights] | None
    """Of all callers, by name; None where callers need no key."""
    zone: tzinfo = UTC
    warn_at: float = 0.8
    added_tokens: Mapping[str, int] = {}
    """What the config adds to each target's prompts, at most."""

    @property
    def owners(self) -> list[str]:
        return [name for name, rights in (self.rights or {}).items() if rights.has_budget]


_share = attrgetter("share")
Spending = list[tuple[Period, Span, Mapping[str, int]]]
"""What the ledger says that each caller has spent in the present day and month."""


class Budgets:
    """Counts what callers spend. It outlives a plan; what a plan changes of it is in its terms."""

    def __init__(
        self, read: ReadSpending | None = None, now: Callable[[], float] = time.time, allowance: Allowance = ALONE
    ) -> None:
        self._read, self._now, self._allowance = read, now, allowance
        self._terms = Terms(None)
        self._accounts: dict[str, Account] = {}
        self._taken: dict[str, int] = {}
        """By target: the longest limit of an answer that it takes, where it refused one of ours."""

    @property
    def is_recorded(self) -> bool:
        """Whether there is a ledger: without one, a restart would forget what was spent."""
        return self._read is not None

    @property
    def has_terms(self) -> bool:
        """Whether a plan was built before."""
        return self._terms.rights is not None

    @property
    def is_needed(self) -> bool:
        return bool(self._terms.owners)

    def follow(self, terms: Terms) -> None:
        """Apply another config. A new time zone counts from the next day and the next month on.

        A caller without a budget is dropped once no request of the plan before can spend from it; if it gets a budget again,
        spending is re-read from the ledger.
        """
        before, self._terms = self._terms.owners, terms
        self._accounts = {name: account for name, account in self._accounts.items() if name in before or account.is_held}

    def read_spending(self) -> Spending:
        """What the ledger says. It blocks: on an event loop, ask in a thread. Raises `StoreUnusable`."""
        now, zone, read = self._now(), self._terms.zone, self._read or (lambda _: {})
        spans = [(period, span_of(period, now, zone)) for period in Period]
        return [(period, span, read(span)) for period, span in spans]

    def recall(self, spending: Spending) -> None:
        """Count what the ledger says, for every caller that has a budget now."""
        now, zone = self._now(), self._terms.zone
        for name in self._terms.owners:
            account = self._accounts.get(name)
            if account is None or account.budgets(now, zone) is None:
                self._open_account(name, spending)
                continue
            for period, span, sums in spending:
                account.catch_up(period, span, sums.get(name, 0))
        for _, limits in self.known_limits():
            for budget, limit in limits:
                budget.share(limit)

    def _open_account(self, name: str, spending: Spending) -> tuple[Budget, ...]:
        """Begin to count, or begin again where the clock was ahead."""
        budgets = tuple(Budget(name, period, span, sums.get(name, 0), self._allowance) for period, span, sums in spending)
        for limited in limits_of(budgets, self._rights_of(name)):  # before a restart, somebody was told
            limited.budget.near_since = self._now() if limited.share >= self._terms.warn_at else None
        if (account := self._accounts.get(name)) is None:
            account = self._accounts[name] = Account(*budgets)
        return account.replace(budgets)

    async def hold(self, caller: str, rights: Rights, decided: Decided, target: Target) -> Money:
        """Hold what an attempt at this target may cost. Raises `BudgetSpent`, or `StoreUnavailable`."""
        money = Money(self, caller, rights, decided)
        await money.hold_for(target)
        return money

    def bound(self, caller: str, size: RequestSize, target: Target) -> Bound:
        account = self._accounts.get(caller)
        expected = account.expect(target.name) if account is not None else FIRST_LENGTH
        return bound_of(size, target, expected, self._terms.added_tokens.get(target.name, 0), self._taken.get(target.name))

    @contextmanager
    def hold_question(self, exchange: Exchange, target: Target, words: str, most_tokens: int) -> Iterator[bool]:
        """Hold what a question of ours may cost until it is answered. False where there is too little: nobody is asked then."""
        rights, caller = self._rights_of(exchange.caller.name), exchange.caller.name
        if not rights.has_budget or target.price is None:
            yield not rights.has_budget and bool(rights.tiers)
            return
        most = bound_of_question(target, words, most_tokens)
        money, noted = Money(self, caller, rights), len(exchange.journal)
        money.held_at[target.name] = most
        try:
            yield money.hold_now(most)
        finally:
            money.settle(exchange.journal[noted:], self._now())

    def picture(self, caller: str) -> dict[str, Json]:
        """A caller's budgets with what is left of each, for the caller itself. Empty without a budget."""
        return {
            str(budget.period): {
                "limit_usd": as_usd(limit),
                "spent_usd": as_usd(budget.spent),
                "held_usd": as_usd(budget.held),
                "left_usd": as_usd(max(0, limit - budget.spent)),
                "resets_at": self._time_of(budget.span.ends).isoformat(),
            }
            for budget, limit in self.limits_of(caller, self._rights_of(caller))
        }

    def find_troubles(self) -> list[Notice]:
        """One notice for each caller that has spent nearly all of a budget, or all of it."""
        found: list[Notice] = []
        for name, limits in self.known_limits():
            pressed = [limited for limited in limits if limited.has_refused or limited.share >= self._terms.warn_at]
            if not pressed:
                continue
            # Of a daily and a monthly budget, the one that keeps the caller waiting longer.
            of_all = max(pressed, key=lambda limited: (limited.is_spent, limited.has_refused, limited.budget.span.ends))
            budget, limit = of_all
            whole, full = f"the {budget.period.adjective} budget of {show_usd(limit)}", self._say_end(budget)
            kind, text = Trouble.BUDGET_NEAR, f"{budget.spent / limit:.0%} of {whole} is spent"
            if of_all.is_spent:
                kind, text = Trouble.BUDGET_SPENT, f"{whole} is used up until {full}"
            elif of_all.has_refused:
                left = show_usd(limit - budget.spent)
                text = f"{left} of {whole} is left, too little for the last request; it resets at {full}"
            since = budget.refused_since or budget.near_since or budget.span.begins
            hint = f"tandem keys set {name} --{budget.period.adjective}-usd AMOUNT"
            found.append(Notice(kind, name, since, f"{name}: {text}", hint))
        return found

    def known_limits(self) -> Iterator[tuple[str, list[Limited]]]:
        """Every caller with a budget whose spending is known, with its budgets of this moment. No file is read."""
        now, zone = self._now(), self._terms.zone
        for name in self._terms.owners:
            account = self._accounts.get(name)
            if account is not None and (budgets := account.budgets(now, zone)) is not None:
                yield name, limits_of(budgets, self._rights_of(name))

    def _say_end(self, budget: Budget) -> str:
        """When a budget resets, in the time zone that it is counted in."""
        return f"{self._time_of(budget.span.ends):%Y-%m-%d %H:%M %Z}"

    def used_part(self, caller: str) -> float:
        """How much of a caller's budget is spent, 0 to 1: of the day or the month, where it is more."""
        return max((limited.share for limited in self.limits_of(caller, self._rights_of(caller))), default=0.0)

    def standing(self, view: RequestView, signals: Signals) -> Standing | None:
        """How near a request's caller is to the end of its budgets; None without one, and where no file was read yet."""
        caller = view.caller.name
        rights, account = self._rights_of(caller), self._accounts.get(caller)
        if not rights.has_budget or account is None or view.operation is Operation.COUNT_TOKENS:
            return None
        budgets = account.budgets(self._now(), self._terms.zone)
        if budgets is None:
            return None
        limits = limits_of(budgets, rights)
        nearest, free = max(limits, key=_share), min(budget.free(limit) for budget, limit in limits)
        size, targets = measure(view, signals.prompt), [status.target for status in signals.statuses.values()]
        dear = [each.name for each in targets if each.price is not None and self.bound(caller, size, each).usual_units > free]
        return Standing(nearest.share, nearest.budget.period, frozenset(dear))

    def limits_of(self, caller: str, rights: Rights) -> list[Limited]:
        return limits_of(self.budgets_of(caller), rights) if rights.has_budget else []

    def budgets_of(self, caller: str) -> tuple[Budget, ...]:
        account = self._accounts.get(caller)
        if account is not None and (found := account.budgets(self._now(), self._terms.zone)) is not None:
            return found
        # Nearly always it was read at the start or with a reload. This keeps the loop waiting, once for each caller.
        try:
            spending = self.read_spending()
        except StoreUnusable as error:
            words = f"what is left of your budget is not known: the ledger cannot be read ({error})"
            raise Unavailable(words, retry_after_seconds=RETRY_AFTER_SECONDS) from error
        return self._open_account(caller, spending)

    def learn(self, money: Money, answers: int, facts: Sequence[Fact]) -> None:
        """Learn how long a caller's answers are, from whole ones, and which cap a target refuses."""
        account = self._accounts.get(money.caller)
        for fact in facts:
            if account is None or isinstance(fact, QuestionEnded) or not isinstance(fact, AttemptEnded):
                continue
            name, error = fact.target.name, fact.error
            if fact.attempt.error is None and fact.usage is not None:
                account.learn(name, fact.usage.output_tokens / answers)
            elif (
                isinstance(error, UpstreamRefused) and error.blames_the_request and money.cap is not None and money.cap.because
            ):
                most = find_longest_limit(error.body.decode("utf-8", "replace"), money.cap.tokens)
                self._taken[name] = most or self._taken.get(name, money.cap.tokens)

    def refuse(self, money: Money, units: int, further: str = "") -> TandemError:
        """Why there is too little for this much more: for good, until another day or month, or while others are under way.

        `further` names the target of an attempt after others.
        """
        lacking, own = [limited for limited in money.limits if limited.lacks(units)], money.units
        needed = f"{show_usd(own + units)} for its prompt and a short answer"
        if further:
            return self._refuse_further(lacking, own, f"{further} is not tried: this request needs {needed} there")
        for budget, limit in lacking:
            if own + units > limit:
                whole = f"your whole {budget.period.adjective} budget of {show_usd(limit)}"
                return BudgetSpent(f"this request needs {needed}, which is more than {whole}: shorten the prompt")
        spent = [limited for limited in lacking if limited.budget.spent + own + units > limited.limit]
        budget, limit = max(spent or lacking, key=lambda limited: limited.budget.span.ends)
        name = f"your {budget.period.adjective} budget of {show_usd(limit)}"
        if not spent:
            others = show_usd(budget.held_by_all - own)
            words = f"{show_usd(budget.spent)} is spent, and other requests hold {others} until they end"
            told = f"{name} has no room now for a request that needs {needed}: {words}"
            return BudgetHeld(told, retry_after_seconds=_HELD_RETRY_SECONDS)
        budget.refused_with = limit
        if budget.refused_since is None:
            budget.refused_since = self._now()
            events.budget_spent(
                caller=money.caller, period=budget.period, spent_usd=as_usd(budget.spent), limit_usd=as_usd(limit)
            )
        seconds, left = max(1.0, budget.span.ends - self._now()), max(0, limit - budget.spent)
        told = f"{show_usd(left)} of {name} is left, and this request needs {needed}" if left else f"{name} is used up"
        told = f"{told}. It resets at {self._say_end(budget)}"
        return BudgetSpent(told, retry_after_seconds=seconds)

    def _refuse_further(self, lacking: list[Limited], own: int, needed: str) -> TandemError:
        """Another attempt at the targets that are covered may succeed, so the budget does not count as used up."""
        budget, limit = max(lacking, key=lambda limited: limited.budget.span.ends)
        left = max(0, budget.free(limit) + own)
        whole = f"your {budget.period.adjective} budget of {show_usd(limit)}"
        return BudgetSpent(f"{needed}, and {show_usd(left)} of {whole} is left", retry_after_seconds=_HELD_RETRY_SECONDS)

    def headers(self, limits: list[Limited]) -> Headers:
        """What an answer tells its caller of the budget of which most is spent."""
        nearest = max(limits, key=_share)
        budget, limit = nearest
        # Rounded down: 1.00 is for a budget that is spent to the last cent.
        share, left = int(nearest.share * 100) / 100, max(0, limit - budget.spent) // _SHOWN_UNITS * _SHOWN_UNITS
        return ((HEADER, f"{share:.2f}; left_usd={as_usd(left):.4f}; period={budget.period}"),)

    def tell_near(self, caller: str, limits: list[Limited]) -> None:
        for budget, limit in limits:
            budget.refused_since = None  # there was room for this one
            if budget.near_since is None and budget.spent >= limit * self._terms.warn_at:
                budget.near_since = self._now()
                events.budget_near(caller=caller, period=budget.period, spent_usd=as_usd(budget.spent), limit_usd=as_usd(limit))

    def _rights_of(self, caller: str) -> Rights:
        return rights_in(self._terms.rights, caller)

    def _time_of(self, at: float) -> datetime:
        return datetime.fromtimestamp(at, self._terms.zone)
