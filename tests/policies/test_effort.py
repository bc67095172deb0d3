"""How hard the person, or their client, said to think."""

import pytest

from policies.effort import EffortConfig, EffortPolicy
from router.contract.signals import SessionPosition
from router.contract.words import PlanPhase
from tests.tools.values import ask, make_signals


@pytest.mark.parametrize(
    ("effort", "sign"), [("none", -1), ("low", -1), ("medium", 0), ("high", 1), ("xhigh", 1), ("brand-new", 0), (None, 0)]
)
def test_effort_leans_its_own_way(effort, sign):
    opinions = EffortPolicy(EffortConfig()).judge(ask(), make_signals(effort=effort))

    assert sum(opinion.log_odds for opinion in opinions) * sign > 0 or (sign == 0 and not opinions)


def test_plan_mode_leans_deep():
    (opinion,) = EffortPolicy(EffortConfig()).judge(ask(), make_signals(is_planning=True))

    assert opinion.log_odds > 0
    assert EffortPolicy(EffortConfig()).judge(ask(), make_signals(is_planning=True, plan=PlanPhase.PLANNING)) == ()


@pytest.mark.parametrize(
    ("effort", "usual", "before", "sign"),
    [
        ("high", ("medium", "high"), None, 0),
        ("medium", ("medium",), None, 0),
        ("xhigh", ("medium", "high"), None, 1),
        ("low", ("medium", "high"), None, -1),
        ("high", ("medium", "high"), "medium", 1),
        ("medium", ("medium", "high"), "high", -1),
        ("high", (), "high", 1),
        ("", (), "high", 0),
        (None, ("medium",), "medium", 0),
    ],
)
def test_only_another_effort_than_the_clients_default_or_a_change_of_it_leans(effort, usual, before, sign):
    signals = make_signals(effort=effort, usual_efforts=usual, position=SessionPosition(effort=before))

    opinions = EffortPolicy(EffortConfig()).judge(ask(), signals)

    assert sum(opinion.log_odds for opinion in opinions) * sign > 0 or (sign == 0 and not opinions)


def test_a_changed_effort_is_told_without_the_callers_own_words():
    signals = make_signals(effort="high", position=SessionPosition(effort="sk-canary-12345 <script>"))

    (opinion,) = EffortPolicy(EffortConfig()).judge(ask(), signals)

    assert opinion.because == "reasoning effort was changed from another to high"
