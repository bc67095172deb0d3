"""Adds to a decision what both tiers do for its task (`contract.combine`). In the plan only where that can be on."""

from msgspec.structs import replace

from router.contract.combine import Combine, Combining, LookEnd, combining_for
from router.contract.decision import Decision
from router.contract.exchange import Exchange
from router.contract.facts import Decided
from router.contract.words import Tier
from router.decide.objections import answer_objections
from router.decide.opinions import Rules
from router.limits.queues import Queues
from router.second_opinion import Adviser

PLAN_THEN_EDIT = "plan_then_edit"
"""The policy whose lean a decision that follows it names as `combined`."""


class Combiner:
    """Takes the place of the adviser for second opinions, which it asks first."""

    def __init__(self, terms: Combine, rules: Rules, adviser: Adviser | None) -> None:
        self._terms, self._rules, self._adviser = terms, rules, adviser

    def consider(self, decided: Decided) -> Decided:
        on, begun = self._begin(decided)
        return self._add(on, begun, begun if self._adviser is None else self._adviser.consider(begun))

    async def consult(self, exchange: Exchange, decided: Decided, queues: Queues) -> Decided:
        on, begun = self._begin(decided)
        return self._add(on, begun, begun if self._adviser is None else await self._adviser.consult(exchange, begun, queues))

    def _begin(self, decided: Decided) -> tuple[Combining, Decided]:
        on = combining_for(self._terms, decided.view, decided.session.position, self._rules.rights)
        return on, decided if on.look is None else answer_objections(self._rules, decided)

    def _add(self, on: Combining, begun: Decided, decided: Decided) -> Decided:
        decision = replace(decided.decision, combining=on.words, look_before=begun.decision.look_before)
        words = _find_plan(decision) if on.plan else ""
        return replace(decided, decision=say_combined(decision, words) if words else decision)


def _find_plan(decision: Decision) -> str:
    """What the plan's state says, where the decision follows it; empty if a person's wish or other evidence was stronger."""
    if decision.was_asked_for:
        return ""
    leans = (lean for policy, lean in decision.opinions.leans if policy == PLAN_THEN_EDIT and lean.log_odds)
    return next((lean.because for lean in leans if (lean.log_odds > 0) is (decision.tier is Tier.DEEP)), "")


def note_look(exchange: Exchange, end: LookEnd | None, words: str, before: str = "") -> None:
    """Have the ledger say what became of a look, and of the objections before it (`acted on`, `waved off`)."""
    decided = exchange.last(Decided)
    if decided is not None:
        decision = decided.decision
        combined = "; ".join(filter(None, (decision.combined, words))) or None
        look, before = end or decision.look, before or decision.look_before
        exchange.amend(replace(decided, decision=replace(decision, combined=combined, look=look, look_before=before)))


def say_combined(decision: Decision, words: str) -> Decision:
    """The decision with what both tiers do, in its sentence too."""
    because = decision.because
    return replace(decision, combined=words, because=because if words in because else f"{words}; {because}")
