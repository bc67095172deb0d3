"""Time to done, worked out by hand, and that the decision measures with the same yardstick."""

import pytest
from hypothesis import given
from hypothesis import strategies as some

from router.contract.decision import Projection, Redo, Weighing
from router.contract.target import Speed
from router.contract.words import Tier
from router.decide.estimate import estimates_of
from router.decide.yardstick import Assumptions, Took, to_done, took
from tests.tools.exchanges import ECONOMICS

ASSUMED = Assumptions(fails_quick=0.1, fails_long=0.5, failure_seconds=60.0)
FAST, DEEP = Took(4.0, 0.01), Took(40.0, 0.2)


def test_deep_is_done_with_its_first_answer():
    assert to_done(Tier.DEEP, FAST, DEEP, 1.0, ASSUMED) == (40.0, 0.0, 0.2, 0.0)


@pytest.mark.parametrize(("p", "wrong"), [(0.0, 0.1), (1.0, 0.5), (0.5, 0.3)])
def test_fast_adds_the_persons_time_and_the_turn_on_deep_by_the_chance_that_it_fails(p, wrong):
    done = to_done(Tier.FAST, FAST, DEEP, p, ASSUMED)

    assert done.wrong == pytest.approx(wrong)
    assert done.redo_seconds == pytest.approx(wrong * (60.0 + 40.0))
    assert done.seconds == pytest.approx(4.0 + done.redo_seconds)
    assert done.usd == pytest.approx(0.01 + wrong * 0.2)


def test_without_a_price_on_either_tier_the_money_of_fast_is_not_known():
    assert to_done(Tier.FAST, FAST, Took(40.0), 0.0, ASSUMED).usd is None
    assert to_done(Tier.FAST, Took(4.0), DEEP, 0.0, ASSUMED).usd is None


def test_a_turn_of_which_only_the_calls_are_known_writes_and_uses_tools_as_recorded_ones_do():
    assert took(Speed(0.9, 65.0, 60_000.0), 10).seconds == pytest.approx(10 * (0.9 + 199 / 65 + 0.3))


@given(some.floats(0, 1), some.floats(0, 100), some.floats(0, 1_000), some.floats(0, 1), some.floats(0, 1))
def test_the_estimate_of_the_decision_is_the_yardsticks_with_what_its_own_redo_costs(p, fast, deep, quick_rate, long_rate):
    """One formula: the decision puts another price on a failure, in proportion to the work."""
    redo = Redo(quick_rate, long_rate, seconds=7 * deep, seconds_slope=0, usd=0, usd_slope=0)
    weighing = Weighing(Projection("f", 0, fast, 0, 0, 0, False), Projection("d", 0, deep, 0, 0, 0, False), redo=redo)

    estimates = estimates_of(weighing, p, ECONOMICS)

    assumed = Assumptions(quick_rate, long_rate, failure_seconds=6 * deep)
    for tier in Tier:
        assert estimates[tier].seconds == pytest.approx(to_done(tier, Took(fast), Took(deep), p, assumed).seconds)


def test_the_sentence_says_all_that_is_assumed():
    assert ASSUMED.sentence() == (
        "assumed: fast's first answer is wrong in 10 % of quick and 50 % of long turns,"
        " which costs you 60 s and the turn again on deep"
    )
