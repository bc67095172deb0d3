"""What a second opinion is worth, worked out by hand, and what it may never be."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as some

from router.contract.decision import Projection, Redo, Weighing
from router.contract.economics import ASSUMED_RATES, Economics, TurnSize
from router.contract.opinions import Lean, Opinions
from router.contract.words import Preference, Tier, TurnKind
from router.decide.choose import decide
from router.decide.doubt import LOG_ODDS, RIGHT_SHARE, cost_of_asking, decide_with, value_of_asking, why_never
from router.decide.estimate import costs_of, price_redo
from router.decide.opinions import Rules
from tests.tools.exchanges import make_decided, make_decision
from tests.tools.values import PRICE, ask, make_signals, make_target, stand

ECONOMICS = Economics(
    value_of_time_usd_per_hour=36.0,
    preference=Preference.BALANCED,
    hop_seconds=1.0,
    quick=TurnSize(calls=2, output_tokens=400),
    long=TurnSize(calls=20, output_tokens=8_000),
    base_rate=0.3,
)
"""One second is worth a cent."""


FAST, DEEP = Projection("spark", 0, 10, 0, 0, 0, False), Projection("sage", 0, 40, 0, 0, 0, False)
REDO = Redo(quick_rate=0.0, long_rate=1.0, seconds=120, seconds_slope=0, usd=0, usd_slope=0)


def in_doubt(p: float, fast=FAST, deep=DEEP, redo=REDO):
    """Fast takes 10 s and a redo of 120 s with the chance p; deep takes 40 s. They meet at p = 0.25."""
    weighing = Weighing(fast, deep, redo=redo)
    fast_cost, deep_cost = costs_of(fast, deep, redo, p, ECONOMICS)
    tier = Tier.FAST if fast_cost < deep_cost else Tier.DEEP
    return make_decision(tier, score=p, weighing=weighing, economics=ECONOMICS)


def test_on_fast_it_is_worth_the_chance_of_long_times_what_deep_then_saves():
    """Long is said in 0.2·0.65 + 0.8·0.35 = 41 of 100; then p = 0.13/0.41, fast takes 48.0 s, and deep saves 8.0 of them."""
    assert value_of_asking(in_doubt(0.2)) == pytest.approx(0.41 * (10 + 120 * 0.13 / 0.41 - 40) * 0.01)
    assert value_of_asking(in_doubt(0.2)) == pytest.approx(0.033)


def test_on_deep_it_is_worth_the_chance_of_quick_times_what_fast_then_saves():
    """Quick is said in 0.3·0.35 + 0.7·0.65 = 56 of 100; then p = 0.105/0.56, fast takes 32.5 s, and saves 7.5."""
    assert value_of_asking(in_doubt(0.3)) == pytest.approx(0.56 * (40 - 10 - 120 * 0.105 / 0.56) * 0.01)
    assert value_of_asking(in_doubt(0.3)) == pytest.approx(0.042)


@pytest.mark.parametrize("p", [0.0, 0.1, 0.45, 0.9, 1.0])
def test_where_no_answer_would_change_the_tier_it_is_worth_nothing(p):
    assert value_of_asking(in_doubt(p)) == 0.0


def test_with_one_tier_alone_it_is_worth_nothing():
    assert value_of_asking(make_decision(weighing=None)) == 0.0
    assert value_of_asking(make_decision(weighing=Weighing(Projection("spark", 0, 1, 1, 0, 0, False)))) == 0.0


seconds = some.floats(0.0, 500.0)
usd = some.floats(0.0, 2.0)


@given(some.floats(0.0, 1.0), some.tuples(seconds, seconds, usd, usd), some.tuples(seconds, seconds, usd, usd))
def test_it_is_never_negative_and_nothing_where_no_answer_changes_the_tier(p, fast, deep):
    projections = Projection("spark", 0, *fast, True), Projection("sage", 0, *deep, True)
    decision = in_doubt(p, *projections, price_redo(*projections, ASSUMED_RATES, Preference.BALANCED))

    value = value_of_asking(decision)

    assert value >= 0
    tiers = {decision.tier}
    for sign in (1, -1):
        odds = p / (1 - p) * math.exp(sign * LOG_ODDS) if p < 1 else math.inf
        then = odds / (1 + odds) if odds < math.inf else 1.0
        costs = costs_of(decision.weighing.fast, decision.weighing.deep, decision.weighing.redo, then, ECONOMICS)
        if not math.isclose(*costs, rel_tol=1e-9, abs_tol=1e-9):
            tiers.add(Tier.FAST if costs[0] < costs[1] else Tier.DEEP)
    if value > 1e-6:
        assert len(tiers) == 2
    if len(tiers) == 1:
        assert value < 1e-6


def test_a_question_costs_the_time_until_its_answer_and_its_tokens():
    quick = stand(make_target(), 0.1)
    time = 0.1 + 0.2 + 320 / 60_000 + 8 / 1_000

    assert cost_of_asking(quick, ECONOMICS, 0.4) == pytest.approx(time * 0.01)
    assert cost_of_asking(stand(make_target(price=PRICE), 0.1), ECONOMICS, 0.4) == pytest.approx(
        time * 0.01 + (320 * 1.0 + 8 * 8.0) / 1e6
    )


def test_a_question_costs_no_more_time_than_it_may_take():
    assert cost_of_asking(stand(make_target(), 30.0), ECONOMICS, 0.4) == pytest.approx(0.004)


def test_only_words_that_begin_a_turn_and_say_something_are_asked_about():
    def reason(**more):
        points_back = more.pop("points_back", False)
        signals = make_signals(**{"text": "add a column", **more})
        looks = Lean(0.5, "continues a long task", names_turn=True, points_back=points_back)
        return why_never(make_decision(turn=signals.turn, signals=signals, opinions=Opinions(leans=(("learned", looks),))))

    assert reason() == ""
    assert "this is a tool_loop" in reason(kind=TurnKind.TOOL_LOOP)
    assert "this is a follow_up" in reason(kind=TurnKind.FOLLOW_UP)
    assert "the words alone" in reason(points_back=True)
    assert "the words alone" in reason(text=None)
    assert "the tier is fixed" in why_never(make_decision(decided_by="override"))


def test_an_answer_is_one_more_lean():
    rules, view = Rules((), ECONOMICS, True, ""), ask("add a column")
    before = decide(rules, view, make_signals(text="add a column"))
    decided = make_decided(view, before)

    long, quick = (decide_with(rules, decided, "sage", said).decision for said in ("long", "quick"))

    assert quick.score < before.score < long.score
    assert long.score / (1 - long.score) == pytest.approx(0.3 / 0.7 * RIGHT_SHARE / (1 - RIGHT_SHARE))
    ((policy, lean),) = long.opinions.leans
    assert (policy, lean.because) == ("second_opinion", "the second opinion of sage says long")
    assert lean.because in long.because


@pytest.mark.parametrize("said", ["late", "odd", "failed", "not asked", "would ask"])
def test_what_is_not_an_answer_changes_nothing(said):
    decided = make_decided()

    assert decide_with(Rules((), ECONOMICS, True, ""), decided, "sage", said) is decided
