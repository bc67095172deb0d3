"""Budgets: what a caller may spend in a day and in a month.

The most that a request may cost (`bounds`) is held before anything is sent, and is settled with what its attempts came to, as
the ledger records it. So the requests under way can never spend more together than what is left, however many there are.

- What is held covers one attempt at the dearest target that the decision may lead to. A failed attempt may be billed as well:
  before each further one (`allow_another`), what the earlier ones came to and the most that the next may cost must fit in what
  is held. If it does not, more is held; if there is no more, the request ends there.
- A second opinion is asked before the decision, and has a reservation of its own, until it is answered (`hold_question`).
- `hold` is a context around the whole of dispatch: a caller that leaves, an interruption, a cut and a defect all pass its end.
- A cost that is not known counts as the most that it could have been. Counting tokens, and what the router answers by itself,
  costs nothing.
"""

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime, tzinfo

from msgspec import Struct

from router.contract.errors import BudgetSpent, TandemError, Unavailable
from router.contract.exchange import Exchange
from router.contract.facts import AttemptEnded, AttemptOpened, Decided, QuestionEnded
from router.contract.notices import Notice, Trouble
from router.contract.relay import Headers
from router.contract.request import Json
from router.contract.rights import USUAL, Rights
from router.contract.spending import Period, Span, as_units, as_usd, show_usd, span_of
from router.contract.stores import StoreUnusable
from router.contract.target import Target
from router.contract.words import Operation
from router.limits.accounts import Account, Limited, Purse, Reservation, limits_of
from router.limits.bounds import bound_of, bound_of_question, measure
from router.limits.limit import CallerLimit
from router.telemetry import events

HEADER = "x-tandem-budget"
_FIRST_USUAL_TOKENS = 2_000.0
"""How long an answer is taken to be until some were seen."""
_WEIGHT = 0.1
"""How much one answer changes what is usual; the first ones change it more."""
_HELD_RETRY_SECONDS = 5.0
"""When to try again where requests under way hold the rest: nobody knows when they end, or how much they leave."""
ReadSpending = Callable[[float], Mapping[str, int]]
"""What each caller's requests came to since a time, by the ledger, in units of money. It blocks."""


class Terms(Struct, frozen=True):
    rights: Mapping[str, Rights]
    """Of all callers, by name."""
    zone: tzinfo = UTC
    warn_at: float = 0.8
    added_tokens: Mapping[str, int] = {}
    """What the config adds to each target's prompts, at most."""

    @property
    def owners(self) -> list[str]:
        return [name for name, rights in self.rights.items() if rights.has_budget]


class Spending(Struct, frozen=True):
    """What the ledger says that each caller has spent in the present day and month."""

    sums: tuple[tuple[Period, Span, Mapping[str, int]], ...]


class _Open(Struct, eq=False):
    """A request under way, with what is held for it."""

    reservation: Reservation
    limits: list[Limited]
    bound: Callable[[Target], int]
    noted: int
    """How many facts there were before."""


