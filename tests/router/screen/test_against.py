"""All on deep and all on fast, out of what was measured and expected."""

import json

import pytest

from router.contract.words import Tier
from router.screen.against import TierSums, all_deep, all_fast


def keep(fast_seconds=2.0, deep_seconds=20.0, fast_usd=0.01, deep_usd=0.05, *, has_price=True, redo=1.0) -> str:
    sides = {
        name: [name, 0.0, seconds, 0.0, usd, 0.0, has_price, [1.0, 1.0]]
        for name, seconds, usd in (("fast", fast_seconds, fast_usd), ("deep", deep_seconds, deep_usd))
    }
    return json.dumps({"v": 2, "tier": "fast", "redo_factor": redo, **sides})


def sums_of(
    tier: Tier, *calls: tuple[float, float | None], decision: str | None = None, score: float = 0.5
) -> dict[Tier, TierSums]:
    sums = {one: TierSums() for one in Tier}
    for seconds, usd in calls:
        sums[tier].measure(seconds, usd)
        sums[tier].expect(keep() if decision is None else decision, score, has_cost=usd is not None)
    return sums


def test_what_fast_did_is_scaled_to_deep_by_what_was_expected_of_both():
    side = all_deep(sums_of(Tier.FAST, (1.0, 0.002), (3.0, 0.006)))

    assert side.seconds == pytest.approx(40.0)
    assert side.usd == pytest.approx(0.04)


def test_what_deep_did_counts_as_it_was():
    side = all_deep(sums_of(Tier.DEEP, (30.0, 0.07)))

    assert (side.seconds, side.usd) == (30.0, 0.07)


def test_all_fast_is_a_band_up_to_the_redos_that_were_expected():
    side = all_fast(sums_of(Tier.DEEP, (30.0, 0.07), score=0.5))

    assert side.seconds == pytest.approx(3.0)
    assert side.redo_seconds == pytest.approx(15.0)
    assert side.usd == pytest.approx(0.014)
    assert side.redo_usd == pytest.approx(0.035)


def test_without_a_price_the_money_is_not_known_but_the_time_is():
    sums = sums_of(Tier.FAST, (1.0, None), decision=keep(has_price=False))

    assert all_deep(sums).usd is None
    assert all_deep(sums).seconds == pytest.approx(10.0)
    assert all_fast(sums).usd is None


def test_a_model_that_costs_nothing_is_scaled_by_its_time():
    assert all_deep(sums_of(Tier.FAST, (1.0, 0.0), decision=keep(fast_usd=0.0))).usd == pytest.approx(0.025)


@pytest.mark.parametrize("decision", ["", "{}", "not json", '{"estimates": {}}', '{"fast": ["x"]}'])
def test_a_turn_without_an_expectation_counts_as_it_was(decision):
    side = all_deep(sums_of(Tier.FAST, (1.0, 0.002), decision=decision))

    assert (side.seconds, side.usd) == (1.0, 0.002)


def test_nothing_at_all_is_nothing():
    sums = {tier: TierSums() for tier in Tier}

    assert (all_deep(sums).seconds, all_deep(sums).usd, all_fast(sums).usd) == (0.0, 0.0, 0.0)
