import pytest
from msgspec.structs import replace

from router.contract.decision import Projection, SecondOpinion
from router.contract.opinions import Insist, Lean, Opinions, Rank, RuleOut
from router.contract.signals import SessionPosition
from router.contract.words import Tier
from router.decide.explain import because_estimate, because_out, explain, explain_second_opinion
from tests.tools.exchanges import ECONOMICS, make_decision
from tests.tools.values import make_signals, make_target, stand

LOOKS_QUICK = Lean(-4.0, "looks like a quick edit: rename", names_turn=True)
LOOKS_LONG = Lean(3.0, "looks like a long task: migrate", names_turn=True)


def say(tier: Tier, *leans: Lean, warm: int = 0, fast_wait: float = 0.0, deep_wait: float = 0.0, why: str = "") -> str:
    held = tuple(("p", lean) for lean in sorted(leans, key=lambda lean: -abs(lean.log_odds)))
    waits = {Tier.FAST: fast_wait, Tier.DEEP: deep_wait}
    chosen, other = (Projection(side, waits[side], 1.0, 1.0, 0.0, 0.0, False) for side in (tier, tier.other))
    statuses = [replace(stand(make_target(side, side), waits[side]), wait_because=why) for side in Tier]
    signals = make_signals(*statuses, tokens=100_000, position=SessionPosition(tier, warm={tier: warm}))
    return because_estimate(tier, chosen, other, Opinions(leans=held), signals, 0.3, ECONOMICS)


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
        (Tier.DEEP, LOOKS_QUICK, {"fast_wait": 30.0}, "fast would keep you waiting 30 s, so deep is done sooner"),
        (Tier.DEEP, LOOKS_QUICK, {}, "fast would not be done much sooner"),
        (Tier.FAST, LOOKS_LONG, {"deep_wait": 300.0}, "deep would keep you waiting 300 s, so fast is done sooner"),
        (Tier.FAST, LOOKS_LONG, {}, "fast is still done sooner"),
    ],
)
def test_a_choice_against_the_looks_says_why(tier, looks, waits, end):
    assert say(tier, looks, **waits) == f"{looks.because}; {end}"


def test_what_a_wait_is_for_is_told_before_anything_else_that_goes_against_the_looks():
    effort = Lean(1.2, "reasoning effort is max")
    told = say(Tier.DEEP, LOOKS_QUICK, effort, warm=80_000, fast_wait=60.0, why="spark rests after 5 failures in a row")

    assert told.endswith("; spark rests after 5 failures in a row, so deep is done sooner")
    assert say(Tier.DEEP, LOOKS_LONG, fast_wait=60.0, why="spark rests") == LOOKS_LONG.because


def test_a_wait_that_moved_nothing_is_not_told():
    fast, deep = Projection("fast", 2.0, 3.0, 1.0, 0.0, 0.0, False), Projection("deep", 0.0, 2.0, 1.0, 0.0, 0.0, False)
    signals = make_signals(stand(make_target("fast"), 2.0), stand(make_target("deep", Tier.DEEP)))
    leans = Opinions(leans=(("p", LOOKS_QUICK),))

    assert because_estimate(Tier.DEEP, deep, fast, leans, signals, 0.9, ECONOMICS).endswith(
        "fast would not be done much sooner"
    )
    assert "keep you waiting" in because_estimate(Tier.DEEP, deep, fast, leans, signals, 0.0, ECONOMICS)


def test_a_long_reading_makes_room_for_what_the_wait_is_for():
    looks = Lean(-4.0, "looks like a quick edit: " + "x" * 30, names_turn=True)
    told = say(Tier.DEEP, looks, Lean(1.2, "reasoning effort is max"), fast_wait=60.0)

    assert told.startswith("looks like a quick edit")
    assert told.endswith("fast would keep you waiting 60 s, so deep is done sooner")


def test_a_tier_that_is_out_is_named_with_its_reason_and_who_serves():
    reasons = [
        RuleOut("sage", "sage asked to be retried in 42 s", lasting=False),
        RuleOut("elder", "quota spent", lasting=False),
    ]

    assert because_out(Tier.FAST, reasons, Opinions(leans=(("p", LOOKS_LONG),))) == (
        "looks like a long task: migrate; deep is out for now (sage asked to be retried in 42 s, elder: quota spent), "
        "so fast serves this"
    )


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


def test_a_second_opinion_is_told_in_usd_and_in_seconds_where_time_has_a_value():
    opinion = SecondOpinion("spark", "not asked", 0.05, 0.004, "spark has no room now")

    told = explain_second_opinion(opinion, ECONOMICS)

    assert (told["value_usd"], told["value_seconds"], told["because"]) == (0.05, 3.0, "spark has no room now")
    assert "asked_ms" not in told
    worthless = replace(ECONOMICS, value_of_time_usd_per_hour=0.0)
    assert explain_second_opinion(opinion, worthless)["value_seconds"] is None
    assert explain_second_opinion(None, ECONOMICS) is None