class Budgets(CallerLimit):
    """Counts what callers spend. It outlives a plan; what a plan changes of it is in its terms."""

    def __init__(self, read: ReadSpending | None, now: Callable[[], float] = time.time) -> None:
        self._read, self._now = read, now
        self._terms = Terms({})
        self._accounts: dict[str, Account] = {}
        self._open: dict[Exchange, _Open] = {}
        self._usual: dict[str, tuple[float, int]] = {}
        """By target: how long an answer usually is, and how many were seen."""

    @property
    def is_recorded(self) -> bool:
        """Whether there is a ledger: without one, a restart would forget what was spent."""
        return self._read is not None

    @property
    def has_terms(self) -> bool:
        """Whether a plan was built before."""
        return bool(self._terms.rights)

    @property
    def is_needed(self) -> bool:
        return bool(self._terms.owners)

    def follow(self, terms: Terms) -> None:
        """Apply another config. A new time zone counts from the next day and the next month on.

        Callers without a budget are dropped; if one gets a budget again, spending is re-read from the ledger.
        """
        self._terms = terms
        owners = set(terms.owners)
        self._accounts = {name: account for name, account in self._accounts.items() if name in owners}

    def read_spending(self) -> Spending:
        """What the ledger says. It blocks: on an event loop, ask in a thread. Raises `StoreUnusable`."""
        now, zone, read = self._now(), self._terms.zone, self._read or (lambda _: {})
        spans = [(period, span_of(period, now, zone)) for period in Period]
        return Spending(tuple((period, span, read(span.begins)) for period, span in spans))

    def recall(self, spending: Spending) -> None:
        """Count what the ledger says, for every caller that has a budget now."""
        for name in self._terms.owners:
            account = self._accounts.get(name)
            if account is None:
                self._accounts[name] = self._open_account(name, spending)
                continue
            for period, span, sums in spending.sums:
                account.catch_up(period, span, sums.get(name, 0))

    def _open_account(self, name: str, spending: Spending) -> Account:
        purses = tuple(self.make_purse(name, period, span, sums.get(name, 0)) for period, span, sums in spending.sums)
        for limited in limits_of(purses, self._terms.rights.get(name, USUAL)):  # before a restart, somebody was told
            limited.purse.near_since = self._now() if limited.share >= self._terms.warn_at else None
        return Account(*purses)

    def make_purse(self, name: str, period: Period, span: Span, spent: int) -> Purse:
        """A caller's budget for a day or a month, with what its ledger says of it."""
        return Purse(period, span, spent)

    @contextmanager
    def hold(self, exchange: Exchange, decided: Decided | None, rights: Rights) -> Iterator[Headers]:
        """Hold the most that a request may cost until it is over. Raises `BudgetSpent`."""
        if not rights.has_budget:
            yield ()
            return
        purses = self.purses_of(exchange.caller.name)
        limits = limits_of(purses, rights)
        if decided is not None and decided.view.operation is Operation.COUNT_TOKENS:
            yield self._headers(limits)
            return
        bound, most = self.bound(exchange, decided)
        opened = _Open(Reservation(purses), limits, bound, len(exchange.journal))
        self._take(exchange, opened, most)
        self._open[exchange] = opened
        try:
            yield self._headers(limits)
        finally:
            del self._open[exchange]
            opened.reservation.settle(self._cost(exchange, opened))
            self._tell_near(exchange.caller.name, limits)

    def allow_another(self, exchange: Exchange, target: Target) -> None:
        """Make sure that a further attempt, at this target, is paid for. Raises `BudgetSpent` where there is too little."""
        if (missing := self.missing_for(exchange, target)) > 0:
            self._take(exchange, self._open[exchange], missing)

    def missing_for(self, exchange: Exchange, target: Target) -> int:
        """How much more must be held for a further attempt at this target."""
        opened = self._open.get(exchange)
        if opened is None:
            return 0
        return self._cost(exchange, opened, learns=False) + opened.bound(target) - opened.reservation.units

    @contextmanager
    def hold_question(self, exchange: Exchange, target: Target, words: str, most_tokens: int) -> Iterator[bool]:
        """Hold what a second opinion may cost until it is answered. False where there is too little: then nobody is asked."""
        rights = self._terms.rights.get(exchange.caller.name)
        if rights is None or not rights.has_budget:
            yield True
            return
        if target.price is None:
            yield False
            return
        purses, most = self.purses_of(exchange.caller.name), bound_of_question(target, words, most_tokens)
        limits = limits_of(purses, rights)
        if any(limited.lacks(most) for limited in limits):
            yield False
            return
        opened = _Open(Reservation(purses), limits, lambda _: most, len(exchange.journal))
        opened.reservation.hold(most)
        try:
            yield True
        finally:
            opened.reservation.settle(self._cost(exchange, opened, learns=False))
            self._tell_near(exchange.caller.name, limits)

    def picture(self, caller: str) -> dict[str, Json]:
        """A caller's budgets with what is left of each, for the caller itself. Empty without a budget."""
        rights = self._terms.rights.get(caller)
        if rights is None or not rights.has_budget:
            return {}
        return {
            str(limited.purse.period): {
                "limit_usd": as_usd(limited.limit),
                "spent_usd": as_usd(limited.purse.spent),
                "held_usd": as_usd(limited.purse.held),
                "left_usd": as_usd(max(0, limited.limit - limited.purse.spent)),
                "resets_at": self._time_of(limited.purse.span.ends).isoformat(),
            }
            for limited in limits_of(self.purses_of(caller), rights)
        }

    def known_limits(self) -> Iterator[tuple[str, list[Limited]]]:
        """Every caller with a budget whose spending is known, with its purses of this moment. No file is read."""
        now, zone = self._now(), self._terms.zone
        for name in self._terms.owners:
            if (account := self._accounts.get(name)) is not None:
                yield name, limits_of(account.purses(now, zone), self._terms.rights[name])

    def say_end(self, purse: Purse) -> str:
        """When a budget is full again, in the time zone that it is counted in."""
        return f"{self._time_of(purse.span.ends):%Y-%m-%d %H:%M %Z}"

    @property
    def warn_at(self) -> float:
        """The share of a budget from which on it counts as nearly spent."""
        return self._terms.warn_at

    def used_part(self, caller: str) -> float:
        """How much of a caller's budget is spent, 0 to 1: of the day or the month, where it is more."""
        limits = limits_of(self.purses_of(caller), self._terms.rights[caller])
        return max((limited.share for limited in limits), default=0.0)

    def purses_of(self, caller: str) -> tuple[Purse, ...]:
        account = self._accounts.get(caller)
        if account is None:
            # Nearly always it was read at the start or with a reload. This keeps the loop waiting, once for each caller.
            try:
                spending = self.read_spending()
            except StoreUnusable as error:
                raise Unavailable("the ledger cannot be read, so what is left of your budget is not known") from error
            account = self._accounts[caller] = self._open_account(caller, spending)
        return account.purses(self._now(), self._terms.zone)

    def bound(self, exchange: Exchange, decided: Decided | None) -> tuple[Callable[[Target], int], int]:
        """The most that an attempt at a target may cost, and the most at any that the request may begin with."""
        assert decided is not None, "a caller with a budget may not use what is passed on: see `passed`"
        decision, size = decided.decision, measure(decided)
        # As dispatch tries them: two of the tier, of those that are alike whichever is the least busy, and one of the other.
        names = (*decision.targets[: max(2, decision.alike)], *decision.spill[:1])
        statuses = decision.signals.statuses

        def bound(target: Target) -> int:
            usual, _ = self._usual.get(target.name, (_FIRST_USUAL_TOKENS, 0))
            return bound_of(size, target, usual, self._terms.added_tokens.get(target.name, 0))

        return bound, max(bound(statuses[name].target) for name in names)

    def _cost(self, exchange: Exchange, opened: _Open, *, learns: bool = True) -> int:
        """What the attempts since then came to. One that is not known, or has no end, counts as the most that it could cost."""
        total, under_way = 0, None
        for fact in exchange.journal[opened.noted :]:
            if isinstance(fact, AttemptEnded):
                under_way, cost = None, fact.attempt.cost_usd
                total += as_units(cost) if cost is not None else opened.bound(fact.target)
                if learns and not isinstance(fact, QuestionEnded) and fact.attempt.error is None and fact.usage is not None:
                    self._learn(fact.target.name, fact.usage.output_tokens)
            elif isinstance(fact, AttemptOpened):
                under_way = fact.target
        return total if under_way is None else total + opened.bound(under_way)

    def _learn(self, target: str, tokens: int) -> None:
        usual, seen = self._usual.get(target, (_FIRST_USUAL_TOKENS, 0))
        self._usual[target] = usual + (tokens - usual) * max(_WEIGHT, 1 / (seen + 2)), seen + 1

    def _take(self, exchange: Exchange, opened: _Open, units: int) -> None:
        lacking = [limited for limited in opened.limits if limited.lacks(units)]
        if lacking:
            raise self._refuse(exchange.caller.name, lacking, opened.reservation.units, units)
        opened.reservation.hold(units)

    def _refuse(self, caller: str, lacking: list[Limited], own: int, units: int) -> TandemError:
        """Why there is too little: for good, until another day or month, or while others are under way."""
        needed = show_usd(own + units)
        for purse, limit in lacking:
            if own + units > limit:
                whole = f"your whole {purse.period.adjective} budget of {show_usd(limit)}"
                return BudgetSpent(f"this request may cost up to {needed}, which is more than {whole}: lower max_tokens")
        spent = [limited for limited in lacking if limited.purse.spent + own + units > limited.limit]
        purse, limit = max(spent or lacking, key=lambda limited: limited.purse.span.ends)
        name = f"your {purse.period.adjective} budget of {show_usd(limit)}"
        if not spent:
            words = (
                f"{show_usd(purse.spent)} is spent, and other requests hold {show_usd(purse.held_by_all - own)} until they end"
            )
            told = f"{name} has no room now for a request that may cost up to {needed}: {words}"
            return BudgetSpent(told, retry_after_seconds=_HELD_RETRY_SECONDS)
        purse.refused_with = limit
        if purse.refused_since is None:
            purse.refused_since = self._now()
            events.budget_spent(caller=caller, period=purse.period, spent_usd=as_usd(purse.spent), limit_usd=as_usd(limit))
        words = f"{show_usd(purse.spent)} is spent, and this request may cost up to {needed}"
        seconds = max(1.0, purse.span.ends - self._now())
        told = f"{name} is used up: {words}. It is full again at {self.say_end(purse)}"
        return BudgetSpent(told, retry_after_seconds=seconds)

    def _headers(self, limits: list[Limited]) -> Headers:
        share = max(limited.share for limited in limits)
        # Rounded down: 1.00 is for a budget that is spent to the last cent.
        return ((HEADER, f"{int(share * 100) / 100:.2f}"),) if share >= self._terms.warn_at else ()

    def _tell_near(self, caller: str, limits: list[Limited]) -> None:
        for purse, limit in limits:
            if purse.near_since is None and purse.spent >= limit * self._terms.warn_at:
                purse.near_since = self._now()
                events.budget_near(caller=caller, period=purse.period, spent_usd=as_usd(purse.spent), limit_usd=as_usd(limit))

    def _time_of(self, at: float) -> datetime:
        return datetime.fromtimestamp(at, self._terms.zone)


