"""What every reader of the ledger must answer, whatever keeps the entries: nobody edits this to let a newcomer in."""

import json
import random
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import msgspec
import pytest

from router.contract.caller import Caller
from router.contract.entry import Attempt, Pace
from router.contract.past import TurnsAsked
from router.contract.stores import EntryReader, StoreUnusable
from router.contract.words import Outcome, Tier, TurnKind
from router.past.sums import TierSums
from router.stores.sqlite.past import SqliteEntryReader
from tests.router.past.test_sums import expect, keep
from tests.tools.kept import ANN, BOB, make_call, make_entry
from tests.tools.ledgers import write_ledger

NOW = time.time()
LOOP = TurnKind.TOOL_LOOP


class Kind(NamedTuple):
    """One implementation: how it is opened, and how a test fills what it reads."""

    name: str
    open: Callable[[Path], EntryReader]
    fill: Callable[..., object]


KINDS = [Kind("sqlite", SqliteEntryReader, write_ledger)]
QUESTIONS: dict[str, Callable[[EntryReader], object]] = {
    "newest": lambda ledger: ledger.read_newest(0, 5),
    "sessions": lambda ledger: ledger.read_sessions(0, 5),
    "sums": lambda ledger: ledger.read_sums(0),
    "spent": lambda ledger: ledger.read_spent(0, 0),
    "spending": lambda ledger: ledger.read_spending(0),
    "turn": lambda ledger: ledger.find_turn(None),
    "beginning": lambda ledger: ledger.find_beginning("req_1"),
    "undecided": lambda ledger: ledger.find_undecided("req_1"),
    "past calls": lambda ledger: ledger.read_past_calls(),
    "recent calls": lambda ledger: ledger.read_recent_calls(0, 5),
    "history": lambda ledger: list(ledger.read_history()),
    "turns": lambda ledger: ledger.read_turns(TurnsAsked()).rows,
    "page of sessions": lambda ledger: ledger.read_session_page(5, None, None).sessions,
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

    def fill(*entries) -> EntryReader:
        kind.fill(tmp_path / "l.db", *entries)
        return kind.open(tmp_path / "l.db")

    return fill


def call(name: str, kind: TurnKind = TurnKind.ASK, tier: Tier | None = Tier.FAST, **more):
    return make_entry(name, turn_kind=kind, tier=tier, **{"at": NOW, "session": "s", **more})


MOVED = (call("1"), call("2", LOOP), call("3", LOOP, Tier.DEEP), call("4", LOOP, Tier.DEEP))


@pytest.mark.parametrize("ask", QUESTIONS.values(), ids=QUESTIONS)
def test_a_ledger_that_is_missing_or_broken_is_named_and_not_made(kind, tmp_path, ask):
    with pytest.raises(StoreUnusable, match="none.db: there is no ledger yet"):
        ask(kind.open(tmp_path / "none.db"))
    assert not (tmp_path / "none.db").exists()

    (tmp_path / "other.db").write_text("not a database" * 100)
    with pytest.raises(StoreUnusable, match="other.db: not a usable ledger"):
        ask(kind.open(tmp_path / "other.db"))


def test_an_empty_ledger_answers_every_question_with_nothing(write):
    ledger = write()

    answers = {name: ask(ledger) for name, ask in QUESTIONS.items()}

    assert not answers.pop("sums").calls
    assert answers.pop("newest") == ([], {})
    assert answers.pop("recent calls") == ([], 0, True)
    assert not any(answers.values())


def test_the_newest_turns_come_with_all_their_calls(write):
    ledger = write(call("1"), call("2", LOOP), call("3"), call("4", LOOP), call("5", LOOP))

    calls, before = ledger.read_newest(0, 1)

    assert [found.line.id for found in calls] == ["3", "4", "5"]
    assert before == {("local", "s"): 1}


def test_calls_of_other_sessions_in_between_belong_to_their_own_turns(write):
    ledger = write(call("1"), call("2", session="t"), call("3", LOOP), call("4", LOOP, session="t"), call("5", LOOP))

    calls, _ = ledger.read_newest(0, 2)

    assert [found.line.id for found in calls] == ["1", "2", "3", "4", "5"]


def test_what_is_older_is_left_out(write):
    ledger = write(call("1", at=NOW - 1_000), call("2"))

    assert [found.line.id for found in ledger.read_newest(NOW - 10, 5)[0]] == ["2"]
    assert ledger.read_sessions(NOW - 10, 5)[0].calls == 1
    assert sum(row.calls for row in ledger.read_sums(NOW - 10).calls) == 1


def test_a_session_is_summed_up_with_its_moves(write):
    ledger = write(*MOVED, call("5", tier=Tier.DEEP, cost_usd=0.5), call("6", session="t", at=NOW + 5))

    newest, session = ledger.read_sessions(0, 5)

    assert newest.session == "t"
    assert (session.turns, session.fast, session.deep, session.calls, session.moved_up) == (2, 1, 1, 5, 1)
    assert (session.cost_usd, session.unpriced, session.input_tokens) == (0.5, 4, 50)
    assert ledger.read_sessions(0, 1) == [newest]


def test_a_failed_call_is_unpriced_only_if_it_used_tokens(write):
    refused = call("1", outcome=Outcome.FAILED, input_tokens=None, output_tokens=None)
    ledger = write(refused, call("2", outcome=Outcome.FAILED, output_tokens=0))

    assert (
        ledger.read_sessions(0, 1)[0].unpriced,
        sum(row.unpriced for row in ledger.read_sums(0).calls),
    ) == (1, 1)


def test_sums_are_by_day_client_and_tier(write):
    ledger = write(*MOVED, call("5", client="aider"), call("6", at=NOW - 86_400 * 3),
        call("7", tier=None, outcome=Outcome.REFUSED), call("8", tier=None), call("9", outcome=Outcome.ABANDONED),
    )  # fmt: skip

    sums = ledger.read_sums(0)

    today = max(row.day for row in sums.calls)
    assert {(row.client, row.tier): (row.turns, row.calls) for row in sums.calls if row.day == today} == {
        ("aider", "fast"): (1, 1),
        ("codex", None): (0, 1),
        ("codex", "deep"): (0, 2),
        ("codex", "fast"): (2, 3),
    }
    assert [(row.tier, row.calls) for row in sums.calls if row.day != today] == [("fast", 1)]
    assert sums.moved_up == 1
    assert sum(row.interrupted for row in sums.calls) == 1
    assert sum(row.refused for row in sums.calls) == 1


def test_what_was_expected_is_summed_up_as_the_screen_does(write):
    chance = random.Random(7)
    entries = []
    python = {tier: TierSums() for tier in Tier}
    for number in range(200):
        tier, score, cost = chance.choice(list(Tier)), chance.random(), chance.choice([None, chance.random()])
        figures = [chance.uniform(0.1, 50) for _ in range(2)] + [chance.random() for _ in range(2)]
        names = ("fast_seconds", "deep_seconds", "fast_usd", "deep_usd")
        expected = {**dict(zip(names, figures, strict=True)), "has_price": chance.random() < 0.8}
        entries.append(call(str(number), tier=tier, score=score, cost_usd=cost, decision=keep(**expected)))
        fast, deep = expect(**expected)
        python[tier].begin(*make_call(score=score, cost_usd=cost, fast=fast, deep=deep)[:2])

    for row in write(*entries).read_sums(0).expected:
        mine = python[Tier(row.tier)]
        names = ("fast_seconds", "deep_seconds", "scores", "scored_deep_seconds", "fast_usd", "deep_usd", "scored_deep_usd")
        assert [getattr(row, name) for name in names] == pytest.approx([getattr(mine, name) for name in names])
        assert (row.turns, row.priced) == (mine.turns, mine.priced)


def test_turns_whose_tier_was_asked_for_are_counted_where_nothing_was_expected_of_them_too(write):
    asked = '{"v":3,"tier":"deep","decided_by":"override"}'
    ledger = write(*(call(str(number), decision=asked) for number in range(3)), call("4", decision="{}"))

    assert ledger.read_sums(0).asked_for == 3


def test_what_callers_spent_is_summed_since_the_day_and_the_month_began(write):
    ledger = write(
        call("1", at=NOW - 100, cost_usd=1.0),
        call("2", at=NOW - 50, cost_usd=2.0),
        call("3", at=NOW - 10, cost_usd=None),
        call("4", caller=ANN, at=NOW - 200, cost_usd=8.0),
    )

    found = {sums.caller: (sums.today_usd, sums.month_usd, sums.last_at) for sums in ledger.read_spent(NOW - 60, NOW - 150)}

    assert found == {"local": (2.0, 3.0, NOW - 10), ANN.name: (None, None, NOW - 200)}


def test_the_last_turn_is_the_last_that_a_person_began(write):
    ledger = write(
        call("1"), call("2", TurnKind.FOLLOW_UP, Tier.DEEP, target="sage"), call("3", LOOP), call("4", decision=None)
    )

    turn = ledger.find_turn(None)

    assert (turn.id, turn.at, turn.tier, turn.target, turn.because) == ("2", NOW, Tier.DEEP, "sage", "a quick edit")
    assert ledger.find_turn("3").id == "3"
    assert ledger.find_turn("4") is ledger.find_turn("none") is None


def test_a_call_belongs_to_the_turn_that_its_callers_session_began_last(write):
    ledger = write(call("1"), call("2", caller=ANN), call("3", session="t"), call("4", LOOP), call("5", TurnKind.SIDE))

    assert ledger.find_beginning("4").id == ledger.find_beginning("1").id == "1"
    assert ledger.find_beginning("5") is None


def test_a_request_without_a_decision_has_its_reason(write):
    ledger = write(call("1"), call("2", decision=None, because=None, error="model_not_found"), call("3", decision=None))

    assert [ledger.find_undecided(name) for name in "123"] == [None, "model_not_found", "a quick edit"]


def test_calls_that_show_a_pace_come_oldest_first(write):
    paced = Attempt("spark", 200, None, 1.0, pace=Pace("m", 0.2, 640.0))
    written = msgspec.json.encode([paced]).decode()

    found = write(call("1", at=NOW - 5, attempts=written), call("2"), call("3", attempts=written)).read_past_calls()

    assert [(past.at, past.attempt, past.pace) for past in found] == [(NOW - 5, paced, paced.pace), (NOW, paced, paced.pace)]


def test_history_and_recent_calls_are_those_of_persons_turns(write):
    unread = (call("4", TurnKind.SIDE), call("6", session=None), call("7", decision=None))
    ledger = write(call("1", prompt_text="{}", cost_usd=0.5), call("2", LOOP, outcome=Outcome.FAILED), *unread)

    found, recent = list(ledger.read_history()), ledger.read_recent_calls(0, 9)

    assert [(one.line.id, one.prompt_text, one.should_be, one.places) for one in found] == [
        ("1", "{}", None, b""),
        ("2", None, None, b""),
    ]
    assert recent == ([one._replace(prompt_text=None) for one in found], 0, True)
    assert [(one.line.cost_usd, json.loads(one.decision)["decided_by"]) for one in found] == [
        (0.5, "estimate"),
        (None, "estimate"),
    ]


def test_no_more_rows_are_looked_at_than_asked_for_and_it_is_said_how_far_back_they_go(write):
    rows = [call(str(number), at=NOW + number, caller=(Caller("ann"), Caller("bob"))[number % 2]) for number in range(6)]
    ledger = write(*rows)

    bounded, whole, later = (ledger.read_recent_calls(*ask) for ask in ((NOW, 4), (NOW, 6), (NOW + 3, 4)))

    assert ([one.line.id for one in bounded.calls], bounded.begins_at, bounded.is_complete) == (
        ["2", "3", "4", "5"],
        NOW + 1,
        False,
    )
    assert (len(whole.calls), whole.begins_at, whole.is_complete) == (6, NOW, True)
    assert ([one.line.id for one in later.calls], later.begins_at, later.is_complete) == (["3", "4", "5"], NOW + 3, True)
    assert [one.line.id for one in ledger.read_recent_calls(NOW, 4, "bob").calls] == ["3", "5"]


def test_spending_is_summed_by_caller_since_a_time_to_the_last_unit(write):
    rows = [call(f"a{number}", caller=Caller("ada"), cost_usd=0.1) for number in range(10)]
    rows += [call("b", caller=Caller("bob"), cost_usd=0.00000001), call("c", caller=Caller("bob"), cost_usd=None)]
    rows += [call("old", caller=Caller("ada"), cost_usd=5.0, at=NOW - 100)]

    assert write(*rows).read_spending(NOW - 50) == {"ada": 100_000_000, "bob": 1}


def test_one_callers_past_holds_nothing_of_another(write):
    own, other = {"caller": ANN, "decision": keep()}, {"caller": Caller("bob"), "decision": keep()}
    moved = (call("b2", **other), call("b3", LOOP, Tier.DEEP, **other), call("b4", decision=None, caller=Caller("bob")))
    ledger = write(call("a1", **own), *moved)

    (session,), sums = ledger.read_sessions(0, 5, ANN.name), ledger.read_sums(0, ANN.name)

    assert (session.caller, session.calls, session.moved_up) == (ANN.name, 1, 0)
    assert ledger.read_sessions(0, 5, "bob")[0].moved_up == 1
    assert ([row.caller for row in sums.calls], sums.moved_up, len(sums.expected)) == ([ANN.name], 0, 1)
    assert (ledger.find_turn(None).id, ledger.find_turn(None, ANN.name).id) == ("b2", "a1")
    assert ledger.find_turn("b2", ANN.name) is ledger.find_undecided("b4", ANN.name) is None
    assert ledger.find_undecided("b4", "bob") is not None


def numbered(number: int, tier: Tier = Tier.FAST, **more):
    return make_entry(f"req_{number}", **{"at": NOW - 100 + number, "tier": tier, "session": "s", **more})


def test_pages_of_turns_follow_each_other_newest_first_to_the_end(write):
    ledger = write(*(numbered(number) for number in range(7)))

    pages, before = [], None
    for _ in range(3):
        page = ledger.read_turns(TurnsAsked(limit=3, before=before))
        pages.append([row.line.id for row in page.rows])
        before = page.next

    assert pages == [["req_6", "req_5", "req_4"], ["req_3", "req_2", "req_1"], ["req_0"]]
    assert before is None


def test_a_request_that_took_long_is_where_it_arrived_and_no_page_shows_it_twice(write):
    ledger = write(numbered(1), numbered(3), numbered(2), numbered(4))

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
        numbered(0, client="aider"),
        numbered(1, session="t", outcome=Outcome.FAILED, caller=ANN),
        numbered(2, session="t", target="sage"),
        numbered(3, Tier.DEEP),
        numbered(4, caller=ANN),
    )

    page = ledger.read_turns(TurnsAsked(**filters))

    assert ([row.line.id for row in page.rows], page.next) == ([f"req_{number}" for number in found], None)


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

    rows = ledger.read_turns(TurnsAsked()).rows[::-1]

    assert [row.hop for row in rows] == [None, "up", None, None, "down", None]
    assert [row.number for row in rows] == [1, 2, 3, 4, 5, 6]
    assert (rows[0].decided_by, rows[0].words, rows[1].words) == ("estimate", "typed for req_1", None)
    assert [row.hop for row in ledger.read_session("s", None, 9).rows] == [None]
    assert [row.hop for row in ledger.read_session("s", "local", 9).rows] == [None, "up", None, None, "down"]


