"""Questions of the live page on SQLite: which index each uses, and that none takes longer than it may."""

import contextlib
import re
import sqlite3

import pytest

from router.contract.past import TurnsAsked
from router.contract.stores import AskedTooMuch
from router.stores.sqlite import pages, past
from router.stores.sqlite.files import open_ledger
from router.stores.sqlite.pages import find_filters, write_walk
from router.stores.sqlite.past import SqliteEntryReader
from tests.tools.kept import make_entry
from tests.tools.ledgers import write_ledger


@pytest.fixture
def ledger(tmp_path):
    return write_ledger(tmp_path / "l.db", *(make_entry(f"req_{number}", at=float(number)) for number in range(500)))


def plan_of(path, query: str) -> str:
    """How SQLite would go about a query."""
    with open_ledger(path) as database:
        values = dict.fromkeys(named) if (named := re.findall(r":(\w+)", query)) else [None] * query.count("?")
        return " | ".join(row[3] for row in database.execute(f"EXPLAIN QUERY PLAN {query}", values))


@pytest.mark.parametrize(
    ("filters", "index"),
    [
        ({}, "entries_at (at>?)"),
        ({"tier": "deep", "client": "codex", "outcome": "SERVED"}, "entries_at (at>?)"),
        ({"caller": "ann", "tier": "deep"}, "entries_caller (caller=? AND at>?)"),
        ({"target": "spark"}, "entries_target (target=? AND at>?)"),
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
        (pages._NEXT_TARGET, "COVERING INDEX entries_target (target>?)"),
        (pages._TIER, "INDEX entries_target (target=?)"),
        (pages._COUNTS, "COVERING INDEX entries_target (target=? AND at>? AND at<?)"),
        (pages._VALUES, "COVERING INDEX entries_target (target=? AND at>? AND at<?)"),
        (pages._OLDER, "COVERING INDEX entries_session (session=?)"),
        (pages._OWN_COUNTS, "COVERING INDEX entries_caller (caller=? AND at>? AND at<?)"),
        (pages._OWN_VALUES, "COVERING INDEX entries_caller (caller=? AND at>? AND at<?)"),
        (past._LOOK, "INDEX entries_at (at>?)"),
        (past._NEWEST, "COVERING INDEX entries_at (at>?)"),
        (pages._NAMES, "INDEX entries_at (at>?)"),
        (past._SPENDING, "INDEX entries_at (at>?)"),
    ],
)
def test_a_question_reads_the_rows_of_its_index_alone(ledger, query, index):
    assert index in plan_of(ledger, query)


def test_the_last_turn_is_still_found_by_going_back_from_the_newest_row(ledger):
    from router.stores.sqlite.turns import _LAST

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
        sums.session: (sums.calls, sums.is_partial) for sums in SqliteEntryReader(ledger).read_session_page(10, None, None)[0]
    }

    assert listed == {"long": (100, True), "short": (10, False)}


def test_a_walk_that_takes_too_long_ends_with_the_number_to_go_on_from(ledger, monkeypatch):
    monkeypatch.setattr(pages, "_WALK_SECONDS", -1.0)
    reader, asked, found, pages_read = SqliteEntryReader(ledger), TurnsAsked(client="none"), [], 0

    while pages_read < 1_000:
        page = reader.read_turns(asked)
        found, pages_read, asked = found + page.rows, pages_read + 1, asked._replace(before=page.next)
        if page.next is None:
            break

    assert found == []
    assert 1 < pages_read < 1_000
