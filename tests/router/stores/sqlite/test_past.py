"""The ledger for a person who looks back."""

import contextlib
import sqlite3
import time

import pytest

from router.contract.words import Outcome, Tier, TurnKind
from router.stores.sqlite.files import connect
from router.stores.sqlite.past import SqliteEntryReader, wait_for_writer
from tests.tools.kept import make_entry
from tests.tools.ledgers import write_ledger

NOW = time.time()


def call(name: str, kind: TurnKind = TurnKind.ASK, tier: Tier | None = Tier.FAST, **more):
    return make_entry(name, turn_kind=kind, tier=tier, **{"at": NOW, "session": "s", **more})


LOOP = TurnKind.TOOL_LOOP
MOVED = (call("1"), call("2", LOOP), call("3", LOOP, Tier.DEEP), call("4", LOOP, Tier.DEEP))


def test_a_row_of_an_older_tandem_is_expected_by_its_estimates(tmp_path):
    old = '{"decided_by": "override", "estimates": {"fast": {"seconds": 5.0, "redo_seconds": 2.0}, "deep": {"seconds": 9.0}}}'
    path = write_ledger(tmp_path / "l.db", call("1", decision=old), call("2", decision="[1"), version=1)

    sums = SqliteEntryReader(path).read_sums(0)

    (row,) = sums.expected
    assert (row.turns, row.fast_seconds, row.deep_seconds, sums.asked_for) == (1, 3.0, 9.0, 1)


def test_every_turn_whose_tier_was_asked_for_counts_however_many_there_are(tmp_path):
    asked = [call(str(number), decision='{"v":2,"tier":"fast","decided_by":"override"}') for number in range(10_100)]
    failed = call("failed", outcome=Outcome.FAILED, decision=asked[0].decision)
    typed = call("typed", decision='{"v":2,"decided_by":"estimate","person_text":"\\"decided_by\\":\\"override\\""}')
    path = write_ledger(tmp_path / "l.db", *asked, failed, typed)

    assert SqliteEntryReader(path).read_sums(0).asked_for == 10_100


def test_a_row_of_an_older_tandem_keeps_its_money(tmp_path):
    fast, deep = '{"seconds": 5.0, "redo_seconds": 2.0, "money_usd": 0.09}', '{"seconds": 9.0, "money_usd": 0.1}'
    old = f'{{"decided_by": "estimate", "estimates": {{"fast": {fast}, "deep": {deep}}}}}'
    path = write_ledger(tmp_path / "l.db", call("1", decision=old, score=0.5, cost_usd=0.04), version=1)

    (row,) = SqliteEntryReader(path).read_sums(0).expected

    assert row.priced == 1
    assert (row.fast_usd, row.deep_usd, row.scored_deep_usd) == pytest.approx((0.04, 0.1, 0.05))


@pytest.mark.parametrize("version", [1, 2, 3, 4])
def test_every_schema_can_be_read_and_none_is_changed(tmp_path, version):
    path = write_ledger(tmp_path / "l.db", *MOVED, version=version)

    assert {call.line.key for call in SqliteEntryReader(path).read_newest(0, 5)[0]} == {None}
    assert SqliteEntryReader(path).find_turn(None) is not None
    assert len(list(SqliteEntryReader(path).read_history())) == len(MOVED)

    assert SqliteEntryReader(path).read_sums(0).moved_up == 1
    assert SqliteEntryReader(path).read_sums(0).marked_wrong == 0
    with contextlib.closing(sqlite3.connect(path)) as database:
        assert database.execute("PRAGMA user_version").fetchone() == (version,)


def test_text_that_is_no_utf_8_is_read_all_the_same(tmp_path):
    path = write_ledger(tmp_path / "l.db", call("1"))
    with contextlib.closing(connect(path)) as database:
        database.execute("UPDATE entries SET because = CAST(x'ff41' AS TEXT)")

    assert SqliteEntryReader(path).read_newest(0, 5)[0][0].line.because == "\ufffdA"


def test_only_a_router_at_work_is_waited_for(tmp_path, monkeypatch):
    slept = []
    monkeypatch.setattr(time, "sleep", slept.append)

    wait_for_writer(tmp_path / "l.db")
    assert slept == []

    (tmp_path / "l.db-wal").write_bytes(b"")
    wait_for_writer(tmp_path / "l.db")
    assert slept == [0.3]


def test_in_a_ledger_that_names_keys_what_was_spent_is_told_by_key(tmp_path):
    path = write_ledger(tmp_path / "l.db", call("1", cost_usd=1.0), call("2", cost_usd=2.0), call("3", cost_usd=4.0))
    with contextlib.closing(connect(path)) as database:
        with contextlib.suppress(sqlite3.OperationalError):  # it is there already
            database.execute("ALTER TABLE entries ADD COLUMN key TEXT")
        database.execute("UPDATE entries SET key = 'aaaaaaaa' WHERE id < '3'")

    spent = {sums.key: sums.today_usd for sums in SqliteEntryReader(path).read_spent(0, 0)}

    assert spent == {"aaaaaaaa": 3.0, None: 4.0}
