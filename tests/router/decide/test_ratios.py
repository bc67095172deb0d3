import pytest

from router.contract.economics import Economics, TurnSize
from router.contract.entry import FinishedWork
from router.contract.target import WorkRatio
from router.decide.estimate import project, weigh
from router.decide.ratios import learn_ratios
from tests.tools.values import make_target, stand

ECONOMICS = Economics(60.0, 3.0, 1.0, TurnSize(2, 400), TurnSize(26, 9_000), 0.5)


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
    thorough = weigh(project(status._replace(ratio=WorkRatio(2.0, 2.0)), 1_000, ECONOMICS), 0.5, ECONOMICS)
    reading = 1_000 / status.speed.prefill_tokens_per_second

    assert thorough.seconds - reading == pytest.approx(2 * (plain.seconds - reading))
    assert thorough.ratio == (2.0, 2.0)
