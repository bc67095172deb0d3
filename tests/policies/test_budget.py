"""Decisions near the end of a budget."""

import pytest

from policies.budget import BudgetPolicy
from router.contract.economics import Economics
from router.contract.opinions import Lean, RuleOut
from router.contract.spending import Period, Standing
from router.contract.words import Tier
from router.decide.choose import decide
from router.decide.opinions import Rules
from tests.tools.values import ask, make_signals, make_target, stand

SPARK, SAGE, MAGE = (stand(make_target(*given)) for given in (("spark",), ("sage", Tier.DEEP), ("mage", Tier.DEEP)))


def judge(share: float, *, uncovered: tuple[str, ...] = (), period: Period = Period.DAY, near_from: float = 0.8):
    policy = BudgetPolicy(lambda request, signals: Standing(share, period, frozenset(uncovered)), near_from)
    return policy.judge(ask(), make_signals(SPARK, SAGE, MAGE))


def test_a_caller_without_a_budget_is_decided_as_ever():
    assert BudgetPolicy(lambda request, signals: None, 0.8).judge(ask(), make_signals()) == ()


@pytest.mark.parametrize(("share", "near_from"), [(0.0, 0.8), (0.799, 0.8), (0.97, 0.98)])
def test_below_the_limit_of_the_config_nothing_leans(share, near_from):
    assert judge(share, near_from=near_from) == ()


@pytest.mark.parametrize(
    ("share", "period", "because"),
    [(0.8, Period.DAY, "80 % of today's budget is spent"), (0.9499, Period.MONTH, "94 % of this month's budget is spent")],
)
def test_near_the_end_it_leans_to_fast_and_says_how_much_is_spent(share, period, because):
    assert judge(share, period=period) == (Lean(-2.0, because),)


@pytest.mark.parametrize(("share", "percent"), [(0.95, 95), (0.9999, 99), (1.2, 120)])
def test_from_95_percent_on_deep_is_out_as_long_as_something_else_can_serve(share, percent):
    because = f"{percent} % of today's budget is spent"

    out = [RuleOut(name, because, lasting=False, yields=True) for name in ("sage", "mage")]
    assert judge(share) == (Lean(-2.0, because), *out)


def test_a_deep_target_whose_answer_the_rest_does_not_cover_is_out_and_fast_never_is():
    out = RuleOut("sage", "what is left of your budget does not cover it", lasting=False, yields=True)

    assert judge(0.1, uncovered=("spark", "sage")) == (out,)
    assert judge(0.9, uncovered=("sage",)) == (Lean(-2.0, "90 % of today's budget is spent"), out)


class Looks:
    name = "learned"

    def __init__(self, log_odds: float, because: str) -> None:
        self._opinions = (Lean(log_odds, because, names_turn=True),)

    def judge(self, request, signals):
        return self._opinions


LONG, QUICK = Looks(4.0, "looks like a long task"), Looks(-4.0, "looks like a quick edit")


def decided(share: float, looks: Looks = LONG, uncovered: tuple[str, ...] = ()):
    policy = BudgetPolicy(lambda request, signals: Standing(share, Period.DAY, frozenset(uncovered)), 0.8)
    return decide(Rules((looks, policy), Economics(), True, ""), ask(), make_signals(SPARK, SAGE))


def test_a_long_task_is_served_by_fast_from_95_percent_on_and_the_decision_says_why():
    before, after = decided(0.9), decided(0.96)

    assert (before.tier, after.tier) == (Tier.DEEP, Tier.FAST)
    assert after.because == (
        "looks like a long task; deep is out for now (sage: 96 % of today's budget is spent), so fast serves this"
    )
    assert after.spill == ()


@pytest.mark.parametrize(
    ("share", "uncovered", "because"),
    [
        (0.5, ("sage",), "looks like a quick edit"),
        (0.9, ("sage",), "looks like a quick edit; 90 % of today's budget is spent"),
        (0.96, (), "looks like a quick edit; 96 % of today's budget is spent"),
    ],
)
def test_a_quick_edit_says_what_is_spent_and_nothing_of_a_tier_that_it_did_not_want(share, uncovered, because):
    assert decided(share, QUICK, uncovered).because == because
