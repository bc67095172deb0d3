"""Time and money to done, worked out by hand, and where they meet."""

import math

import pytest
from hypothesis import assume, given
from hypothesis import strategies as some
from msgspec.structs import replace

from router.contract.decision import Weighing
from router.contract.economics import ASSUMED_RATES, FLIP_SCORES, Economics, FailureRates, TurnSize
from router.contract.entry import FinishedWork
from router.contract.signals import SessionPosition
from router.contract.target import Price, PriceStep, WorkRatio
from router.contract.words import Preference, Tier, TurnKind
from router.decide.estimate import (
    costs_of,
    count_alike,
    estimates_of,
    find_flip,
    price_redo,
    project,
    project_first,
    rank_tier,
    redo_between,
    weigh,
    worth_waiting,
)
from router.decide.ratios import learn_failures
from tests.tools.exchanges import make_decision
from tests.tools.values import make_signals, make_target, stand

ECONOMICS = Economics(
    value_of_time_usd_per_hour=36.0,
    preference=Preference.BALANCED,
    hop_seconds=1.0,
    quick=TurnSize(calls=2, output_tokens=400),
    long=TurnSize(calls=20, output_tokens=8_000),
    base_rate=0.5,
)
"""One second is worth a cent."""
PRICE = Price(input=10.0, output=50.0, cached_input=1.0, cache_write=12.5)
CHEAP = Price(input=1.0, output=5.0, cached_input=0.1)


def target(name: str = "spark", tier: Tier = Tier.FAST, price: Price | None = None, wait: float = 0.0):
    return stand(make_target(name, tier, price=price), wait, ttft=0.5, speed=100, prefill=1_000)


def redo_of(fast, deep, rates=ASSUMED_RATES, preference=Preference.BALANCED):
    return price_redo(fast, deep, rates, preference)


def weighing_of(fast, deep):
    return Weighing(fast, deep, redo=redo_of(fast, deep))


def test_a_quick_turn_takes_wait_reading_first_tokens_and_writing():
    estimate = weigh(project(target(wait=3.0), 2_000, ECONOMICS), 0.0, ECONOMICS)

    assert estimate.seconds == pytest.approx(3.0 + 2_000 / 1_000 + 2 * 0.5 + 400 / 100)
    assert estimate.cost_usd == pytest.approx(estimate.seconds * 0.01)
    assert (estimate.wait_seconds, estimate.money_usd, estimate.redo_seconds) == (3.0, None, 0.0)


def test_a_long_turn_takes_its_own_calls_and_tokens_and_a_chance_lies_between():
    projection = project(target(), 2_000, ECONOMICS)

    quick, long, even = (weigh(projection, p, ECONOMICS).seconds for p in (0.0, 1.0, 0.5))

    assert long == pytest.approx(2_000 / 1_000 + 20 * 0.5 + 8_000 / 100)
    assert even == pytest.approx((quick + long) / 2)


def test_what_is_warm_is_not_read_again_and_a_hop_takes_its_time():
    cold = project(target(), 50_000, ECONOMICS)

    assert cold.seconds - project(target(), 50_000, ECONOMICS, warm_tokens=40_000).seconds == pytest.approx(40.0)
    assert project(target(), 50_000, ECONOMICS, warm_tokens=90_000).seconds == pytest.approx(cold.seconds - 50.0)
    assert project(target(), 50_000, ECONOMICS, hop_seconds=7.0).seconds == pytest.approx(cold.seconds + 7.0)


def test_money_is_one_write_of_the_cold_part_and_a_cached_read_by_every_further_call():
    estimate = weigh(project(target(price=PRICE), 10_000, ECONOMICS, warm_tokens=4_000), 0.0, ECONOMICS)

    written, read_again, answered = 6_000 * 12.5, (4_000 + 10_000) * 1.0, 400 * 50.0
    assert estimate.money_usd == pytest.approx((written + read_again + answered) / 1e6)
    assert estimate.cost_usd == pytest.approx(estimate.seconds * 0.01 + estimate.money_usd)


