"""Where a turn belongs, and where it leaves its session."""

from msgspec.structs import replace

from router.contract.decision import Decision
from router.contract.request import RequestView
from router.contract.session import SessionSnapshot, SessionState
from router.contract.signals import Turn
from router.contract.words import PERSONS_KINDS, Tier, TurnKind
from router.sessions.marks import mark_text, mark_turn

REMEMBERED = (*PERSONS_KINDS, TurnKind.SUBAGENT)
"""A person's turns, and a subagent's in its own session. Other requests move nothing."""


def goes_on_with(state: SessionState, turn: Turn) -> bool:
    """Whether a request continues the turn: after a result, or with a "go on" once escalated. A compaction may drop the ask."""
    if turn.goes_on or (turn.turn_id and turn.kind is TurnKind.ASK):
        return state.turn == mark_turn(turn) or (_forgot_ask(turn) and bool(state.turn))
    return turn.kind is TurnKind.FOLLOW_UP and state.has_escalated


def leave_ask(state: SessionState, turn: Turn) -> SessionState:
    """Clients may send a compaction before the next turn's words."""
    asked = turn.turn_id or turn.compacted_ask
    return replace(state, turn="") if asked and state.turn and mark_text(asked) != state.turn else state


def _forgot_ask(turn: Turn) -> bool:
    return turn.kind is TurnKind.TOOL_LOOP and not turn.turn_id and not turn.person_text


def is_aside(session: SessionSnapshot, view: RequestView) -> bool:
    """Whether a one-request override falls inside a running turn, which it must not move."""
    return view.overrides.tier is not None and not view.overrides.for_session and session.position.is_running


def move(state: SessionState, session: SessionSnapshot, decision: Decision, served: Tier, effort: str | None) -> SessionState:
    position, tier, turn = session.position, higher_of(decision.tier, served), decision.turn
    mark = session.state.turn if position.is_running and _forgot_ask(turn) else mark_turn(turn)
    rose = position.is_running and position.tier is Tier.FAST and tier is Tier.DEEP
    # Another request of this turn may have escalated it meanwhile.
    was_raised = state is not session.state and state.turn == mark and state.has_escalated
    looks = decision.opinions.looks
    return replace(
        state,
        turn=mark,
        tier=Tier.DEEP if was_raised else tier,
        has_escalated=rose or was_raised or position.has_escalated,
        was_asked_for=decision.was_asked_for or position.was_asked_for,
        effort=state.effort or effort,
        ask=state.ask if looks is None else looks.log_odds if looks.goes_on is None else looks.goes_on,
        combine=decision.combining,
        is_planned=state.is_planned if looks is None else looks.wants_plan,
    )


def higher_of(decided: Tier, served: Tier) -> Tier:
    """Deep if another tier than the decided one served: never down for one busy moment."""
    return decided if decided is served else Tier.DEEP
