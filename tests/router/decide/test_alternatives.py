"""What would be decided if something were different, and how often policies are asked to find that out."""

import math
from dataclasses import dataclass, field

import pytest
from msgspec.structs import replace

from policies.boundary import BoundaryConfig, BoundaryPolicy
from router.contract.decision import Weighing
from router.contract.economics import ASSUMED_RATES, Economics, TurnSize
from router.contract.facts import Decided
from router.contract.opinions import Lean, RuleOut
from router.contract.signals import SessionPosition
from router.contract.target import Quota
from router.contract.words import Preference, Tier, TurnKind
from router.decide.alternatives import foresee, worth_waiting
from router.decide.choose import choose
from router.decide.doubt import decide_with
from router.decide.estimate import costs_of, price_redo, project
from router.decide.opinions import Rules, collect
from tests.tools.exchanges import make_decision, make_snapshot
from tests.tools.houses import Counter, arrive, make_house
from tests.tools.scripted import reach
from tests.tools.values import ask, make_signals, make_target, stand

ECONOMICS = Economics(36.0, Preference.BALANCED, 1.0, TurnSize(2, 400), TurnSize(20, 8_000), 0.5)
QUOTA = Quota(requests_per_minute=1)
SPARK, SAGE = make_target(quota=QUOTA), make_target("sage", Tier.DEEP)


@dataclass
class Counts:
    """A policy that counts how often it is asked, and by how many tokens it was asked for."""

    name: str = "counts"
    tokens: list[int] = field(default_factory=list)

    def judge(self, request, signals):
        self.tokens.append(signals.prompt.tokens)
        longest = 20_000
        return (RuleOut("spark", "too long", lasting=True),) if signals.prompt.tokens > longest else ()


def rules_of(*opinions, policies=(), spill_over=True):
    @dataclass
    class Says:
        name: str = "says"

        def judge(self, request, signals):
            return opinions

    return Rules((Says(), *policies), ECONOMICS, spill_over, "")


def decided_by(rules, signals, view=None):
    view, opinions = view or ask(), collect(rules, view or ask(), signals)
    return foresee(rules, Decided(view, make_snapshot(), choose(rules, view, signals, opinions), opinions))


def target(name: str = "spark", tier: Tier = Tier.FAST, wait: float = 0.0):
    return stand(make_target(name, tier), wait, ttft=0.5, speed=100, prefill=1_000)


def redo_of(fast, deep):
    return price_redo(fast, deep, ASSUMED_RATES, Preference.BALANCED)


def weighing_of(fast, deep):
    return Weighing(fast, deep, redo=redo_of(fast, deep))


async def test_for_one_request_each_policy_is_asked_once():
    policy = Counts()
    house = make_house(reach(make_target()), reach(SAGE), policies=(policy,))

    await house.decide(arrive())

    assert len(policy.tokens) == 1


async def test_a_second_opinion_is_heard_without_asking_the_policies_again():
    policy = Counts()
    house = make_house(reach(make_target()), reach(SAGE), policies=(policy,))
    decided = await house.decide(arrive())

    heard = decide_with(house.plan.rules, decided, "spark", "long")

    assert heard.decision.score > decided.decision.score
    assert len(policy.tokens) == 1


def test_where_work_may_not_spill_over_the_tier_that_is_closed_is_found_without_asking_again():
    policy = Counts()
    rules = rules_of(Lean(-6, "short"), policies=(policy,), spill_over=False)
    signals = make_signals(stand(SPARK), stand(make_target("owl"))._replace(closed_seconds=3.0), stand(SAGE))

    assert decided_by(rules, signals).decision.targets == ("spark",)
    assert len(policy.tokens) == 1


