"""Whatever looks back at a ledger: rows, turns, sessions and sums."""

import contextlib
import json
import random
import sqlite3
import time
from collections.abc import Callable

import msgspec
import pytest

from router.contract.caller import Caller
from router.contract.entry import Attempt, Pace
from router.contract.past import TurnsAsked
from router.contract.spending import Span
from router.contract.stores import StoreUnusable
from router.contract.words import Outcome, Tier, TurnKind
from router.past.rows import read_call
from router.past.savings import add_up
from router.past.turns import Turns
from router.past.worth import Redone
from router.stores.sqlite.files import connect
from router.stores.sqlite.lock import FileLock
from router.stores.sqlite.past import SqliteEntryReader, wait_for_writer
from router.stores.sqlite.schemas import LEDGER
from tests.router.past.test_worth import keep
from tests.tools.kept import ANN, make_entry
from tests.tools.ledgers import write_ledger

NOW = time.time()
EVER = Span(0, float("inf"))


def as_is(row):
    return row


LOOP = TurnKind.TOOL_LOOP
QUESTIONS: dict[str, Callable[[SqliteEntryReader], object]] = {
    "newest": lambda ledger: ledger.read_newest(0, 5),
    "sessions": lambda ledger: ledger.read_sessions(0, 5),
    "sums": lambda ledger: ledger.read_sums(0),
    "looks by day": lambda ledger: ledger.read_looks(0),
    "spent": lambda ledger: ledger.read_spent(EVER, EVER),
    "spending": lambda ledger: ledger.read_spending(EVER),
    "looks": lambda ledger: ledger.read_look_spending(EVER),
    "turn": lambda ledger: ledger.find_turn(None),
    "beginning": lambda ledger: ledger.find_beginning("req_1"),
    "undecided": lambda ledger: ledger.find_undecided("req_1"),
    "past calls": lambda ledger: ledger.read_past_calls(),
    "recent calls": lambda ledger: list(ledger.read_recent_sessions(5)),
    "history": lambda ledger: list(ledger.read_history()),
    "turns": lambda ledger: ledger.read_turns(TurnsAsked()).calls,
    "whole turn": lambda ledger: ledger.read_turn("req_1", None),
    "page of sessions": lambda ledger: ledger.read_session_page(TurnsAsked(limit=5)).sessions,
    "session": lambda ledger: ledger.read_session("s", None, 5),
    "series": lambda ledger: ledger.read_series(NOW, 60.0, 3, None),
    "own series": lambda ledger: ledger.read_series(NOW, 60.0, 3, "ann"),
}


@pytest.fixture
def write(tmp_path):
    """A reader of these entries."""
    return lambda *entries: SqliteEntryReader(write_ledger(tmp_path / "l.db", *entries))


def call(name: str, kind: TurnKind = TurnKind.ASK, tier: Tier | None = Tier.FAST, **more):
    return make_entry(name, turn_kind=kind, tier=tier, **{"at": NOW, "session": "s", **more})


MOVED = (call("1"), call("2", LOOP), call("3", LOOP, Tier.DEEP), call("4", LOOP, Tier.DEEP))


@pytest.mark.parametrize("ask", QUESTIONS.values(), ids=QUESTIONS)
def test_a_ledger_that_is_missing_or_broken_is_named_and_not_made(tmp_path, ask):
    with pytest.raises(StoreUnusable, match="none.db: there is no ledger yet"):
        ask(SqliteEntryReader(tmp_path / "none.db"))
    assert not (tmp_path / "none.db").exists()

    (tmp_path / "other.db").write_text("not a database" * 100)
    with pytest.raises(StoreUnusable, match="other.db: not a usable ledger"):
        ask(SqliteEntryReader(tmp_path / "other.db"))


def test_an_empty_ledger_answers_every_question_with_nothing(write):
    ledger = write()

    answers = {name: ask(ledger) for name, ask in QUESTIONS.items()}

    assert answers.pop("newest") == ([], {})
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
    assert sum(row.calls for row in ledger.read_sums(NOW - 10)) == 1


def test_a_session_is_summed_up_with_its_moves(write):
    ledger = write(*MOVED, call("5", tier=Tier.DEEP, cost_usd=0.5), call("6", session="t", at=NOW + 5))

    newest, session = ledger.read_sessions(0, 5)

    assert newest.session == "t"
    assert (session.turns, session.fast, session.deep, session.calls, session.moved_up) == (2, 1, 1, 5, 1)
    assert (session.cost_usd, session.unpriced, session.input_tokens) == (0.5, 4, 50)
    assert ledger.read_sessions(0, 1) == [newest]


