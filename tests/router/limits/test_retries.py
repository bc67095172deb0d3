"""The limit of second attempts."""

from hypothesis import given
from hypothesis import strategies as some

from router.limits.retries import KEPT_SECONDS, Chances, RetryLimit, Track
from tests.tools.waiting import at_once


async def spend(limit, now, active, most=1_000):
    """Take all that there is."""
    taken = []
    while len(taken) < most and limit.has_room(now, active):
        taken.append(await limit.hold("sage"))
    return taken


async def test_there_are_always_three_and_a_fifth_of_many():
    assert [len(await spend(RetryLimit(), 0.0, active)) for active in (0, 1, 15, 20, 100, 104)] == [3, 3, 3, 4, 20, 20]


async def test_one_that_served_no_longer_counts_and_one_that_failed_does_for_ten_seconds():
    limit = RetryLimit()
    served, failed, _ = await spend(limit, 0.0, 1)
    served.release(1.0)
    failed.settle((), 1.0)
    failed.release(1.0)

    assert len(await spend(limit, 1.0, 1)) == 1
    assert len(await spend(limit, 1.0 + KEPT_SECONDS - 0.01, 1)) == 0
    assert len(await spend(limit, 1.0 + KEPT_SECONDS, 1)) == 1


async def test_it_knows_how_many_are_made_where():
    limit = RetryLimit()
    retry = await limit.hold("sage")
    assert (limit.under_way["sage"], limit.under_way["spark"]) == (1, 0)
    retry.settle((), 1.0)
    assert limit.under_way["sage"] == 0


def test_of_a_target_that_was_never_heard_of_nothing_is_known():
    assert Chances(True, {}).standing("sage") is Track.UNKNOWN


EVENTS = some.lists(some.tuples(some.floats(0, 5), some.sampled_from(["ask", "fails", "serves"]), some.integers(0, 200)))


@given(EVENTS)
def test_whatever_happens_no_more_is_made_than_the_limit_holds(events):
    limit, now, retries, failed = RetryLimit(), 0.0, [], []
    for seconds, event, active in events:
        now += seconds
        if event == "ask":
            counted = len(retries) + sum(now - moment < KEPT_SECONDS for moment in failed)
            has_room = limit.has_room(now, active)
            assert has_room is (counted < max(3, active // 5))
            if has_room:
                retries.append(at_once(limit.hold("sage")))
        elif retries:
            retry = retries.pop()
            retry.settle((), now) if event == "fails" else retry.release(now)
            failed += [now] * (event == "fails")
