"""Budgets that several routers share."""

import pytest

from router.contract.errors import BudgetSpent, StoreUnavailable
from router.contract.rights import Rights
from router.contract.spending import UNITS_PER_USD
from router.contract.target import Price
from router.limits.budgets import Terms
from router.limits.shared_budgets import SharedBudgets
from tests.router.limits.spending import decided_for, ended, exchange_of, opened
from tests.tools.allowances import Pool
from tests.tools.scripted import HandClock
from tests.tools.values import make_target

SPARK = make_target(price=Price(input=1.0, output=10.0))
ONE = Rights(daily_usd=1.0)
DIME = {"prompt_tokens": 0, "max_tokens": 10_000}


def budgets_of(pool, recorded=0):
    clock = HandClock()
    clock.now = 1_800_000_000.0
    budgets = SharedBudgets(lambda since: {"ada": recorded}, pool, clock)
    budgets.follow(Terms({"ada": ONE}))
    budgets.recall(budgets.read_spending())
    return budgets


async def spend(budgets, cost):
    exchange, decided = exchange_of(), decided_for(SPARK, **DIME)
    await budgets.reach(exchange, decided, ONE)
    with budgets.hold(exchange, decided, ONE):
        exchange.note(opened(SPARK))
        exchange.note(ended(SPARK, cost))


def part_of(pool):
    (part,) = pool.parts.values()
    return part


async def test_what_a_request_may_cost_is_set_aside_before_it_is_held_and_what_it_cost_is_told():
    pool = Pool(UNITS_PER_USD)
    budgets = budgets_of(pool)

    await spend(budgets, 0.03)

    assert pool.left == UNITS_PER_USD - UNITS_PER_USD // 10 - 1
    assert part_of(pool).spent == 3 * UNITS_PER_USD // 100
    assert part_of(pool).allowed == 7 * UNITS_PER_USD // 100 + 1


async def test_what_the_ledger_says_is_told_once_a_budget_is_asked_for():
    pool = Pool(UNITS_PER_USD)

    await spend(budgets_of(pool, recorded=77), 0.03)

    assert part_of(pool).recalled == 77


async def test_what_the_ledger_says_is_known_to_all_before_anybody_asks_for_that_budget_here():
    spent, unspent = Pool(UNITS_PER_USD), Pool(UNITS_PER_USD)

    budgets_of(spent, recorded=77)
    budgets_of(unspent)

    assert part_of(spent).recalled == 77
    assert not unspent.parts


async def test_nobody_is_served_once_too_little_is_left_for_all_routers():
    pool = Pool(UNITS_PER_USD // 20)

    with pytest.raises(BudgetSpent):
        await spend(budgets_of(pool), 0.03)


async def test_what_others_hold_is_named_where_it_is_why_there_is_no_room():
    pool = Pool(0)
    budgets = budgets_of(pool)
    await budgets.reach(exchange_of(), decided_for(SPARK, **DIME), ONE)
    part_of(pool).held_elsewhere = UNITS_PER_USD

    with (
        pytest.raises(BudgetSpent, match=r"other requests hold 1.00 USD until they end"),
        budgets.hold(exchange_of(), decided_for(SPARK, **DIME), ONE),
    ):
        pass


async def test_while_nobody_can_be_asked_what_is_left_is_not_known():
    pool = Pool(UNITS_PER_USD)
    pool.is_blind = True

    with pytest.raises(StoreUnavailable, match="what is left of your budget is not known"):
        await spend(budgets_of(pool), 0.03)


async def test_a_further_attempt_is_asked_for_too():
    pool = Pool(UNITS_PER_USD)
    budgets, exchange, decided = budgets_of(pool), exchange_of(), decided_for(SPARK, **DIME)
    await budgets.reach(exchange, decided, ONE)
    with budgets.hold(exchange, decided, ONE):
        exchange.note(opened(SPARK))
        exchange.note(ended(SPARK, 0.05))
        left = pool.left

        await budgets.reach_another(exchange, SPARK)
        budgets.allow_another(exchange, SPARK)

        assert left - pool.left == 5 * UNITS_PER_USD // 100