def find_troubles(budgets: Budgets) -> list[Notice]:
    """One notice for each caller that has spent nearly all of a budget, or all of it."""
    found = (_find_trouble(budgets, name, limits) for name, limits in budgets.known_limits())
    return [notice for notice in found if notice is not None]


def _find_trouble(budgets: Budgets, name: str, limits: list[Limited]) -> Notice | None:
    """Of a daily and a monthly budget, the one that keeps the caller waiting longer."""
    spent = [limited for limited in limits if _is_spent(limited)]
    near = [limited for limited in limits if limited.share >= budgets.warn_at]
    if not spent and not near:
        return None
    purse, limit = max(spent or near, key=lambda limited: limited.purse.span.ends)
    whole, hint = f"the {purse.period.adjective} budget of {show_usd(limit)}", "set a higher budget in the key file"
    if spent:
        since = purse.refused_since or purse.near_since or purse.span.begins
        text = f"{name}: {whole} is used up until {budgets.say_end(purse)}"
        return Notice(Trouble.BUDGET_SPENT, name, since, text, hint)
    text = f"{name}: {purse.spent / limit:.0%} of {whole} is spent"
    return Notice(Trouble.BUDGET_NEAR, name, purse.near_since or purse.span.begins, text, hint)


def _is_spent(limited: Limited) -> bool:
    """Whether nothing is left, or a request was refused for want of room and the budget was not raised since."""
    purse, limit = limited
    return limited.share >= 1 or (purse.refused_since is not None and purse.refused_with >= limit)
