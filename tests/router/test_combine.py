"""What a decision says of both tiers on one task."""

import pytest

from router.combine import Combiner, note_look
from router.contract.combine import Combine, LookEnd
from router.contract.facts import Decided, Settled
from router.contract.opinions import Lean, Opinions
from router.contract.signals import SessionPosition, Turn
from router.contract.words import PlanPhase, Tier, TurnKind
from router.decide.opinions import Rules
from tests.tools.exchanges import ECONOMICS, make_decided, make_decision, make_exchange

ACCEPTED = "plan accepted; edits on fast until something fails"
DEEP = {"tier": Tier.DEEP, "targets": ("sage",)}
ON_FAST, MOVED_UP = SessionPosition(Tier.FAST, is_running=True), SessionPosition(Tier.DEEP, True, has_escalated=True)


def consider(plan=PlanPhase.ACCEPTED, position=SessionPosition(Tier.DEEP), **decision):  # noqa: B008  a frozen value
    turn = Turn(TurnKind.ASK, "session", "codex", "hello", plan=plan, position=position)
    decided = make_decided(decision=make_decision(turn=turn, **decision))
    combiner = Combiner(Combine(plan=True), Rules((), ECONOMICS, True, ""))
    return combiner.apply(decided).decision


def test_the_plans_state_is_what_the_decision_says_first():
    decision = consider()

    assert (decision.combining, decision.combined) == ("plan:editing", ACCEPTED)
    assert decision.because == f"{ACCEPTED}; looks like a quick edit"


def test_a_sentence_that_says_it_already_is_left_as_it_is():
    assert consider(because=f"a quick edit; {ACCEPTED}").because == f"a quick edit; {ACCEPTED}"


def test_what_the_plans_policy_says_is_not_said_twice():
    leans = (("plan_then_edit", Lean(8.0, "the client is planning")),)
    planning = {"plan": PlanPhase.PLANNING, "opinions": Opinions(leans=leans), **DEEP}

    assert consider(because="looks long; the client is planning", **planning).because == "planning on deep; looks long"
    assert consider(because="the client is planning", **planning).because == "planning on deep"


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"plan": PlanPhase.PLANNING, **DEEP}, "planning on deep"),
        ({"plan": PlanPhase.EDITING, "position": ON_FAST}, ACCEPTED),
        ({"plan": PlanPhase.EDITING, "position": ON_FAST, **DEEP}, "plan accepted; edits moved up to deep"),
        ({"plan": PlanPhase.EDITING, "position": MOVED_UP, **DEEP}, "plan accepted; edits moved up to deep"),
        (DEEP, "plan accepted; deep has the edits done sooner"),
    ],
    ids=["planning", "edits", "moving up", "moved up", "the estimate kept it"],
)
def test_each_state_and_tier_has_its_words(changed, words):
    assert consider(**changed).combined == words


@pytest.mark.parametrize(
    "changed",
    [{"plan": None}, {"plan": PlanPhase.UNKNOWN}, {"was_asked_for": True}, {"plan": PlanPhase.PLANNING}],
    ids=["no plan", "a client without marks", "a person's wish", "planning on fast"],
)
def test_a_decision_that_the_plan_did_not_make_does_not_name_it(changed):
    decision = consider(**changed)

    assert decision.combined is None
    assert decision.because == "looks like a quick edit"


async def test_a_look_is_added_for_the_ledger_and_no_observer_hears_of_the_decision_again():
    heard = []

    class Observer:
        def handlers(self):
            return {Decided: lambda exchange, fact: heard.append(fact), Settled: lambda exchange, fact: None}

    exchange = make_exchange(Observer())
    exchange.note(make_decided(decision=consider()))

    note_look(exchange, LookEnd("sage", "objections", 1, 2.5, 0.01), "deep looked it over: 1 objection", before="acted on")

    decision = exchange.last(Decided).decision
    assert decision.combined == f"{ACCEPTED}; deep looked it over: 1 objection"
    assert (decision.look.objections, decision.look_before) == (1, "acted on")
    assert decision.because == f"{ACCEPTED}; looks like a quick edit"  # what the header said
    assert len(heard) == 1
