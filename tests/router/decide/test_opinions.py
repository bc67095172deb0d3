"""Asking the policies: their order does not matter, and what one of them gets wrong costs nothing else."""

import random
from dataclasses import dataclass

import pytest
from msgspec.structs import replace

from router.contract.decision import Evidence
from router.contract.errors import NotPermitted
from router.contract.opinions import Insist, Lean, Rank, RuleOut, Skipped
from router.contract.rights import EVERYTHING, Rights
from router.contract.words import Tier
from router.decide.opinions import Rules, check_forced, collect, evidence_of, with_lean
from tests.tools.exchanges import ECONOMICS
from tests.tools.values import ask, make_signals, make_target, stand


@dataclass
class Says:
    name: str
    opinions: object

    def judge(self, request, signals):
        if isinstance(self.opinions, BaseException):
            raise self.opinions
        return self.opinions


POLICIES = (
    Says("mild", (Lean(-0.5, "short"),)),
    Says("strong", (Lean(2.0, "many files"), RuleOut("spark", "busy", lasting=False, wait_seconds=3.0))),
    Says("window", (RuleOut("spark", "too long", lasting=True, tokens=(9, 8)), RuleOut("sage", "no images", lasting=True))),
    Says("name", (Insist("the name says so", Rank.MODEL_NAME, target="sage"),)),
    Says("header", (Insist("the header says so", Rank.HEADER, tier=Tier.FAST),)),
    Says("quiet", ()),
    Says("broken", ZeroDivisionError()),
)


class Panic(BaseException):
    """What an extension in Rust raises where it panics."""


def heard(*policies):
    return collect(Rules(policies, ECONOMICS, True, ""), ask(), make_signals())


def test_a_policy_that_panics_costs_its_own_opinion_and_one_that_is_interrupted_ends():
    assert heard(*POLICIES[:2], Says("rust", Panic())).skipped == (Skipped("rust", "Panic"),)
    with pytest.raises(KeyboardInterrupt):
        heard(Says("slow", KeyboardInterrupt()))


def test_whatever_the_order_of_the_policies_the_same_is_heard_strongest_first():
    chance = random.Random(7)
    orders = [heard(*chance.sample(POLICIES, len(POLICIES))) for _ in range(100)]

    assert all(opinions == orders[0] for opinions in orders)
    assert [policy for policy, _ in orders[0].insists] == ["header", "name"]
    assert [(opinion.target, policy) for policy, opinion in orders[0].ruled_out] == [
        ("sage", "window"),
        ("spark", "window"),
        ("spark", "strong"),
    ]
    assert [lean.log_odds for _, lean in orders[0].leans] == [2.0, -0.5]
    assert orders[0].skipped == (Skipped("broken", "ZeroDivisionError"),)


def test_evidence_keeps_what_each_opinion_said():
    assert evidence_of(heard(*POLICIES)) == (
        Evidence("header", "insist", "the header says so", tier=Tier.FAST, rank="header"),
        Evidence("name", "insist", "the name says so", target="sage", rank="model_name"),
        Evidence("window", "rule_out", "no images", target="sage", is_lasting=True),
        Evidence("window", "rule_out", "too long", target="spark", is_lasting=True, tokens=(9, 8)),
        Evidence("strong", "rule_out", "busy", target="spark", is_lasting=False),
        Evidence("strong", "lean", "many files", log_odds=2.0),
        Evidence("mild", "lean", "short", log_odds=-0.5),
    )


def test_one_lean_more_takes_its_place_and_changes_nothing_else():
    before = heard(*POLICIES)

    after = with_lean(before, "personal", Lean(-1.0, "as a rule"))

    assert [policy for policy, _ in after.leans] == ["strong", "personal", "mild"]
    assert replace(after, leans=before.leans) == before


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        ((Lean(float("nan"), "x"),), "invalid log_odds nan"),
        ((Lean(20.5, "x"),), "invalid log_odds 20.5"),
        ((Lean("1", "x"),), "invalid log_odds '1'"),
        ((Lean(1.0, 7),), "gives int as its reason, not text"),
        (("deep",), "returned str, not an opinion"),
        ((Insist("x", Rank.HEADER),), "an Insist needs a rank, and a tier or a target"),
        ((Insist("x", Rank.HEADER, tier=Tier.FAST, target="spark"),), "an Insist needs a rank, and a tier or a target"),
        ((Insist("x", 5, tier=Tier.FAST),), "an Insist needs a rank, and a tier or a target"),
        ((Insist("x", Rank.HEADER, target="n" * 99),), f"insists on an unknown target {'n' * 40!r}"),
        ((Insist("x", Rank.HEADER, tier="slow"),), "insists on an unknown tier 'slow'"),
        (7, "TypeError"),
    ],
)
def test_a_policy_that_answers_nonsense_is_skipped_whole_and_says_why(said, reason):
    opinions = heard(Says("odd", said), Says("sound", (Lean(1.0, "x"),)))

    assert opinions.skipped == (Skipped("odd", reason),)
    assert [policy for policy, _ in opinions.leans] == ["sound"]


def test_a_sound_opinion_next_to_nonsense_of_the_same_policy_does_not_count():
    opinions = heard(Says("odd", (Lean(1.0, "sound"), Lean(99.0, "not"))))

    assert opinions.leans == ()


@pytest.mark.parametrize("log_odds", [20.0, -20.0, 3])
def test_odds_up_to_twenty_are_taken(log_odds):
    assert heard(Says("sure", (Lean(log_odds, "x"),))).leans[0][1].log_odds == log_odds


DEEP = Insist("x-tandem-tier asks for deep", Rank.HEADER, tier=Tier.DEEP)
SAGE = Insist("the model name is a target", Rank.MODEL_NAME, target="sage")


def statuses():
    return {"sage": stand(make_target("sage", Tier.DEEP))}


@pytest.mark.parametrize("insist", [DEEP, SAGE])
def test_a_tier_that_may_not_be_forced_is_refused_with_the_name_of_the_right(insist):
    with pytest.raises(NotPermitted, match=f"{insist.because}, and this key does not have the right to force deep .may_force"):
        check_forced("override", insist, statuses(), Rights())


@pytest.mark.parametrize(
    ("rank", "way_out"),
    [
        (Rank.HEADER, "leave the header out"),
        (Rank.IN_BAND_LINE, "Remove the line"),
        (Rank.SESSION_SCOPE, "x-tandem-tier: auto with x-tandem-scope: session"),
        (Rank.MODEL_NAME, "the model auto"),
    ],
)
def test_a_refusal_says_how_to_stop_asking_in_the_same_way(rank, way_out):
    with pytest.raises(NotPermitted, match=way_out):
        check_forced("override", Insist("somebody asks for deep", rank, tier=Tier.DEEP), statuses(), Rights())


@pytest.mark.parametrize("insist", [DEEP, SAGE])
def test_what_the_operator_insists_on_is_no_callers_wish(insist):
    check_forced("rules", insist, statuses(), Rights())
    check_forced("override", insist, statuses(), EVERYTHING)
