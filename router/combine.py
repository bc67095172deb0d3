"""Adds to a decision what both tiers do for its task (`contract.combine`)."""

from msgspec.structs import replace

from router.contract.combine import PLANNING, Combine, Combining, LookEnd, combining_for
from router.contract.decision import Decision
from router.contract.exchange import Exchange
from router.contract.facts import Decided
from router.contract.request import RequestView
from router.contract.session import SessionSnapshot
from router.contract.signals import Turn
from router.contract.words import PlanPhase, Tier
from router.decide.objections import answer_objections
from router.decide.opinions import Rules
from router.sessions.plan_mode import PlanMemory, read_plan

_POLICY = "plan_then_edit"
_ACCEPTED = (PlanPhase.ACCEPTED, PlanPhase.EDITING)


class Combiner:
    """Both tiers on one task, by the terms of a plan. Only requests for which that can be on ask it."""

    def __init__(self, terms: Combine, rules: Rules) -> None:
        self._terms, self._rules = terms, rules

    def read_plan(self, session: SessionSnapshot, turn: Turn, view: RequestView) -> Turn:
        """The turn with how far its plan is, where that is on."""
        on = combining_for(self._terms, view, session.position, self._rules.rights)
        return read_plan(view, turn, session.state) if on.plan else turn

    def apply(self, decided: Decided) -> Decided:
        """Add what is on to a decision, and what the person makes of deep's objections."""
        on, state = self._find_on(decided), decided.session.state
        begun = decided if on.look is None else answer_objections(self._rules, decided)
        planned = PlanMemory.read(state.combine).after(begun.decision.turn)
        decision = replace(begun.decision, combining=planned.write(on.words))
        words = _say_plan(decision)
        return replace(begun, decision=say_combined(decision, words) if words else decision)

    def _find_on(self, decided: Decided) -> Combining:
        return combining_for(self._terms, decided.view, decided.session.position, self._rules.rights)


def _say_plan(decision: Decision) -> str:
    """How far the plan is, where it went as `combine: plan` has it; empty where a person asked for the tier."""
    turn, is_deep = decision.turn, decision.tier is Tier.DEEP
    if turn.plan is None or decision.was_asked_for:
        return ""
    if turn.plan is PlanPhase.PLANNING:
        return PLANNING if is_deep else ""
    if turn.plan not in _ACCEPTED:
        return ""
    if not is_deep:
        return "plan accepted; edits on fast until something fails"
    has_moved = turn.plan is PlanPhase.EDITING and (turn.position.has_escalated or turn.position.tier is Tier.FAST)
    return "plan accepted; edits moved up to deep" if has_moved else "plan accepted; deep has the edits done sooner"


def note_look(exchange: Exchange, end: LookEnd | None, words: str, before: str = "") -> None:
    """Have the ledger say what became of a look, and of the objections before it (`acted on`, `waved off`)."""
    decided = exchange.last(Decided)
    if decided is not None:
        decision = decided.decision
        combined = "; ".join(filter(None, (decision.combined, words))) or None
        look, before = end or decision.look, before or decision.look_before
        exchange.amend(replace(decided, decision=replace(decision, combined=combined, look=look, look_before=before)))


def say_combined(decision: Decision, words: str) -> Decision:
    """The decision with what both tiers do, in its sentence too. What the plan's own policy says is not repeated."""
    repeated = [lean.because for policy, lean in decision.opinions.leans if policy == _POLICY]
    because = "; ".join(part for part in decision.because.split("; ") if part not in repeated)
    return replace(decision, combined=words, because=because if words in because else "; ".join(filter(None, (words, because))))
