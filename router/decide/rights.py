"""Whether a caller may force the tier that it asks for: one rule for every channel through which it can ask."""

from collections.abc import Mapping

from router.contract.errors import NotPermitted
from router.contract.opinions import Insist
from router.contract.rights import Rights
from router.contract.target import TargetStatus
from router.contract.words import Tier

OVERRIDE = "override"
"""The policy that speaks for callers. What another insists on is the operator's own wish."""


def check_forced(policy: str, insist: Insist, statuses: Mapping[str, TargetStatus], rights: Rights) -> None:
    """Refuse an insist that decides, if it is its caller's and the caller may not force that tier. Raises `NotPermitted`."""
    if policy != OVERRIDE:
        return
    tier = insist.tier if insist.target is None else statuses[insist.target].target.tier
    if tier is not None:
        check_tier(tier, insist.because, rights)


def check_tier(tier: Tier, because: str, rights: Rights) -> None:
    """Refuse a wish for a tier that its caller may not force."""
    if tier not in rights.may_force:
        raise NotPermitted(f"{because}, and this key may not force {tier} (may_force). Ask for auto, or have the right added")
