import json
from dataclasses import replace

import pytest

from policies.boundary import BoundaryConfig, BoundaryPolicy
from policies.capability import CapabilityConfig, CapabilityPolicy
from policies.effort import EffortConfig, EffortPolicy
from policies.override import OverrideConfig, OverridePolicy
from policies.side_request import SideRequestConfig, SideRequestPolicy
from policies.trajectory import TrajectoryConfig, TrajectoryPolicy
from policies.window import WindowConfig, WindowPolicy
from router.contract.opinions import Insist, Lean, Rank, RuleOut
from router.contract.request import InBand, Overrides
from router.contract.signals import Alias, FinishedTurn, SessionHistory, SessionPosition, Trajectory
from router.contract.words import Dialect, Feature, Tier, TurnKind
from tests.tools.values import ask, make_signals, make_target, make_view, stand

OVERRIDE = OverridePolicy(OverrideConfig())


def test_a_header_outranks_a_session_which_outranks_a_name():
    header = OVERRIDE.judge(ask(headers={"x-tandem-tier": "fast"}), make_signals(alias=Alias("deep", tier=Tier.DEEP)))
    session = OVERRIDE.judge(ask(), make_signals(tier_wish=Tier.FAST))

    assert [(opinion.rank, opinion.tier) for opinion in header] == [(Rank.HEADER, Tier.FAST), (Rank.MODEL_NAME, Tier.DEEP)]
    assert [(opinion.rank, opinion.tier) for opinion in session] == [(Rank.SESSION_SCOPE, Tier.FAST)]


def test_auto_in_a_header_clears_what_the_session_was_asked():
    assert OVERRIDE.judge(ask(headers={"x-tandem-tier": "auto"}), make_signals(tier_wish=Tier.DEEP)) == ()


def test_an_exact_name_insists_and_a_pattern_only_leans():
    exact = OVERRIDE.judge(ask(), make_signals(alias=Alias("sage", target="sage")))
    pattern = OVERRIDE.judge(ask(), make_signals(alias=Alias("claude-haiku", tier=Tier.FAST, is_pattern=True)))

    assert isinstance(exact[0], Insist)
    assert isinstance(pattern[0], Lean)
    assert pattern[0].log_odds == -3.0


def test_auto_in_a_header_outranks_the_models_name():
    view = ask(headers={"x-tandem-tier": "auto"})

    assert OVERRIDE.judge(view, make_signals(alias=Alias("deep", tier=Tier.DEEP))) == ()


def test_a_pattern_that_names_a_target_leans_to_its_tier():
    (opinion,) = OVERRIDE.judge(ask(), make_signals(alias=Alias("pin-x", target="sage", is_pattern=True)))

    assert isinstance(opinion, Lean)
    assert opinion.log_odds > 0


def test_a_wait_longer_than_allowed_rules_out_for_now():
    view = ask(headers={"x-tandem-max-wait": "2"})

    opinions = OVERRIDE.judge(view, make_signals(stand(make_target(), wait=5), stand(make_target("sage", Tier.DEEP))))

    assert [(opinion.target, opinion.lasting) for opinion in opinions] == [("spark", False)]


def test_capability_names_what_a_target_does_not_take():
    policy = CapabilityPolicy(CapabilityConfig())
    plain = stand(make_target(accepts=frozenset({Feature.TEXT})))
    image = [{"type": "image_url", "image_url": {"url": "x"}}]
    view = make_view({"messages": [{"role": "user", "content": image}], "tools": [{"type": "function"}]})

    lacking = policy.judge(view, make_signals(plain))

    assert "an image and tools" in lacking[0].because
    assert all(opinion.lasting for opinion in lacking)


def test_a_free_form_tool_needs_a_target_that_takes_it_or_a_bridge_that_makes_it_a_function():
    policy = CapabilityPolicy(CapabilityConfig())
    view = make_view({"input": "x", "tools": [{"type": "custom", "name": "patch"}]}, Dialect.RESPONSES)
    accepts = frozenset({Feature.TEXT, Feature.TOOLS})
    native = stand(make_target(accepts=accepts, speaks=frozenset({Dialect.RESPONSES})))
    bridged = stand(make_target(accepts=accepts, speaks=frozenset({Dialect.CHAT})))

    assert "free-form" in policy.judge(view, make_signals(native))[0].because
    assert policy.judge(view, make_signals(bridged)) == ()