def test_without_prices_for_the_cache_all_of_the_prompt_is_paid_in_full_each_time():
    plain = replace(PRICE, cached_input=None, cache_write=None)

    estimate = weigh(project(target(price=plain), 10_000, ECONOMICS), 0.0, ECONOMICS)

    assert estimate.money_usd == pytest.approx((2 * 10_000 * 10.0 + 400 * 50.0) / 1e6)


def test_a_long_prompt_is_weighed_by_the_price_of_its_step():
    stepped = replace(CHEAP, steps=(PriceStep(100_000, 5.0, 25.0, 0.5),))
    dear = Price(input=5.0, output=25.0, cached_input=0.5)

    def usd(price, tokens):
        return weigh(project(target(price=price), tokens, ECONOMICS), 0.0, ECONOMICS).money_usd

    assert usd(stepped, 100_000) == usd(CHEAP, 100_000)
    assert usd(stepped, 100_001) == pytest.approx(usd(dear, 100_001))


def test_a_targets_own_ratio_multiplies_calls_and_tokens_and_is_shown():
    thorough = replace(target(), ratio=WorkRatio(calls=2.0, output=3.0))

    estimate = weigh(project(thorough, 0, ECONOMICS), 0.0, ECONOMICS)

    assert estimate.seconds == pytest.approx(2 * 2 * 0.5 + 3 * 400 / 100)
    assert estimate.ratio == (2.0, 3.0)


def quick_and_slow(price=None, tokens=1_000, **waits):
    """Fast takes 4.8 s for a quick turn of 1,000 tokens with nothing cached, deep 16.6 s; a long turn takes fast 40 s more."""
    fast = stand(make_target(price=price), waits.get("fast_wait", 0.0), ttft=0.5, speed=200, prefill=555.5555)
    deep = stand(make_target("sage", Tier.DEEP, price=price), waits.get("deep_wait", 0.0), ttft=1.0, speed=50, prefill=151.5151)
    return project(fast, tokens, ECONOMICS), project(deep, tokens, ECONOMICS)


def test_fast_is_charged_for_a_wrong_first_answer_by_its_chance_and_in_proportion_to_the_work():
    fast, deep = quick_and_slow(PRICE)

    flip = FLIP_SCORES[ECONOMICS.preference]
    estimate = weigh(fast, flip, ECONOMICS, redo_of(fast, deep))

    alone, there = weigh(fast, flip, ECONOMICS), weigh(deep, flip, ECONOMICS)
    chance = 0.05 + 0.20 * flip
    assert estimate.redo_seconds == pytest.approx(there.seconds - alone.seconds), "it takes what fast saved where tiers change"
    assert estimate.seconds == pytest.approx(alone.seconds + estimate.redo_seconds)
    long = weigh(deep, 1.0, ECONOMICS)
    assert estimate.money_usd == pytest.approx(alone.money_usd + chance * flip * long.money_usd)


@given(some.integers(0, 200_000), some.floats(0.01, 500))
def test_where_both_tiers_cost_the_same_a_clear_quick_ask_stays_on_fast_however_much_that_is(tokens, usd):
    price = Price(input=usd, output=4 * usd, cached_input=usd / 10)
    fast = project(stand(make_target(price=price), ttft=0.2, speed=1_000), tokens, ECONOMICS)
    deep = project(stand(make_target("sage", Tier.DEEP, price=price), ttft=0.9, speed=65), tokens, ECONOMICS)
    redo = redo_of(fast, deep)

    quick, slow = costs_of(fast, deep, redo, 0.0, ECONOMICS)

    assert quick < slow


def test_a_redo_on_a_deep_target_without_a_price_costs_time_alone():
    fast = quick_and_slow(PRICE)[0]

    redo = redo_of(fast, quick_and_slow()[1])

    assert (redo.usd, redo.usd_slope) == (0.0, 0.0)


