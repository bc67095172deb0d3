"""Where a turn belongs: whether it goes on where it was, and where its session is after it."""

from msgspec.structs import replace

from router.contract.decision import Decision
from router.contract.request import RequestView
from router.contract.session import SessionSnapshot, SessionState
from router.contract.signals import Turn
from router.contract.words import PERSONS_KINDS, Tier, TurnKind
from router.sessions.marks import mark_text, mark_turn

REMEMBERED = (*PERSONS_KINDS, TurnKind.SUBAGENT)
"""Turns of the person's, and a subagent's in a session of its own. What else a client sends moves nothing."""


def goes_on_with(state: SessionState, turn: Turn) -> bool:
    """Whether this request goes on with the remembered turn: after a result, or, moved up once, with a "go on".

    After a compaction nothing in the conversation may say what was asked. Nobody asked for anything else since.
    """
    if turn.goes_on or (turn.turn_id and turn.kind is TurnKind.ASK):
        return state.turn == mark_turn(turn) or (_forgot_ask(turn) and bool(state.turn))
    return turn.kind is TurnKind.FOLLOW_UP and state.has_escalated


def leave_ask(state: SessionState, turn: Turn) -> SessionState:
    """The session after its conversation was compacted.

    Clients may do that before they send what was typed last. The requests that follow are then no part of the turn before.
    """
    asked = turn.turn_id or turn.compacted_ask
    return replace(state, turn="") if asked and state.turn and mark_text(asked) != state.turn else state


def _forgot_ask(turn: Turn) -> bool:
    """Whether a turn of the person's goes on in a conversation that no longer says what was asked."""
    return turn.kind is TurnKind.TOOL_LOOP and not turn.turn_id and not turn.person_text


def is_aside(session: SessionSnapshot, view: RequestView) -> bool:
    """An override for one request does not move the running turn."""
    return view.overrides.tier is not None and not view.overrides.for_session and session.position.is_running


def move(state: SessionState, session: SessionSnapshot, decision: Decision, served: Tier, effort: str | None) -> SessionState:
    """The session after its turn went to a tier."""
    position, tier, turn = session.position, higher_of(decision.tier, served), decision.turn
    mark = session.state.turn if position.is_running and _forgot_ask(turn) else mark_turn(turn)
    rose = position.is_running and position.tier is Tier.FAST and tier is Tier.DEEP
    # Another request of the same turn may have moved it up since this one looked.
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
        is_planned=state.is_planned if looks is None else looks.wants_plan,
    )


def higher_of(decided: Tier, served: Tier) -> Tier:
    """Where a turn belongs: where it was decided to go, or up where somebody stood in; never down for one busy moment."""
    return decided if decided is served else Tier.DEEP
