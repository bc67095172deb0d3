"""Pages of whole turns, and one turn with all of its calls."""

import time

import pytest

from router.contract.past import TurnsAsked, TurnsPage
from router.contract.words import Outcome, Tier, TurnKind
from router.stores.sqlite.past import SqliteEntryReader
from tests.tools.kept import ANN, BOB, make_entry
from tests.tools.ledgers import write_ledger

NOW = time.time()


@pytest.fixture
def write(tmp_path):
    """A reader of these entries."""
    return lambda *entries: SqliteEntryReader(write_ledger(tmp_path / "l.db", *entries))


def numbered(number: int, tier: Tier = Tier.FAST, **more):
    return make_entry(f"req_{number}", **{"at": NOW - 100 + number, "tier": tier, "session": "s", **more})


def met(page: TurnsPage) -> list[str]:
    """The matching calls of a page, newest first."""
    found = sorted(page.calls, key=lambda found: (found.call.line.at, found.number), reverse=True)
    return [one.call.line.id for one in found if one.number in page.met]


def test_pages_of_turns_follow_each_other_newest_first_to_the_end(write):
    ledger = write(*(numbered(number) for number in range(7)))

    pages, before = [], None
    for _ in range(3):
        page = ledger.read_turns(TurnsAsked(limit=3, before=before))
        pages.append(met(page))
        before = page.next

    assert pages == [["req_6", "req_5", "req_4"], ["req_3", "req_2", "req_1"], ["req_0"]]
    assert before is None


def test_a_request_that_took_long_is_where_it_arrived_and_no_page_shows_it_twice(write):
    ledger = write(numbered(1), numbered(3), numbered(2), numbered(4))

    first = ledger.read_turns(TurnsAsked(limit=2))
    second = ledger.read_turns(TurnsAsked(limit=2, before=first.next))

    assert [*met(first), *met(second)] == ["req_4", "req_3", "req_2", "req_1"]


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
        numbered(0, client="aider"),
        numbered(1, session="t", outcome=Outcome.FAILED, caller=ANN),
        numbered(2, session="t", target="sage"),
        numbered(3, Tier.DEEP),
        numbered(4, caller=ANN),
    )

    page = ledger.read_turns(TurnsAsked(**filters))

    assert (met(page), page.next) == ([f"req_{number}" for number in found], None)


LOOP = {"turn_kind": TurnKind.TOOL_LOOP}


def found_ids(page: TurnsPage) -> list[str]:
    return [found.call.line.id for found in page.calls]


def test_a_call_brings_all_of_its_turn_from_its_ask_to_its_last_call(write):
    ledger = write(
        numbered(1), numbered(2, **LOOP), numbered(3), numbered(4, caller=BOB), numbered(5, Tier.DEEP, **LOOP), numbered(6)
    )

    assert found_ids(ledger.read_turns(TurnsAsked(tier="deep"))) == ["req_3", "req_5"]
    assert [found.is_match for found in ledger.read_turns(TurnsAsked(tier="deep")).calls] == [False, True]
    assert [found.call.line.id for found in ledger.read_turn("req_2", None)] == ["req_1", "req_2"]
    assert ledger.read_turn("req_2", "bob") == []


def test_an_ask_that_nobody_served_is_read_with_the_ask_that_was_sent_again(write):
    failed = {"outcome": Outcome.FAILED, "output_tokens": None}
    ledger = write(numbered(0), numbered(1, **failed), numbered(2, **failed), numbered(3), numbered(4, **LOOP), numbered(5))

    for name in ("req_1", "req_2", "req_3", "req_4"):
        assert [found.call.line.id for found in ledger.read_turn(name, None)] == ["req_1", "req_2", "req_3", "req_4"]


def test_a_page_counts_turns_and_not_their_calls(write):
    calls = [numbered(number, **(LOOP if number % 10 else {})) for number in range(100)]
    ledger = write(*calls)

    page = ledger.read_turns(TurnsAsked(limit=3))

    assert found_ids(page) == [f"req_{number}" for number in range(70, 100)]


def test_calls_of_a_session_s_subagent_and_calls_without_a_session_are_found_whole(write):
    sub = {"turn_kind": TurnKind.SUBAGENT}
    ledger = write(numbered(1), numbered(2, **sub), numbered(3, **LOOP), numbered(4, **sub), numbered(5, session=None))

    assert [found.call.line.id for found in ledger.read_turn("req_4", None)] == ["req_2", "req_4"]
    assert [found.call.line.id for found in ledger.read_turn("req_5", None)] == ["req_5"]
