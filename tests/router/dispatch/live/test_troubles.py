"""Which targets are out."""

import pytest

from router.contract.errors import UpstreamAuth, UpstreamModel, UpstreamRefused, UpstreamUnreachable
from router.contract.words import AccountFault, Tier
from router.dispatch.live.statistics import LiveStatistics
from router.dispatch.live.troubles import find_troubles
from tests.router.dispatch.live.test_statistics import Call
from tests.tools.values import make_target

SPARK, BOLT, SAGE = make_target(), make_target("bolt"), make_target("sage", Tier.DEEP)
TARGETS = {"spark": SPARK, "bolt": BOLT, "sage": SAGE}


def fail(live: LiveStatistics, error, *, times: int = 1, at: float = 10.0, target=SPARK) -> None:
    for _ in range(times):
        Call(live, at=at, target=target).end(at, error=error)


def look(live: LiveStatistics, now: float = 12.0):
    """What is broken by clocks that are a million seconds apart."""
    return find_troubles(live, TARGETS, now, now + 1_000_000.0)


@pytest.fixture
def live():
    return LiveStatistics()


def test_where_all_serve_there_is_none(live):
    Call(live).end(1.0)
    fail(live, UpstreamUnreachable("spark", "x"), times=4)

    assert look(live) == []


def test_a_target_that_rests_after_failures_is_out_since_the_first_of_them(live):
    fail(live, UpstreamUnreachable("spark", "x"), times=5)

    (notice,) = look(live)

    assert (notice.kind, notice.subject, notice.since) == ("target_out", "spark", 1_000_010.0)
    assert notice.text == "spark: fails (upstream_unreachable), 5 times in a row"
    assert notice.hint == "tandem check --live"


@pytest.mark.parametrize(
    ("error", "kind", "text"),
    [
        (UpstreamAuth("spark", "x"), "key_refused", "spark: its host refuses the API key"),
        (UpstreamAuth("spark", "x", AccountFault.CREDIT), "target_out", "spark: its account has no credit left"),
        (UpstreamAuth("spark", "x", AccountFault.REGION), "target_out", "spark: its host does not serve this region"),
        (UpstreamModel("spark", "x"), "target_out", "spark: its host does not know the configured model"),
    ],
)
def test_what_only_the_operator_can_fix_is_named_after_the_first_failure(live, error, kind, text):
    fail(live, error)

    (notice,) = look(live)

    assert (notice.kind, notice.text) == (kind, text)


def test_the_words_of_a_host_are_not_shown(live):
    fail(live, UpstreamAuth("spark", "x", words="Incorrect API key provided: sk-canary"))

    assert "canary" not in repr(look(live))


def test_it_is_over_once_the_target_serves_again(live):
    fail(live, UpstreamAuth("spark", "x"))
    Call(live, at=80.0).end(81.0)

    assert look(live, 82.0) == []


def test_a_target_that_rests_is_out_until_a_request_found_that_it_serves(live):
    fail(live, UpstreamAuth("spark", "x"))

    assert len(look(live, 5_000.0)) == 1


def test_the_last_target_of_a_tier_that_goes_out_is_named_as_such(live):
    fail(live, UpstreamAuth("spark", "x"))
    fail(live, UpstreamAuth("bolt", "x"), target=BOLT)

    assert {notice.text.partition("; ")[2] for notice in look(live)} == {"no fast target is left"}


@pytest.mark.parametrize(("seconds", "count"), [(59.0, 0), (3_600.0, 1)])
def test_a_target_that_asks_to_be_left_alone_is_out_if_that_is_for_long(live, seconds, count):
    fail(live, UpstreamRefused("spark", 429, b"", "", retry_after_seconds=seconds))

    found = look(live)

    assert len(found) == count
    assert all(notice.text == "spark: asked to be left alone, for 60 more min" for notice in found)
    assert look(live, 10.0 + seconds) == []


def test_a_target_that_no_plan_has_is_not_shown(live):
    fail(live, UpstreamAuth("old", "x"), target=make_target("old"))

    assert look(live) == []