def test_turns_that_move_up_are_those_of_the_one_fold(write):
    chance, turns, entries = random.Random(3), Turns(), []
    for number in range(300):
        kind, session = chance.choice((TurnKind.ASK, LOOP, LOOP)), chance.choice("ab")
        tier, decided = (chance.choice(list(Tier)) for _ in range(2))
        entries.append(call(str(number), kind, tier, session=session, decision=keep(decided)))
    ledger = write(*entries)

    shown = turns.replay_all(map(read_call, ledger.read_newest(0, 999)[0]))

    moved = sum(turn.has_moved_up for turn in shown)
    assert moved == sum(sums.moved_up for sums in ledger.read_sessions(0, 9)) > 10


def test_a_call_of_no_known_kind_is_no_turn(write):
    ledger = write(call("1", None))

    assert (ledger.read_sums(0)[0].turns, ledger.read_sessions(0, 1)[0].turns) == (0, 0)


def test_a_failed_call_is_unpriced_only_if_it_used_tokens(write):
    refused = call("1", outcome=Outcome.FAILED, input_tokens=None, output_tokens=None)
    ledger = write(refused, call("2", outcome=Outcome.FAILED, output_tokens=0))

    assert (
        ledger.read_sessions(0, 1)[0].unpriced,
        sum(row.unpriced for row in ledger.read_sums(0)),
    ) == (1, 1)


def test_sums_are_by_day_client_and_tier(write):
    ledger = write(*MOVED, call("5", client="aider"), call("6", at=NOW - 86_400 * 3),
        call("7", tier=None, outcome=Outcome.REFUSED), call("8", tier=None), call("9", outcome=Outcome.ABANDONED),
    )  # fmt: skip

    sums = ledger.read_sums(0)

    today = max(row.day for row in sums)
    assert {(row.client, row.tier): (row.turns, row.calls) for row in sums if row.day == today} == {
        ("aider", "fast"): (1, 1),
        ("codex", None): (0, 1),
        ("codex", "deep"): (0, 2),
        ("codex", "fast"): (2, 3),
    }
    assert [(row.tier, row.calls) for row in sums if row.day != today] == [("fast", 1)]
    assert sum(row.interrupted for row in sums) == 1
    assert sum(row.refused for row in sums) == 1


def test_what_callers_spent_is_summed_since_the_day_and_the_month_began(write):
    ledger = write(
        call("1", at=NOW - 100, cost_usd=1.0),
        call("2", at=NOW - 50, cost_usd=2.0),
        call("3", at=NOW - 10, cost_usd=None),
        call("4", caller=ANN, at=NOW - 200, cost_usd=8.0),
    )

    found = {
        sums.caller: (sums.today_usd, sums.month_usd, sums.last_at)
        for sums in ledger.read_spent(Span(NOW - 60, NOW + 60), Span(NOW - 150, NOW + 60))
    }

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

    found, (recent,) = list(ledger.read_history()), ledger.read_recent_sessions(9)

    assert [(one.line.id, one.prompt_text, one.should_be) for one in found] == [("1", "{}", None), ("2", None, None)]
    assert recent == [one._replace(prompt_text=None) for one in found]
    assert [(one.line.cost_usd, json.loads(one.decision)["decided_by"]) for one in found] == [
        (0.5, "estimate"),
        (None, "estimate"),
    ]


def test_no_more_rows_are_looked_at_than_asked_for(write):
    rows = [call(str(number), at=NOW + number, caller=(Caller("ann"), Caller("bob"))[number % 2]) for number in range(6)]
    ledger = write(*rows)

    assert [[one.line.id for one in session] for session in ledger.read_recent_sessions(4)] == [["2", "4"], ["3", "5"]]


def test_spending_is_summed_by_caller_between_two_moments_to_the_last_unit(write):
    rows = [call(f"a{number}", caller=Caller("ada"), cost_usd=0.1) for number in range(10)]
    rows += [call("b", caller=Caller("bob"), cost_usd=0.00000001), call("c", caller=Caller("bob"), cost_usd=None)]
    rows += [call("old", caller=Caller("ada"), cost_usd=5.0, at=NOW - 100)]
    rows += [call(f"ahead {at}", caller=Caller("ada"), cost_usd=5.0, at=at) for at in (NOW + 50, NOW + 40 * 86_400)]

    assert write(*rows).read_spending(Span(NOW - 50, NOW + 50)) == {"ada": 100_000_000, "bob": 1}


