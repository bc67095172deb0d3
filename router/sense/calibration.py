"""What an exact count taught: a session grows by little from call to call, so only what is new must be estimated."""

from collections import OrderedDict

from router.contract.caller import SessionKey
from router.contract.signals import TokenCount
from router.sense.tokens import HIGH, LOW

_MAX_SESSIONS = 2_048
_SLACK = 0.005
"""Framing and sampling: the same prompt, estimated twice at slightly different places."""


class Calibration:
    """The last exact count of each session, next to the estimate of the same prompt. The longest unused is forgotten."""

    def __init__(self) -> None:
        self._known: OrderedDict[SessionKey, tuple[int, int]] = OrderedDict()

    def note(self, session: SessionKey, estimated: int, exact: int) -> None:
        """Remember what a prompt really was."""
        self._known[session] = (estimated, exact)
        self._known.move_to_end(session)
        if len(self._known) > _MAX_SESSIONS:
            self._known.popitem(last=False)

    def narrow(self, session: SessionKey, count: TokenCount) -> TokenCount:
        """The estimate with a narrower band, if the session was counted before and has only grown since."""
        known = self._known.get(session)
        if known is None or count.tokens < known[0] * (1 - _SLACK):
            return count
        estimated, exact = known
        new = max(0, count.tokens - estimated)
        slack = exact * _SLACK
        return TokenCount(
            tokens=round(exact + new),
            low=round(exact + new * LOW - slack),
            high=round(exact + new * HIGH + slack),
        )