def test_waits_and_warm_caches_are_no_part_of_what_a_redo_costs():
    plain = redo_of(*quick_and_slow(tokens=50_000))
    fast, deep = quick_and_slow(tokens=50_000, fast_wait=9.0, deep_wait=40.0)

    assert redo_of(fast, deep) == plain
    assert redo_of(replace(fast, seconds=1.0), replace(deep, seconds=2.0)) == plain


def test_a_poor_title_is_not_asked_for_again():
    side, person = (make_signals(kind=kind) for kind in (TurnKind.SIDE, TurnKind.ASK))

    assert (redo_for(side).quick_rate, redo_for(side).seconds) == (0.0, 0.0)
    assert redo_for(person).quick_rate > 0


def redo_for(signals):
    ranked = [rank_tier(signals, {}, tier, 0.02, ECONOMICS) for tier in (Tier.FAST, Tier.DEEP)]
    return redo_between(*(project_first(tier, signals, ECONOMICS) for tier in ranked), signals, ECONOMICS)


def test_a_redo_is_as_likely_as_was_learned_of_the_pair():
    learned = {"sage": FailureRates(0.09, 0.4, 30), "owl": FailureRates(0.05, 0.25, 400)}
    fast, other = (replace(stand(make_target()), failures=known) for known in (learned, {"owl": learned["owl"]}))
    deep = stand(make_target("sage", Tier.DEEP))

    met, unmet = (redo_for(make_signals(one, deep)) for one in (fast, other))

    assert (met.quick_rate, met.long_rate, met.turns) == (0.09, 0.4, 30)
    assert (unmet.quick_rate, unmet.long_rate, unmet.turns) == (*ASSUMED_RATES[:2], 0)


def test_a_redo_costs_at_least_the_turn_on_deep():
    fast, deep = project(target(), 2_000, ECONOMICS), project(target("sage", Tier.DEEP), 2_000, ECONOMICS)

    redo = redo_of(fast, deep)

    assert (redo.seconds, redo.seconds_slope) == pytest.approx((deep.seconds, deep.seconds_slope))


def flip_score(preference, rates, fast_speed, deep_speed, tokens=0, size=1.0, prices=(None, None)):
    economics = replace(
        ECONOMICS, preference=preference, quick=TurnSize(2 * size, 400 * size), long=TurnSize(20 * size, 8_000 * size)
    )
    fast, deep = (
        project(stand(make_target(name, tier, price=price), ttft=ttft, speed=speed, prefill=prefill), tokens, economics)
        for name, tier, (ttft, speed), prefill, price in (
            ("spark", Tier.FAST, fast_speed, 20_000, prices[0]),
            ("sage", Tier.DEEP, deep_speed, 5_000, prices[1]),
        )
    )
    redo = price_redo(fast, deep, rates, preference)
    costs = [costs_of(fast, deep, redo, p, economics) for p in (0.08, 0.6)]
    return find_flip(fast, deep, redo, 0.3, economics).score, [fast < deep for fast, deep in costs]


fast_speeds = some.tuples(some.floats(0.05, 0.5), some.floats(130, 3_000))
deep_speeds = some.tuples(some.floats(0.6, 5), some.floats(20, 100))


@given(some.sampled_from(Preference), fast_speeds, deep_speeds, some.integers(0, 200_000), some.floats(0.5, 20))
def test_with_assumed_rates_the_tier_changes_at_the_preferences_score_whatever_size_and_speeds(
    preference, fast_speed, deep_speed, tokens, size
):
    score, _ = flip_score(preference, ASSUMED_RATES, fast_speed, deep_speed, tokens, size)

    assert score == pytest.approx(FLIP_SCORES[preference], abs=1e-6)


turns = some.lists(
    some.builds(
        FinishedWork,
        some.just("spark"),
        some.floats(0, 1),
        some.just(2),
        some.just(400),
        some.just("sage"),
        some.booleans(),
    ),
    min_size=1,
    max_size=8,
)


