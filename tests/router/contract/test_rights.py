"""Rights."""

import pytest

from router.contract.errors import NotPermitted
from router.contract.rights import EVERYTHING, Rights, check_tier
from router.contract.words import Tier


@pytest.mark.parametrize("limit", ["requests_per_minute", "tokens_per_minute", "in_flight", "daily_usd", "monthly_usd"])
def test_each_limit_makes_rights_limited(limit):
    assert Rights(**{limit: 1}).is_limited
    assert Rights(**{limit: 1}).has_budget == limit.endswith("usd")


def test_nothing_is_counted_where_no_limit_is_named():
    assert not EVERYTHING.is_limited
    assert not Rights().is_limited


@pytest.mark.parametrize(("tier", "rights"), [(Tier.DEEP, Rights()), (Tier.FAST, Rights(may_force=frozenset()))])
def test_a_tier_that_may_not_be_forced_is_refused_with_the_right_and_the_way_out(tier, rights):
    with pytest.raises(NotPermitted, match=rf"somebody asks, and this key .* force {tier} .may_force.. Do without"):
        check_tier(tier, "somebody asks", rights, "Do without")


@pytest.mark.parametrize("tier", [None, Tier.FAST])
def test_the_usual_rights_let_a_caller_ask_for_fast_and_for_auto(tier):
    check_tier(tier, "somebody asks", Rights(), "Do without")
