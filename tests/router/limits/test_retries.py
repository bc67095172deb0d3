"""The budget of second attempts: a count, so no clock and no loop."""

from hypothesis import given
from hypothesis import strategies as some

from router.limits.retries import KEPT_SECONDS, Allowance, RetryBudget, Track


def spend(budget, now, active, most=1_000):
    """Take all that there is."""
    taken = 0
    while taken < most and budget.has_room(now, active):
        budget.take("sage")
        taken += 1
    return taken


def test_there_are_always_three_and_a_fifth_of_many():
    assert [spend(RetryBudget(), 0.0, active) for active in (0, 1, 15, 20, 100, 104)] == [3, 3, 3, 4, 20, 20]


def test_one_that_served_no_longer_counts_and_one_that_failed_does_for_ten_seconds():
    budget = RetryBudget()
    spend(budget, 0.0, 1)
    budget.give_back("sage", 1.0, has_failed=False)
    budget.give_back("sage", 1.0, has_failed=True)

    assert spend(budget, 1.0, 1) == 1
    assert spend(budget, 1.0 + KEPT_SECONDS - 0.01, 1) == 0
    assert spend(budget, 1.0 + KEPT_SECONDS, 1) == 1


def test_it_knows_how_many_are_made_where():
    budget = RetryBudget()
    budget.take("sage")
    assert (budget.under_way("sage"), budget.under_way("spark")) == (1, 0)
    budget.give_back("sage", 1.0, has_failed=True)
    assert budget.under_way("sage") == 0


def test_of_a_target_that_was_never_heard_of_nothing_is_known():
    assert Allowance(True, {}).standing("sage") is Track.UNKNOWN


EVENTS = some.lists(some.tuples(some.floats(0, 5), some.sampled_from(["ask", "fails", "serves"]), some.integers(0, 200)))


@given(EVENTS)
def test_whatever_happens_no_more_is_made_than_the_budget_holds(events):
    budget, now, open_ones, failed = RetryBudget(), 0.0, 0, []
    for seconds, event, active in events:
        now += seconds
        if event == "ask":
            counted = open_ones + sum(now - moment < KEPT_SECONDS for moment in failed)
            has_room = budget.has_room(now, active)
            assert has_room is (counted < max(3, active // 5))
            if has_room:
                budget.take("sage")
                open_ones += 1
        elif open_ones:
            open_ones -= 1
            budget.give_back("sage", now, has_failed=event == "fails")
            failed += [now] * (event == "fails")
