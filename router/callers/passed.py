"""Whether a caller may use a route that is not decided, where one target is named for it."""

from router.contract.errors import NotPermitted
from router.contract.rights import Rights
from router.contract.target import Target
from router.contract.words import PassedRoute

KEPT_BY_ACCOUNT = frozenset(
    {
        PassedRoute.VIDEOS,
        PassedRoute.FILES,
        PassedRoute.UPLOADS,
        PassedRoute.BATCHES,
        PassedRoute.VECTOR_STORES,
        PassedRoute.FINE_TUNING,
    }
)
"""Routes on which a provider keeps things for its account, and lists them. All callers share the account of a target's key."""


def check_passed(rights: Rights, route: PassedRoute, target: Target) -> None:
    """Refuse a caller whose key is not for the target's tier, who has a budget, or who would see what others keep there.

    Raises `NotPermitted`.
    """
    if target.tier not in rights.tiers:
        own = " and ".join(sorted(rights.tiers))
        raise NotPermitted(f"{route} goes to a {target.tier} target here, and this key is for {own} only (tiers)")
    if rights.has_budget:
        budget = "daily_usd" if rights.daily_usd is not None else "monthly_usd"
        raise NotPermitted(f"what a request to {route} costs is not known, and this key has a budget ({budget})")
    if route in KEPT_BY_ACCOUNT and not target.takes_callers_key and not rights.is_admin:
        raise NotPermitted(f"{route} shows what every caller keeps at {target.name}, so it needs a key with the right admin")
