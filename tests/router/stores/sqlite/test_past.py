"""The ledger for a person who looks back."""

import contextlib
import random
import sqlite3
import time

import pytest

from router.contract.words import Outcome, Tier, TurnKind
from router.screen.against import TierSums
from router.stores.sqlite.files import StoreUnusable, connect
from router.stores.sqlite.past import read_newest, read_sessions, read_sums, wait_for_writer
from tests.router.screen.test_against import keep
from tests.tools.kept import make_entry
from tests.tools.ledgers import write_ledger

NOW = time.time()


def call(name: str, kind: TurnKind = TurnKind.ASK, tier: Tier | None = Tier.FAST, **more):
    return make_entry(name, turn_kind=kind, tier=tier, **{"at": NOW, "session": "s", **more})


LOOP = TurnKind.TOOL_LOOP
MOVED = (call("1"), call("2", LOOP), call("3", LOOP, Tier.DEEP), call("4", LOOP, Tier.DEEP))


@pytest.mark.parametrize(
    "read", [lambda path: read_newest(path, 0, 5), lambda path: read_sessions(path, 0, 5), lambda path: read_sums(path, 0)]
)
def test_a_ledger_that_is_not_there_or_no_ledger_is_said(read, tmp_path):
    with pytest.raises(StoreUnusable, match="no ledger yet"):
        read(tmp_path / "none.db")
    assert not (tmp_path / "none.db").exists()

    (tmp_path / "other.db").write_text("not a database" * 100)
    with pytest.raises(StoreUnusable, match="not a usable ledger"):
        read(tmp_path / "other.db")


def test_the_newest_turns_come_with_all_their_calls(tmp_path):
    path = write_ledger(tmp_path / "l.db", call("1"), call("2", LOOP), call("3"), call("4", LOOP), call("5", LOOP))

    calls, before = read_newest(path, 0, 1)

    assert [found.line.id for found in calls] == ["3", "4", "5"]
    assert before == {("local", "s"): 1}


def test_calls_of_other_sessions_in_between_belong_to_their_own_turns(tmp_path):
    path = write_ledger(
        tmp_path / "l.db", call("1"), call("2", session="t"), call("3", LOOP), call("4", LOOP, session="t"), call("5", LOOP)
    )

    calls, _ = read_newest(path, 0, 2)

    assert [found.line.id for found in calls] == ["1", "2", "3", "4", "5"]


def test_the_tier_that_was_decided_on_is_told(tmp_path):
    path = write_ledger(
        tmp_path / "l.db", call("1", tier=Tier.DEEP, decision=keep()), call("2", decision="broken", session="t")
    )

    assert [found.decided for found in read_newest(path, 0, 5)[0]] == ["fast", None]


def test_what_is_older_is_left_out(tmp_path):
    path = write_ledger(tmp_path / "l.db", call("1", at=NOW - 1_000), call("2"))

    assert [found.line.id for found in read_newest(path, NOW - 10, 5)[0]] == ["2"]
    assert read_sessions(path, NOW - 10, 5)[0].calls == 1
    assert sum(row.calls for row in read_sums(path, NOW - 10).calls) == 1


def test_a_session_is_summed_up_with_its_moves(tmp_path):
    path = write_ledger(tmp_path / "l.db", *MOVED, call("5", tier=Tier.DEEP, cost_usd=0.5), call("6", session="t", at=NOW + 5))

    newest, session = read_sessions(path, 0, 5)

    assert newest.session == "t"
    assert (session.turns, session.fast, session.deep, session.calls, session.moved_up) == (2, 1, 1, 5, 1)
    assert (session.cost_usd, session.unpriced, session.input_tokens) == (0.5, 4, 50)
    assert read_sessions(path, 0, 1) == [newest]


def test_a_failed_call_is_unpriced_only_if_it_used_tokens(tmp_path):
    refused = call("1", outcome=Outcome.FAILED, input_tokens=None, output_tokens=None)
    path = write_ledger(tmp_path / "l.db", refused, call("2", outcome=Outcome.FAILED, output_tokens=0))

    assert (read_sessions(path, 0, 1)[0].unpriced, sum(row.unpriced for row in read_sums(path, 0).calls)) == (1, 1)


def test_sums_are_by_day_client_and_tier(tmp_path):
    path = write_ledger(
        tmp_path / "l.db", *MOVED, call("5", client="aider"), call("6", at=NOW - 86_400 * 3),
        call("7", tier=None, outcome=Outcome.REFUSED), call("8", tier=None), call("9", outcome=Outcome.ABANDONED),
    )  # fmt: skip

    sums = read_sums(path, 0)

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


