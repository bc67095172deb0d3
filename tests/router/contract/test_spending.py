"""Days and months of a time zone."""

import random
from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from router.contract.spending import UNITS_PER_USD, Period, as_units, as_units_above, as_usd, find_zone, show_usd, span_of

BERLIN = ZoneInfo("Europe/Berlin")
HOUR = 3_600
ZONES = ["UTC", "Europe/Berlin", "America/Havana", "America/Santiago", "Asia/Kolkata", "Pacific/Apia", "Asia/Beirut"]


def hours_of(zone: str, *when: int) -> float:
    span = span_of(Period.DAY, datetime(*when, 12, tzinfo=ZoneInfo(zone)).timestamp(), ZoneInfo(zone))
    return (span.ends - span.begins) / HOUR


@pytest.mark.parametrize(("day", "hours"), [((2026, 3, 28), 24), ((2026, 3, 29), 23), ((2026, 10, 25), 25)])
def test_a_day_has_23_or_25_hours_where_clocks_are_changed(day, hours):
    assert hours_of("Europe/Berlin", *day) == hours


def test_a_day_begins_at_midnight_there():
    at = datetime(2026, 11, 16, 23, 30, tzinfo=UTC).timestamp()

    span = span_of(Period.DAY, at, BERLIN)

    assert datetime.fromtimestamp(span.begins, BERLIN) == datetime(2026, 11, 17, tzinfo=BERLIN)


@pytest.mark.parametrize(
    ("month", "days"), [((2026, 2), 28), ((2028, 2), 29), ((2026, 12), 31), ((2026, 4), 30), ((2026, 1), 31)]
)
def test_a_month_is_a_month_of_the_calendar(month, days):
    span = span_of(Period.MONTH, datetime(*month, 15, tzinfo=UTC).timestamp(), UTC)

    assert (span.ends - span.begins) / HOUR == days * 24
    assert datetime.fromtimestamp(span.begins, UTC) == datetime(*month, 1, tzinfo=UTC)


@given(st.integers(946_684_800, 2_082_758_400), st.sampled_from(ZONES), st.sampled_from(Period))
def test_every_moment_is_in_its_own_span_and_the_next_follows_at_once(at, name, period):
    zone = find_zone(name)

    span = span_of(period, at, zone)

    assert span.begins <= at < span.ends
    assert span_of(period, span.begins, zone) == span
    assert span_of(period, span.ends, zone).begins == span.ends
    assert span.ends - span.begins < 32 * 24 * HOUR


@pytest.mark.parametrize("name", ["Europe/Berlinn", "Europe", "", "../../etc/passwd", "/etc/passwd", "a\0b", "CEST+9z"])
def test_a_name_that_is_not_a_zone_is_refused(name):
    with pytest.raises(ValueError, match="unknown time zone"):
        find_zone(name)


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
