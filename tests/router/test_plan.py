"""Who may use a route that is not decided."""

import pytest

from router.contract.errors import NotPermitted
from router.contract.rights import EVERYTHING, USUAL, Rights
from router.contract.words import PassedRoute, Tier
from router.plan import check_passed
from tests.tools.values import make_target

SPARK, SAGE = make_target(), make_target("sage", Tier.DEEP)
FAST_ONLY = Rights(tiers=frozenset({Tier.FAST}))
EMBEDDINGS = PassedRoute.EMBEDDINGS
KEPT = [PassedRoute.FILES, PassedRoute.BATCHES, PassedRoute.VECTOR_STORES, PassedRoute.FINE_TUNING, PassedRoute.UPLOADS]


@pytest.mark.parametrize("rights", [USUAL, EVERYTHING, FAST_ONLY, Rights(requests_per_minute=1)])
def test_a_key_for_the_targets_tier_may(rights):
    check_passed(rights, EMBEDDINGS, SPARK)


def test_a_key_for_another_tier_may_not():
    with pytest.raises(NotPermitted, match=r"embeddings goes to a deep target here, and this key is for fast only .tiers."):
        check_passed(FAST_ONLY, EMBEDDINGS, SAGE)


@pytest.mark.parametrize("budget", ["daily_usd", "monthly_usd"])
def test_a_key_with_a_budget_may_not_since_the_cost_is_not_known(budget):
    with pytest.raises(NotPermitted, match=f"costs is not known, and this key has a budget .{budget}."):
        check_passed(Rights(**{budget: 5.0}), EMBEDDINGS, SPARK)


@pytest.mark.parametrize("route", KEPT)
def test_what_a_provider_keeps_for_all_callers_of_a_target_is_for_admins(route):
    with pytest.raises(NotPermitted, match=f"{route} shows what every caller keeps at spark, so .* the right admin"):
        check_passed(USUAL, route, SPARK)

    check_passed(EVERYTHING, route, SPARK)
    check_passed(USUAL, route, make_target(takes_callers_key=True))