def test_looks_of_all_callers_are_summed_between_two_moments_whatever_else_is_in_their_rows(write):
    def look(name: str, written: str | None, **more):
        return call(name, **{"combined": "deep looked it over: fine", "decision": written, **more})

    cent = '{"look": {"cost_usd": 0.01}}'
    rows = [look("a", cent, caller=Caller("ada")), look("b", cent, caller=Caller("bob")), look("old", cent, at=NOW - 100)]
    rows += [look("none", '{"look": {}}'), look("broken", "{"), look("absent", None), look("odd", '{"look": {"cost_usd": -9}}')]
    rows += [call("plain", cost_usd=5.0), look("ahead", cent, at=NOW + 50)]

    assert write(*rows).read_look_spending(Span(NOW - 50, NOW + 50)) == 2_000_000


def test_what_a_caller_spent_today_leaves_out_a_row_that_is_dated_ahead(write):
    ledger = write(*(call(str(at), caller=Caller("ada"), cost_usd=0.1, at=at) for at in (NOW, NOW + 40 * 86_400)))

    (sums,) = ledger.read_spent(Span(NOW - 60, NOW + 60), Span(NOW - 90, NOW + 90))

    assert (sums.today_usd, sums.month_usd) == (0.1, 0.1)


def test_one_callers_past_holds_nothing_of_another(write):
    own, other = {"caller": ANN, "decision": keep(Tier.FAST)}, {"caller": Caller("bob"), "decision": keep(Tier.FAST)}
    moved = (
        call("b2", **other),
        call("b3", LOOP, Tier.DEEP, **other | {"decision": keep("deep")}),
        call("b4", decision=None, caller=Caller("bob")),
    )
    ledger = write(call("a1", **own), *moved)

    (session,), sums = ledger.read_sessions(0, 5, ANN.name), ledger.read_sums(0, ANN.name)

    assert (session.caller, session.calls, session.moved_up) == (ANN.name, 1, 0)
    assert ledger.read_sessions(0, 5, "bob")[0].moved_up == 1
    assert [row.caller for row in sums] == [ANN.name]
    assert (ledger.find_turn(None).id, ledger.find_turn(None, ANN.name).id) == ("b2", "a1")
    assert ledger.find_turn("b2", ANN.name) is ledger.find_undecided("b4", ANN.name) is None
    assert ledger.find_undecided("b4", "bob") is not None


def test_a_schema_that_is_not_migrated_can_be_read_and_is_not_changed(tmp_path):
    path = write_ledger(tmp_path / "l.db", *MOVED, migrations=LEDGER.up_to(LEDGER.oldest))

    assert {call.line.key for call in SqliteEntryReader(path).read_newest(0, 5)[0]} == {None}
    assert SqliteEntryReader(path).find_turn(None) is not None
    assert len(list(SqliteEntryReader(path).read_history())) == len(MOVED)

    assert add_up(SqliteEntryReader(path), 0.0).worth.redone == {Redone.MOVED_UP: 1}
    with contextlib.closing(sqlite3.connect(path)) as database:
        assert database.execute("PRAGMA user_version").fetchone() == (LEDGER.oldest,)


def test_text_that_is_no_utf_8_is_read_all_the_same(tmp_path):
    path = write_ledger(tmp_path / "l.db", call("1"))
    with contextlib.closing(connect(path)) as database:
        database.execute("UPDATE entries SET because = CAST(x'ff41' AS TEXT)")

    assert SqliteEntryReader(path).read_newest(0, 5)[0][0].line.because == "\ufffdA"


def test_only_a_router_at_work_is_waited_for(tmp_path, monkeypatch):
    slept = []
    monkeypatch.setattr(time, "sleep", slept.append)

    (tmp_path / "l.db-wal").write_bytes(b"")  # a reader or a killed router left it
    wait_for_writer(tmp_path / "l.db")
    assert slept == []

    lock = FileLock(tmp_path / "l.db")
    wait_for_writer(tmp_path / "l.db")
    assert slept == [0.3]

    lock.release()
    wait_for_writer(tmp_path / "l.db")
    assert slept == [0.3]


def test_in_a_ledger_that_names_keys_what_was_spent_is_told_by_key(tmp_path):
    path = write_ledger(tmp_path / "l.db", call("1", cost_usd=1.0), call("2", cost_usd=2.0), call("3", cost_usd=4.0))
    with contextlib.closing(connect(path)) as database:
        with contextlib.suppress(sqlite3.OperationalError):  # it is there already
            database.execute("ALTER TABLE entries ADD COLUMN key TEXT")
        database.execute("UPDATE entries SET key = 'aaaaaaaa' WHERE id < '3'")

    spent = {sums.key: sums.today_usd for sums in SqliteEntryReader(path).read_spent(EVER, EVER)}

    assert spent == {"aaaaaaaa": 3.0, None: 4.0}
