"""A turn stays where it began, and is moved up once when it has grown."""

import json

import pytest
from msgspec.structs import replace

from policies.boundary import BoundaryConfig, BoundaryPolicy
from router.contract.opinions import Rank
from router.contract.signals import SessionPosition, Trajectory
from router.contract.words import PlanPhase, Tier, TurnKind
from router.past.labelled import RecordedTurn, load_turns
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


def grown(tier: Tier | None, trajectory: Trajectory, **place):
    signals = make_signals(kind=TurnKind.TOOL_LOOP, tokens=80_000)
    turn = replace(signals.turn, position=SessionPosition(tier, tier is not None, **place), trajectory=trajectory, goes_on=True)
    return replace(signals, turn=turn)


@pytest.mark.parametrize("trajectory", [
    Trajectory(calls=60),
    Trajectory(calls=50, edits=5, files=2),
    Trajectory(calls=24, edits=12, files=2, unevenness=2.4),
    Trajectory(calls=6, edits=6, files=6, written_chars=80_000),
], ids=["a lot of reading", "edits", "counts that look like trouble", "much that was written"])  # fmt: skip
@pytest.mark.parametrize("tier", [Tier.FAST, None])
def test_a_turn_that_has_grown_is_moved_up_where_deep_is_done_sooner(trajectory, tier):
    (opinion,) = BOUNDARY.judge(ask(), grown(tier, trajectory))

    assert (opinion.tier, opinion.yields, opinion.rank) == (Tier.DEEP, True, Rank.RUNNING_TURN)
    moved = "moved up" if tier else "a turn"
    assert opinion.because.startswith(f"{moved} after {trajectory.calls} tool calls")
    assert opinion.because.endswith("80k tokens to read again")
    assert len(opinion.because) <= 120


@pytest.mark.parametrize(
    "trajectory",
    [Trajectory(calls=9, edits=5, files=4), Trajectory(calls=24, edits=3), Trajectory(calls=3, edits=1, written_chars=24_000)],
)
def test_a_turn_that_has_grown_stays_while_moving_would_take_longer(trajectory):
    (opinion,) = BOUNDARY.judge(ask(), grown(Tier.FAST, trajectory))

    assert opinion.tier is Tier.FAST
    assert opinion.because == f"{trajectory.calls} tool calls into a turn on fast; moving it up would take longer"


def test_what_a_failure_costs_decides_how_soon_a_grown_turn_moves():
    early = grown(Tier.FAST, Trajectory(calls=9, edits=5, files=4))

    (careful,) = BoundaryPolicy(BoundaryConfig(failure_seconds=600)).judge(ask(), early)

    assert careful.tier is Tier.DEEP


def test_a_deep_that_is_as_quick_as_fast_takes_a_turn_as_soon_as_it_has_grown():
    signals = grown(Tier.FAST, Trajectory(calls=6, edits=5))
    quick = stand(make_target("sage", Tier.DEEP), ttft=0.2, speed=1000)

    (opinion,) = BOUNDARY.judge(ask(), replace(signals, statuses={**signals.statuses, "sage": quick}))

    assert opinion.tier is Tier.DEEP


def test_a_conversation_that_deep_must_read_keeps_a_grown_turn_on_fast_for_longer():
    signals = grown(Tier.FAST, Trajectory(calls=50, edits=5))
    slow_reader = stand(make_target("sage", Tier.DEEP), prefill=1_000)
    statuses = {**signals.statuses, "sage": slow_reader}

    (cold,) = BOUNDARY.judge(ask(), replace(signals, statuses=statuses))
    (warm,) = BOUNDARY.judge(
        ask(), replace(grown(Tier.FAST, Trajectory(calls=50, edits=5), warm={"sage": 80_000}), statuses=statuses)
    )

    assert (cold.tier, warm.tier) == (Tier.FAST, Tier.DEEP)


def test_a_silent_agent_is_not_taken_for_one_that_does_well():
    """What an agent writes between calls is evidence only where it writes: until call 60 silence must not hold a turn back."""
    tiers = [BOUNDARY.judge(ask(), grown(Tier.FAST, Trajectory(calls=60, unevenness=value)))[0].tier for value in (0.0, 0.4)]

    assert tiers == [Tier.DEEP, Tier.DEEP]


