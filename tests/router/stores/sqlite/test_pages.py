"""Questions of the live page on SQLite: which index each uses, and that none takes longer than it may."""

import contextlib
import re
import sqlite3
import time

import pytest

from router.contract.past import TurnsAsked
from router.contract.stores import AskedTooMuch
from router.contract.words import Outcome, Tier, TurnKind
from router.stores.sqlite import hours, pages, past, series, turn_worth
from router.stores.sqlite.files import open_ledger
from router.stores.sqlite.pages import find_filters, write_walk
from router.stores.sqlite.past import SqliteEntryReader
from tests.tools.kept import ANN, BOB, make_entry
from tests.tools.ledgers import write_ledger

NOW = time.time()
WHOLE = f"hours WHERE {hours.Whole(1, 500, frozenset()).where('hours')}"


@pytest.fixture
def ledger(tmp_path):
    return write_ledger(tmp_path / "l.db", *(make_entry(f"req_{number}", at=float(number)) for number in range(500)))


def plan_of(path, query: str) -> str:
    """How SQLite would go about a query."""
    with open_ledger(path) as database:
        hours.divide(database, 0.0)
        values = dict.fromkeys(named) if (named := re.findall(r":(\w+)", query)) else [None] * query.count("?")
        return " | ".join(row[3] for row in database.execute(f"EXPLAIN QUERY PLAN {query}", values))


@pytest.mark.parametrize(
    ("filters", "index"),
    [
        ({}, "entries_at (at>?)"),
        ({"tier": "deep", "client": "codex", "outcome": "SERVED"}, "entries_at (at>?)"),
        ({"caller": "ann", "tier": "deep"}, "entries_at (at>?)"),
        ({"target": "spark"}, "entries_at (at>?)"),
        ({"outcome": "FAILED", "caller": "ann", "target": "spark"}, "entries_outcome (outcome=? AND at>?)"),
        ({"session": "s", "outcome": "FAILED", "caller": "ann"}, "entries_session (session=?)"),
    ],
    ids=str,
)
@pytest.mark.parametrize("has_place", [False, True], ids=["newest", "older"])
def test_a_walk_is_led_by_an_index_and_sorts_nothing_but_one_session(ledger, filters, index, has_place):
    query, _ = write_walk(find_filters(TurnsAsked(**filters)), (), has_place=has_place)

    plan = plan_of(ledger, query).replace("(at>? AND at<?)", "(at>?)").replace("at>? AND at<?", "at>?")

    assert index in plan
    assert ("USE TEMP B-TREE FOR ORDER BY" in plan) is ("session" in filters)


@pytest.mark.parametrize(
    ("query", "index"),
    [
        (pages._BEFORE, "INDEX entries_session (session=? AND rowid<?)"),
        (pages._IS_NEWER, "INDEX entries_session (session=?)"),
        (pages._LAST_CALLER, "INDEX entries_session (session=?)"),
        (pages._SESSION, "INDEX entries_session (session=?)"),
        (pages._OLDER, "COVERING INDEX entries_session (session=?)"),
        (turn_worth._NEW, "SEARCH entries USING INTEGER PRIMARY KEY (rowid>? AND rowid<?)"),
        (turn_worth._OF_SESSION, "INDEX entries_session (session=? AND rowid>? AND rowid<?)"),
        (turn_worth._BEFORE, "INDEX turn_worth_session (session=? AND rowid<?)"),
        (turn_worth._CUT, "INDEX turn_worth_ends (ends_at>?)"),
        (turn_worth._CUT, "INDEX turn_worth_at (at>? AND at<?)"),
        (past._NEWEST, "COVERING INDEX entries_at (at>?)"),
        (pages._NAMES, "INDEX entries_at (at>?)"),
        (past._SUMS.format(day="'x'", sums=WHOLE), "SEARCH hours USING INDEX hours_hour (hour>? AND hour<?)"),
        (past._SPENDING.format(sums=WHOLE), "SEARCH hours USING INDEX hours_hour (hour>? AND hour<?)"),
        (past._SPENDING.format(sums=f"({hours.LIVE_BY_HOUR}) WHERE 1"), "SEARCH entries USING INTEGER PRIMARY KEY (rowid=?)"),
        (series._COUNTS.format(sums=WHOLE), "SEARCH hours USING COVERING INDEX hours_hour (hour>? AND hour<?)"),
        (
            f"SELECT calls FROM hour_calls WHERE {hours.Whole(1, 5, frozenset()).where('hour_calls')}",
            "hour_calls_hour (hour>? AND",
        ),
    ],
)
def test_a_question_reads_the_rows_of_its_index_alone(ledger, query, index):
    assert index in plan_of(ledger, query)


def test_the_last_turn_is_still_found_by_going_back_from_the_newest_row(ledger):
    from router.stores.sqlite.past import _LAST

    assert plan_of(ledger, _LAST) == "SCAN entries"


def test_a_question_that_takes_too_long_is_given_up(ledger, monkeypatch):
    monkeypatch.setattr(pages, "WITHIN_SECONDS", -1.0)
    with contextlib.closing(sqlite3.connect(ledger)) as database:
        database.execute("UPDATE entries SET session = 's', decision = NULL")
        database.commit()

    with pytest.raises(AskedTooMuch):
        SqliteEntryReader(ledger).read_session("s", "local", 1_000)


