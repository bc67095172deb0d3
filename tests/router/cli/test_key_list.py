"""Listing keys with what the ledger knows of them."""

from datetime import UTC, datetime

import pytest

from router.cli.key_list import beginnings, list_keys
from router.config.key_file import CallerSettings, KeyFile, KeySettings
from router.contract.past import CallerSums

NOW = datetime(2026, 11, 1, 0, 30, tzinfo=UTC)


def file_of(**callers):
    made = {
        name: CallerSettings(keys=[KeySettings(id=key_id * 8, sha256="0" * 64, created=NOW) for key_id in ids])
        for name, ids in callers.items()
    }
    return KeyFile(callers=made)


@pytest.mark.parametrize(
    ("zone", "day", "month"),
    [
        ("UTC", datetime(2026, 11, 1, tzinfo=UTC), datetime(2026, 11, 1, tzinfo=UTC)),
        ("Europe/Berlin", datetime(2026, 10, 31, 23, tzinfo=UTC), datetime(2026, 10, 31, 23, tzinfo=UTC)),
        ("America/New_York", datetime(2026, 10, 31, 4, tzinfo=UTC), datetime(2026, 10, 1, 4, tzinfo=UTC)),
        ("Nowhere/Land", datetime(2026, 11, 1, tzinfo=UTC), datetime(2026, 11, 1, tzinfo=UTC)),
    ],
)
def test_a_day_and_a_month_begin_where_the_config_says(zone, day, month):
    assert beginnings(NOW, zone) == (day.timestamp(), month.timestamp())


def test_what_a_caller_spent_is_the_sum_over_its_keys():
    spent = [CallerSums("ada", "aaaaaaaa", 1.0, 2.0, 10.0), CallerSums("ada", "gone", None, 4.0, 5.0)]

    (first, second) = list_keys(file_of(ada="ab"), spent)

    assert (first.today_usd, first.month_usd, first.is_first, second.is_first) == (1.0, 6.0, True, False)
    assert (first.last_used, second.last_used) == (datetime.fromtimestamp(10, UTC), None)


def test_in_a_ledger_that_does_not_know_keys_each_was_used_when_its_caller_was_last_here():
    listed = list(list_keys(file_of(ada="ab", bob="c"), [CallerSums("ada", None, 1.0, 2.0, 10.0)]))

    assert [key.last_used and key.last_used.timestamp() for key in listed] == [10.0, 10.0, None]


def test_a_caller_without_keys_has_a_line_too():
    (listed,) = list_keys(file_of(ada=""), [])

    assert (listed.name, listed.key) == ("ada", None)
