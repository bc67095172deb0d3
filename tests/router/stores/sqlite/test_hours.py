"""Sums of hours: figures read with them are those of all rows, whatever happened to the rows."""

import contextlib
import os
import time
from math import inf

import pytest

from router.contract.past import CallSums, TurnsAsked
from router.contract.spending import Span
from router.contract.words import Outcome
from router.stores.sqlite.files import connect
from router.stores.sqlite.hours import HOUR, IS_TURN, UNPRICED, read_settled
from router.stores.sqlite.past import SqliteEntryReader
from tests.tools.drawn_ledger import Drawn
from tests.tools.kept import make_entry, open_entries
from tests.tools.ledgers import write_ledger
from tests.tools.waiting import until

SCANNED = f"""
    SELECT date(at, 'unixepoch', 'localtime'), client, tier, sum({IS_TURN}), count(*), sum(input_tokens),
        sum(output_tokens), sum(cost_usd), sum({UNPRICED}),
        ifnull(sum(duration_ms) FILTER (WHERE outcome != '{Outcome.REFUSED}'), 0.0) / 1000,
        sum(ttft_ms) / 1000, count(ttft_ms), sum(outcome IN ('{Outcome.ABANDONED}', '{Outcome.INTERRUPTED}')),
        sum(outcome = '{Outcome.FAILED}'), sum(outcome = '{Outcome.REFUSED}'), caller, sum(list_usd)
    FROM entries WHERE at >= :since AND (:caller IS NULL OR caller = :caller)
        AND (tier IS NOT NULL OR outcome != '{Outcome.SERVED}') GROUP BY 1, 2, 3, caller
"""


def in_order(rows) -> list[CallSums]:
    return sorted(
        (CallSums(*row) for row in rows), key=lambda row: tuple(map(str, (row.day, row.client, row.tier, row.caller)))
    )


def same(found, wanted) -> None:
    assert len(found) == len(wanted)
    for one, other in zip(found, wanted, strict=True):
        for value, expected in zip(one, other, strict=True):
            assert value == (pytest.approx(expected, rel=1e-12, abs=1e-9) if isinstance(expected, float) else expected)


@pytest.fixture(params=["UTC", "Asia/Kolkata", "America/New_York"])
def zone(request, monkeypatch):
    monkeypatch.setenv("TZ", request.param)
    time.tzset()
    yield request.param
    os.environ.pop("TZ")
    monkeypatch.undo()
    time.tzset()


@pytest.mark.parametrize("seed", range(2))
def test_sums_are_those_of_all_rows_after_whatever_happened(tmp_path, zone, seed, monkeypatch):
    drawn = Drawn(tmp_path / "l.db", seed, monkeypatch if seed else None)
    reader = SqliteEntryReader(drawn.path)
    drawn.add(900)
    drawn.settle(900)
    hours = days = 0

    for _ in range(15):
        drawn.change_something()
        hours = max(hours, drawn.scan("SELECT count(*) FROM hours")[0][0])
        days = max(days, drawn.scan("SELECT count(DISTINCT hour) FROM days")[0][0])

        for since in drawn.moments():
            for caller in (None, "ada"):
                same(in_order(reader.read_sums(since, caller)), in_order(drawn.scan(SCANNED, since=since, caller=caller)))
    assert hours > 50, "there were sums"
    assert days > 1 or zone == "Asia/Kolkata", "whose midnight is not at a full hour"


@pytest.mark.parametrize("seed", range(2))
def test_spending_is_that_of_all_rows_after_whatever_happened(tmp_path, seed, monkeypatch):
    drawn = Drawn(tmp_path / "l.db", seed, monkeypatch if seed else None)
    reader = SqliteEntryReader(drawn.path)
    exact = (
        "SELECT caller, sum(CAST(round(cost_usd * 1e8) AS INTEGER)) FROM entries"
        " WHERE at >= :since AND at < :ends AND cost_usd IS NOT NULL GROUP BY caller"
    )
    by_key = """SELECT caller, key, sum(cost_usd) FILTER (WHERE at >= :since AND at < :ends), sum(cost_usd), max(at)
        FROM entries GROUP BY caller, key ORDER BY 1, 2"""

    for _ in range(15):
        drawn.change_something()

        since, ends = sorted(drawn.moments()[2:4])
        assert reader.read_spending(Span(since, ends)) == dict(drawn.scan(exact, since=since, ends=ends))
        spent = sorted(reader.read_spent(Span(since, ends), Span(0.0, inf)), key=lambda row: (row.caller, row.key or ""))
        same(spent, drawn.scan(by_key, since=since, ends=ends))


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("asked", [{"caller": "ada"}, {"target": "flint"}, {"caller": "bob", "target": "sage"}], ids=str)
def test_a_walk_that_skips_hours_finds_the_calls_of_a_walk_along_all(tmp_path, seed, asked, monkeypatch):
    drawn = Drawn(tmp_path / "l.db", seed, monkeypatch if seed else None)
    reader = SqliteEntryReader(drawn.path)
    for _ in range(15):
        drawn.change_something()
    drawn.add(40)
    since = drawn.moments()[3]
    where = " AND ".join(f"{name} = :{name}" for name in asked)
    wanted = drawn.scan(f"SELECT sequence FROM entries WHERE at >= :since AND {where}", since=since, **asked)

    met: set[int] = set()
    page = reader.read_turns(TurnsAsked(limit=7, since=since, **asked))
    met |= page.met
    while page.next is not None:
        page = reader.read_turns(TurnsAsked(limit=7, since=since, before=page.next, **asked))
        met |= page.met

    assert met == {number for (number,) in wanted}


def test_an_hour_that_is_not_over_has_no_sums(tmp_path):
    drawn = Drawn(tmp_path / "l.db", 1)
    drawn.add(300)
    drawn.settle(1_000)

    with contextlib.closing(connect(drawn.path)) as database:
        settled = read_settled(database)

    assert (settled.until + 1) * HOUR > drawn.now - 60 >= settled.until * HOUR
    assert drawn.scan("SELECT max(hour) < :until FROM hours", until=settled.until) == [(1,)]
    assert drawn.scan("SELECT * FROM stale_hours") == []


async def test_a_router_makes_the_sums_of_a_ledger_in_the_background(tmp_path):
    now = time.time()
    rows = [make_entry(f"req_{number}", at=now - 600.0 * number) for number in range(60)]
    path = write_ledger(tmp_path / "l.db", *rows)
    before = SqliteEntryReader(path).read_sums(0.0)

    store = open_entries(path, failures := [])

    def count() -> int:
        with contextlib.closing(connect(path)) as database:
            return read_settled(database).until

    await until(lambda: count() == int((now - 60) // HOUR))
    await store.close()
    same(in_order(SqliteEntryReader(path).read_sums(0.0)), in_order(before))
    assert failures == []


def test_an_hour_of_many_rows_is_added_up_in_parts_and_read_once_it_is_whole(tmp_path, monkeypatch):
    drawn = Drawn(tmp_path / "l.db", 1, monkeypatch)
    drawn.add(200)
    untils = []
    while not untils or untils[-1] < int((drawn.now - 60) // HOUR):
        drawn.settle(1)
        untils += drawn.scan("SELECT until FROM settled")[0]
        found = sum(row.calls for row in SqliteEntryReader(drawn.path).read_sums(0.0))
        assert found == drawn.scan("SELECT count(*) FROM entries WHERE tier IS NOT NULL OR outcome != 'SERVED'")[0][0]

    assert any(until % 1 for until in untils), "in parts"
