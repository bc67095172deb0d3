"""What is built for a router that shares something, and that nothing of it is built for one that does not."""

import pytest

from router.contract.secret import Secret
from router.contract.shared import SharedTerms
from router.dispatch.live.statistics import LiveStatistics
from router.stores.open_shared import Shared
from router.wiring.sharing import make_tokens, observe_targets, recognise_repeats


def test_a_router_alone_observes_its_targets_by_itself():
    assert type(observe_targets(None)) is LiveStatistics


@pytest.mark.parametrize(
    ("one", "other", "is_alike"),
    [("a" * 32, "a" * 32, True), ("a" * 32, "b" * 32, False), (None, None, False)],
)
def test_routers_with_one_secret_read_each_others_tokens(one, other, is_alike):
    keys = [make_tokens(None, SharedTerms("x", secret=Secret(text) if text else None))._key for text in (one, other)]

    assert (keys[0] == keys[1]) is is_alike


def test_repeats_are_known_at_all_routers_only_where_a_server_is_shared(valkey):
    alone, together = Shared(SharedTerms("x")), Shared(SharedTerms("x", valkey=valkey.terms()))

    assert [recognise_repeats(shared)._shared is not None for shared in (None, alone, together)] == [False, False, True]
