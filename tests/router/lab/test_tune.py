"""Fitting to a history: a planted offset is found, little history changes little, harm is seen."""

import random
from dataclasses import replace

import pytest

from router.config.models import DecisionSettings
from router.contract.words import Tier, TurnKind
from router.lab.cases import Case
from router.lab.past import Size
from router.lab.replay import Choice
from router.lab.tune import Fit, Sample, as_sample, fit, say_what_lacks, sigmoid, split, tier_under, tune

SHIPPED = Fit(0.45, 0.0)


def history(turns: int, planted: float, *, per_session: int = 6, seed: int = 1) -> list[Sample]:
    """Turns whose evidence is right but for an offset that it does not know of."""
    chance = random.Random(seed)
    samples = []
    for number in range(turns):
        evidence = chance.gauss(0.0, 1.6)
        is_long = chance.random() < sigmoid(SHIPPED.log_odds + evidence + planted)
        tier = Tier.FAST if sigmoid(SHIPPED.log_odds + evidence) < 0.25 else Tier.DEEP
        session = f"s{number // per_session}"
        samples.append(Sample(session, float(number), evidence, 0.25, tier, Size.LONG if is_long else Size.QUICK))
    return samples


@pytest.mark.parametrize("planted", [-1.5, -0.7, 0.0, 0.7, 1.5])
def test_a_planted_offset_is_found(planted):
    found = fit(history(3_000, planted))

    assert found.log_odds == pytest.approx(SHIPPED.log_odds + planted, abs=0.2)


def test_the_prior_is_the_share_of_long_tasks():
    samples = history(3_000, -1.0)

    assert fit(samples).base_rate == pytest.approx(sum(sample.is_long for sample in samples) / 3_000, abs=0.01)


def test_little_history_changes_little():
    little, much = fit(history(10, -1.5)), fit(history(3_000, -1.5))

    assert abs(little.log_odds - SHIPPED.log_odds) < 0.4 < abs(much.log_odds - SHIPPED.log_odds)


def test_fitting_twice_goes_no_further():
    samples = history(400, -1.0)

    first = tune(samples, SHIPPED)

    assert tune(samples, first.fitted).fitted == first.fitted


def test_a_right_offset_shows_no_harm_and_less_regret_on_what_was_held_out():
    found = tune(history(1_200, -2.0), SHIPPED)

    assert found.regret_per_100.after < found.regret_per_100.before
    assert found.log_loss.high < 0
    assert not found.regret_per_100.may_harm
    assert found.moved > 0


def test_a_history_that_turns_round_shows_its_harm():
    samples = history(700, -2.0) + [
        Sample(f"later{number // 6}", 10_000.0 + number, -1.0, 0.25, Tier.FAST, Size.LONG) for number in range(300)
    ]

    found = tune(samples, SHIPPED)

    assert found.log_loss.after > found.log_loss.before
    assert found.log_loss.may_harm


def test_too_few_turns_fit_nothing():
    assert tune(history(29, -1.0), SHIPPED) is None


def test_a_single_session_cannot_be_split_and_fits_nothing():
    assert tune(history(200, -1.0, per_session=200), SHIPPED) is None


def test_what_lacks_is_said():
    few, one = history(29, -1.0), history(200, -1.0, per_session=200)
    last = [replace(sample, session="first" if sample.at < 40 else "last") for sample in history(200, -1.0)]

    assert tune(last, SHIPPED) is None
    assert "29 turns" in say_what_lacks(few)
    assert "30 in two or more sessions are needed" in say_what_lacks(few)
    assert "all in one session" in say_what_lacks(one)
    assert "most of them are in the last of 2 sessions" in say_what_lacks(last)


def test_the_split_is_by_time_and_keeps_sessions_whole():
    samples = history(200, 0.0)

    learned, held_out = split(list(reversed(samples)))

    assert {sample.session for sample in learned}.isdisjoint(sample.session for sample in held_out)
    assert max(sample.at for sample in learned) < min(sample.at for sample in held_out)
    assert len(learned) / 200 == pytest.approx(0.7, abs=0.05)


def test_what_no_score_can_change_stays():
    sample = Sample("s", 0.0, -9.0, None, Tier.DEEP, Size.QUICK)

    assert tier_under(sample, SHIPPED) is Tier.DEEP


def test_the_same_history_gives_the_same_band():
    assert tune(history(200, -1.0), SHIPPED) == tune(history(200, -1.0), SHIPPED)


def test_a_turn_that_counts_ten_times_is_fitted_like_ten_turns():
    (heavy,) = history(1, 0.0)
    others = history(60, 0.0, seed=2)

    assert fit([*others, replace(heavy, weight=10)]) == fit([*others, *[heavy] * 10])
    assert fit([*others, replace(heavy, weight=10)]) != fit([*others, heavy])


def test_a_sample_counts_as_much_as_its_case():
    choice = Choice(Tier.FAST, 0.1, -2.0, 0.3, TurnKind.ASK, "test", {}, 100)
    case = Case("s", "codex", 1.0, Size.LONG, weight=10)

    assert as_sample(case, choice).weight == 10
    assert as_sample(replace(case, size=Size.MIDDLE), choice) is None
    assert as_sample(replace(case, size=None), choice) is None


def test_with_no_history_the_prior_is_the_shipped_one():
    assert fit([]) == Fit(DecisionSettings().base_rate, 0.0)