@pytest.mark.parametrize(("words", "asked"), [(2_000, 1), (19_500, 3)])
async def test_near_a_limit_policies_are_asked_at_both_ends_and_once_for_the_count_that_decides(words, asked):
    policy, counter = Counts(), Counter(18_000)
    near = reach(make_target(window_tokens=20_000))
    house = make_house(near, reach(SAGE), policies=(policy,), counter=counter)

    decided = await house.decide(arrive(messages=[{"role": "user", "content": "word " * words}]))

    assert (len(policy.tokens), counter.asked) == (asked, asked // 2)
    assert policy.tokens[-1] == decided.decision.prompt_tokens


def test_a_wait_on_fast_is_worth_it_until_deep_costs_the_same():
    fast, deep = project(target(wait=1.0), 2_000, ECONOMICS), project(target("sage", Tier.DEEP, wait=9.0), 2_000, ECONOMICS)
    decision = make_decision(spill=("sage",), score=0.01, economics=ECONOMICS, weighing=weighing_of(fast, deep))

    worth = worth_waiting(decision)

    longer = project(target(wait=worth), 2_000, ECONOMICS)
    costs = costs_of(longer, deep, redo_of(longer, deep), 0.01, ECONOMICS)
    assert worth > 1.0
    assert costs[0] == pytest.approx(costs[1])


def test_a_tier_that_another_rule_chose_against_the_estimate_is_worth_no_wait():
    fast, deep = project(target(wait=20.0), 2_000, ECONOMICS), project(target("sage", Tier.DEEP), 2_000, ECONOMICS)
    chosen = make_decision(spill=("sage",), score=0.9, economics=ECONOMICS, weighing=weighing_of(fast, deep))

    assert worth_waiting(chosen) == 0.0
    assert worth_waiting(replace(chosen, tier=Tier.DEEP, targets=("sage",), spill=("spark",))) > 20.0


def test_where_nobody_else_may_serve_any_wait_is_worth_it():
    fast, deep = project(target(), 2_000, ECONOMICS), project(target("sage", Tier.DEEP), 2_000, ECONOMICS)
    both, spill = weighing_of(fast, deep), ("sage",)

    assert worth_waiting(make_decision(weighing=both)) == math.inf
    assert worth_waiting(make_decision(spill=spill, weighing=both, was_asked_for=True)) == math.inf
    assert worth_waiting(make_decision(spill=spill, weighing=Weighing(fast, None))) == math.inf
    free = replace(ECONOMICS, value_of_time_usd_per_hour=0.0)
    assert worth_waiting(make_decision(spill=spill, weighing=both, economics=free)) == math.inf
    assert worth_waiting(make_decision(spill=spill, weighing=both, economics=ECONOMICS)) < math.inf


@pytest.mark.parametrize(("odds", "missed"), [(-6, "spark"), (6, "")])
def test_what_a_request_missed_is_the_target_it_would_have_gone_to_without_its_quota(odds, missed):
    rules = rules_of(Lean(odds, "says"))

    assert decided_by(rules, make_signals(stand(SPARK, 90.0), stand(SAGE))).missed == missed
    assert decided_by(rules, make_signals(stand(SPARK), stand(SAGE))).missed == ""


def test_a_request_that_waits_for_the_quota_misses_nothing():
    decided = decided_by(rules_of(Lean(-6, "says")), make_signals(stand(SPARK, 1.0), stand(SAGE)))

    assert (decided.decision.targets, decided.missed) == (("spark",), "")


def test_a_request_that_nothing_could_serve_without_quotas_either_misses_nothing():
    never = RuleOut("spark", "no", lasting=True)

    assert decided_by(rules_of(never), make_signals(stand(SPARK, 90.0), stand(SAGE))).missed == ""


def test_a_running_turn_that_leaves_a_tier_for_its_quota_has_missed_that():
    """Its policy reads waits, so it is asked again for what it would say without them."""
    deep = make_target("sage", Tier.DEEP, quota=QUOTA)
    running = SessionPosition(tier=Tier.DEEP, is_running=True)
    signals = make_signals(stand(make_target()), stand(deep, 90.0), kind=TurnKind.TOOL_LOOP, position=running)

    decided = decided_by(rules_of(Lean(-6, "says"), policies=(BoundaryPolicy(BoundaryConfig()),)), signals)

    assert (decided.decision.targets, decided.missed) == (("spark",), "sage")


@pytest.mark.parametrize(("said", "missed"), [("quick", "spark"), ("odd", "spark"), ("long", "")])
def test_what_a_request_missed_counts_the_second_opinion_on_it(said, missed):
    rules, signals = rules_of(Lean(-1.6, "says")), make_signals(stand(SPARK, 90.0), stand(SAGE))

    decided = decide_with(rules, decided_by(rules, signals), "sage", said)

    assert decided.missed == missed
