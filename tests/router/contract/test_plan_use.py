"""The windows of a plan: the shadow price, the share that may be used, and the words for people."""

import time

import pytest

from router.contract.plan_use import (
    FIVE_HOURS,
    WEEK,
    PlanWindow,
    UsedUp,
    UseUpTo,
    held_back,
    say_held_back,
    say_moment,
    shadow_share,
)

NOW = 1_790_000_000.0


def five_hours(used: float, left: float) -> PlanWindow:
    """Used by this share, with this share of its time left."""
    return PlanWindow(used, NOW + left * FIVE_HOURS)


def week(used: float, left: float) -> PlanWindow:
    return PlanWindow(used, NOW + left * WEEK, WEEK)


@pytest.mark.parametrize(
    ("used", "left", "share"),
    [
        (0.0, 1.0, 0.0),  # just begun
        (0.3, 0.5, 0.0),  # half of the time is over, and less than half is used
        (0.5, 0.5, 0.0),  # in step with the clock
        (0.55, 0.9, 0.5),  # a tenth of the time is over: half of what was meant for the rest is gone
        (0.75, 0.5, 0.5),
        (1.0, 0.9, 1.0),  # used up: the list price
        (1.0, 0.01, 1.0),
        (0.9, 0.01, 0.0),  # the window is nearly over: what is left would be lost
    ],
)
def test_a_plans_tokens_cost_nothing_until_its_use_is_ahead_of_the_clock(used, left, share):
    assert shadow_share((five_hours(used, left),), NOW) == pytest.approx(share, abs=0.01)


def test_the_window_that_is_furthest_ahead_sets_the_price():
    assert shadow_share((five_hours(0.1, 0.5), week(0.6, 0.5)), NOW) == 0.2
    assert shadow_share((five_hours(0.9, 0.5), week(0.6, 0.5)), NOW) == 0.8


def test_a_window_that_was_reset_costs_nothing():
    assert shadow_share((PlanWindow(1.0, NOW - 1),), NOW) == 0.0
    assert shadow_share((), NOW) == 0.0


@pytest.mark.parametrize("used", [i / 20 for i in range(21)])
def test_the_price_never_falls_while_more_is_used(used):
    assert shadow_share((five_hours(used, 0.7),), NOW) <= shadow_share((five_hours(min(1.0, used + 0.05), 0.7),), NOW) <= 1


def test_a_window_is_held_back_at_its_own_share():
    limits = UseUpTo(five_hours=90, week=95)

    assert held_back((five_hours(0.89, 0.5), week(0.94, 0.5)), limits, NOW) is None
    assert held_back((five_hours(0.9, 0.5), week(0.94, 0.5)), limits, NOW) == five_hours(0.9, 0.5)
    assert held_back((five_hours(0.95, 0.5), week(0.95, 0.5)), limits, NOW) == week(0.95, 0.5)


def test_a_window_that_was_reset_or_has_no_limit_is_not_held_back():
    assert held_back((PlanWindow(1.0, NOW - 1),), UseUpTo(five_hours=50), NOW) is None
    assert held_back((week(1.0, 0.5),), UseUpTo(five_hours=50), NOW) is None


def test_windows_are_named_by_their_length_and_model():
    assert [PlanWindow(0.0, NOW, seconds).name for seconds in (FIVE_HOURS, 3600, WEEK)] == [
        "5-hour window",
        "1-hour window",
        "weekly window",
    ]
    assert PlanWindow(0.0, NOW, WEEK, "Opus").name == "weekly Opus window"


def test_people_are_told_the_window_and_the_local_time():
    at = time.mktime((2026, 11, 18, 18, 7, 58, 0, 0, -1))

    assert say_moment(at, at - 3600) == "18:08"
    assert say_moment(at, at - 3 * 86_400) == "Wed 18:08"
    assert UsedUp(at, "5-hour window").words.startswith("your plan's 5-hour window is used up until ")
    assert UsedUp(at).words.startswith("your plan's limit is reached until ")
    assert say_held_back(PlanWindow(0.913, at)).startswith("91 % of your plan's 5-hour window is used (use_up_to) until ")