def test_of_a_session_that_has_no_end_the_newest_calls_are_summed_up(ledger, monkeypatch):
    monkeypatch.setattr(pages, "_SUMMED_ROWS", 100)
    with contextlib.closing(sqlite3.connect(ledger)) as database:
        database.execute("UPDATE entries SET session = CASE WHEN sequence % 50 THEN 'long' ELSE 'short' END")
        database.commit()

    listed = {
        sums.session: (sums.calls, sums.is_partial)
        for sums in SqliteEntryReader(ledger).read_session_page(TurnsAsked(limit=10))[0]
    }

    assert listed == {"long": (100, True), "short": (10, False)}


def test_a_walk_that_takes_too_long_ends_with_the_number_to_go_on_from(ledger, monkeypatch):
    monkeypatch.setattr(pages, "_WALK_SECONDS", -1.0)
    reader, asked, found, pages_read = SqliteEntryReader(ledger), TurnsAsked(client="none"), [], 0

    while pages_read < 1_000:
        page = reader.read_turns(asked)
        found, pages_read, asked = found + page.calls, pages_read + 1, asked._replace(before=page.next)
        if page.next is None:
            break

    assert found == []
    assert 1 < pages_read < 1_000


@pytest.fixture
def write(tmp_path):
    """A reader of these entries."""
    return lambda *entries: SqliteEntryReader(write_ledger(tmp_path / "l.db", *entries))


def numbered(number: int, tier: Tier = Tier.FAST, **more):
    return make_entry(f"req_{number}", **{"at": NOW - 100 + number, "tier": tier, "session": "s", **more})


def test_a_row_says_who_decided_what_was_typed_and_whether_its_session_hopped(write):
    side = {"turn_kind": TurnKind.SIDE}
    ledger = write(
        numbered(1, prompt_text="{}"),
        numbered(2, Tier.DEEP),
        numbered(3, **side),
        numbered(4, Tier.DEEP),
        numbered(5),
        numbered(6, caller=BOB),
    )

    rows = ledger.read_session("s", "local", 9).rows

    assert [row.hop for row in rows] == [None, "up", None, None, "down"]
    assert [row.number for row in rows] == [1, 2, 3, 4, 5]
    assert (rows[0].decided_by, rows[0].words, rows[1].words) == ("estimate", "typed for req_1", None)
    assert [row.hop for row in ledger.read_session("s", None, 9).rows] == [None]


def test_the_newest_calls_of_a_long_session_know_the_tier_before_them(write):
    ledger = write(numbered(1), numbered(2), numbered(3, Tier.DEEP), numbered(4, Tier.DEEP))

    found = ledger.read_session("s", "local", 2)

    assert ([row.line.id for row in found.rows], [row.hop for row in found.rows]) == (["req_3", "req_4"], ["up", None])
    assert (found.left_out, found.sums.calls, found.sums.fast, found.sums.deep) == (2, 4, 2, 2)


def test_sessions_are_listed_once_by_their_newest_call_over_all_pages(write):
    names = ("a", "b", "a", "c", "b", "d", "a")
    ledger = write(*(numbered(number, session=name) for number, name in enumerate(names)), numbered(9, session=None))

    first = ledger.read_session_page(TurnsAsked(limit=2))
    second = ledger.read_session_page(TurnsAsked(limit=2, before=first.next))
    third = ledger.read_session_page(TurnsAsked(limit=2, before=second.next))

    pages = [[sums.session for sums in page.sessions] for page in (first, second, third)]
    assert pages == [["a", "d"], ["b", "c"], []]
    assert (first.sessions[0].calls, third.next) == (3, None)


def test_a_caller_is_answered_from_its_own_rows_alone(write):
    ledger = write(
        numbered(1, caller=ANN), numbered(2, caller=BOB, target="sage", ttft_ms=9.0), numbered(3, caller=BOB, session="t")
    )

    assert [sums.session for sums in ledger.read_session_page(TurnsAsked(limit=9, caller="ann")).sessions] == ["s"]
    assert ledger.read_session("t", "ann", 9) is None
    assert [row.line.caller for row in ledger.read_session("s", "ann", 9).rows] == ["ann"]
    assert ledger.read_series(NOW, 1_000.0, 1, "ann").keys() == {"spark"}
    assert ledger.read_series(NOW, 1_000.0, 1, None).keys() == {"spark", "sage"}


@pytest.mark.parametrize("caller", [None, "local"], ids=["all", "one caller"])
def test_a_series_counts_and_halves_the_calls_of_each_step(write, caller):
    begins = NOW - 300
    times = [begins + 1, begins + 2, begins + 3, begins + 201]
    waits = [10.0, 30.0, 20.0, None]
    outcomes = [Outcome.SERVED, Outcome.FAILED, Outcome.CUT_SHORT, Outcome.SERVED]
    ledger = write(
        *(
            numbered(number, at=at, ttft_ms=wait, outcome=outcome, tokens_per_second=wait)
            for number, (at, wait, outcome) in enumerate(zip(times, waits, outcomes, strict=True))
        )
    )

    series = ledger.read_series(NOW, 100.0, 3, caller)["spark"]

    assert (series.tier, series.calls, series.errors) == ("fast", [3, 0, 1], [2, 0, 0])
    assert series.ttft_ms == series.tokens_per_second == [20.0, None, None]
    assert series.ttft_p95_ms == [30.0, None, None]
