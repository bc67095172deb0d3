"""Which budgets are nearly or wholly spent."""

from datetime import UTC, datetime

import pytest

from router.callers.budgets import Terms
from router.callers.troubles import find_troubles
from router.contract.errors import BudgetSpent
from router.contract.rights import Rights
from router.contract.spending import as_units
from tests.router.callers.spending import decided_for, exchange_of, make_budgets
from tests.router.callers.test_budgets import DIME, ONE, SPARK, spend
from tests.tools.scripted import HandClock

NOON = datetime(2026, 11, 16, 12, tzinfo=UTC).timestamp()
DAY = 86_400.0


def refuse(budgets, rights: Rights = ONE) -> None:
    with pytest.raises(BudgetSpent), budgets.hold(exchange_of(), decided_for(SPARK, **DIME), rights):
        pass


def test_a_budget_is_near_from_warn_at_on_and_no_longer_the_next_day():
    clock = HandClock(NOON)
    budgets = make_budgets(ONE, now=clock)
    spend(budgets, 0.79)
    before = find_troubles(budgets)
    clock.now = NOON + 60.0
    spend(budgets, 0.04)

    (notice,) = find_troubles(budgets)

    assert before == []
    assert (notice.kind, notice.subject, notice.since) == ("budget_near", "ada", NOON + 60.0)
    assert notice.text == "ada: 83% of the daily budget of 1.00 USD is spent"
    clock.now = NOON + DAY
    assert find_troubles(budgets) == []


def test_a_budget_is_spent_from_the_first_refusal_on():
    clock = HandClock(NOON)
    budgets = make_budgets(ONE, now=clock)
    spend(budgets, 0.95)
    clock.now = NOON + 60.0

    refuse(budgets)

    (notice,) = find_troubles(budgets)
    assert (notice.kind, notice.since) == ("budget_spent", NOON + 60.0)
    assert notice.text == "ada: the daily budget of 1.00 USD is used up until 2026-11-17 00:00 UTC"


def test_a_budget_of_which_nothing_is_left_is_spent_without_a_refusal():
    budgets = make_budgets(ONE, now=HandClock(NOON))
    spend(budgets, 1.0)

    assert [notice.kind for notice in find_troubles(budgets)] == ["budget_spent"]


def test_a_higher_budget_ends_the_trouble():
    budgets = make_budgets(ONE, now=HandClock(NOON))
    spend(budgets, 0.95)
    refuse(budgets)

    budgets.follow(Terms({"ada": Rights(daily_usd=5.0)}))

    assert find_troubles(budgets) == []


def test_of_two_budgets_that_are_spent_the_monthly_is_shown():
    both = Rights(daily_usd=1.0, monthly_usd=1.0)
    budgets = make_budgets(both, now=HandClock(NOON))
    spend(budgets, 1.0, both)

    (notice,) = find_troubles(budgets)

    assert "monthly budget" in notice.text
    assert "2026-12-01" in notice.text


def test_what_was_nearly_spent_before_a_restart_still_is():
    budgets = make_budgets(ONE, now=HandClock(NOON), read=lambda since: {"ada": as_units(0.9)})

    assert [notice.text for notice in find_troubles(budgets)] == ["ada: 90% of the daily budget of 1.00 USD is spent"]


def test_no_file_is_read():
    reads: list[float] = []

    def read(since: float):
        reads.append(since)
        return {}

    budgets = make_budgets(ONE, read=read, now=HandClock(NOON))
    reads.clear()
    find_troubles(budgets)

    assert reads == []