def test_completions_go_only_to_fast_targets_that_accept_them():
    policy = CapabilityPolicy(CapabilityConfig())
    view = make_view({"prompt": "def"}, Dialect.COMPLETIONS)
    lacking = stand(make_target("other", accepts=frozenset({Feature.TEXT})))

    opinions = policy.judge(view, make_signals(stand(make_target()), lacking, stand(make_target("sage", Tier.DEEP))))

    assert {opinion.target for opinion in opinions} == {"other", "sage"}


def test_window_keeps_room_for_the_answer():
    policy = WindowPolicy(WindowConfig(output_reserve_tokens=8_000))

    assert policy.judge(ask(), make_signals(tokens=120_000)) == ()
    (opinion,) = policy.judge(ask(), make_signals(tokens=120_001))
    assert isinstance(opinion, RuleOut)
    assert opinion.tokens == (128_001, 128_000)


@pytest.mark.parametrize(
    ("kind", "leans"), [(TurnKind.SIDE, True), (TurnKind.PREWARM, True), (TurnKind.ASK, False), (TurnKind.SUBAGENT, False)]
)
def test_only_the_clients_own_small_requests_lean_to_fast(kind, leans):
    opinions = SideRequestPolicy(SideRequestConfig()).judge(ask(), make_signals(kind=kind))

    assert bool(opinions) is leans


@pytest.mark.parametrize(
    ("effort", "sign"), [("none", -1), ("low", -1), ("medium", 0), ("high", 1), ("xhigh", 1), ("brand-new", 0), (None, 0)]
)
def test_effort_leans_its_own_way(effort, sign):
    opinions = EffortPolicy(EffortConfig()).judge(ask(), make_signals(effort=effort))

    assert sum(opinion.log_odds for opinion in opinions) * sign > 0 or (sign == 0 and not opinions)


def test_plan_mode_leans_deep():
    (opinion,) = EffortPolicy(EffortConfig()).judge(ask(), make_signals(is_planning=True))

    assert opinion.log_odds > 0


def test_an_unknown_previous_response_rules_out_targets_that_do_not_speak_responses():
    view = make_view({"input": "go on", "previous_response_id": "resp_theirs"}, Dialect.RESPONSES)
    chat, native = make_target(), make_target("sage", Tier.DEEP, speaks=frozenset({Dialect.RESPONSES}))

    (opinion,) = CapabilityPolicy(CapabilityConfig()).judge(view, make_signals(stand(chat), stand(native)))

    assert opinion.target == "spark"
    assert "previous_response_id" in opinion.because


NO_TROUBLE = Trajectory()


def running(tier: Tier, trajectory: Trajectory = NO_TROUBLE, kind: TurnKind = TurnKind.TOOL_LOOP, *, escalated: bool = False):
    signals = make_signals(kind=kind)
    place = SessionPosition(tier, kind is TurnKind.TOOL_LOOP, escalated)
    return signals._replace(turn=signals.turn._replace(position=place, trajectory=trajectory))


BOUNDARY, TRAJECTORY = BoundaryPolicy(BoundaryConfig()), TrajectoryPolicy(TrajectoryConfig())


@pytest.mark.parametrize("tier", list(Tier))
def test_a_running_turn_stays_where_it_began(tier):
    (opinion,) = BOUNDARY.judge(ask(), running(tier, Trajectory(calls=9)))

    assert (opinion.tier, opinion.yields) == (tier, True)


@pytest.mark.parametrize("trouble", [{"failures": 3}, {"red_runs": 3}, {"repeats": 4, "failures": 1}])
def test_trouble_on_fast_reopens_the_decision_and_leans_to_deep(trouble):
    signals = running(Tier.FAST, Trajectory(calls=5, **trouble))

    assert BOUNDARY.judge(ask(), signals) == ()
    assert TRAJECTORY.judge(ask(), signals)[0].log_odds >= 1.0


