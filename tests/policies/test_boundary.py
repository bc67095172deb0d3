"""A turn stays where it began, and is moved up once when it has grown."""

import json

import pytest
from msgspec.structs import replace

from policies.boundary import BoundaryConfig, BoundaryPolicy
from router.contract.opinions import Rank
from router.contract.signals import SessionPosition, Trajectory
from router.contract.words import Tier, TurnKind
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


@pytest.mark.parametrize(
    "trajectory",
    [
        Trajectory(calls=9, edits=5, files=2),
        Trajectory(calls=9, edits=2, files=4),
        Trajectory(calls=3, edits=1, files=1, written_chars=24_000),
        Trajectory(calls=60),
    ],
)
@pytest.mark.parametrize("tier", [Tier.FAST, None])
def test_a_turn_that_has_grown_beyond_its_ask_is_moved_up(trajectory, tier):
    (opinion,) = BOUNDARY.judge(ask(), grown(tier, trajectory))

    assert (opinion.tier, opinion.yields, opinion.rank) == (Tier.DEEP, True, Rank.RUNNING_TURN)
    assert opinion.because.startswith(f"moved up at call {trajectory.calls}: ")
    assert opinion.because.endswith("80k tokens to read again")
    assert len(opinion.because) <= 120


@pytest.mark.parametrize(
    "trajectory", [Trajectory(calls=59), Trajectory(calls=45, edits=2, files=2), Trajectory(calls=4, edits=4)]
)
def test_looking_around_and_a_few_edits_move_nothing(trajectory):
    (opinion,) = BOUNDARY.judge(ask(), grown(Tier.FAST, trajectory))

    assert opinion.tier is Tier.FAST


def test_a_turn_whose_tier_was_asked_for_is_not_moved():
    (opinion,) = BOUNDARY.judge(ask(), grown(Tier.FAST, Trajectory(calls=90, edits=40), was_asked_for=True))

    assert opinion.tier is Tier.FAST


def test_a_grown_turn_stays_while_deep_keeps_callers_waiting():
    signals = grown(Tier.FAST, Trajectory(calls=9, edits=9))
    busy = stand(make_target("sage", Tier.DEEP), wait=300)

    (opinion,) = BOUNDARY.judge(ask(), replace(signals, statuses={**signals.statuses, "sage": busy}))

    assert opinion.tier is Tier.FAST


@pytest.mark.shared
def test_on_recorded_turns_few_small_ones_are_moved_and_most_that_grew(shared):
    """Turns that were not used to set the bounds: at most 5 % of those with two edits or fewer, at least 80 % with six or more."""
    lines = (shared / "routing-data" / "dev.jsonl").read_text().splitlines()
    turns = [turn for turn in map(json.loads, lines) if turn["source"].startswith("agent_session")]
    work = [tuple(turn["evidence"].get(name) or 0 for name in ("tool_calls", "edits", "files_edited")) for turn in turns]

    def moved(kept: list[tuple[int, int, int]]) -> float:
        grows = [Trajectory(calls=calls, edits=edits, files=files) for calls, edits, files in kept]
        tiers = [BOUNDARY.judge(ask(), grown(Tier.FAST, trajectory))[0].tier for trajectory in grows]
        return tiers.count(Tier.DEEP) / len(tiers)

    assert moved([turn for turn in work if turn[1] <= 2]) <= 0.05
    assert moved([turn for turn in work if turn[1] >= 6]) >= 0.80


@pytest.mark.parametrize("tier", list(Tier))
def test_a_turn_that_goes_on_after_a_clients_own_message_says_after_what(tier):
    signals = running(tier)
    signals = replace(signals, turn=replace(signals.turn, goes_on_after="compaction"))

    (opinion,) = BOUNDARY.judge(ask(), signals)

    assert opinion.because == f"goes on after compaction with a turn that began on {tier}"
