import itertools

import pytest
from msgspec.structs import replace
from pydantic import ValidationError

from policies.rules import RulesConfig, RulesPolicy
from router.contract.opinions import Insist, Lean, Rank
from router.contract.words import Tier, TurnKind
from tests.tools.values import ask, make_signals, make_view


def judge(*rules: dict, text: str = "bump the changelog", view=None, **more):
    return RulesPolicy(RulesConfig(rules=rules)).judge(view or ask(text), make_signals(text=text, **more))


def test_a_rule_with_a_tier_insists_below_every_wish_and_yields():
    assert judge({"when": {"words": ["bump"]}, "tier": "fast"}) == (
        Insist("rule 1 of the config asks for fast", Rank.OPERATOR_RULE, tier=Tier.FAST, yields=True),
    )


@pytest.mark.parametrize(
    ("words", "text", "holds"),
    [
        (["bump"], "Bump it", True),
        (["bump"], "bumper cars", False),
        (["bump", "changelog"], "write the changelog", True),
        ("change log", "the CHANGE \n log", True),
        (["c++"], "port it to c++ now", True),
        (["a.c"], "abc", False),
        (["迁移"], "请迁移项目", True),
        (["straße"], "die Straße", True),
        ("été", "complétée", False),
        ("été", "cet été", True),
        ("naïve", "naïvely", False),
    ],
)
def test_words_are_whole_words_or_phrases_whatever_their_case(words, text, holds):
    assert bool(judge({"when": {"words": words}, "tier": "fast"}, text=text)) is holds


def test_all_conditions_of_a_rule_must_hold():
    rule = {"when": {"words": ["bump"], "client": "test", "turn": "ask", "more_than_tokens": 50}, "tier": "fast"}

    assert judge(rule)
    assert not judge(rule, tokens=50)
    assert not judge(rule, kind=TurnKind.FOLLOW_UP)
    assert not judge({**rule, "when": {**rule["when"], "client": "codex"}})


def test_a_rule_may_look_at_what_a_request_holds():
    image = [{"type": "image_url", "image_url": {"url": "x"}}]
    view = make_view({"messages": [{"role": "user", "content": image}]})
    rule = {"when": {"has": "image"}, "tier": "deep"}

    assert judge(rule, view=view)
    assert not judge(rule)


def test_the_first_tier_counts_and_every_lean_adds():
    opinions = judge(
        {"when": {"words": "bump"}, "lean": 2.0},
        {"when": {"words": "nothing"}, "tier": "deep"},
        {"when": {"words": "changelog"}, "tier": "fast"},
        {"when": {"turn": "ask"}, "tier": "deep"},
        {"when": {"turn": "ask"}, "lean": -0.5},
    )

    assert [opinion.tier for opinion in opinions if isinstance(opinion, Insist)] == [Tier.FAST]
    assert [opinion.log_odds for opinion in opinions if isinstance(opinion, Lean)] == [2.0, -0.5]
    assert "rule 3" in next(opinion.because for opinion in opinions if isinstance(opinion, Insist))


@pytest.mark.parametrize("kind", [TurnKind.TOOL_LOOP, TurnKind.COMPACTION])
def test_a_turn_under_way_is_left_alone(kind):
    assert judge({"when": {"words": "bump"}, "tier": "fast"}, kind=kind) == ()


def test_a_subagents_rule_reads_what_it_was_given():
    signals = make_signals(text=None, kind=TurnKind.SUBAGENT)
    signals = replace(signals, turn=replace(signals.turn, ask_text="list the files"))
    rule = {"when": {"turn": "subagent", "words": "list the files"}, "tier": "fast"}

    assert RulesPolicy(RulesConfig(rules=(rule,))).judge(ask(), signals)


def test_no_reason_holds_a_word_of_the_rule():
    opinions = judge({"when": {"words": "canary"}, "tier": "fast"}, {"when": {"words": "canary"}, "lean": 1}, text="a canary")

    assert len(opinions) == 2
    assert not any("canary" in opinion.because for opinion in opinions)


@pytest.mark.parametrize(
    "rule",
    [
        {"when": {}, "tier": "fast"},
        {"when": {"words": []}, "tier": "fast"},
        {"when": {"words": ["..."]}, "tier": "fast"},
        {"when": {"words": "bump"}},
        {"when": {"words": "bump"}, "tier": "fast", "lean": 1},
        {"when": {"words": "bump"}, "tier": "medium"},
        {"when": {"word": "bump"}, "tier": "fast"},
        {"when": {"turn": "tool_loop"}, "tier": "fast"},
        {"when": {"words": "bump"}, "lean": 99},
        {"tier": "fast"},
    ],
)
def test_a_rule_that_cannot_be_followed_is_refused(rule):
    with pytest.raises(ValidationError):
        RulesConfig(rules=(rule,))


def test_a_go_on_is_read_by_what_it_goes_on_with():
    signals = make_signals(text="go on", kind=TurnKind.FOLLOW_UP)
    signals = replace(signals, turn=replace(signals.turn, ask_text="fix the C++ build"))
    rule = {"when": {"words": "C++"}, "tier": "deep"}

    assert RulesPolicy(RulesConfig(rules=(rule,))).judge(ask(), signals)


def test_an_outcome_that_is_kept_holds_for_the_same_words_alone():
    """One policy that has judged before says what another would that has not, whatever a rule looks at."""
    image = {"type": "image_url", "image_url": {"url": "x"}}
    rules = (
        {"when": {"words": ["bump"]}, "lean": 0.5},
        {"when": {"words": ["bump"], "client": "codex"}, "lean": 1.0},
        {"when": {"turn": "follow_up"}, "lean": 2.0},
        {"when": {"has": "image"}, "tier": "deep"},
        {"when": {"more_than_tokens": 50}, "tier": "fast"},
        {"when": {"more_than_tokens": 100}, "lean": -1.0},
    )
    kept = RulesPolicy(RulesConfig(rules=rules))
    views = ask("x"), make_view({"messages": [{"role": "user", "content": [image]}]})
    seen = set()

    for text, tokens, kind, client, view in itertools.product(
        ("bump it", "bumper cars", ""),
        (0, 50, 51, 100, 101),
        (TurnKind.ASK, TurnKind.FOLLOW_UP, TurnKind.SUBAGENT, TurnKind.TOOL_LOOP),
        ("codex", "test"),
        views * 2,
    ):
        signals = make_signals(text=text, tokens=tokens, kind=kind)
        signals = replace(signals, turn=replace(signals.turn, client=client))
        fresh = RulesPolicy(RulesConfig(rules=rules)).judge(view, signals)
        assert kept.judge(view, signals) == fresh
        seen.add(fresh)

    assert len(seen) > 20


def test_no_more_outcomes_are_kept_than_a_bound():
    policy = RulesPolicy(RulesConfig(rules=({"when": {"words": ["bump"]}, "lean": 0.5},)))

    for number in range(1_000):
        policy.judge(ask("x"), make_signals(text=f"bump {number}"))

    assert 0 < policy._apply_once.cache_info().currsize < 1_000
