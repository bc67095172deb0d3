"""Rights."""

import pytest

from router.contract.rights import EVERYTHING, USUAL, Rights


@pytest.mark.parametrize("limit", ["requests_per_minute", "tokens_per_minute", "in_flight", "daily_usd", "monthly_usd"])
def test_each_limit_makes_rights_limited(limit):
    assert Rights(**{limit: 1}).is_limited
    assert Rights(**{limit: 1}).has_budget == limit.endswith("usd")


def test_nothing_is_counted_where_no_limit_is_named():
    assert not EVERYTHING.is_limited
    assert not USUAL.is_limited