def test_the_sums_of_sql_are_those_of_python(tmp_path):
    chance = random.Random(7)
    entries = []
    python = {tier: TierSums() for tier in Tier}
    for number in range(200):
        tier, score, cost = chance.choice(list(Tier)), chance.random(), chance.choice([None, chance.random()])
        figures = [chance.uniform(0.1, 50) for _ in range(2)] + [chance.random() for _ in range(2)]
        decision = keep(*figures, has_price=chance.random() < 0.8)
        entries.append(call(str(number), tier=tier, score=score, cost_usd=cost, decision=decision))
        python[tier].expect(decision, score, has_cost=cost is not None)

    for row in read_sums(write_ledger(tmp_path / "l.db", *entries), 0).expected:
        mine = python[Tier(row.tier)]
        names = ("fast_seconds", "deep_seconds", "scores", "scored_deep_seconds", "fast_usd", "deep_usd", "scored_deep_usd")
        assert [getattr(row, name) for name in names] == pytest.approx([getattr(mine, name) for name in names])
        assert (row.turns, row.priced) == (mine.turns, mine.priced)


def test_a_row_of_an_older_tandem_is_expected_by_its_estimates(tmp_path):
    old = '{"decided_by": "override", "estimates": {"fast": {"seconds": 5.0, "redo_seconds": 2.0}, "deep": {"seconds": 9.0}}}'
    path = write_ledger(tmp_path / "l.db", call("1", decision=old), call("2", decision="[1"), version=1)

    sums = read_sums(path, 0)

    (row,) = sums.expected
    assert (row.turns, row.fast_seconds, row.deep_seconds, sums.asked_for) == (1, 3.0, 9.0, 1)


def test_turns_whose_tier_was_asked_for_are_counted_where_nothing_was_expected_of_them_too(tmp_path):
    asked = '{"v":3,"tier":"deep","decided_by":"override"}'
    path = write_ledger(
        tmp_path / "l.db", *(call(str(number), decision=asked) for number in range(3)), call("4", decision="{}")
    )

    assert read_sums(path, 0).asked_for == 3


def test_every_turn_whose_tier_was_asked_for_counts_however_many_there_are(tmp_path):
    asked = [call(str(number), decision='{"v":2,"tier":"fast","decided_by":"override"}') for number in range(10_100)]
    failed = call("failed", outcome=Outcome.FAILED, decision=asked[0].decision)
    typed = call("typed", decision='{"v":2,"decided_by":"estimate","person_text":"\\"decided_by\\":\\"override\\""}')
    path = write_ledger(tmp_path / "l.db", *asked, failed, typed)

    assert read_sums(path, 0).asked_for == 10_100


def test_a_row_of_an_older_tandem_keeps_its_money(tmp_path):
    fast, deep = '{"seconds": 5.0, "redo_seconds": 2.0, "money_usd": 0.09}', '{"seconds": 9.0, "money_usd": 0.1}'
    old = f'{{"decided_by": "estimate", "estimates": {{"fast": {fast}, "deep": {deep}}}}}'
    path = write_ledger(tmp_path / "l.db", call("1", decision=old, score=0.5, cost_usd=0.04), version=1)

    (row,) = read_sums(path, 0).expected

    assert row.priced == 1
    assert (row.fast_usd, row.deep_usd, row.scored_deep_usd) == pytest.approx((0.04, 0.1, 0.05))


@pytest.mark.parametrize("version", [1, 2, 3])
def test_every_schema_can_be_read_and_none_is_changed(tmp_path, version):
    path = write_ledger(tmp_path / "l.db", *MOVED, version=version)

    assert read_sums(path, 0).moved_up == 1
    assert read_sums(path, 0).marked_wrong == 0
    with contextlib.closing(sqlite3.connect(path)) as database:
        assert database.execute("PRAGMA user_version").fetchone() == (version,)


def test_marks_of_wrong_turns_are_counted(tmp_path):
    path = write_ledger(tmp_path / "l.db", call("1"))
    with contextlib.closing(connect(path)) as database:
        database.execute("INSERT INTO misjudged VALUES ('1', ?, 'deep')", (NOW,))

    assert read_sums(path, 0).marked_wrong == 1


def test_text_that_is_no_utf_8_is_read_all_the_same(tmp_path):
    path = write_ledger(tmp_path / "l.db", call("1"))
    with contextlib.closing(connect(path)) as database:
        database.execute("UPDATE entries SET because = CAST(x'ff41' AS TEXT)")

    assert read_newest(path, 0, 5)[0][0].line.because == "\ufffdA"


def test_only_a_router_at_work_is_waited_for(tmp_path, monkeypatch):
    slept = []
    monkeypatch.setattr(time, "sleep", slept.append)

    wait_for_writer(tmp_path / "l.db")
    assert slept == []

    (tmp_path / "l.db-wal").write_bytes(b"")
    wait_for_writer(tmp_path / "l.db")
    assert slept == [0.3]