def test_the_newest_calls_of_a_long_session_know_the_tier_before_them(write):
    ledger = write(numbered(1), numbered(2), numbered(3, Tier.DEEP), numbered(4, Tier.DEEP))

    found = ledger.read_session("s", "local", 2)

    assert ([row.line.id for row in found.rows], [row.hop for row in found.rows]) == (["req_3", "req_4"], ["up", None])
    assert (found.left_out, found.sums.calls, found.sums.fast, found.sums.deep) == (2, 4, 2, 2)


def test_sessions_are_listed_once_by_their_newest_call_over_all_pages(write):
    names = ("a", "b", "a", "c", "b", "d", "a")
    ledger = write(*(numbered(number, session=name) for number, name in enumerate(names)), numbered(9, session=None))

    first = ledger.read_session_page(2, None, None)
    second = ledger.read_session_page(2, first.next, None)
    third = ledger.read_session_page(2, second.next, None)

    pages = [[sums.session for sums in page.sessions] for page in (first, second, third)]
    assert pages == [["a", "d"], ["b", "c"], []]
    assert (first.sessions[0].calls, third.next) == (3, None)


def test_a_caller_is_answered_from_its_own_rows_alone(write):
    ledger = write(
        numbered(1, caller=ANN), numbered(2, caller=BOB, target="sage", ttft_ms=9.0), numbered(3, caller=BOB, session="t")
    )

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
            numbered(number, at=at, ttft_ms=wait, outcome=outcome, tokens_per_second=wait)
            for number, (at, wait, outcome) in enumerate(zip(times, waits, outcomes, strict=True))
        )
    )

    series = ledger.read_series(NOW, 100.0, 3, caller)["spark"]

    assert (series.tier, series.calls, series.errors) == ("fast", [3, 0, 1], [2, 0, 0])
    assert series.ttft_ms == series.tokens_per_second == [20.0, None, None]
    assert series.ttft_p95_ms == [30.0, None, None]
