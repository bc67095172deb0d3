"""All on deep and all on fast, out of what was measured and expected."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as some

from router.contract.decision import Projection
from router.contract.words import Tier
from router.decide.yardstick import Assumptions, Took, to_done
from router.past.sums import TierSums, all_deep, all_fast, as_it_was
from tests.tools.kept import make_call

ASSUMED = Assumptions(fails_quick=0.1, fails_long=0.5, failure_seconds=100.0)


def expect(fast_seconds=2.0, deep_seconds=20.0, fast_usd=0.01, deep_usd=0.05, *, has_price=True) -> tuple[Projection, ...]:
    """What a decision expected of fast and of deep."""
    sides = (("fast", fast_seconds, fast_usd), ("deep", deep_seconds, deep_usd))
    return tuple(Projection(name, 0.0, seconds, 0.0, usd, 0.0, has_price) for name, seconds, usd in sides)


def keep(tier: str = "fast", **more) -> str:
    """The same as the ledger keeps it."""
    fast, deep = expect(**more)
    return msgspec.json.encode({"v": 3, "tier": tier, "fast": fast, "deep": deep}).decode()


def begin(sums, tier: Tier, seconds: float, usd: float | None, expected, score: float) -> None:
    """A turn of one call."""
    fast, deep = expected
    line, kept, *_ = make_call(tier=tier, duration_ms=seconds * 1000, cost_usd=usd, score=score, fast=fast, deep=deep)
    sums[tier].measure(line)
    sums[tier].begin(line, kept)


def sums_of(
    tier: Tier, *calls: tuple[float, float | None], expected: tuple[Projection | None, ...] = expect(), score: float = 0.5
) -> dict[Tier, TierSums]:
    sums = {one: TierSums() for one in Tier}
    for seconds, usd in calls:
        begin(sums, tier, seconds, usd, expected, score)
    return sums


def test_what_fast_did_is_scaled_to_deep_by_what_was_expected_of_both():
    side = all_deep(sums_of(Tier.FAST, (1.0, 0.002), (3.0, 0.006)))

    assert side.seconds == pytest.approx(40.0)
    assert side.usd == pytest.approx(0.04)


def test_a_turn_without_an_expectation_is_wrong_as_often_as_the_others():
    sums = sums_of(Tier.FAST, (1.0, 0.002), score=0.5)
    begin(sums, Tier.FAST, 1.0, 0.002, (None, None), score=0.9)

    assert as_it_was(sums, ASSUMED).wrong == pytest.approx(2 * 0.3)


def test_what_deep_did_counts_as_it_was():
    side = all_deep(sums_of(Tier.DEEP, (30.0, 0.07)))

    assert (side.seconds, side.usd) == (30.0, 0.07)


def test_all_fast_counts_wrong_first_answers_and_the_redos_on_deep():
    side = all_fast(sums_of(Tier.DEEP, (30.0, 0.07), score=0.5), ASSUMED)

    assert side.seconds == pytest.approx(3.0)
    assert side.wrong == pytest.approx(0.3)
    assert side.redo_seconds == pytest.approx(0.3 * (100 + 30.0))
    assert side.usd == pytest.approx(0.014)
    assert side.redo_usd == pytest.approx(0.3 * 0.07)
    assert side.done_seconds == pytest.approx(3.0 + 39.0)
    assert side.done_usd == pytest.approx(0.035)


def test_what_did_go_to_fast_counts_its_redos_as_well():
    sums = sums_of(Tier.FAST, (1.0, 0.002), (3.0, 0.006), score=0.5)

    was = as_it_was(sums, ASSUMED)

    assert (was.seconds, was.usd) == (4.0, 0.008)
    assert was.redo_seconds == pytest.approx(2 * 0.3 * 100 + 0.3 * 40.0)
    assert was.redo_usd == pytest.approx(0.3 * 0.04)
    assert all_fast(sums, ASSUMED) == was


def test_what_deep_did_is_done_when_it_is_done():
    was = as_it_was(sums_of(Tier.DEEP, (30.0, 0.07)), ASSUMED)

    assert (was.done_seconds, was.done_usd, was.wrong) == (30.0, 0.07, 0.0)


seconds = some.floats(0.5, 500.0)


@given(some.lists(some.tuples(some.sampled_from(Tier), seconds, seconds, some.floats(0, 1)), min_size=1, max_size=8))
def test_every_way_is_measured_with_the_yardstick(turns):
    """Where every turn took what was expected of it, sums and single turns agree."""
    sums = {tier: TierSums() for tier in Tier}
    for tier, fast, deep, score in turns:
        begin(sums, tier, fast if tier is Tier.FAST else deep, None, expect(fast, deep, has_price=False), score)

    def single(tier_of) -> float:
        return sum(to_done(tier_of(tier), Took(fast), Took(deep), score, ASSUMED).seconds for tier, fast, deep, score in turns)

    assert as_it_was(sums, ASSUMED).done_seconds == pytest.approx(single(lambda tier: tier))
    assert all_deep(sums).done_seconds == pytest.approx(single(lambda _: Tier.DEEP))
    assert all_fast(sums, ASSUMED).done_seconds == pytest.approx(single(lambda _: Tier.FAST))


def test_without_a_price_the_money_is_not_known_but_the_time_is():
    sums = sums_of(Tier.FAST, (1.0, None), expected=expect(has_price=False))

    assert all_deep(sums).usd is None
    assert all_deep(sums).seconds == pytest.approx(10.0)
    assert all_fast(sums, ASSUMED).usd is None


def test_a_model_that_costs_nothing_is_scaled_by_its_time():
    assert all_deep(sums_of(Tier.FAST, (1.0, 0.0), expected=expect(fast_usd=0.0))).usd == pytest.approx(0.025)


@pytest.mark.parametrize("expected", [(None, None), (expect()[0], None), (None, expect()[1])])
def test_a_turn_without_an_expectation_counts_as_it_was(expected):
    side = all_deep(sums_of(Tier.FAST, (1.0, 0.002), expected=expected))

    assert (side.seconds, side.usd) == (1.0, 0.002)


def test_nothing_at_all_is_nothing():
    sums = {tier: TierSums() for tier in Tier}

    assert (all_deep(sums).seconds, all_deep(sums).usd, all_fast(sums, ASSUMED).usd) == (0.0, 0.0, 0.0)
