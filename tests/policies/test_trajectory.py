"""A running turn that goes wrong, or is asked again, leans to deep."""

import pytest
from msgspec.structs import replace

from policies.trajectory import TrajectoryPolicy
from router.contract.signals import FinishedTurn, SessionHistory, SessionPosition, Trajectory
from router.contract.words import Tier, TurnKind
from tests.tools.values import ask, make_signals

TRAJECTORY = TrajectoryPolicy(TrajectoryPolicy.Config())


def running(tier: Tier, trajectory: Trajectory, kind: TurnKind = TurnKind.TOOL_LOOP):
    signals = make_signals(kind=kind)
    return replace(signals, turn=replace(signals.turn, position=SessionPosition(tier, is_running=True), trajectory=trajectory))


@pytest.mark.parametrize(("trajectory", "log_odds", "because"), [
    (Trajectory(calls=5, failures=2), 1.5, "in this turn 2 calls failed"),
    (Trajectory(calls=9, failures=9), 4.5, "in this turn 9 calls failed"),
    (Trajectory(calls=5, red_runs=3), 1.6, "in this turn 3 test runs failed"),
    (Trajectory(calls=5, failures=1, repeats=4), 1.0, "in this turn the same call is repeated"),
    (Trajectory(calls=9, failures=2, red_runs=2, repeats=4), 3.3, "in this turn 2 test runs failed and the same call is repeated"),
])  # fmt: skip
def test_trouble_leans_to_deep_by_how_much_of_it_there_is_up_to_a_bound(trajectory, log_odds, because):
    (opinion,) = TRAJECTORY.judge(ask(), running(Tier.FAST, trajectory))

    assert opinion.log_odds == pytest.approx(log_odds)
    assert opinion.because == because


@pytest.mark.parametrize(
    "trajectory",
    [Trajectory(calls=40), Trajectory(calls=5, failures=1), Trajectory(calls=5, red_runs=1), Trajectory(calls=9, repeats=9)],
)
def test_one_failure_and_repetition_that_works_say_nothing(trajectory):
    assert TRAJECTORY.judge(ask(), running(Tier.FAST, trajectory)) == ()


def test_the_same_ask_again_after_fast_had_it_leans_to_deep():
    words = "please fix the parser for me"
    signals = make_signals(text=words)
    turn = replace(signals.turn, position=SessionPosition(Tier.FAST), history=SessionHistory(1, (FinishedTurn(words, 2, 1),)))

    assert TRAJECTORY.judge(ask(), replace(signals, turn=turn))[0].log_odds > 0
    other = replace(turn, history=SessionHistory(1, (FinishedTurn("write a new module for billing", 2, 1),)))
    assert TRAJECTORY.judge(ask(), replace(signals, turn=other)) == ()
