"""Fitting to a history: a planted offset is found, little history changes little, harm is seen."""

import random
from dataclasses import replace

import pytest

from router.contract.economics import Economics
from router.contract.words import Tier, TurnKind
from router.past import tune as lab_tune
from router.past.cases import Case, Sample
from router.past.history import Size
from router.past.marks import places_of, sigmoid
from router.past.replay import Choice
from router.past.tune import (
    RESAMPLINGS,
    Fit,
    as_sample,
    fit,
    say_what_lacks,
    split,
    teach,
    tier_under,
    tune,
    without_taught,
)

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


def test_too_little_history_fits_nothing_and_what_lacks_is_said():
    few, one = history(29, -1.0), history(200, -1.0, per_session=200)
    last = [replace(sample, session="first" if sample.at < 40 else "last") for sample in history(200, -1.0)]

    assert [tune(samples, SHIPPED) for samples in (few, one, last)] == [None] * 3
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


def test_a_long_history_of_short_sessions_has_the_band_that_its_sessions_would_have(monkeypatch):
    samples = history(400, -1.0, per_session=1)
    alone = tune(samples, SHIPPED).regret_per_100

    monkeypatch.setattr(lab_tune, "_MAX_GROUPS", 60)
    joined = tune(samples, SHIPPED).regret_per_100

    assert (joined.before, joined.after) == pytest.approx((alone.before, alone.after))
    assert joined != alone
    assert (joined.low, joined.high) == pytest.approx((alone.low, alone.high), abs=(alone.high - alone.low) / 5)


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
    assert fit([]) == Fit(Economics().base_rate, 0.0)


def with_words(words: str, size: Size, number: int) -> Sample:
    """A turn on fast, in a session of its own, that its score would leave there."""
    return Sample(f"s{number}", float(number), -6.0, 0.25, Tier.FAST, size, words=f"{words} item{number}")


def test_a_word_that_decides_is_a_rule_and_its_turns_do_not_move_the_offset():
    person = [
        with_words("deploy" if number % 3 else "rename", Size.LONG if number % 3 else Size.QUICK, number)
        for number in range(200)
    ]

    found = tune(person, SHIPPED)

    assert [(rule.words, rule.tier) for rule in found.rules] == [("deploy", Tier.DEEP)]
    assert found.fitted == fit([sample for sample in split(person)[0] if "deploy" not in sample.words])
    assert found.regret_per_100.after == 0.0 < found.regret_per_100.before


def test_rules_that_help_stay_where_the_offset_would_harm():
    """Without the word, long turns in the earlier part make an offset that the later part does not bear."""
    early = [with_words("rename", Size.LONG, number) for number in range(140)]
    late = [with_words("rename", Size.QUICK, number) for number in range(300, 360)]
    early = [replace(sample, evidence=-1.0) for sample in early]
    late = [replace(sample, evidence=-1.5) for sample in late]
    deploys = [with_words("deploy", Size.LONG, number) for number in (*range(150, 210), *range(360, 390))]

    found = tune([*early, *late, *deploys], SHIPPED)

    assert [rule.words for rule in found.rules] == ["deploy"]
    assert found.offset_may_harm
    assert not found.regret_per_100.may_harm
    assert found.regret_per_100.after < found.regret_per_100.before


def test_what_a_rule_of_the_config_decides_does_not_move_the_offset():
    samples = history(200, 0.0)
    ruled = [replace(sample, threshold=None, size=Size.LONG, is_ruled=True) for sample in samples[:40]]

    assert tune([*ruled, *samples[40:]], SHIPPED).fitted == fit(
        [one for one in split([*ruled, *samples[40:]])[0] if not one.is_ruled]
    )


def mark(words: str, size: Size = Size.LONG, at: float = 0.0) -> Sample:
    return Sample("m", at, -4.0, 0.25, Tier.FAST, size, 10, words=words)


def test_marks_teach_their_kind_and_are_left_out_of_the_offset():
    marks = [mark("security scan the repo", at=float(number)) for number in range(16)]
    samples = [*history(300, 0.0), *marks]

    taught = teach(samples, SHIPPED, "weights")

    assert (taught.marks, taught.right_before, taught.right_after) == (16, 0, 16)
    assert without_taught(samples, taught) == samples[:300]
    assert fit(samples).log_odds > fit(samples[:300]).log_odds + 0.3, "which is what they did before"


def test_a_mark_whose_words_nobody_knows_still_counts_in_the_offset():
    samples = [*history(50, 0.0), mark("")]

    assert teach(samples, SHIPPED, "weights") is None
    assert without_taught(samples, None) == samples


def test_a_mark_on_a_turn_that_no_score_could_change_teaches_nothing():
    assert teach([replace(mark("security scan the repo"), threshold=None)], SHIPPED, "weights") is None


def test_places_that_a_ledger_kept_teach_as_words_do():
    words = "security scan the repo"
    by_words, by_places = mark(words), replace(mark(""), places=places_of(words))

    assert teach([by_places], SHIPPED, "weights").table == teach([by_words], SHIPPED, "weights").table


def test_every_step_of_the_measuring_is_told():
    steps: list[int] = []

    tune(history(200, -1.0), SHIPPED, steps.append)

    assert sum(steps) == RESAMPLINGS


def test_what_the_router_learns_of_a_caller_is_there_before_and_after():
    samples = [replace(sample, caller="ada") for sample in history(600, 0.8)]

    known, unknown = tune(samples, SHIPPED), tune(samples, SHIPPED, is_personal=False)

    assert known.fitted == unknown.fitted
    assert known.log_loss.before < unknown.log_loss.before
    assert known.regret_per_100.before <= unknown.regret_per_100.before


def test_a_callers_turns_teach_the_lines_of_no_other():
    ada = [replace(sample, caller="ada") for sample in history(300, 1.5)]
    bob = [replace(sample, caller="bob") for sample in history(300, -1.5, seed=2)]

    way = lab_tune.Way.learn(SHIPPED, [*ada, *bob])

    assert way.offsets == {"ada": 0.25, "bob": -0.25}
    assert way.log_odds_of(ada[0]) == pytest.approx(SHIPPED.log_odds + ada[0].evidence + 0.25)
    assert lab_tune.Way.learn(SHIPPED, [replace(sample, weight=10) for sample in ada]).offsets == {}
