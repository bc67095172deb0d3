"""Where a turn belongs: whether it goes on where it was, and where its session is after it."""

from router.contract.decision import Decision
from router.contract.opinions import Lean
from router.contract.request import RequestView
from router.contract.session import SessionSnapshot, SessionState
from router.contract.signals import Turn
from router.contract.words import PERSONS_KINDS, Tier, TurnKind
from router.sessions.marks import mark_turn

REMEMBERED = (*PERSONS_KINDS, TurnKind.SUBAGENT)
"""Turns of the person's, and a subagent's in a session of its own. What else a client sends moves nothing."""


def goes_on_with(state: SessionState, turn: Turn) -> bool:
    """Whether this request goes on with the remembered turn: after a result, or, moved up once, with a "go on"."""
    if turn.goes_on or (turn.turn_id and turn.kind is TurnKind.ASK):
        return state.turn == mark_turn(turn)
    return turn.kind is TurnKind.FOLLOW_UP and state.has_escalated


def is_aside(session: SessionSnapshot, view: RequestView) -> bool:
    """An override for one request does not move the running turn."""
    return view.overrides.tier is not None and not view.overrides.for_session and session.position.is_running


def move(state: SessionState, session: SessionSnapshot, decision: Decision, served: Tier, effort: str | None) -> SessionState:
    """The session after its turn went to a tier."""
    position, tier, mark = session.position, higher_of(decision.tier, served), mark_turn(decision.turn)
    rose = position.is_running and position.tier is Tier.FAST and tier is Tier.DEEP
    # Another request of the same turn may have moved it up since this one looked.
    was_raised = state is not session.state and state.turn == mark and state.has_escalated
    looks = _name_turn(decision)
    return state.with_turn(
        mark,
        Tier.DEEP if was_raised else tier,
        has_escalated=rose or was_raised or position.has_escalated,
        was_asked_for=decision.was_asked_for or position.was_asked_for,
        effort=effort,
        ask=state.ask if looks is None else looks.log_odds if looks.goes_on is None else looks.goes_on,
        is_planned=state.is_planned if looks is None else looks.wants_plan,
    )


def _name_turn(decision: Decision) -> Lean | None:
    """The opinion that says what the turn looks like."""
    return next((lean for _, lean in decision.opinions.leans if lean.names_turn), None)


def higher_of(decided: Tier, served: Tier) -> Tier:
    """Where a turn belongs: where it was decided to go, or up where somebody stood in; never down for one busy moment."""
    return decided if decided is served else Tier.DEEP
