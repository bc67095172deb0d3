import math

import pytest
from msgspec.structs import replace

from router.contract.decision import Projection, Redo, Weighing
from router.contract.opinions import Insist, Lean, Opinions, Rank, RuleOut
from router.contract.signals import SessionPosition
from router.contract.words import Tier, TurnKind
from router.decide.explain import because_estimate, because_out, explain, say_looks
from tests.tools.exchanges import ECONOMICS, make_decision
from tests.tools.values import make_signals, make_target, stand

LOOKS_QUICK = Lean(-4.0, "looks like a quick edit: rename", names_turn=True)
LOOKS_LONG = Lean(3.0, "looks like a long task: migrate", names_turn=True)


def say(
    tier: Tier,
    *leans: Lean,
    warm: int = 0,
    fast_wait: float = 0.0,
    deep_wait: float = 0.0,
    why: str = "",
    redo: Redo | None = None,
    deep_seconds: float = 1.0,
    deep_slope: float = 1.0,
    kind: TurnKind = TurnKind.ASK,
) -> str:
    held = tuple(("p", lean) for lean in sorted(leans, key=lambda lean: -abs(lean.log_odds)))
    waits = {Tier.FAST: fast_wait, Tier.DEEP: deep_wait}
    fast = Projection(Tier.FAST, fast_wait, 1.0, 1.0, 0.0, 0.0, False)
    deep = Projection(Tier.DEEP, deep_wait, deep_seconds, deep_slope, 0.0, 0.0, False)
    score = 1 / (1 + math.exp(-sum(lean.log_odds for lean in leans)))
    statuses = [replace(stand(make_target(side, side), waits[side]), wait_because=why) for side in Tier]
    signals = make_signals(*statuses, kind=kind, tokens=100_000, position=SessionPosition(tier, warm={tier: warm}))
    return because_estimate(tier, Weighing(fast, deep, redo=redo), score, Opinions(leans=held), signals, 0.3, ECONOMICS)


def test_it_begins_with_what_the_turn_looks_like_and_holds_no_seconds():
    assert say(Tier.FAST, LOOKS_QUICK) == "looks like a quick edit: rename"
    assert say(Tier.DEEP, LOOKS_LONG) == "looks like a long task: migrate"


def test_other_evidence_follows_where_it_points_the_same_way():
    effort, small = Lean(1.2, "reasoning effort is max"), Lean(0.1, "hardly anything")

    assert say(Tier.DEEP, LOOKS_LONG, effort) == "looks like a long task: migrate; reasoning effort is max"
    assert say(Tier.FAST, LOOKS_QUICK, effort) == "looks like a quick edit: rename"
    assert say(Tier.DEEP, LOOKS_LONG, small) == "looks like a long task: migrate"


@pytest.mark.parametrize(
    ("leans", "told"),
    [
        ([Lean(-0.24, "may be long: tests", names_turn=True)], "may be long (44 %; fast takes what is under 25 %): tests"),
        (
            [Lean(0.4, "looks like a long task: tests", names_turn=True), Lean(-0.9, "reasoning effort is low")],
            "may be long (38 %; fast takes what is under 25 %): tests",
        ),
        (
            [Lean(-0.2, "continues what may be long", names_turn=True)],
            "continues what may be long (45 %; fast takes what is under 25 %)",
        ),
        (
            [Lean(0.2, "continues a long task", names_turn=True), Lean(-0.4, "reasoning effort is low")],
            "continues what may be long (45 %; fast takes what is under 25 %)",
        ),
        ([Lean(0.4, "looks like a long task: tests", names_turn=True)], "looks like a long task: tests"),
    ],
)
def test_below_50_percent_a_turn_only_may_be_long_and_the_chance_is_told_with_that_from_which_on_deep_serves(leans, told):
    redo = Redo(0.05, 0.5, 10.0, 10.0, 0.0, 0.0)

    assert say(Tier.DEEP, *leans, redo=redo, deep_seconds=3.0) == told


def test_chances_that_are_nearly_alike_are_told_apart():
    looks = Lean(0.0, "may be long", names_turn=True)

    assert say_looks(looks, 0.2334, 0.2321) == "may be long (23.3 %; fast takes what is under 23.2 %)"
    assert say_looks(looks, 0.44) == "may be long (44 %)"


def test_a_quick_look_on_deep_is_told_with_the_chance_from_which_on_deep_serves():
    looks, redo = Lean(-1.6, "looks like a quick edit", names_turn=True), Redo(0.05, 0.5, 16.0, 10.0, 0.0, 0.0)

    told = say(Tier.DEEP, looks, redo=redo, deep_seconds=3.0)

    assert told == "looks like a quick edit; 17 % chance of a long task, and fast takes what is under 14 %"


def test_a_chance_above_which_fast_serves_is_not_told_as_the_one_below_which_it_does():
    free = Redo(0.0, 0.0, 0.0, 0.0, 0.0, 0.0)

    told = say(Tier.DEEP, LOOKS_QUICK, redo=free, deep_seconds=0.5, deep_slope=11.0)  # as quick on both from 5 % on

    assert told == "looks like a quick edit: rename; fast would not be done much sooner"
    may_be = Lean(-1.0, "may be long: tests", names_turn=True)
    assert say(Tier.FAST, may_be, redo=free, deep_seconds=0.5, deep_slope=11.0) == "may be long (27 %): tests"


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

    told = because_estimate(Tier.DEEP, Weighing(fast, deep), 0.02, leans, signals, 0.9, ECONOMICS)
    assert told.endswith("fast would not be done much sooner")
    assert "keep you waiting" in because_estimate(Tier.DEEP, Weighing(fast, deep), 0.02, leans, signals, 0.0, ECONOMICS)


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

    assert because_out(Tier.FAST, reasons, Opinions(leans=(("p", LOOKS_LONG),)), 0.95, "spark") == (
        "looks like a long task: migrate; deep is out for now (sage asked to be retried in 42 s, elder: quota spent), "
        "so fast serves this"
    )


def test_a_reason_that_says_what_the_turn_looks_like_and_more_takes_its_place():
    looks = Lean(1.0, "you said the last turn went wrong", names_turn=True)
    more = Lean(2.0, "you said the last turn went wrong, and fast had served it")

    assert say(Tier.DEEP, looks, more) == more.because


def test_without_any_reading_it_says_so():
    assert say(Tier.DEEP) == "unclear whether quick or long"
    assert say(Tier.DEEP, kind=TurnKind.COMPACTION) == "compaction of a session that is not known"


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
