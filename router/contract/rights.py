"""What a caller may do and use."""

from collections.abc import Mapping

from msgspec import Struct

from router.contract.errors import NotPermitted
from router.contract.words import Tier

BOTH_TIERS = frozenset(Tier)


class Rights(Struct, frozen=True):
    """None: no limit."""

    tiers: frozenset[Tier] = BOTH_TIERS
    may_force: frozenset[Tier] = frozenset({Tier.FAST})
    is_admin: bool = False
    """May see all callers' figures, and reload the config."""
    requests_per_minute: int | None = None
    tokens_per_minute: int | None = None
    in_flight: int | None = None
    daily_usd: float | None = None
    monthly_usd: float | None = None
    may_delegate: bool = True
    may_combine: bool = True
    jobs_in_flight: int | None = None
    """Background jobs, waiting or running."""

    @property
    def has_budget(self) -> bool:
        return self.daily_usd is not None or self.monthly_usd is not None

    @property
    def is_limited(self) -> bool:
        return self.has_budget or any((self.requests_per_minute, self.tokens_per_minute, self.in_flight))


EVERYTHING = Rights(may_force=BOTH_TIERS, is_admin=True)
"""Rights without keys, and of the router's own user."""
NOTHING = Rights(tiers=frozenset(), may_force=frozenset(), may_delegate=False, may_combine=False)
"""Rights of a caller that is not in the key file."""


def rights_in(listed: Mapping[str, Rights] | None, caller: str) -> Rights:
    """A caller's rights by name. Callers that need no key (`listed` is None) may do everything, unlisted ones nothing."""
    return EVERYTHING if listed is None else listed.get(caller, NOTHING)


def check_tier(tier: Tier | None, because: str, rights: Rights, way_out: str) -> None:
    """Refuse a tier that the caller may not force; `way_out` says what to do instead. Raises `NotPermitted`."""
    if tier is not None and tier not in rights.may_force:
        raise NotPermitted(f"{because}, and this key does not have the right to force {tier} (may_force). {way_out}")
