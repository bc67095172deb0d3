"""The decision as design section 4 has it, held by properties."""

import itertools
import math
from dataclasses import dataclass

import pytest
from hypothesis import assume, given
from hypothesis import strategies as some
from msgspec.structs import replace

from router.contract.economics import ASSUMED_RATES, FLIP_SCORES, Economics, TurnSize
from router.contract.errors import Misfit, TiersBusy, TooLong, UpstreamLoading
from router.contract.opinions import Insist, Lean, Opinion, Rank, RuleOut
from router.contract.target import Quota
from router.contract.words import Preference, Tier
from router.decide.choose import decide
from router.decide.estimate import estimates_of, find_flip, flip_of, price_redo, project, weighing_of
from router.decide.explain import explain
from router.decide.opinions import Rules, evidence_of
from tests.tools.values import PRICE, ask, make_signals, make_target, stand

ECONOMICS = Economics(60.0, Preference.BALANCED, 1.0, TurnSize(2, 400), TurnSize(26, 9_000), 0.45)


@dataclass
class Says:
    """A policy that says what it is told to."""

    name: str
    opinions: tuple[Opinion, ...]

    def judge(self, request, signals):
        return self.opinions


class Raises:
    name = "raises"

    def judge(self, request, signals):
        raise ValueError("a defect")


def rules_of(*policies, economics=ECONOMICS, spill_over=True):
    return Rules(policies, economics, spill_over, "f")


def run(*policies, signals=None, economics=ECONOMICS, request=None, spill_over=True):
    rules = rules_of(*policies, economics=economics, spill_over=spill_over)
    return decide(rules, request or ask(), signals or make_signals())


def lean(log_odds: float, name: str = "lean") -> Says:
    return Says(name, (Lean(log_odds, "because"),))


log_odds = some.floats(-8, 8)
seconds = some.floats(0.01, 30)


@given(log_odds, some.floats(0.01, 5))
def test_more_evidence_of_a_long_task_raises_the_score(base, more):
    low, high = run(lean(base)).score, run(lean(base), lean(more, "more")).score

    assert high > low or math.isclose(high, 1.0)


@given(some.lists(log_odds, min_size=1, max_size=6))
def test_the_score_is_the_sum_of_all_shares(odds):
    decision = run(*(lean(value, f"p{n}") for n, value in enumerate(odds)))

    prior = math.log(0.45 / 0.55)
    assert decision.score == pytest.approx(1 / (1 + math.exp(-(prior + sum(odds)))), abs=1e-9)
    assert len(evidence_of(decision.opinions)) == len(odds)


def test_with_no_wait_and_cold_caches_fast_wins_below_the_threshold_of_the_preference():
    fast = stand(make_target(), ttft=0.06, speed=1000)
    deep = stand(make_target("sage", Tier.DEEP), ttft=0.9, speed=1000 / 15)
    prior = math.log(0.45 / 0.55)

    def tier_at(p: float, preference: Preference) -> Tier:
        economics = replace(ECONOMICS, preference=preference)
        return run(lean(math.log(p / (1 - p)) - prior), signals=make_signals(fast, deep, tokens=0), economics=economics).tier

    for preference, threshold in FLIP_SCORES.items():
        assert tier_at(threshold - 0.01, preference) is Tier.FAST
        assert tier_at(threshold + 0.01, preference) is Tier.DEEP


