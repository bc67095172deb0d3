import pytest
from hypothesis import given
from hypothesis import strategies as some
from msgspec.structs import replace

from router.contract.economics import ASSUMED_RATES, Economics, FailureRates, TurnSize
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
    return learn_failures([turn for group in groups for turn in group])["spark"]["sage", ""]


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
    assert learned["spark"]["sage", ""].long < 0.25 < learned["spark"]["owl", ""].long


def about(idea: str, count: int, failed: int, score: float = 0.1) -> list[FinishedWork]:
    return [turn._replace(idea=idea) for turn in answers(count, failed, score)]


def by_idea(*groups: list[FinishedWork]) -> dict[str, FailureRates]:
    learned = learn_failures([turn for group in groups for turn in group])["spark"]
    return {idea: found for (_, idea), found in learned.items()}


def test_what_is_redone_more_often_than_other_work_of_the_pair_has_higher_rates_and_the_reverse():
    learned = by_idea(about("css", 60, 15), about("typo", 60, 0))

    pair = learned[""]
    assert learned["css"].quick > 1.3 * pair.quick > pair.quick > 1.3 * learned["typo"].quick
    assert learned["css"].long > pair.long > learned["typo"].long
    assert (learned["css"].turns, learned["typo"].turns, pair.turns) == (60, 60, 120)
    assert pair == rates(answers(120, 15, 0.1))


def test_twenty_turns_count_half_of_what_many_show():
    others = about("other", 100_000, 10_500)  # as often as the rates at this score say
    few, many = (by_idea(others, about("css", count, count * 3 // 20))["css"] for count in (20, 2_000))

    def more(learned: FailureRates) -> float:
        return learned.quick / rates(others).quick - 1

    assert more(few) == pytest.approx(more(many) / 2, rel=0.15)


def test_an_idea_that_is_redone_as_often_as_others_says_nothing():
    assert set(by_idea(about("css", 400, 40), about("typo", 400, 40), answers(400, 40, 0.1))) == {""}


def test_where_nothing_was_redone_no_idea_is_better_than_another():
    assert set(by_idea(about("css", 300, 0), about("typo", 5, 0))) == {""}


def test_one_redo_in_a_long_silence_does_not_make_its_idea_a_bad_one():
    assert "css" not in by_idea(about("css", 30, 1), about("typo", 300, 0))


@given(
    some.lists(some.tuples(some.sampled_from(("", "css", "typo")), some.integers(1, 90), some.floats(0, 1), some.floats(0, 1)))
)
def test_no_idea_has_more_than_twice_the_odds_of_its_pair_or_less_than_half(groups):
    works = [about(idea, count, round(count * share), score) for idea, count, share, score in groups]
    learned = by_idea(about("css", 1, 0), *works)

    for one in learned.values():
        for own, usual in zip(one[:2], learned[""][:2], strict=True):
            assert 0.499 <= (own / (1 - own)) / (usual / (1 - usual)) <= 2.001
        assert one.quick < one.long