@pytest.mark.parametrize(
    "trajectory", [Trajectory(calls=19), Trajectory(calls=15, edits=2, files=2), Trajectory(calls=4, edits=4)]
)
def test_looking_around_and_a_few_edits_are_not_weighed(trajectory):
    (opinion,) = BOUNDARY.judge(ask(), grown(Tier.FAST, trajectory))

    assert opinion.tier is Tier.FAST
    assert "moving" not in opinion.because


def test_a_turn_whose_tier_was_asked_for_is_not_moved():
    (opinion,) = BOUNDARY.judge(ask(), grown(Tier.FAST, Trajectory(calls=90, edits=40), was_asked_for=True))

    assert opinion.tier is Tier.FAST


def test_a_grown_turn_stays_while_deep_keeps_callers_waiting():
    signals = grown(Tier.FAST, Trajectory(calls=70, edits=9))
    busy = stand(make_target("sage", Tier.DEEP), wait=300)

    (opinion,) = BOUNDARY.judge(ask(), replace(signals, statuses={**signals.statuses, "sage": busy}))

    assert opinion.tier is Tier.FAST


@pytest.mark.shared
def test_on_recorded_turns_hardly_a_small_one_is_moved_and_most_of_the_longest(shared):
    lines = (shared / "routing-data" / "dev.jsonl").read_text().splitlines()
    turns = [turn for turn in map(json.loads, lines) if turn["source"].startswith("agent_session")]
    work = [tuple(turn["evidence"].get(name) or 0 for name in ("tool_calls", "edits", "files_edited")) for turn in turns]

    def moved(kept: list[tuple[int, int, int]]) -> float:
        grows = [Trajectory(calls=calls, edits=edits, files=files) for calls, edits, files in kept]
        tiers = [BOUNDARY.judge(ask(), grown(Tier.FAST, trajectory))[0].tier for trajectory in grows]
        return tiers.count(Tier.DEEP) / len(tiers)

    assert moved([turn for turn in work if turn[1] <= 2]) <= 0.05
    assert moved([turn for turn in work if turn[0] >= 60]) >= 0.95


@pytest.mark.shared
def test_recorded_runs_that_edit_in_a_shell_are_moved_before_call_60_more_often_if_they_fail_and_hardly_a_short_turn(shared):
    folder, request = shared / "routing-data" / "rescue", ask()

    def rose_at(turn: RecordedTurn) -> int | None:
        """The first call at which it would be moved, if any is left after it."""
        for calls in range(5, turn.calls):
            opinions = BOUNDARY.judge(request, grown(Tier.FAST, turn.trajectories[calls - 1]))
            if any(opinion.tier is Tier.DEEP for opinion in opinions):
                return calls
        return None

    edited = [turn for turn in load_turns([folder / "swebench.jsonl"]) if turn.trajectories[-1].edits >= 5]
    short = [turn for turn in load_turns([folder / "turns.jsonl"]) if turn.calls < 20]

    def moved(*, is_bad: bool) -> float:
        own = [(rose_at(turn) or 99) < 60 for turn in edited if turn.is_bad is is_bad]
        return sum(own) / len(own)

    assert moved(is_bad=True) >= 0.55
    assert moved(is_bad=False) <= 0.46
    assert sum(rose_at(turn) is not None for turn in short) / len(short) <= 0.01


@pytest.mark.parametrize("tier", list(Tier))
def test_a_turn_that_goes_on_after_a_clients_own_message_says_after_what(tier):
    signals = running(tier)
    signals = replace(signals, turn=replace(signals.turn, goes_on_after="compaction"))

    (opinion,) = BOUNDARY.judge(ask(), signals)

    assert opinion.because == f"continues, after compaction, a turn on {tier}"


def test_a_turn_is_said_to_be_moved_up_only_if_it_was_this_one():
    signals = grown(Tier.DEEP, NO_TROUBLE, has_escalated=True)
    go_on = replace(signals, turn=replace(signals.turn, kind=TurnKind.FOLLOW_UP, goes_on=False))

    assert BOUNDARY.judge(ask(), signals)[0].because == "this turn was moved up to deep and stays there"
    assert BOUNDARY.judge(ask(), go_on)[0].because == "continues the last turn, which was moved up to deep"
