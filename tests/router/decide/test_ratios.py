import pytest
from msgspec.structs import replace

from router.contract.economics import ASSUMED_RATES, Economics, TurnSize
from router.contract.entry import FinishedWork
from router.contract.target import WorkRatio
from router.contract.words import Preference
from router.decide.estimate import project, weigh
from router.decide.ratios import learn_failures, learn_ratios
from tests.tools.values import make_target, stand

ECONOMICS = Economics(60.0, Preference.BALANCED, 1.0, TurnSize(2, 400), TurnSize(26, 9_000), 0.5)


def turns(count: int, score: float, calls: int, output: int, target: str = "sage") -> list[FinishedWork]:
    return [FinishedWork(target, score, calls, output)] * count


def test_a_target_that_gets_the_long_turns_is_not_charged_for_them():
    ratios = learn_ratios(turns(200, 1.0, 26, 9_000) + turns(200, 0.0, 2, 400, "spark"), ECONOMICS)

    assert ratios["sage"] == pytest.approx((1.0, 1.0))
    assert ratios["spark"] == pytest.approx((1.0, 1.0))


def test_a_target_that_takes_twice_what_was_expected_has_a_ratio_near_two():
    ratio = learn_ratios(turns(400, 0.5, 28, 4_700), ECONOMICS)["sage"]

    assert ratio.calls == pytest.approx(2.0, abs=0.1)
    assert ratio.output == pytest.approx(1.0, abs=0.01)


def test_few_turns_change_little_and_many_no_more_than_threefold():
    few = learn_ratios(turns(1, 0.0, 60, 40_000), ECONOMICS)["sage"]
    many = learn_ratios(turns(5_000, 0.0, 60, 40), ECONOMICS)["sage"]

    assert 1.0 < few.calls < 3.0
    assert many == pytest.approx((3.0, 1 / 3))


def test_nothing_is_said_of_a_target_that_finished_nothing():
    assert learn_ratios([], ECONOMICS) == {}


def test_the_estimate_counts_the_ratio_and_shows_it():
    status = stand(make_target())
    plain = weigh(project(status, 1_000, ECONOMICS), 0.5, ECONOMICS)
    thorough = weigh(project(replace(status, ratio=WorkRatio(2.0, 2.0)), 1_000, ECONOMICS), 0.5, ECONOMICS)
    reading = 1_000 / status.speed.prefill_tokens_per_second

    assert thorough.seconds - reading == pytest.approx(2 * (plain.seconds - reading))
    assert thorough.ratio == (2.0, 2.0)


def answers(count: int, failed: int, score: float) -> list[FinishedWork]:
    return [FinishedWork("spark", score, 2, 400, "sage", number < failed) for number in range(count)]


def rates(*groups: list[FinishedWork]):
    return learn_failures([turn for group in groups for turn in group])["spark"]["sage"]


def test_fast_targets_that_fail_as_assumed_keep_the_assumed_rates():
    learned = rates(answers(1_000, 50, 0.0), answers(1_000, 250, 1.0))

    assert learned[:2] == pytest.approx(ASSUMED_RATES[:2])
    assert learned.turns == 2_000


def test_failures_of_quick_work_raise_the_rate_of_quick_work_alone():
    learned = rates(answers(1_000, 70, 0.001), answers(1_000, 250, 0.999))

    assert 0.06 < learned.quick < 0.07
    assert learned.long == pytest.approx(0.25, abs=0.005)


def test_a_few_failures_change_little_and_many_no_more_than_half_as_much_again():
    few, many, none = rates(answers(5, 5, 0.1)), rates(answers(5_000, 5_000, 0.5)), rates(answers(5_000, 0, 0.5))

    assert few.quick == pytest.approx(0.05, abs=0.02)
    assert many[:2] == pytest.approx((0.075, 0.375))
    assert none[:2] == pytest.approx((0.05 / 1.5, 0.25 / 1.5))


def test_rates_are_learned_for_each_pair_and_not_from_what_deep_served():
    other = [turn._replace(deep_target="owl", has_failed=True) for turn in answers(400, 0, 0.2)]
    deep = FinishedWork("sage", 0.9, 20, 9_000)

    learned = learn_failures([*answers(400, 0, 0.2), *other, deep])

    assert set(learned) == {"spark"}
    assert learned["spark"]["sage"].long < 0.25 < learned["spark"]["owl"].long
