"""Words that decide: found where they do, tried on what was held out, and few."""

import pytest

from router.contract.words import Tier
from router.past.cases import Sample
from router.past.history import Size
from router.past.rules import FoundRule, find_rules


def past(words: str, size: Size, session: str = "s") -> Sample:
    """A turn that fast would have."""
    return Sample(session, 0.0, 0.0, None, Tier.FAST, size, words=words)


def turns(pattern: str, size: Size, count: int, sessions: int = 10) -> list[Sample]:
    return [past(pattern.format(number), size, f"s{number % sessions}") for number in range(count)]


OTHERS = turns("rename item{} to thing", Size.QUICK, 60)
DEPLOY = turns("please deploy build{}", Size.LONG, 20)


def find(learned, held_out) -> list[tuple[str, Tier]]:
    return [(rule.words, rule.tier) for rule in find_rules(learned, held_out, lambda _: Tier.FAST)]


def test_a_word_that_decides_becomes_a_rule_with_how_often_it_was_right():
    mixed = [*DEPLOY, past("deploy nothing", Size.QUICK)]

    (rule,) = find_rules([*OTHERS, *mixed], [*OTHERS, *DEPLOY[:10]], lambda _: Tier.FAST)

    assert rule == FoundRule("deploy", Tier.DEEP, 21, 20, 10, 10)
    assert (rule.total_seen, rule.total_right) == (31, 30)


def test_two_words_decide_where_neither_does_alone():
    learned = [
        *turns("load test round{}", Size.LONG, 20),
        *turns("test item{}", Size.QUICK, 20),
        *turns("load item{}", Size.QUICK, 20),
        *OTHERS,
    ]

    assert find(learned, learned) == [("load test", Tier.DEEP)]


@pytest.mark.parametrize(
    ("learned", "held_out"),
    [
        ([*OTHERS, *DEPLOY[:11]], [*OTHERS, *DEPLOY]),
        ([*OTHERS, *turns("deploy build{}", Size.LONG, 20, sessions=2)], [*OTHERS, *DEPLOY]),
        ([*OTHERS, *DEPLOY, *turns("deploy fix{}", Size.QUICK, 8)], [*OTHERS, *DEPLOY]),
        ([*OTHERS, *DEPLOY], [*OTHERS, *DEPLOY[:3]]),
        ([*OTHERS, *DEPLOY], [*OTHERS, *DEPLOY[:6], *turns("deploy fix{}", Size.QUICK, 6)]),
        ([*OTHERS[:5], *DEPLOY], [*OTHERS, *DEPLOY]),
    ],
    ids=["seen too little", "in two sessions", "often wrong", "not held out", "wrong later", "in most turns"],
)
def test_a_word_that_is_not_sure_enough_is_no_rule(learned, held_out):
    assert find(learned, held_out) == []


def test_what_goes_to_the_right_tier_already_needs_no_rule():
    assert find_rules([*OTHERS, *DEPLOY], [*OTHERS, *DEPLOY], lambda turn: Tier.DEEP if turn in DEPLOY else Tier.FAST) == []


def test_what_no_rule_could_change_is_not_looked_at():
    assert find_rules([*OTHERS, *DEPLOY], [*OTHERS, *DEPLOY], lambda turn: None) == []


def test_there_are_five_rules_at_most():
    learned = [turn for word in "abcdefgh" for turn in turns(f"{word * 4} item{{}}", Size.LONG, 20)]

    assert len(find(learned, learned)) == 5


@pytest.mark.parametrize(
    ("words", "text", "holds"),
    [
        ("deploy", "Deploy it", True),
        ("deploy", "redeploy it", False),
        ("deploy", "deploy_it", False),
        ("load test", "a Load\n test", True),
        ("load test", "load, test", False),
        ("deploy", "", False),
    ],
)
def test_a_rule_holds_where_the_policy_would_find_its_words(words, text, holds):
    assert FoundRule(words, Tier.DEEP, 1, 1).holds_for(text) is holds