@given(
    log_odds, some.integers(0, 100_000), seconds, some.floats(5, 3000), seconds, some.floats(5, 3000),
    some.floats(0, 60), some.booleans(), some.sampled_from(Preference),
)  # fmt: skip
def test_applying_the_reported_flip_changes_the_tier(
    odds, tokens, fast_ttft, fast_speed, deep_ttft, deep_speed, wait, priced, preference
):
    economics = replace(ECONOMICS, preference=preference)
    price = PRICE if priced else None
    fast = make_target(price=price)
    deep = make_target("sage", Tier.DEEP, price=price)

    def tier(log_odds: float, wait_seconds: float) -> Tier:
        fast_now, deep_now = (
            stand(fast, wait_seconds, ttft=fast_ttft, speed=fast_speed),
            stand(deep, ttft=deep_ttft, speed=deep_speed),
        )
        return run(lean(log_odds), signals=make_signals(fast_now, deep_now, tokens=tokens), economics=economics).tier

    decision = run(
        lean(odds),
        signals=make_signals(
            stand(fast, wait, ttft=fast_ttft, speed=fast_speed), stand(deep, ttft=deep_ttft, speed=deep_speed), tokens=tokens
        ),
        economics=economics,
    )
    prior = math.log(0.45 / 0.55)
    flip = flip_of(weighing_of(decision), decision.score, decision.economics)
    if flip.score is not None:
        assume(0.002 < flip.score < 0.998 and abs(flip.score - decision.score) > 1e-4)
        beyond = flip.score + math.copysign(1e-5, flip.score - decision.score)
        assert tier(math.log(beyond / (1 - beyond)) - prior, wait) is not decision.tier
    if flip.fast_wait_seconds is not None:
        step = 0.01 if decision.tier is Tier.FAST else -0.01
        assume(flip.fast_wait_seconds + step >= 0)
        assert tier(odds, flip.fast_wait_seconds + step) is not decision.tier


def test_a_policy_that_raises_is_skipped_and_named_in_the_decision():
    decision = run(Raises(), lean(-3))

    assert decision.tier is Tier.FAST
    assert [(entry.policy, entry.reason) for entry in decision.opinions.skipped] == [("raises", "ValueError")]


def test_the_highest_rank_wins_and_the_rest_is_in_the_evidence():
    decision = run(
        Says("a", (Insist("the name", Rank.MODEL_NAME, tier=Tier.DEEP),)),
        Says("b", (Insist("the header", Rank.HEADER, tier=Tier.FAST),)),
        lean(5),
    )

    assert (decision.tier, decision.because, decision.decided_by) == (Tier.FAST, "the header", "b")
    assert len(evidence_of(decision.opinions)) == 3
    assert decision.spill == ()


def test_a_wish_that_can_never_be_met_is_a_misfit_naming_both_facts():
    with pytest.raises(
        Misfit, match=r"x-tandem-tier asks for fast.*spark.*an image\. Ask for deep or auto, or send x-tandem-on-misfit"
    ):
        run(
            Says("a", (Insist("x-tandem-tier asks for fast", Rank.HEADER, tier=Tier.FAST),)),
            Says("b", (RuleOut("spark", "the request contains an image", lasting=True),)),
        )


def test_a_wish_that_is_too_long_carries_the_numbers():
    with pytest.raises(TooLong, match="^prompt is too long: 208000 tokens > 128000 maximum. "):
        run(
            Says("a", (Insist("x-tandem-tier asks for fast", Rank.HEADER, tier=Tier.FAST),)),
            Says("b", (RuleOut("spark", "long", lasting=True, tokens=(208_000, 128_000)),)),
        )


def test_a_wish_that_cannot_be_met_now_says_when():
    with pytest.raises(TiersBusy) as caught:
        run(
            Says("a", (Insist("x", Rank.HEADER, tier=Tier.FAST),)),
            Says("b", (RuleOut("spark", "quota spent", lasting=False, wait_seconds=7),)),
        )

    assert caught.value.retry_after_seconds == 7


def closed(target, seconds):
    return replace(stand(target), closed_seconds=seconds)


SPARK, FLASH, SAGE = make_target(), make_target("flash"), make_target("sage", Tier.DEEP)


@pytest.mark.parametrize("odds", [-6, 6])
def test_a_target_that_asked_to_be_left_alone_is_ruled_out_while_another_can_serve(odds):
    decision = run(lean(odds), signals=make_signals(stand(SPARK), closed(SAGE, 41.2)))

    assert (decision.targets, decision.spill) == (("spark",), ())
    assert decision.because.endswith("deep is out for now (sage asked to be retried in 42 s), so fast serves this")
    assert next((item.policy, item.kind, item.target) for item in evidence_of(decision.opinions)) == (
        "retry_after",
        "rule_out",
        "sage",
    )


def test_in_a_tier_of_two_the_other_target_serves():
    assert run(lean(-6), signals=make_signals(closed(SPARK, 9), stand(FLASH), stand(SAGE))).targets == ("flash",)