@given(some.sampled_from(Preference), turns, fast_speeds, deep_speeds, some.sampled_from([(None, None), (CHEAP, PRICE)]))
def test_whatever_is_learned_a_clear_quick_ask_is_on_fast_and_a_clear_long_one_on_deep(
    preference, turns, fast_speed, deep_speed, prices
):
    for rates in learn_failures(turns * 500)["spark"].values():
        _, (quick_on_fast, long_on_fast) = flip_score(preference, rates, fast_speed, deep_speed, 20_000, prices=prices)

        assert quick_on_fast or preference is Preference.QUALITY
        assert not long_on_fast or preference is Preference.SPEED


def test_rates_that_are_learned_move_the_flip():
    speeds = (0.2, 1_000), (0.9, 65)

    often, seldom = (
        flip_score(Preference.BALANCED, FailureRates(*pair, 400), *speeds)[0] for pair in ((0.06, 0.3), (0.04, 0.2))
    )

    assert 0.10 < often < FLIP_SCORES[Preference.BALANCED] < seldom < 0.50


def test_money_moves_the_flip_and_never_to_a_clear_long_task():
    dear = Price(input=100.0, output=500.0, cached_input=10.0)
    fast, free = (project(stand(make_target(), ttft=0.2, speed=1_000), 50_000, ECONOMICS) for _ in range(2))
    deep, paid = (
        project(stand(make_target("sage", Tier.DEEP, price=price), ttft=0.9, speed=65), 50_000, ECONOMICS)
        for price in (None, dear)
    )

    without = find_flip(fast, deep, redo_of(fast, deep), 0.3, ECONOMICS).score
    with_money = find_flip(free, paid, redo_of(free, paid), 0.3, ECONOMICS).score

    assert without == pytest.approx(FLIP_SCORES[ECONOMICS.preference])
    assert 0.5 < with_money < 0.6


speeds = some.tuples(some.floats(0.05, 5), some.floats(20, 2_000))


@given(speeds, speeds, some.floats(0.05, 0.95), some.booleans(), some.integers(0, 50_000))
def test_at_the_flip_both_tiers_cost_the_same(fast_speed, deep_speed, p, has_price, tokens):
    price = PRICE if has_price else None
    fast, deep = (
        project(stand(make_target(name, tier, price=price), ttft=ttft, speed=speed), tokens, ECONOMICS)
        for name, tier, (ttft, speed) in (("spark", Tier.FAST, fast_speed), ("sage", Tier.DEEP, deep_speed))
    )

    redo = redo_of(fast, deep)
    flip = find_flip(fast, deep, redo, p, ECONOMICS)

    assume(flip.score is not None)
    there = weigh(deep, flip.score, ECONOMICS)
    assert weigh(fast, flip.score, ECONOMICS, redo).cost_usd == pytest.approx(there.cost_usd, rel=1e-6)


quick_speeds, slow_speeds = (
    some.tuples(some.floats(0.05, 0.5), some.floats(500, 2_000)),
    some.tuples(some.floats(1, 5), some.floats(20, 100)),
)


@given(quick_speeds, slow_speeds, some.floats(0.01, 0.25))
def test_at_the_wait_that_flips_both_tiers_cost_the_same(fast_speed, deep_speed, p):
    fast, deep = (
        project(stand(make_target(name, tier), ttft=ttft, speed=speed), 1_000, ECONOMICS)
        for name, tier, (ttft, speed) in (("spark", Tier.FAST, fast_speed), ("sage", Tier.DEEP, deep_speed))
    )

    redo = redo_of(fast, deep)
    wait = find_flip(fast, deep, redo, p, ECONOMICS).fast_wait_seconds

    assume(wait is not None)
    there = weigh(deep, p, ECONOMICS)
    waiting = replace(fast, wait_seconds=wait, seconds=fast.seconds + wait)
    assert weigh(waiting, p, ECONOMICS, redo).cost_usd == pytest.approx(there.cost_usd, rel=1e-6)