def test_green_tests_let_a_turn_come_down_unless_it_was_moved_up():
    green = Trajectory(calls=5, is_green=True)

    assert BOUNDARY.judge(ask(), running(Tier.DEEP, green))[0].log_odds < 0
    assert BOUNDARY.judge(ask(), running(Tier.DEEP, green, escalated=True))[0].tier is Tier.DEEP


def test_compaction_stays_with_its_session_and_a_new_ask_is_free():
    assert BOUNDARY.judge(ask(), running(Tier.DEEP, kind=TurnKind.COMPACTION))[0].tier is Tier.DEEP
    assert BOUNDARY.judge(ask(), running(Tier.DEEP, kind=TurnKind.ASK)) == ()


def test_a_running_turn_does_not_wait_long_for_its_tier():
    signals = make_signals(stand(make_target(), wait=300), stand(make_target("sage", Tier.DEEP)), kind=TurnKind.TOOL_LOOP)
    turn = signals.turn._replace(position=SessionPosition(Tier.FAST, is_running=True))

    assert BOUNDARY.judge(ask(), signals._replace(turn=turn)) == ()


def test_the_same_ask_again_after_fast_had_it_leans_to_deep():
    words = "please fix the parser for me"
    signals = make_signals(text=words)
    turn = signals.turn._replace(position=SessionPosition(Tier.FAST), history=SessionHistory(1, (FinishedTurn(words, 2, 1),)))

    assert TRAJECTORY.judge(ask(), signals._replace(turn=turn))[0].log_odds > 0
    other = turn._replace(history=SessionHistory(1, (FinishedTurn("write a new module for billing", 2, 1),)))
    assert TRAJECTORY.judge(ask(), signals._replace(turn=other)) == ()


def test_a_first_line_outranks_a_session_and_a_header_outranks_the_line():
    view = ask(headers={"x-tandem-tier": "fast"})
    line = ask()._replace(overrides=Overrides(line=InBand(Tier.DEEP)))

    assert (
        OVERRIDE.judge(view._replace(overrides=replace(view.overrides, line=InBand(Tier.DEEP))), make_signals())[0].tier
        is Tier.FAST
    )
    assert OVERRIDE.judge(line, make_signals(tier_wish=Tier.FAST))[0].tier is Tier.DEEP
    assert OVERRIDE.judge(ask()._replace(overrides=Overrides(line=InBand(None))), make_signals(tier_wish=Tier.FAST)) == ()


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

    assert opinion.because == "reasoning effort was set from another to high"


def grown(tier: Tier | None, trajectory: Trajectory, **place):
    signals = make_signals(kind=TurnKind.TOOL_LOOP, tokens=80_000)
    turn = signals.turn._replace(position=SessionPosition(tier, tier is not None, **place), trajectory=trajectory, goes_on=True)
    return signals._replace(turn=turn)


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
    assert opinion.because.endswith("80k tokens to read anew")
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

    (opinion,) = BOUNDARY.judge(ask(), signals._replace(statuses={**signals.statuses, "sage": busy}))

    assert opinion.tier is Tier.FAST


@pytest.mark.parametrize(("tier", "leans"), [(Tier.FAST, True), (Tier.DEEP, False), (None, False)])
def test_words_that_say_it_is_still_wrong_lean_up_after_fast_had_it(tier, leans):
    opinions = TRAJECTORY.judge(ask(), make_signals(text="it still doesn't work", position=SessionPosition(tier)))

    assert bool(opinions) is leans
    assert all(opinion.log_odds > 1 for opinion in opinions)


@pytest.mark.parametrize(("calls", "leans"), [(2, True), (26, False)])
def test_without_a_memory_a_small_last_turn_is_taken_for_one_of_fast(calls, leans):
    history = SessionHistory(1, (FinishedTurn("rename it", calls, 1),))

    assert bool(TRAJECTORY.judge(ask(), make_signals(text="that's wrong", history=history))) is leans


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
