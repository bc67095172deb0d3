"""One caller has nearly all while it is alone, and no more than an equal part once others ask."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from router.contract.caller import Caller
from router.contract.share import Holdings, Turns, has_room

ADA, BOB, EVE = Caller("ada"), Caller("bob"), Caller("eve")


def fill(held: Holdings, caller: Caller, whole: int, share: float) -> None:
    """Take as much as a caller may."""
    while has_room(held.of(caller), held.total, whole, share):
        held.add(caller, 1)


@pytest.mark.parametrize(
    ("whole", "share", "most"),
    [(1_024, 0.875, 896), (64, 0.875, 56), (8, 0.875, 7), (4, 0.875, 3), (2, 0.875, 1), (1, 0.875, 1), (10, 0.5, 5), (8, 1, 8)],
)
def test_a_caller_alone_has_its_share_and_leaves_one_for_another(whole, share, most):
    held = Holdings()

    fill(held, EVE, whole, share)

    assert held.of(EVE) == most
    assert has_room(0, held.total, whole, share) is (most < whole)


@given(whole=st.integers(1, 2_000), share=st.floats(0.01, 0.99), callers=st.integers(1, 5))
def test_who_has_none_is_never_refused_by_one_that_has_some(whole, share, callers):
    held = Holdings()

    for number in range(callers):
        fill(held, Caller(str(number)), whole, share)

    assert held.total == whole or has_room(0, held.total, whole, share)
    assert held.total < whole or min(held.of(Caller(str(number))) for number in range(callers)) <= 1


def test_greedy_callers_end_with_equal_parts_as_slots_become_free():
    whole, held, callers = 1_024, Holdings(), (ADA, BOB, EVE)
    fill(held, EVE, whole, 0.875)

    for _ in range(2_000):
        held.add(held.find_most(), -1)
        for caller in callers:
            fill(held, caller, whole, 0.875)

    parts = [held.of(caller) for caller in callers]
    assert max(parts) - min(parts) <= 7
    assert sum(parts) >= 0.9 * whole


def test_a_caller_that_holds_nothing_any_more_is_forgotten():
    held = Holdings()
    held.add(ADA, 2)
    held.add(BOB, 3)

    assert (held.find_most(), held.total) == (BOB, 5)

    held.add(BOB, -3)
    assert (held.find_most(), held.of(BOB), held.total) == (ADA, 0, 2)


def test_the_turn_is_of_the_caller_that_was_served_least_recently():
    turns = Turns()
    for name in ("ada", "bob", "ada"):
        turns.take(name)

    assert sorted(["ada", "bob", "eve"], key=turns.last) == ["eve", "bob", "ada"]


def test_turns_of_long_ago_are_forgotten():
    turns = Turns()
    for number in range(1_025):
        turns.take(str(number))

    assert (turns.last("0"), turns.last("1")) == (0, 2)
