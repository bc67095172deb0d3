"""Whether a caller may force the tier that it asks for: one rule for every channel through which it can ask."""

from collections.abc import Mapping

from router.contract.opinions import Insist, Rank
from router.contract.rights import Rights, check_tier
from router.contract.target import TargetStatus

OVERRIDE = "override"
"""The policy that speaks for callers. What another insists on is the operator's own wish."""
_BY_HEADER = "x-tandem-tier: auto"
_BY_LINE = "begin your next message with the line `tier: auto`"
_WAYS_OUT = {
    Rank.HEADER: f"Send {_BY_HEADER}, or leave the header out",
    Rank.IN_BAND_LINE: f"Remove the line, or {_BY_LINE}",
    Rank.SESSION_SCOPE: f"To set the session back, {_BY_LINE}, or send {_BY_HEADER} with x-tandem-scope: session",
}
_BY_NAME = "Ask for the model auto"


def check_forced(policy: str, insist: Insist, statuses: Mapping[str, TargetStatus], rights: Rights) -> None:
    """Refuse an insist that decides, if it is its caller's and the caller may not force that tier. Raises `NotPermitted`.

    What it outranks is not looked at: a wish that changes nothing needs no right.
    """
    if policy != OVERRIDE:
        return
    tier = insist.tier if insist.target is None else statuses[insist.target].target.tier
    check_tier(tier, insist.because, rights, _WAYS_OUT.get(insist.rank, _BY_NAME))
