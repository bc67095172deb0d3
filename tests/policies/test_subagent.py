"""Where subagents go by the config."""

import pytest
from msgspec.structs import replace

from policies.subagent import SubagentPolicy
from router.contract.words import Tier, TurnKind
from tests.tools.values import ask, make_signals


def judge(tier, kind=TurnKind.SUBAGENT, *, only_reads=False):
    signals = make_signals(kind=kind)
    return SubagentPolicy(tier).judge(ask(), replace(signals, turn=replace(signals.turn, only_reads=only_reads)))


@pytest.mark.parametrize(("tier", "log_odds"), [(Tier.DEEP, 4.0), (Tier.FAST, -4.0)])
def test_a_subagent_leans_to_the_configured_tier_and_the_reason_names_it(tier, log_odds):
    (opinion,) = judge(tier)

    assert (opinion.log_odds, opinion.because) == (log_odds, f"a subagent, and subagents lean to {tier}")
    assert opinion.names_turn


@pytest.mark.parametrize("kind", [kind for kind in TurnKind if kind is not TurnKind.SUBAGENT])
def test_nothing_is_said_of_other_requests(kind):
    assert judge(Tier.DEEP, kind) == judge(Tier.FAST, kind) == ()


def test_a_subagent_that_only_searches_is_not_sent_to_deep():
    assert judge(Tier.DEEP, only_reads=True) == ()
    assert judge(Tier.FAST, only_reads=True)
