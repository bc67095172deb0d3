"""What every reader for the live page must answer, whatever keeps the entries: nobody edits this to let a newcomer in."""

import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

from router.contract.past import TurnsAsked
from router.contract.stores import PageReader, StoreUnusable
from router.contract.words import Outcome, Tier, TurnKind
from router.stores.sqlite.pages import SqlitePageReader
from tests.tools.kept import ANN, BOB, make_entry
from tests.tools.ledgers import write_ledger

NOW = time.time()


class Kind(NamedTuple):
    """One implementation: how it is opened, and how a test fills what it reads."""

    name: str
    open: Callable[[Path], PageReader]
    fill: Callable[..., object]


KINDS = [Kind("sqlite", SqlitePageReader, write_ledger)]
QUESTIONS: dict[str, Callable[[PageReader], object]] = {
    "turns": lambda ledger: ledger.read_turns(TurnsAsked()).rows,
    "sessions": lambda ledger: ledger.read_session_page(5, None, None).sessions,
    "session": lambda ledger: ledger.read_session("s", None, 5),
    "series": lambda ledger: ledger.read_series(NOW, 60.0, 3, None),
    "own series": lambda ledger: ledger.read_series(NOW, 60.0, 3, "ann"),
}


@pytest.fixture(params=KINDS, ids=lambda kind: kind.name)
def kind(request):
    return request.param


@pytest.fixture
def write(kind, tmp_path):
    """A reader of these entries."""

    def fill(*entries) -> PageReader:
        kind.fill(tmp_path / "l.db", *entries)
        return kind.open(tmp_path / "l.db")

    return fill


def call(number: int, tier: Tier = Tier.FAST, **more):
    return make_entry(f"req_{number}", **{"at": NOW - 100 + number, "tier": tier, "session": "s", **more})


@pytest.mark.parametrize("ask", QUESTIONS.values(), ids=QUESTIONS)
def test_a_ledger_that_is_missing_is_named_and_an_empty_one_answers_with_nothing(kind, write, tmp_path, ask):
    with pytest.raises(StoreUnusable, match="there is no ledger yet"):
        ask(kind.open(tmp_path / "none.db"))

    assert not ask(write())


def test_pages_of_turns_follow_each_other_newest_first_to_the_end(write):
    ledger = write(*(call(number) for number in range(7)))

    pages, before = [], None
    for _ in range(3):
        page = ledger.read_turns(TurnsAsked(limit=3, before=before))
        pages.append([row.line.id for row in page.rows])
        before = page.next

    assert pages == [["req_6", "req_5", "req_4"], ["req_3", "req_2", "req_1"], ["req_0"]]
    assert before is None


def test_a_request_that_took_long_is_where_it_arrived_and_no_page_shows_it_twice(write):
    ledger = write(call(1), call(3), call(2), call(4))

    first = ledger.read_turns(TurnsAsked(limit=2))
    second = ledger.read_turns(TurnsAsked(limit=2, before=first.next))

    assert [row.line.id for row in (*first.rows, *second.rows)] == ["req_4", "req_3", "req_2", "req_1"]


@pytest.mark.parametrize(
    ("filters", "found"),
    [
        ({"tier": "deep"}, [3]),
        ({"target": "sage"}, [2]),
        ({"outcome": "FAILED"}, [1]),
        ({"outcome": "SERVED"}, [4, 3, 2, 0]),
        ({"client": "aider"}, [0]),
        ({"session": "t"}, [2, 1]),
        ({"caller": "ann"}, [4, 1]),
        ({"caller": "ann", "session": "t", "outcome": "FAILED", "tier": "fast"}, [1]),
        ({"since": NOW - 97.5}, [4, 3]),
        ({"client": "nobody"}, []),
    ],
    ids=["tier", "target", "failed", "served", "client", "session", "caller", "all at once", "since", "nothing"],
)
def test_turns_are_filtered(write, filters, found):
    ledger = write(
        call(0, client="aider"),
        call(1, session="t", outcome=Outcome.FAILED, caller=ANN),
        call(2, session="t", target="sage"),
        call(3, Tier.DEEP),
        call(4, caller=ANN),
    )

    page = ledger.read_turns(TurnsAsked(**filters))

    assert ([row.line.id for row in page.rows], page.next) == ([f"req_{number}" for number in found], None)


def test_a_row_says_who_decided_what_was_typed_and_whether_its_session_hopped(write):
    side = {"turn_kind": TurnKind.SIDE}
    ledger = write(
        call(1, prompt_text="{}"), call(2, Tier.DEEP), call(3, **side), call(4, Tier.DEEP), call(5), call(6, caller=BOB)
    )

    rows = ledger.read_turns(TurnsAsked()).rows[::-1]

    assert [row.hop for row in rows] == [None, "up", None, None, "down", None]
    assert [row.number for row in rows] == [1, 2, 3, 4, 5, 6]
    assert (rows[0].decided_by, rows[0].words, rows[1].words) == ("estimate", "typed for req_1", None)
    assert [row.hop for row in ledger.read_session("s", None, 9).rows] == [None]
    assert [row.hop for row in ledger.read_session("s", "local", 9).rows] == [None, "up", None, None, "down"]


def test_the_newest_calls_of_a_long_session_know_the_tier_before_them(write):
    ledger = write(call(1), call(2), call(3, Tier.DEEP), call(4, Tier.DEEP))

    found = ledger.read_session("s", "local", 2)

    assert ([row.line.id for row in found.rows], [row.hop for row in found.rows]) == (["req_3", "req_4"], ["up", None])
    assert (found.left_out, found.sums.calls, found.sums.fast, found.sums.deep) == (2, 4, 2, 2)


def test_sessions_are_listed_once_by_their_newest_call_over_all_pages(write):
    names = ("a", "b", "a", "c", "b", "d", "a")
    ledger = write(*(call(number, session=name) for number, name in enumerate(names)), call(9, session=None))

    first = ledger.read_session_page(2, None, None)
    second = ledger.read_session_page(2, first.next, None)
    third = ledger.read_session_page(2, second.next, None)

    pages = [[sums.session for sums in page.sessions] for page in (first, second, third)]
    assert pages == [["a", "d"], ["b", "c"], []]
    assert (first.sessions[0].calls, third.next) == (3, None)


def test_a_caller_is_answered_from_its_own_rows_alone(write):
    ledger = write(call(1, caller=ANN), call(2, caller=BOB, target="sage", ttft_ms=9.0), call(3, caller=BOB, session="t"))

    assert [sums.session for sums in ledger.read_session_page(9, None, "ann").sessions] == ["s"]
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
            call(number, at=at, ttft_ms=wait, outcome=outcome, tokens_per_second=wait)
            for number, (at, wait, outcome) in enumerate(zip(times, waits, outcomes, strict=True))
        )
    )

    series = ledger.read_series(NOW, 100.0, 3, caller)["spark"]

    assert (series.tier, series.calls, series.errors) == ("fast", [3, 0, 1], [2, 0, 0])
    assert series.ttft_ms == series.tokens_per_second == [20.0, None, None]
    assert series.ttft_p95_ms == [30.0, None, None]
