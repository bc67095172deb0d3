"""The client's own small requests."""

import pytest

from policies.side_request import SideRequestConfig, SideRequestPolicy
from router.contract.words import TurnKind
from tests.tools.values import ask, make_signals


@pytest.mark.parametrize(
    ("kind", "leans"), [(TurnKind.SIDE, True), (TurnKind.PREWARM, True), (TurnKind.ASK, False), (TurnKind.SUBAGENT, False)]
)
def test_only_the_clients_own_small_requests_lean_to_fast(kind, leans):
    opinions = SideRequestPolicy(SideRequestConfig()).judge(ask(), make_signals(kind=kind))

    assert bool(opinions) is leans


@pytest.mark.parametrize(
    ("kind", "words"), [(TurnKind.SIDE, "a side request of the client"), (TurnKind.PREWARM, "a prewarm request")]
)
def test_the_lean_is_as_strong_as_configured_and_names_the_turn(kind, words):
    (opinion,) = SideRequestPolicy(SideRequestConfig(log_odds=-1.5)).judge(ask(), make_signals(kind=kind))

    assert opinion.log_odds == -1.5
    assert opinion.because.startswith(words)
    assert opinion.names_turn