def test_where_every_target_asked_to_be_left_alone_the_caller_is_told_the_shortest_wait():
    with pytest.raises(TiersBusy, match="spark asked to be retried in 9 s; sage") as caught:
        run(lean(0), signals=make_signals(closed(SPARK, 9), closed(SAGE, 41.2)))

    assert caught.value.retry_after_seconds == 9


def test_a_pinned_tier_that_asked_to_be_left_alone_is_refused_with_its_own_wait():
    pinned = Says("a", (Insist("x-tandem-tier asks for deep", Rank.HEADER, tier=Tier.DEEP),))

    with pytest.raises(TiersBusy, match="x-tandem-tier asks for deep.*sage asked") as caught:
        run(pinned, signals=make_signals(stand(SPARK), closed(SAGE, 41.2)))

    assert caught.value.retry_after_seconds == 41.2


def probed(target, seconds):
    return replace(closed(target, seconds), may_probe=True)


def test_where_every_target_is_closed_one_that_may_be_probed_is_asked():
    decision = run(lean(0), signals=make_signals(closed(SPARK, 9), probed(SAGE, 800.0)))

    assert (decision.targets, decision.spill) == (("sage",), ())
    assert decision.because.endswith("sage asked to be retried in 800 s, and nothing else can serve this")


def test_a_pinned_tier_that_is_closed_is_probed_though_the_other_tier_is_open():
    pinned = Says("a", (Insist("x-tandem-tier asks for deep", Rank.HEADER, tier=Tier.DEEP),))

    assert run(pinned, signals=make_signals(stand(SPARK), probed(SAGE, 800.0))).targets == ("sage",)


def test_a_closed_target_is_not_probed_while_another_can_serve():
    assert run(lean(6), signals=make_signals(stand(SPARK), probed(SAGE, 800.0))).targets == ("spark",)


def test_without_spilling_over_a_closed_tier_is_probed_and_the_other_is_not_asked():
    signals = make_signals(stand(SPARK), probed(SAGE, 800.0))

    decision = run(lean(6), signals=signals, spill_over=False)

    assert (decision.targets, decision.spill) == (("sage",), ())


def test_a_running_turn_yields_to_the_other_tier_when_its_own_asked_to_be_left_alone():
    running = Says("a", (Insist("this turn runs on deep", Rank.RUNNING_TURN, tier=Tier.DEEP, yields=True),))

    assert run(running, signals=make_signals(stand(SPARK), closed(SAGE, 41.2))).targets == ("spark",)


def over_max_wait(target, seconds=8.0):
    return stand(make_target(target.name, target.tier, quota=Quota(max_wait_seconds=2.0))).with_wait(seconds)


def test_a_wait_over_the_targets_max_wait_passes_it_over_with_the_reason_in_words():
    decision = run(lean(-6), signals=make_signals(over_max_wait(SPARK), stand(SAGE)))

    assert decision.targets == ("sage",)
    assert "spark would keep you waiting 8 s, longer than its max_wait_seconds of 2" in decision.because
    assert decision.because.endswith("so deep serves this")


def test_a_running_turn_leaves_a_tier_whose_wait_is_over_its_max_wait():
    running = Says("a", (Insist("2 tool calls into a turn on fast", Rank.RUNNING_TURN, tier=Tier.FAST, yields=True),))

    decision = run(running, signals=make_signals(over_max_wait(SPARK), stand(SAGE)))

    assert decision.targets == ("sage",)
    assert decision.because.startswith("2 tool calls into a turn on fast, but spark would keep you waiting 8 s")


@pytest.mark.parametrize("misfit", ["error", "other"])
def test_who_asked_for_fast_waits_for_it_unless_the_other_tier_is_allowed(misfit):
    pinned = Says("a", (Insist("x-tandem-tier asks for fast", Rank.HEADER, tier=Tier.FAST),))
    request = ask(headers={"x-tandem-on-misfit": misfit})

    decision = run(pinned, request=request, signals=make_signals(over_max_wait(SPARK), stand(SAGE)))

    assert decision.targets == (("spark",) if misfit == "error" else ("sage",))
    assert "spark would keep you waiting 8 s" in decision.because


