"""Which turns are worth a look."""

import pytest
from msgspec.structs import replace

from router.contract.decision import Projection, Redo, Weighing
from router.contract.signals import SessionPosition, Turn
from router.contract.words import Tier, TurnKind
from router.look.worth import chance_of_long, find_right_share, pays
from tests.tools.exchanges import make_decision
from tests.tools.values import PRICE, make_target, stand

SAGE = stand(make_target("sage", Tier.DEEP, price=PRICE))
SIDE = Projection("spark", 0.0, 5.0, 50.0, 0.0, 0.0, has_price=True)


def decide(*, score=0.1, turns=0, rate=0.05, seconds=100.0, ask=None):
    redo = Redo(rate, rate, seconds, 0.0, 0.0, 0.0, turns)
    turn = Turn(TurnKind.TOOL_LOOP, "s", "unknown", position=SessionPosition(ask=ask))
    return make_decision(score=score, turn=turn, weighing=Weighing(SIDE, SIDE, redo=redo))


def is_due(decision, edits=1, *, holds=True, right=0.5, deep=SAGE, tokens=2_000):
    return pays(decision, deep, edits, tokens, 20.0, right, holds=holds)


@pytest.mark.parametrize(
    ("edits", "score", "expected"), [(1, 0.1, False), (2, 0.4, False), (3, 0.1, True), (1, 0.5, True), (9, 0.9, True)]
)
def test_before_there_are_outcomes_three_edits_or_a_long_ask_are_looked_at(edits, score, expected):
    assert is_due(decide(score=score), edits) is expected


def test_the_size_of_the_ask_that_began_the_turn_counts_for_its_tool_loop():
    assert chance_of_long(decide(score=0.1, ask=2.0)) == pytest.approx(0.88, abs=0.01)
    assert chance_of_long(decide(score=0.6, ask=-2.0)) == 0.6


def test_with_outcomes_a_look_must_save_more_than_it_takes():
    """Its own cost is about three seconds and three tenths of a cent."""
    assert is_due(decide(turns=50, rate=0.25, seconds=200.0))
    assert not is_due(decide(turns=50, rate=0.01, seconds=200.0), edits=9)
    assert not is_due(decide(turns=50, rate=0.25, seconds=200.0), right=0.01)


def test_a_slow_deep_target_pays_only_where_nobody_waits_for_it():
    slow = replace(SAGE, wait_seconds=15.0)
    decision = decide(turns=50, rate=0.1, seconds=200.0)

    assert not is_due(decision, deep=slow)
    assert is_due(decision, deep=slow, holds=False)


def test_objections_are_right_in_two_of_five_until_people_said():
    assert find_right_share(0, 0) == 0.4
    assert find_right_share(40, 0) > 0.9
    assert find_right_share(0, 40) < 0.05
