"""What a person says after deep's objections: to act on them leans to deep, and nothing else does."""

import pytest
from msgspec.structs import replace

from policies.learned import LearnedConfig, LearnedPolicy
from router.contract.economics import Economics, TurnSize
from router.contract.opinions import Insist, Rank
from router.contract.session import SessionState
from router.contract.signals import SessionHistory, SessionPosition, Turn
from router.contract.words import Preference, Tier, TurnKind
from router.decide.choose import choose
from router.decide.objections import LOG_ODDS, answer_objections
from router.decide.opinions import OBJECTIONS, Rules, collect
from router.sessions.turns import is_follow_up
from tests.tools.exchanges import make_decided, make_snapshot
from tests.tools.values import ask, make_signals

LEARNED = LearnedPolicy(LearnedConfig())
ECONOMICS = Economics(36.0, Preference.BALANCED, 1.0, TurnSize(2, 400), TurnSize(20, 8_000), base_rate=0.3)
OBJECTED = replace(SessionState(turn="t", tier=Tier.FAST, messages=3), objected="t 3")


def after(words: str, state: SessionState = OBJECTED, policies=(LEARNED,), **turn):
    """The decision for a later turn with these words, and the same with what deep objected to."""
    kind = TurnKind.FOLLOW_UP if is_follow_up(words) else TurnKind.ASK
    values = {"position": SessionPosition(Tier.FAST), "history": SessionHistory(turns=1), **turn}
    signals = make_signals(text=words)
    signals = replace(signals, turn=Turn(**{"kind": kind, "session": "s", "client": "unknown", "person_text": words, **values}))
    rules, view = Rules(policies, ECONOMICS, True, ""), ask(words)
    opinions = collect(rules, view, signals)
    decided = make_decided(view, choose(rules, view, signals, opinions), make_snapshot(state), opinions=opinions)
    return decided, answer_objections(rules, decided)


ACTS = [
    "fix it",
    "Fix it.",
    "yes",
    "yes please",
    "ja",
    "please fix that",
    "fix both",
    "good catch, fix it and add a test",
    "fix 1 and 3",
    "can you fix these?",
    "fix the issues, please",
    "do it",
    "go ahead",
    "исправь это",
    "直して",
]
PASSES = [
    "no",
    "no, fix the docs instead",
    "ignore that",
    "don't fix it",
    "that's fine, now write the changelog",
    "fix this file: it has a typo in line 3",
    "fix the flaky test in tests/test_walk.py",
    "what does the parser do with comments?",
    "thanks",
    "fix it " * 60,
]


@pytest.mark.parametrize("words", ACTS)
def test_words_that_act_on_objections_lean_to_deep_and_the_decision_says_why(words):
    _, decided = after(words)

    decision = decided.decision
    assert (decision.tier, decision.look_before) == (Tier.DEEP, "acted on")
    assert decision.because.startswith("you act on what deep objected to")
    assert (OBJECTIONS, LOG_ODDS) in [(policy, lean.log_odds) for policy, lean in decided.opinions.leans]


@pytest.mark.parametrize("words", PASSES)
def test_other_words_wave_objections_off_and_move_nothing(words):
    before, decided = after(words)

    assert decided.decision.look_before == "waved off"
    assert decided.opinions is before.opinions
    assert (decided.decision.tier, decided.decision.because) == (before.decision.tier, before.decision.because)


@pytest.mark.parametrize(
    "state",
    [
        SessionState(),
        replace(OBJECTED, objected=""),
        replace(OBJECTED, messages=5),
        replace(OBJECTED, turn="another"),
    ],
    ids=["a new session", "no objections", "a newer answer", "another turn"],
)
def test_without_objections_in_memory_words_alone_move_nothing(state):
    said = "deep looked this over: 1) calc.py: divides by zero. Say *fix it* and deep does."

    before, decided = after("fix it", state, said=said)

    assert decided is before


@pytest.mark.parametrize("turn", [{"kind": TurnKind.TOOL_LOOP}, {"kind": TurnKind.SIDE}, {"goes_on": True}])
def test_only_the_start_of_a_persons_turn_answers_objections(turn):
    before, decided = after("fix it", **turn)

    assert decided is before


def test_a_persons_wish_for_fast_stays_and_the_objection_still_counts_as_right():
    class Wish:
        name = "override"

        def judge(self, request, signals):
            return (Insist("you asked for fast", Rank.HEADER, Tier.FAST),)

    _, decided = after("fix it", policies=(LEARNED, Wish()))

    assert (decided.decision.tier, decided.decision.look_before) == (Tier.FAST, "acted on")


def test_a_state_knows_its_objections_until_the_next_answer():
    state = SessionState(turn="t", messages=3).with_objections(3)

    assert state.has_objections
    assert not state.with_answer("spark", 5, {}, None, at=1.0).has_objections
    assert not SessionState(turn="t", messages=5).with_objections(3).has_objections
    assert not SessionState().has_objections
