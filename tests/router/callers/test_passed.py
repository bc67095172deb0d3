"""Who may use a route that is not decided."""

import pytest

from router.callers.passed import check_passed
from router.contract.errors import NotPermitted
from router.contract.rights import EVERYTHING, USUAL, Rights
from router.contract.words import PassedRoute, Tier
from tests.tools.values import make_target

SPARK, SAGE = make_target(), make_target("sage", Tier.DEEP)
FAST_ONLY = Rights(tiers=frozenset({Tier.FAST}))
FILES = PassedRoute.FILES


@pytest.mark.parametrize("rights", [USUAL, EVERYTHING, FAST_ONLY, Rights(requests_per_minute=1)])
def test_a_key_for_the_targets_tier_may(rights):
    check_passed(rights, FILES, SPARK)


def test_a_key_for_another_tier_may_not():
    with pytest.raises(NotPermitted, match=r"files goes to a deep target here, and this key is for fast only .tiers."):
        check_passed(FAST_ONLY, FILES, SAGE)


@pytest.mark.parametrize("budget", ["daily_usd", "monthly_usd"])
def test_a_key_with_a_budget_may_not_since_the_cost_is_not_known(budget):
    with pytest.raises(NotPermitted, match=f"costs is not known, and this key has a budget .{budget}."):
        check_passed(Rights(**{budget: 5.0}), FILES, SPARK)