def test_a_wait_that_is_only_expected_refuses_nobody():
    decision = run(lean(6), signals=make_signals(over_max_wait(SPARK), closed(SAGE, 41.2)))

    assert decision.targets == ("spark",)
    assert "spark would keep you waiting 8 s" in decision.because
    assert decision.because.endswith("and nothing else can serve this")
    assert [item.target for item in evidence_of(decision.opinions) if item.kind == "rule_out"] == ["sage"]


def test_a_wait_at_deep_is_weighed_and_never_bounded_by_the_config():
    assert run(lean(6), signals=make_signals(stand(SPARK), over_max_wait(SAGE))).targets == ("sage",)


def test_when_both_are_out_the_error_names_every_reason():
    with pytest.raises(Misfit, match="spark: no images.*sage: no files"):
        run(Says("b", (RuleOut("spark", "no images", lasting=True), RuleOut("sage", "no files", lasting=True))))


def test_a_target_that_is_too_small_and_busy_is_too_small_in_whichever_order_that_is_said():
    too_long = [RuleOut(name, "too long", lasting=True, tokens=(300_000, 200_000)) for name in ("spark", "sage")]
    busy = [RuleOut(name, "busy", lasting=False, wait_seconds=5.0) for name in ("spark", "sage")]

    for opinions in itertools.permutations([*too_long, *busy]):
        with pytest.raises(TooLong):  # a client that hears this compacts; after a 429 it would only wait
            run(Says("b", opinions))


def test_targets_of_a_tier_are_tried_cheapest_first():
    slow, quick = stand(make_target("slow"), ttft=3), stand(make_target("quick"))

    decision = run(lean(-3), signals=make_signals(slow, quick, stand(make_target("sage", Tier.DEEP))))

    assert decision.targets == ("quick", "slow")
    assert decision.spill == ("sage",)
    assert run(lean(-3), spill_over=False).spill == ()


def test_a_wait_flips_nothing_where_a_second_fast_target_would_take_over():
    signals = make_signals(stand(make_target("one")), stand(make_target("two")), stand(make_target("sage", Tier.DEEP)))

    assert explain(run(lean(-3), signals=signals))["flip"]["fast_wait_seconds"] is None


def test_what_was_insisted_on_is_flipped_by_nothing():
    decision = run(Says("a", (Insist("x", Rank.HEADER, tier=Tier.DEEP),)))

    assert decision.weighing is None
    assert explain(decision)["flip"] == {"score": None, "fast_wait_seconds": None}


def test_a_policy_that_answers_a_generator_is_heard():
    class Yields:
        name = "yields"

        def judge(self, request, signals):
            yield Lean(-5, "x")

    assert len(run(Yields()).opinions.leans) == 1


def test_no_flip_is_reported_where_there_is_none():
    fast, deep = stand(make_target(), ttft=30, speed=5), stand(make_target("sage", Tier.DEEP))
    projections = [project(status, 100, ECONOMICS) for status in (fast, deep)]

    redo = price_redo(*projections, ASSUMED_RATES, Preference.BALANCED)
    assert find_flip(*projections, redo, 0.5, ECONOMICS).score is None


def at_quota(target, seconds=12.0):
    words = f"{target.name} is at its quota of 60 requests a minute for another {seconds:g} s"
    status = stand(make_target(target.name, target.tier, quota=Quota(60, max_wait_seconds=2.0))).with_wait(seconds, words)
    return replace(status, closed_seconds=seconds - 2.0, is_over_max_wait=True)


FULL = make_signals(at_quota(SPARK), stand(SAGE))


def test_a_target_at_its_quota_is_ruled_out_in_words_while_another_can_serve():
    decision = run(lean(-6), signals=FULL)

    assert decision.targets == ("sage",)
    assert decision.because == (
        "unclear whether quick or long; fast is out for now (spark is at its quota of 60 requests a minute for another 12 s, "
        "longer than its max_wait_seconds of 2), so deep serves this"
    )
    assert ("max_wait", "rule_out", "spark") in [
        (item.policy, item.kind, item.target) for item in evidence_of(decision.opinions)
    ]


def test_who_asks_for_a_target_at_its_quota_may_wait_for_it():
    asked = Says("a", (Insist("x-tandem-tier asks for fast", Rank.HEADER, tier=Tier.FAST),))

    assert run(asked, signals=FULL).targets == ("spark",)


