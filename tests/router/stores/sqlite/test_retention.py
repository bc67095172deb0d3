"""What is too old, by a clock that may be wrong."""

import sqlite3
from contextlib import closing

import pytest

from router.stores.sqlite.retention import Retention

DAY = 86_400.0
TODAY = 1_790_000_000.0
KEPT_DAYS = 30


class Ledger:
    """A file with a row for each day of the last month, and upkeep that runs at any time, in any start."""

    def __init__(self, database: sqlite3.Connection) -> None:
        self.database = database
        self.starts = 0
        database.execute("CREATE TABLE entries (at REAL NOT NULL)")
        for day in range(KEPT_DAYS):
            self.record(TODAY - day * DAY)

    def record(self, at: float) -> None:
        self.database.execute("INSERT INTO entries VALUES (?)", (at,))

    def count(self) -> int:
        return self.database.execute("SELECT count(*) FROM entries").fetchone()[0]

    def start(self, *times: float) -> None:
        """Start a router, which deletes what is too old at each of these times."""
        self.starts += 1
        now = iter(times)
        retention = Retention("a.db", "entries", KEPT_DAYS * DAY, clock=lambda: next(now), start=f"start {self.starts}")
        for _ in times:
            limit = retention.find_limit(self.database)
            retention.count(self.database.execute("DELETE FROM entries WHERE at < ?", (limit,)).rowcount)
            retention.conclude()


@pytest.fixture
def ledger():
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as database:
        yield Ledger(database)


def test_what_has_aged_since_the_last_run_is_deleted_and_counted(ledger, listen):
    read = listen()
    ledger.start(TODAY + 1)
    ledger.start(TODAY + 3 * DAY + 1)

    assert ledger.count() == KEPT_DAYS - 3
    (said,) = read()
    assert (said["event"], said["table"], said["rows"], said["kept_days"]) == ("store.rows_deleted", "entries", 3, KEPT_DAYS)


@pytest.mark.parametrize("has_run_before", [True, False])
def test_a_start_with_a_clock_that_is_far_ahead_deletes_nothing_and_says_so_once(ledger, listen, has_run_before):
    if has_run_before:
        ledger.start(TODAY)
    read = listen()

    ledger.start(TODAY + 400 * DAY, TODAY + 400 * DAY + 3_600, TODAY + 403 * DAY)

    assert ledger.count() == KEPT_DAYS
    assert [(line["event"], line["days"]) for line in read()] == [("store.clock_leapt", 400)]


def test_requests_that_were_served_with_the_wrong_clock_cost_nothing_at_the_next_right_start(ledger):
    ledger.start(TODAY)
    ledger.start(TODAY + 400 * DAY)
    ledger.record(TODAY + 400 * DAY)

    ledger.start(TODAY + DAY + 1)

    assert ledger.count() == KEPT_DAYS - 1 + 1


def test_a_second_start_with_another_wrong_clock_soon_after_deletes_nothing(ledger):
    ledger.start(TODAY)
    ledger.start(TODAY + 400 * DAY)
    ledger.start(TODAY + 400 * DAY + 3_600)
    ledger.start(TODAY + 90 * DAY)

    assert ledger.count() == KEPT_DAYS


def test_a_clock_that_goes_back_deletes_nothing_and_is_no_leap_when_it_is_right_again(ledger, listen):
    ledger.start(TODAY)
    read = listen()

    ledger.start(0.0)
    ledger.start(TODAY + DAY + 1)

    assert ledger.count() == KEPT_DAYS - 1
    assert [line["event"] for line in read()] == ["store.rows_deleted"]


def test_a_machine_that_was_off_for_long_deletes_once_a_later_start_confirms_the_time(ledger):
    ledger.start(TODAY)
    ledger.start(TODAY + 60 * DAY)
    ledger.record(TODAY + 60 * DAY)

    ledger.start(TODAY + 61 * DAY)

    assert ledger.count() == 1


def test_a_machine_that_runs_once_a_month_deletes_what_was_too_old_a_month_ago(ledger):
    for month in range(1, 4):
        ledger.start(TODAY + month * 30 * DAY)

    assert ledger.count() == 0


def test_a_router_that_runs_for_a_month_after_the_leap_confirms_it_itself(ledger):
    ledger.start(TODAY)

    ledger.start(*(TODAY + day * DAY for day in range(60, 91)))

    assert ledger.count() == 0
