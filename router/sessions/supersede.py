"""As-you-type traffic: a newer request takes the place of an older one that is still being answered."""

from collections.abc import Collection, Mapping

from router.contract.exchange import CancelReason, Exchange, Handler
from router.contract.facts import Decided, Fact
from router.contract.secret import read_callers_key
from router.dialects.table import SPECS

Place = tuple[str, str, str, str]
"""The caller, the credential that came with the request, the session that the client named, and the key."""


class Superseding:
    """Cancels the earlier unfinished request of the same caller, credential, session and key. It observes requests."""

    def __init__(self, running: Collection[Exchange]) -> None:
        self._running = running

    def handlers(self) -> Mapping[type[Fact], Handler]:
        return {Decided: self._take_place}

    def _take_place(self, exchange: Exchange, decided: Decided) -> None:
        view = decided.view
        if view.overrides.supersede is None and SPECS[view.dialect].is_conversation:
            return  # as of most
        place = _place_of(decided)
        if place is None:
            return
        for other in tuple(self._running):
            theirs = other.last(Decided) if other is not exchange else None
            if theirs is not None and _place_of(theirs) == place:
                # What came later may have been decided sooner.
                (other if other.began <= exchange.began else exchange).cancel(CancelReason.SUPERSEDED)


def _place_of(decided: Decided) -> Place | None:
    """What a request takes the place of, if of any. Without a session that the client named it takes nobody's.

    A session that was only guessed may be a stranger's, and so may one with another credential, whatever its name. Completions
    are typed by nature: in a session that the client names, they need no header.
    """
    view, turn = decided.view, decided.decision.turn
    key = view.overrides.supersede
    if turn.is_guessed or not turn.session or (key is None and SPECS[view.dialect].is_conversation):
        return None
    return view.caller.name, read_callers_key(view.headers, view.dialect), turn.session, key or ""
