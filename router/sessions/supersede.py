"""As-you-type traffic: a newer request cancels an older one in progress."""

from collections.abc import Collection, Mapping

from router.contract.caller import SessionKey
from router.contract.credential import read_callers_key
from router.contract.exchange import CancelReason, Exchange, Handler
from router.contract.facts import Decided, Fact
from router.dialects.table import SPECS

Slot = tuple[SessionKey, str, str]
"""The named session, the request's credential, and the header's value."""


class Superseding:
    """Cancels the earlier unfinished request of a caller, credential, session and key."""

    def __init__(self, running: Collection[Exchange]) -> None:
        self._running = running

    def handlers(self) -> Mapping[type[Fact], Handler]:
        return {Decided: self._replace_older}

    def _replace_older(self, exchange: Exchange, decided: Decided) -> None:
        view = decided.view
        if view.overrides.supersede is None and SPECS[view.dialect].is_conversation:
            return
        slot = _slot_of(decided)
        if slot is None:
            return
        for other in tuple(self._running):
            theirs = other.last(Decided) if other is not exchange else None
            if theirs is not None and _slot_of(theirs) == slot:
                # The later request may have been decided first.
                (other if other.began <= exchange.began else exchange).cancel(CancelReason.SUPERSEDED)


def _slot_of(decided: Decided) -> Slot | None:
    """The slot that only one request may hold; None unless the client named the session.

    A guessed session, or one with another credential, may be a stranger's. Completions need no header.
    """
    view, turn = decided.view, decided.decision.turn
    key = view.overrides.supersede
    if turn.is_guessed or not turn.session or (key is None and SPECS[view.dialect].is_conversation):
        return None
    return SessionKey(view.caller, turn.session), read_callers_key(view.headers, view.dialect), key or ""