def test_no_wait_flips_what_is_on_deep_already_and_none_where_time_is_worth_nothing():
    fast, deep = project(target(), 0, ECONOMICS), project(target("sage", Tier.DEEP), 0, ECONOMICS)
    worthless = replace(ECONOMICS, value_of_time_usd_per_hour=0.0)

    redo = redo_of(fast, deep)
    assert find_flip(fast, deep, redo, 0.9, ECONOMICS).fast_wait_seconds is None
    assert find_flip(fast, deep, redo, 0.9, worthless).fast_wait_seconds is None


@given(some.floats(0, 1), some.integers(0, 100_000), some.floats(0, 60), some.floats(0, 60), some.sampled_from([None, PRICE]))
def test_the_costs_that_decide_are_those_of_the_estimates(p, tokens, fast_wait, deep_wait, price):
    fast = project(target(price=price, wait=fast_wait), tokens, ECONOMICS)
    deep = project(target("sage", Tier.DEEP, price=price, wait=deep_wait), tokens, ECONOMICS)

    estimates = estimates_of(weighing_of(fast, deep), p, ECONOMICS)

    costs = [estimates[tier].cost_usd for tier in (Tier.FAST, Tier.DEEP)]
    assert list(costs_of(fast, deep, redo_of(fast, deep), p, ECONOMICS)) == pytest.approx(costs)


def test_a_wait_on_fast_is_worth_it_until_deep_costs_the_same():
    fast, deep = project(target(wait=1.0), 2_000, ECONOMICS), project(target("sage", Tier.DEEP, wait=9.0), 2_000, ECONOMICS)
    decision = make_decision(spill=("sage",), score=0.01, economics=ECONOMICS, weighing=weighing_of(fast, deep))

    worth = worth_waiting(decision)

    longer = project(target(wait=worth), 2_000, ECONOMICS)
    costs = costs_of(longer, deep, redo_of(longer, deep), 0.01, ECONOMICS)
    assert worth > 1.0
    assert costs[0] == pytest.approx(costs[1])


def test_a_tier_that_another_rule_chose_against_the_estimate_is_worth_no_wait():
    fast, deep = project(target(wait=20.0), 2_000, ECONOMICS), project(target("sage", Tier.DEEP), 2_000, ECONOMICS)
    chosen = make_decision(spill=("sage",), score=0.9, economics=ECONOMICS, weighing=weighing_of(fast, deep))

    assert worth_waiting(chosen) == 0.0
    assert worth_waiting(replace(chosen, tier=Tier.DEEP, targets=("sage",), spill=("spark",))) > 20.0


def test_where_nobody_else_may_serve_any_wait_is_worth_it():
    fast, deep = project(target(), 2_000, ECONOMICS), project(target("sage", Tier.DEEP), 2_000, ECONOMICS)
    both, spill = weighing_of(fast, deep), ("sage",)

    assert worth_waiting(make_decision(weighing=both)) == math.inf
    assert worth_waiting(make_decision(spill=spill, weighing=both, was_asked_for=True)) == math.inf
    assert worth_waiting(make_decision(spill=spill, weighing=Weighing(fast, None))) == math.inf
    free = replace(ECONOMICS, value_of_time_usd_per_hour=0.0)
    assert worth_waiting(make_decision(spill=spill, weighing=both, economics=free)) == math.inf
    assert worth_waiting(make_decision(spill=spill, weighing=both, economics=ECONOMICS)) < math.inf


@pytest.mark.parametrize(
    ("others", "warm", "alike"),
    [
        ({}, {}, 2),
        ({"speed": 960}, {}, 2),
        ({"speed": 500}, {}, 1),
        ({"wait": 1.0}, {}, 1),
        ({}, {"spark": 500}, 1),
        ({}, {"spark": 500, "owl": 500}, 2),
    ],
)
def test_targets_of_a_tier_are_alike_where_they_cost_nearly_the_same_and_neither_has_the_prefix_alone(others, warm, alike):
    statuses = stand(make_target("spark")), stand(make_target("owl"), **others)
    signals = make_signals(*statuses, tokens=600, position=SessionPosition(warm=warm))

    assert count_alike(rank_tier(signals, {}, Tier.FAST, 0.1, ECONOMICS), signals, 0.1, ECONOMICS) == alike


