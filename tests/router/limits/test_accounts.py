"""What a caller has spent, and what is held."""

from datetime import UTC, datetime
from functools import partial
from zoneinfo import ZoneInfo

import pytest

from router.contract.rights import Rights
from router.contract.spending import Period, span_of
from router.limits.accounts import Account, Budget, limits_of
from tests.tools.allowances import Pool, PoolPart

NOON = datetime(2026, 11, 16, 12, tzinfo=UTC).timestamp()
DAY = 86_400


def open_account(spent: int = 0) -> Account:
    return Account(*(Budget("ada", period, span_of(period, NOON, UTC), spent) for period in Period))


def amounts(account: Account, now: float = NOON) -> dict[str, tuple[int, int]]:
    return {str(budget.period): (budget.spent, budget.held) for budget in account.budgets(now, UTC)}


def test_a_new_day_is_full_and_the_month_goes_on():
    account = open_account(spent=80)

    assert amounts(account, NOON + DAY) == {"day": (0, 0), "month": (80, 0)}
    assert amounts(account, NOON + 20 * DAY) == {"day": (0, 0), "month": (0, 0)}


def test_a_clock_that_was_ahead_returns_to_the_budgets_of_its_day():
    account = open_account(spent=80)
    for budget in account.budgets(NOON + 40 * DAY, UTC):
        budget.settle(0, 7)

    assert amounts(account, NOON) == {"day": (80, 0), "month": (80, 0)}
    assert amounts(account, NOON + 40 * DAY) == {"day": (7, 0), "month": (7, 0)}


def test_the_budgets_of_a_day_before_the_account_was_opened_are_for_the_ledger_to_say():
    account = open_account(spent=80)

    assert account.budgets(NOON - DAY, UTC) is None

    account.replace(Budget("ada", period, span_of(period, NOON - DAY, UTC), 5) for period in Period)
    assert amounts(account, NOON - DAY) == {"day": (5, 0), "month": (80, 0)}


@pytest.mark.parametrize(("day", "hours"), [((2026, 3, 29), 23), ((2026, 10, 25), 25)])
def test_a_day_on_which_clocks_are_changed_has_one_budget_from_its_first_to_its_last_second(day, hours):
    berlin = ZoneInfo("Europe/Berlin")
    midnight = datetime(*day, tzinfo=berlin).timestamp()
    account = Account(Budget("ada", Period.DAY, span_of(Period.DAY, midnight, berlin), 80))

    spent = [account.budgets(midnight + seconds, berlin)[0].spent for seconds in range(0, hours * 3_600 + 1, 1_800)]

    assert spent == [80] * 2 * hours + [0]


def test_a_request_that_ends_on_another_day_is_paid_from_the_day_on_which_it_began():
    account = open_account()
    began = account.budgets(NOON, UTC)
    for budget in began:
        budget.held += 100

    assert amounts(account, NOON + DAY) == {"day": (0, 0), "month": (0, 100)}
    for budget in began:
        budget.settle(100, 60)
    assert amounts(account, NOON + DAY) == {"day": (0, 0), "month": (60, 0)}


def test_the_ledger_counts_where_it_says_more_and_is_of_the_same_day():
    account, today, tomorrow = open_account(spent=80), span_of(Period.DAY, NOON, UTC), span_of(Period.DAY, NOON + DAY, UTC)

    account.catch_up(Period.DAY, today, 70)
    account.catch_up(Period.DAY, tomorrow, 900)
    assert amounts(account)["day"] == (80, 0)

    account.catch_up(Period.DAY, today, 95)
    assert amounts(account)["day"] == (95, 0)


def test_only_the_limits_that_a_caller_has_are_held_against_it():
    budgets = open_account().budgets(NOON, UTC)

    assert [limited.budget.period for limited in limits_of(budgets, Rights(monthly_usd=3.0))] == [Period.MONTH]
    assert [limited.limit for limited in limits_of(budgets, Rights(daily_usd=0.1, monthly_usd=3.0))] == [10**7, 3 * 10**8]


def test_what_the_ledger_says_counts_before_other_routers_are_heard():
    budget = Budget("ada", Period.DAY, span_of(Period.DAY, NOON, UTC), 80, Pool())

    assert budget.part(100).spent == 0
    assert budget.spent == 80


class ReservedPart(PoolPart):
    """Is refused until the other router, for which the rest is kept, does not want it any more."""

    refusals = 2
    asks_in_seconds = 0.0

    def ask(self, least: int, more: int = 0) -> None:
        self.refusals -= 1
        if self.refusals < 0:
            super().ask(least, more)


async def test_what_is_kept_for_a_router_that_holds_nothing_is_waited_for():
    pool = Pool()
    pool.budget = partial(ReservedPart, pool)
    budget = Budget("ada", Period.DAY, span_of(Period.DAY, 0.0, UTC), 0, pool)

    assert await budget.reach(1_000, 100, 100)

    assert budget.room(1_000) >= 100


async def test_what_is_held_is_no_more_than_the_limit_of_all_routers():
    pool = Pool()
    first, second, third = (Budget("ada", Period.DAY, span_of(Period.DAY, NOON, UTC), 0, pool) for _ in range(3))

    assert await first.hold(100, 60)
    assert not await second.hold(100, 60)
    assert await third.hold(100, 39)  # the first asked for one more than it needs

    assert [budget.held for budget in (first, second, third)] == [60, 0, 39]