def test_where_every_target_is_at_its_quota_the_queues_say_how_long_it_takes():
    assert run(lean(-6), signals=make_signals(at_quota(SPARK, 3.0), at_quota(SAGE))).targets == ("spark",)
    only = run(lean(-6), signals=make_signals(at_quota(SPARK, 3.0), closed(SAGE, 40)))
    assert only.targets == ("spark",)


def test_a_passing_reason_does_not_hide_a_lasting_one():
    """A client that hears 429 waits and sends the same again; one that hears `context_length_exceeded` compacts."""
    too_long = Says("window", tuple(RuleOut(name, "too long", lasting=True, tokens=(9, 8)) for name in ("spark", "sage")))
    busy = Says("zeal", (RuleOut("spark", "at its quota", lasting=False, wait_seconds=3.0),))

    with pytest.raises(TooLong) as refused:
        run(too_long, busy, signals=make_signals(stand(SPARK), closed(SAGE, 40)))

    assert refused.value.code == "context_length_exceeded"
    decision = run(busy, Says("window", too_long.opinions[:1]))
    assert decision.because == "only deep can serve this: spark cannot: too long"


@given(log_odds, some.floats(0, 60))
def test_the_other_tier_is_a_rival_where_it_would_have_cost_at_most_a_quarter_more(odds, wait):
    decision = run(lean(odds), signals=make_signals(stand(SPARK, wait), stand(SAGE)))

    estimates = estimates_of(weighing_of(decision), decision.score, ECONOMICS)
    ratio = estimates[decision.tier.other].cost_usd / estimates[decision.tier].cost_usd
    assume(not math.isclose(ratio, 1.25))
    assert decision.rival == (decision.spill[0] if ratio < 1.25 else "")


def test_where_nothing_was_weighed_there_is_no_rival():
    assert run(Says("a", (Insist("asked", Rank.HEADER, tier=Tier.FAST),))).rival == ""
    assert run(Says("a", (RuleOut("sage", "no", lasting=True),))).rival == ""


def test_a_loading_target_is_passed_over_and_a_503_in_its_own_words_for_who_asks_for_it():
    spark = replace(closed(make_target(), 3.0), loading="Loading model")
    signals = make_signals(spark, stand(make_target("sage", Tier.DEEP)))

    moved = run(lean(-5), signals=signals)
    with pytest.raises(UpstreamLoading) as caught:
        run(Says("a", (Insist("the name asks for spark", Rank.MODEL_NAME, target="spark"),)), signals=signals)

    assert (moved.tier, moved.targets) == (Tier.DEEP, ("sage",))
    assert 'spark is loading its model ("Loading model")' in moved.because
    assert (caught.value.status, caught.value.retry_after_seconds) == (503, 2.0)
    assert caught.value.message.startswith("the name asks for spark, but no target there can serve this request: spark is load")


FAST_ONLY = RuleOut("sage", "this key is for fast only", lasting=True, is_right=True)


@pytest.mark.parametrize(
    "insist", [(), (Says("override", (Insist("x-tandem-tier asks for fast", Rank.HEADER, tier=Tier.FAST),)),)]
)
def test_what_a_key_is_for_is_named_where_only_the_other_tier_could_serve(insist):
    cannot = RuleOut("spark", "no images", lasting=True)

    with pytest.raises(Misfit, match="spark: no images; .*this key is for fast only$") as refused:
        run(Says("rights", (FAST_ONLY,)), Says("features", (cannot,)), *insist)

    assert not isinstance(refused.value, TooLong)


def test_a_prompt_too_long_for_the_tier_that_a_key_is_for_is_too_long_and_not_only_a_misfit():
    cannot = RuleOut("spark", "too long", lasting=True, tokens=(300_000, 200_000))

    with pytest.raises(TooLong, match="tokens > 200000 maximum. This key is for fast only, and no target there has a larger"):
        run(Says("rights", (FAST_ONLY,)), Says("window", (cannot,)))


def test_a_key_for_one_tier_is_why_that_tier_serves():
    decision = run(Says("rights", (FAST_ONLY,)))

    assert (decision.targets, decision.spill) == (("spark",), ())
    assert decision.because == "only fast can serve this: this key is for fast only"
