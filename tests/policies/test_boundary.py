"""A turn stays where it began until trouble reopens it."""

import pytest
from msgspec.structs import replace

from policies.boundary import BoundaryConfig, BoundaryPolicy
from router.contract.signals import SessionPosition, Trajectory
from router.contract.words import PlanPhase, Tier, TurnKind
from tests.tools.values import ask, make_signals, make_target, stand

NO_TROUBLE = Trajectory()


def running(tier: Tier, trajectory: Trajectory = NO_TROUBLE, kind: TurnKind = TurnKind.TOOL_LOOP, *, escalated: bool = False):
    signals = make_signals(kind=kind)
    place = SessionPosition(tier, kind is TurnKind.TOOL_LOOP, escalated)
    return replace(signals, turn=replace(signals.turn, position=place, trajectory=trajectory))


BOUNDARY = BoundaryPolicy(BoundaryConfig())


@pytest.mark.parametrize("tier", list(Tier))
def test_a_running_turn_stays_where_it_began(tier):
    (opinion,) = BOUNDARY.judge(ask(), running(tier, Trajectory(calls=9)))

    assert (opinion.tier, opinion.yields) == (tier, True)


@pytest.mark.parametrize("trouble", [{"failures": 3}, {"red_runs": 3}, {"repeats": 4, "failures": 1}])
def test_trouble_on_fast_reopens_the_decision(trouble):
    signals = running(Tier.FAST, Trajectory(calls=5, **trouble))

    assert BOUNDARY.judge(ask(), signals) == ()


def test_green_tests_let_a_turn_come_down_unless_it_was_moved_up():
    green = Trajectory(calls=5, is_green=True)

    assert BOUNDARY.judge(ask(), running(Tier.DEEP, green))[0].log_odds < 0
    assert BOUNDARY.judge(ask(), running(Tier.DEEP, green, escalated=True))[0].tier is Tier.DEEP


def planned(plan: PlanPhase, tier: Tier, **place):
    position = SessionPosition(tier, is_running=True, **place)
    return make_signals(kind=TurnKind.TOOL_LOOP, plan=plan, position=position)


@pytest.mark.parametrize(
    "signals",
    [
        planned(PlanPhase.ACCEPTED, Tier.DEEP),
        planned(PlanPhase.ACCEPTED, Tier.DEEP, has_escalated=True),
        planned(PlanPhase.PLANNING, Tier.FAST),
    ],
    ids=["a plan accepted", "a plan that a turn moved up for", "planning begun"],
)
def test_where_a_running_turn_begins_to_plan_or_to_carry_out_its_plan_it_is_decided_again(signals):
    assert BOUNDARY.judge(ask(), signals) == ()


@pytest.mark.parametrize(
    "signals",
    [
        planned(PlanPhase.EDITING, Tier.DEEP),
        planned(PlanPhase.EDITING, Tier.FAST),
        planned(PlanPhase.PLANNING, Tier.DEEP),
        planned(PlanPhase.UNKNOWN, Tier.DEEP),
        planned(PlanPhase.ACCEPTED, Tier.DEEP, was_asked_for=True),
        planned(PlanPhase.PLANNING, Tier.FAST, was_asked_for=True),
    ],
    ids=["edits on deep", "edits on fast", "planning on deep", "no plan mode", "deep was asked for", "fast was asked for"],
)
def test_anywhere_else_a_planned_turn_stays_on_its_tier(signals):
    (opinion,) = BOUNDARY.judge(ask(), signals)

    assert opinion.tier is signals.turn.position.tier


def test_compaction_stays_with_its_session_and_a_new_ask_is_free():
    assert BOUNDARY.judge(ask(), running(Tier.DEEP, kind=TurnKind.COMPACTION))[0].tier is Tier.DEEP
    assert BOUNDARY.judge(ask(), running(Tier.DEEP, kind=TurnKind.ASK)) == ()


def test_a_running_turn_does_not_wait_long_for_its_tier():
    signals = make_signals(stand(make_target(), wait=300), stand(make_target("sage", Tier.DEEP)), kind=TurnKind.TOOL_LOOP)
    turn = replace(signals.turn, position=SessionPosition(Tier.FAST, is_running=True))

    assert BOUNDARY.judge(ask(), replace(signals, turn=turn)) == ()


@pytest.mark.parametrize("calls", [60, 400])
def test_a_turn_that_makes_many_calls_stays_on_fast(calls):
    (opinion,) = BOUNDARY.judge(ask(), running(Tier.FAST, Trajectory(calls=calls, edits=calls // 2)))

    assert (opinion.tier, opinion.because) == (Tier.FAST, f"{calls} tool calls into a turn on fast")


@pytest.mark.parametrize("tier", list(Tier))
def test_a_turn_that_goes_on_after_a_clients_own_message_says_after_what(tier):
    signals = running(tier)
    signals = replace(signals, turn=replace(signals.turn, goes_on_after="compaction"))

    (opinion,) = BOUNDARY.judge(ask(), signals)

    assert opinion.because == f"continues, after compaction, a turn on {tier}"


def test_a_turn_is_said_to_be_moved_up_only_if_it_was_this_one():
    signals = running(Tier.DEEP, escalated=True)
    go_on = replace(signals, turn=replace(signals.turn, kind=TurnKind.FOLLOW_UP))

    assert BOUNDARY.judge(ask(), signals)[0].because == "this turn was moved up to deep and stays there"
    assert BOUNDARY.judge(ask(), go_on)[0].because == "continues the last turn, which was moved up to deep"
