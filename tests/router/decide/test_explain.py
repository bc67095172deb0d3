import pytest

from router.contract.decision import Projection
from router.contract.opinions import Insist, Lean, Opinions, Rank, RuleOut
from router.contract.signals import SessionPosition
from router.contract.words import Tier
from router.decide.explain import because_estimate, explain
from tests.tools.exchanges import make_decision
from tests.tools.values import make_signals, make_target, stand

LOOKS_QUICK = Lean(-4.0, "looks like a quick edit: rename", names_turn=True)
LOOKS_LONG = Lean(3.0, "looks like a long task: migrate", names_turn=True)


def say(tier: Tier, *leans: Lean, warm: int = 0, fast_wait: float = 0.0, deep_wait: float = 0.0, why: str = "") -> str:
    held = tuple(("p", lean) for lean in sorted(leans, key=lambda lean: -abs(lean.log_odds)))
    waits = {Tier.FAST: fast_wait, Tier.DEEP: deep_wait}
    chosen, other = (Projection(side, waits[side], 1.0, 1.0, 0.0, 0.0, False) for side in (tier, tier.other))
    statuses = [stand(make_target(side, side))._replace(wait_because=why) for side in Tier]
    signals = make_signals(*statuses, tokens=100_000, position=SessionPosition(tier, warm={tier: warm}))
    return because_estimate(tier, chosen, other, Opinions(leans=held), signals)


def test_it_begins_with_what_the_turn_looks_like_and_holds_no_seconds():
    assert say(Tier.FAST, LOOKS_QUICK) == "looks like a quick edit: rename"
    assert say(Tier.DEEP, LOOKS_LONG) == "looks like a long task: migrate"


def test_other_evidence_follows_where_it_points_the_same_way():
    effort, small = Lean(1.2, "reasoning effort is max"), Lean(0.1, "hardly anything")

    assert say(Tier.DEEP, LOOKS_LONG, effort) == "looks like a long task: migrate; reasoning effort is max"
    assert say(Tier.FAST, LOOKS_QUICK, effort) == "looks like a quick edit: rename"
    assert say(Tier.DEEP, LOOKS_LONG, small) == "looks like a long task: migrate"


def test_a_warm_cache_is_told_where_it_goes_against_the_looks():
    assert say(Tier.DEEP, LOOKS_QUICK, warm=80_000) == "looks like a quick edit: rename; 80k tokens are cached there"
    assert say(Tier.FAST, LOOKS_QUICK, warm=80_000) == "looks like a quick edit: rename"


@pytest.mark.parametrize(
    ("tier", "looks", "waits", "end"),
    [
        (Tier.DEEP, LOOKS_QUICK, {"fast_wait": 30.0}, "fast has a queue"),
        (Tier.DEEP, LOOKS_QUICK, {}, "fast would not be done much sooner"),
        (Tier.FAST, LOOKS_LONG, {"deep_wait": 300.0}, "deep has a queue"),
        (Tier.FAST, LOOKS_LONG, {}, "fast is still done sooner"),
    ],
)
def test_a_choice_against_the_looks_says_why(tier, looks, waits, end):
    assert say(tier, looks, **waits) == f"{looks.because}; {end}"


def test_what_a_wait_is_for_is_told_before_anything_else_that_goes_against_the_looks():
    effort = Lean(1.2, "reasoning effort is max")
    told = say(Tier.DEEP, LOOKS_QUICK, effort, warm=80_000, fast_wait=60.0, why="spark rests after 5 failures in a row")

    assert told.endswith("; spark rests after 5 failures in a row")
    assert say(Tier.DEEP, LOOKS_LONG, fast_wait=60.0, why="spark rests") == LOOKS_LONG.because


def test_a_reason_that_says_what_the_turn_looks_like_and_more_takes_its_place():
    looks = Lean(1.0, "you said the last turn went wrong", names_turn=True)
    more = Lean(2.0, "you said the last turn went wrong, and fast had served it")

    assert say(Tier.DEEP, looks, more) == more.because


def test_without_any_reading_it_says_so():
    assert say(Tier.DEEP) == "unclear whether quick or long"


def test_it_never_grows_beyond_120_characters():
    long = Lean(-4.0, "looks like a quick edit: " + ", ".join(["default value"] * 5), names_turn=True)

    assert len(say(Tier.FAST, long, Lean(-2.0, "x" * 90), warm=90_000)) <= 120


def test_evidence_carries_its_facts_so_that_nobody_reads_them_out_of_a_sentence():
    insist = Insist("the header", Rank.HEADER, tier=Tier.FAST)
    rule_out = RuleOut("spark", "too long", lasting=True, tokens=(9, 8))
    opinions = Opinions((("override", insist),), (("window", rule_out),), (("learned", LOOKS_QUICK),))

    told = explain(make_decision(opinions=opinions))

    assert told["evidence"] == [
        {"policy": "override", "kind": "insist", "because": "the header", "rank": "header", "tier": "fast"},
        {"policy": "window", "kind": "rule_out", "because": "too long", "target": "spark", "lasting": True, "tokens": [9, 8]},
        {"policy": "learned", "kind": "lean", "because": "looks like a quick edit: rename", "log_odds": -4.0},
    ]
