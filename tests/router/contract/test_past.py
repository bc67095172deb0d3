"""What a reader of the ledger answers."""

import pytest

from router.contract.past import name_hop


@pytest.mark.parametrize(
    ("before", "after", "hop"),
    [("fast", "deep", "up"), ("deep", "fast", "down"), ("deep", "deep", None), (None, "deep", None), ("fast", None, None)],
)
def test_a_hop_is_named_by_where_the_session_goes(before, after, hop):
    assert name_hop(before, after) == hop
