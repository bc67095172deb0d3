"""Amounts of money."""

import random

import pytest

from router.contract.money import UNITS_PER_USD, as_units, as_units_above, as_usd, show_usd


def test_costs_as_the_ledger_has_them_add_up_to_the_same_in_any_order():
    costs = [round(random.Random(seed).uniform(0, 0.2), 8) for seed in range(10_000)]
    units = [as_units(cost) for cost in costs]

    assert sum(units) == sum(sorted(units)) == sum(sorted(units, reverse=True))
    assert all(as_usd(unit) == cost for unit, cost in zip(units, costs, strict=True))


def test_a_bound_is_never_rounded_down():
    assert as_units_above(0.1 / UNITS_PER_USD) == 1
    assert as_units(0.1 / UNITS_PER_USD) == 0


@pytest.mark.parametrize(
    ("usd", "shown"),
    [(0, "0.00 USD"), (1, "1.00 USD"), (12.345, "12.35 USD"), (0.1, "0.10 USD"), (0.0123, "0.012 USD"), (0.00000001, "0.00000001 USD")],
)  # fmt: skip
def test_small_amounts_are_shown_with_two_digits(usd, shown):
    assert show_usd(as_units(usd)) == shown
