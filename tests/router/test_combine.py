"""What a decision says of both tiers on one task."""

import pytest

from router.combine import PLAN_THEN_EDIT, Combiner, note_look
from router.contract.combine import Combine, LookEnd
from router.contract.facts import Decided, Settled
from router.contract.opinions import Lean, Opinions
from router.contract.words import Tier
from router.decide.opinions import Rules
from tests.tools.exchanges import ECONOMICS, make_decided, make_decision, make_exchange

ACCEPTED = "plan accepted; edits on fast until something fails"
FAST = Opinions(leans=((PLAN_THEN_EDIT, Lean(-3.0, ACCEPTED)),))


def consider(opinions=FAST, terms=Combine(plan=True), **decision):  # noqa: B008  a frozen value
    decided = make_decided(decision=make_decision(opinions=opinions, **decision))
    return Combiner(terms, Rules((), ECONOMICS, True, ""), None).consider(decided).decision


def test_the_plans_state_is_what_the_decision_says_first():
    decision = consider()

    assert (decision.combining, decision.combined) == ("plan", ACCEPTED)
    assert decision.because == f"{ACCEPTED}; looks like a quick edit"


def test_a_sentence_that_says_it_already_is_left_as_it_is():
    assert consider(because=f"a quick edit; {ACCEPTED}").because == f"a quick edit; {ACCEPTED}"


@pytest.mark.parametrize(
    "changed",
    [
        {"terms": Combine()},
        {"was_asked_for": True},
        {"tier": Tier.DEEP, "targets": ("sage",)},
        {"opinions": Opinions(leans=((PLAN_THEN_EDIT, Lean(0.0, "this client has no plan mode")),))},
        {"opinions": Opinions(leans=(("trajectory", Lean(-3.0, ACCEPTED)),))},
    ],
    ids=["off", "a person's wish", "other evidence was stronger", "no lean", "another policy's"],
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
