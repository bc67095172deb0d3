"""What one request holds where several routers share its caller's budgets."""

import pytest

from router.contract.errors import BudgetSpent
from router.contract.rights import Rights
from router.contract.spending import UNITS_PER_USD
from tests.router.limits.spending import decided_for, ended, exchange_of, hold, make_budgets, open_for, opened
from tests.router.limits.test_budgets import DIME, ONE, SPARK, spend, spent
from tests.tools.allowances import Pool


class ReturningPool(Pool):
    """Takes back what its routers do not use, whenever one of them asks for more."""

    def receive(self, answer) -> None:
        for part in self.parts.values():
            used = part.use().units
            self.left[part.name], part.allowed = part.left + part.allowed - used, used
        super().receive(answer)


async def test_what_is_reached_of_the_day_is_kept_while_the_month_is_asked_for():
    both = Rights(daily_usd=1.0, monthly_usd=10.0)
    budgets = make_budgets(both, allowance=ReturningPool())

    async with hold(budgets, exchange_of(), decided_for(SPARK, **DIME), both):
        held = spent(budgets), spent(budgets, period="month")

    assert held == ((0.0, 0.1), (0.0, 0.1))


async def test_what_was_reached_of_the_day_is_free_again_where_the_month_has_too_little():
    both = Rights(daily_usd=1.0, monthly_usd=1.0)
    pool = Pool()
    budgets = make_budgets(both, allowance=pool)
    budgets.budgets_of("ada")[1].part(UNITS_PER_USD)
    pool.left.update(dict.fromkeys(pool.parts, 0))

    with pytest.raises(BudgetSpent):
        await spend(budgets, 0.03, both)

    assert spent(budgets) == (0.0, 0.0)


@pytest.mark.parametrize(("stream", "confirmed"), [(False, 1), (True, 0)])
async def test_before_an_answer_that_cannot_be_cut_it_is_asked_what_others_went_over_by(stream, confirmed):
    pool = Pool()

    await spend(make_budgets(ONE, allowance=pool), 0.03, **DIME, stream=stream)

    assert len(pool.confirmed) == confirmed


async def test_what_an_answer_cost_above_what_was_held_is_held_and_told_before_it_ends():
    pool, exchange = Pool(), exchange_of()
    budgets = make_budgets(ONE, allowance=pool)
    holding = open_for(budgets, exchange, decided_for(SPARK, **DIME, stream=True), ONE)
    await holding.admit(SPARK)

    assert holding.exceed(0.1) is None
    telling = holding.exceed(1.5)

    assert spent(budgets) == (0.0, 1.5)
    await telling
    assert len(pool.confirmed) == 1
    exchange.note(opened(SPARK))
    exchange.note(ended(SPARK, 1.5))
    holding.settle()
    assert spent(budgets) == (1.5, 0.0)
