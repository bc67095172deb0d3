"""What would be decided if something were different, and how often policies are asked to find that out."""

from dataclasses import dataclass, field
from math import inf

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from policies.window import WindowConfig, WindowPolicy
from router.contract.economics import Economics, TurnSize
from router.contract.errors import TooLong
from router.contract.opinions import Insist, Lean, Rank, RuleOut
from router.contract.signals import SessionPosition, TokenCount
from router.contract.words import Preference, Tier
from router.decide.alternatives import worth_of_a_count
from router.decide.choose import decide
from router.decide.opinions import Rules
from tests.tools.houses import Counter, arrive, make_house
from tests.tools.scripted import reach
from tests.tools.values import ask, make_signals, make_target, stand

ECONOMICS = Economics(36.0, Preference.BALANCED, 1.0, TurnSize(2, 400), TurnSize(20, 8_000), 0.5)
SAGE = make_target("sage", Tier.DEEP)


@dataclass
class Counts:
    """A policy that keeps the prompt's length of each time that it is asked. It rules out long prompts."""

    name: str = "counts"
    tokens: list[int] = field(default_factory=list)

    def judge(self, request, signals):
        self.tokens.append(signals.prompt.tokens)
        return (RuleOut("spark", "too long", lasting=True),) if signals.prompt.tokens > 20_000 else ()


def rules_of(*opinions, policies=()):
    @dataclass
    class Says:
        name: str = "says"

        def judge(self, request, signals):
            return opinions

    return Rules((Says(), *policies), ECONOMICS, spill_over=True, config_fingerprint="")


async def test_each_policy_is_asked_once_for_a_request():
    policy = Counts()
    house = make_house(reach(make_target()), reach(SAGE), policies=(policy,))

    await house.decide(arrive())

    assert len(policy.tokens) == 1


@pytest.mark.parametrize(("words", "asked"), [(2_000, 1), (19_500, 3)])
async def test_near_a_limit_policies_are_asked_at_both_ends_and_once_for_the_count_that_decides(words, asked):
    policy, counter = Counts(), Counter(18_000)
    near = reach(make_target(window_tokens=20_000))
    house = make_house(near, reach(SAGE), policies=(policy,), counter=counter)

    decided = await house.decide(arrive(messages=[{"role": "user", "content": "word " * words}]))

    assert (len(policy.tokens), counter.asked) == (asked, asked // 2)
    assert policy.tokens[-1] == decided.decision.prompt_tokens


@given(
    window=st.sampled_from([4_096, 128_000, 400_000]),
    ends=st.tuples(st.floats(0.5, 1.1), st.floats(0.9, 3.5)),
    said=st.sampled_from(
        [
            Lean(-6, "quick"),
            Lean(6, "long"),
            Insist("running", Rank.RUNNING_TURN, tier=Tier.FAST, yields=True),
            Insist("asked", Rank.HEADER, tier=Tier.FAST),
            Insist("asked", Rank.HEADER, target="sage"),
        ]
    ),
    wait=st.sampled_from([0.0, 90.0]),
    warm=st.sampled_from([0, 100_000]),
)
def test_a_count_is_worth_a_wait_where_the_ends_of_the_band_would_be_decided_differently(window, ends, said, wait, warm):
    rules = rules_of(said, policies=(WindowPolicy(WindowConfig()),))
    position = SessionPosition(tier=Tier.DEEP, warm={"sage": warm})
    low, high = (int(window * end) for end in ends)
    signals = make_signals(stand(make_target(window_tokens=window), wait), stand(SAGE), position=position)
    near = replace(signals, prompt=TokenCount(low, low, high))

    def decided_at(tokens: int) -> tuple[Tier, str]:
        decision = decide(rules, ask(), replace(signals, prompt=TokenCount(tokens, tokens, tokens)))
        return decision.tier, decision.targets[0]

    try:
        expected = 0.02 if decided_at(low) != decided_at(high) else 0.0
    except TooLong:
        expected = inf

    assert worth_of_a_count(rules, ask(), near) == expected
