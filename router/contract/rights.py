"""What a caller may do and use. The rights of all callers belong to the plan, by the caller's name."""

from msgspec import Struct

from router.contract.errors import NotPermitted
from router.contract.words import Tier

BOTH_TIERS = frozenset(Tier)


class Rights(Struct, frozen=True):
    """The rights of one caller. None is no limit."""

    tiers: frozenset[Tier] = BOTH_TIERS
    """The tiers that may serve it."""
    may_force: frozenset[Tier] = frozenset({Tier.FAST})
    """The tiers that it may ask for, instead of having one chosen."""
    is_admin: bool = False
    """Whether it may see the figures of all callers, and reload the config."""
    requests_per_minute: int | None = None
    tokens_per_minute: int | None = None
    in_flight: int | None = None
    """Requests at once."""
    daily_usd: float | None = None
    monthly_usd: float | None = None
    may_delegate: bool = True
    """Whether it may have requests served in the background."""
    jobs_in_flight: int | None = None
    """Background jobs at once, waiting or running."""

    @property
    def has_budget(self) -> bool:
        return self.daily_usd is not None or self.monthly_usd is not None

    @property
    def is_limited(self) -> bool:
        """Whether anything that it may use is counted."""
        return self.has_budget or any((self.requests_per_minute, self.tokens_per_minute, self.in_flight))


EVERYTHING = Rights(may_force=BOTH_TIERS, is_admin=True)
"""The rights of those who use a router without keys, and of its own user."""
USUAL = Rights()
"""The rights of a key for which none are named."""


def check_tier(tier: Tier | None, because: str, rights: Rights, way_out: str) -> None:
    """Refuse a wish for a tier that its caller may not force. `way_out` is what the caller can do. Raises `NotPermitted`."""
    if tier is not None and tier not in rights.may_force:
        raise NotPermitted(f"{because}, and this key does not have the right to force {tier} (may_force). {way_out}")