def test_moving_a_session_makes_no_difference_between_the_targets_that_it_moves_to():
    statuses = stand(make_target("spark"), speed=1_000), stand(make_target("owl"), speed=800)
    ranked = [
        rank_tier(make_signals(*statuses, tokens=600, position=SessionPosition(tier=tier)), {}, Tier.FAST, 0.1, ECONOMICS)
        for tier in (Tier.FAST, Tier.DEEP)
    ]

    assert [one.hop_seconds for one in ranked] == [0.0, 1.0]
    assert [count_alike(one, make_signals(*statuses, tokens=600), 0.1, ECONOMICS) for one in ranked] == [1, 1]


_prices = some.one_of(
    some.none(),
    some.builds(
        Price,
        some.sampled_from([0.0, 0.5, 3.0]),
        some.sampled_from([0.0, 2.0, 15.0]),
        some.sampled_from([None, 0.1]),
        some.sampled_from([None, 4.0]),
        steps=some.sampled_from([(), (PriceStep(12_000, 5.0, 20.0), PriceStep(90_000, 9.0, 40.0))]),
    ),
)
_statuses = some.lists(
    some.builds(
        lambda tier, price, wait, ratio, ttft, speed: replace(
            stand(make_target("", tier, price=price), wait, ttft=ttft, speed=speed), ratio=WorkRatio(ratio, ratio)
        ),
        some.sampled_from(list(Tier)),
        _prices,
        some.sampled_from([0.0, 0.7, 60.0]),
        some.sampled_from([1.0, 1.37]),
        some.floats(0.01, 9.0),
        some.floats(1.0, 900.0),
    ),
    max_size=8,
)


@given(
    given_ones=_statuses,
    tokens=some.integers(0, 200_000),
    warm=some.dictionaries(some.integers(0, 7), some.integers(0, 200_000), max_size=3),
    out=some.sets(some.integers(0, 7), max_size=3),
    now_on=some.sampled_from([None, *Tier]),
    score=some.floats(0.0, 1.0),
)
def test_the_order_of_a_tier_is_that_of_what_its_targets_are_estimated_to_cost(given_ones, tokens, warm, out, now_on, score):
    """To the last bit: the costs are worked out apart from the estimates, which most targets do not need."""
    statuses = [
        replace(status, target=make_target(f"t{number}", status.target.tier, price=status.target.price))
        for number, status in enumerate(given_ones)
    ]
    position = SessionPosition(tier=now_on, warm={f"t{number}": count for number, count in warm.items()})
    signals = replace(
        make_signals(tokens=tokens, position=position), statuses={status.target.name: status for status in statuses}
    )
    ruled_out = {f"t{number}" for number in out}

    for tier in Tier:
        hop_seconds = 0.0 if now_on in (None, tier) else ECONOMICS.hop_seconds
        costs = {
            name: weigh(project(status, tokens, ECONOMICS, position.warm.get(name, 0), hop_seconds), score, ECONOMICS).cost_usd
            for name, status in signals.statuses.items()
            if status.target.tier is tier and name not in ruled_out
        }
        ranked = rank_tier(signals, ruled_out, tier, score, ECONOMICS)

        assert ranked.names == tuple(sorted(costs, key=costs.__getitem__))
        assert ranked.costs is None or ranked.costs == costs


def test_the_callers_own_plan_goes_first_in_its_tier_and_alone_although_a_paid_target_is_quicker():
    plan, spare = (
        stand(make_target("plan", Tier.DEEP, is_plan=True), speed=60),
        stand(make_target("spare", Tier.DEEP), speed=90),
    )
    signals = make_signals(spare, plan, tokens=600)
    own = replace(signals, own_plans=frozenset({"plan"}))

    anyones, ranked = (rank_tier(one, {}, Tier.DEEP, 0.1, ECONOMICS) for one in (signals, own))

    assert (anyones.names, ranked.names) == (("spare", "plan"), ("plan", "spare"))
    assert count_alike(ranked, own, 0.1, ECONOMICS) == 1
