"""As-you-type traffic: a newer request cancels an older one that is still being answered."""

from collections.abc import Collection, Mapping

from router.contract.caller import SessionKey
from router.contract.exchange import CancelReason, Exchange, Handler
from router.contract.facts import Decided, Fact
from router.contract.secret import read_callers_key
from router.dialects.table import SPECS

Slot = tuple[SessionKey, str, str]
"""The session that the client named, the credential that came with the request, and the value of the header."""


class Superseding:
    """Cancels the earlier unfinished request of the same caller, credential, session and key. It observes requests."""

    def __init__(self, running: Collection[Exchange]) -> None:
        self._running = running

    def handlers(self) -> Mapping[type[Fact], Handler]:
        return {Decided: self._replace_older}

    def _replace_older(self, exchange: Exchange, decided: Decided) -> None:
        view = decided.view
        if view.overrides.supersede is None and SPECS[view.dialect].is_conversation:
            return  # as of most
        slot = _slot_of(decided)
        if slot is None:
            return
        for other in tuple(self._running):
            theirs = other.last(Decided) if other is not exchange else None
            if theirs is not None and _slot_of(theirs) == slot:
                # What came later may have been decided sooner.
                (other if other.began <= exchange.began else exchange).cancel(CancelReason.SUPERSEDED)


def _slot_of(decided: Decided) -> Slot | None:
    """What only one request at a time may have; None without a session that the client named.

    A session that was only guessed may be a stranger's, and so may one with another credential, whatever its name. Completions
    are typed by nature: in a session that the client names, they need no header.
    """
    view, turn = decided.view, decided.decision.turn
    key = view.overrides.supersede
    if turn.is_guessed or not turn.session or (key is None and SPECS[view.dialect].is_conversation):
        return None
    return SessionKey(view.caller, turn.session), read_callers_key(view.headers, view.dialect), key or ""
