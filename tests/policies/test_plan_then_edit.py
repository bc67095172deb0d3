"""Deep plans and fast edits, as opinions."""

import pytest

from policies.plan_then_edit import PlanThenEditPolicy
from router.contract.signals import Trajectory
from router.contract.words import PlanPhase
from tests.tools.values import ask, make_signals

LONGEST_READING = 5.0
"""The most that the words of an ask can lean."""


def lean_of(plan, **trajectory):
    opinions = PlanThenEditPolicy().judge(ask(), make_signals(plan=plan, trajectory=Trajectory(**trajectory)))
    return opinions[0].log_odds if opinions else None


def test_planning_leans_to_deep_more_than_any_words_lean_to_fast():
    assert lean_of(PlanPhase.PLANNING) > LONGEST_READING
    assert lean_of(PlanPhase.PLANNING, failures=3) > LONGEST_READING


@pytest.mark.parametrize("plan", [PlanPhase.ACCEPTED, PlanPhase.EDITING])
def test_an_accepted_plan_leans_to_fast_more_than_any_words_lean_to_deep(plan):
    assert lean_of(plan) < -LONGEST_READING
    assert lean_of(plan, calls=30, edits=12) < -LONGEST_READING


@pytest.mark.parametrize("trouble", [{"failures": 2}, {"red_runs": 2}, {"failures": 5, "red_runs": 1}])
def test_edits_that_fail_again_lean_to_deep(trouble):
    assert lean_of(PlanPhase.EDITING, calls=9, **trouble) > 0


@pytest.mark.parametrize("trouble", [{"failures": 1}, {"red_runs": 1}])
def test_after_one_failure_other_evidence_decides(trouble):
    assert lean_of(PlanPhase.EDITING, calls=9, **trouble) is None


def test_a_client_without_plan_mode_is_told_so_and_nothing_leans():
    (opinion,) = PlanThenEditPolicy().judge(ask(), make_signals(plan=PlanPhase.UNKNOWN))

    assert opinion.log_odds == 0
    assert "combine: plan does nothing" in opinion.because


def test_work_without_a_plan_is_left_alone():
    assert lean_of(None, failures=3) is None
