"""The client's own small requests."""

import pytest
from msgspec.structs import replace

from policies.side_request import SideRequestPolicy
from router.contract.words import TurnKind
from tests.tools.values import ask, make_signals


@pytest.mark.parametrize(
    ("kind", "leans"), [(TurnKind.SIDE, True), (TurnKind.PREWARM, True), (TurnKind.ASK, False), (TurnKind.SUBAGENT, False)]
)
def test_only_the_clients_own_small_requests_lean_to_fast(kind, leans):
    opinions = SideRequestPolicy(SideRequestPolicy.Config()).judge(ask(), make_signals(kind=kind))

    assert bool(opinions) is leans


@pytest.mark.parametrize(
    ("kind", "words"), [(TurnKind.SIDE, "a side request of the client"), (TurnKind.PREWARM, "a prewarm request")]
)
def test_the_lean_names_the_turn(kind, words):
    (opinion,) = SideRequestPolicy(SideRequestPolicy.Config()).judge(ask(), make_signals(kind=kind))

    assert opinion.log_odds == -4.0
    assert opinion.because.startswith(words)
    assert opinion.names_turn


def test_a_subagent_that_only_reads_leans_to_fast():
    signals = make_signals(kind=TurnKind.SUBAGENT)
    searching = replace(signals, turn=replace(signals.turn, only_reads=True))

    (opinion,) = SideRequestPolicy(SideRequestPolicy.Config()).judge(ask(), searching)

    assert (opinion.log_odds, opinion.because) == (-4.0, "a subagent that only reads and searches")
    assert opinion.names_turn
