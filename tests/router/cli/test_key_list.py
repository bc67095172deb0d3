"""Listing keys with what the ledger knows of them."""

from datetime import UTC, datetime

import pytest

from router.cli.common import known_names
from router.cli.key_list import list_keys, read_spent
from router.config.files import find_keys
from router.config.key_file import CallerSettings, KeyFile, KeySettings
from router.contract.caller import Caller
from router.contract.past import CallerSums
from tests.conftest import SIMULATED
from tests.tools.kept import make_entry
from tests.tools.ledgers import write_ledger

NOW = datetime(2026, 11, 1, 0, 30, tzinfo=UTC)
ADA = Caller("ada")


def file_of(**callers):
    made = {
        name: CallerSettings(keys=[KeySettings(id=key_id * 8, sha256="0" * 64, created=NOW) for key_id in ids])
        for name, ids in callers.items()
    }
    return KeyFile(callers=made)


@pytest.mark.parametrize(
    ("zone", "today", "month"), [("UTC", 0, 0), ("Europe/Berlin", 1.0, 1.0), ("America/New_York", 1.0, 3.0)]
)
def test_a_day_and_a_month_begin_where_the_config_says(tmp_path, zone, today, month):
    (tmp_path / "config.yaml").write_text(f"{SIMULATED}budgets: {{time_zone: {zone}}}\n")
    an_hour_ago, weeks_ago = NOW.timestamp() - 3_600, NOW.timestamp() - 15 * 86_400
    entries = [make_entry("1", ADA, at=an_hour_ago, cost_usd=1), make_entry("2", ADA, at=weeks_ago, cost_usd=2)]
    write_ledger(tmp_path / "test.db", *entries)

    (spent,) = read_spent(find_keys(tmp_path / "config.yaml", known_names), NOW)

    assert (spent.today_usd or 0, spent.month_usd or 0) == (today, month)


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
