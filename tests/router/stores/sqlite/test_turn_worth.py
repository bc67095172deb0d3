"""Rows and sums of turns: figures read with them are those of a fold of all calls, whatever happened to the rows."""

import os
import time
from collections import Counter
from contextlib import closing

import pytest

from router.contract.caller import Caller
from router.contract.past import SpentCall
from router.contract.words import TurnKind
from router.past.savings import add_up_groups
from router.past.worth import Account, Redone, Worth
from router.stores.sqlite.files import connect, open_ledger
from router.stores.sqlite.forget import forget_caller
from router.stores.sqlite.marks import read_misjudged
from router.stores.sqlite.past import SqliteEntryReader
from tests.tools.drawn_ledger import Drawn
from tests.tools.kept import make_entry, open_entries
from tests.tools.ledgers import write_ledger
from tests.tools.waiting import until

CALLS = """
    SELECT caller, session, turn_kind, tier, outcome, duration_ms, cost_usd,
        cost_usd IS NULL AND (outcome = 'SERVED' OR output_tokens IS NOT NULL), decision, id, score, at, client, target, list_usd
    FROM entries WHERE at >= ? ORDER BY sequence
"""


def scan(path, since: float, **of: str | None) -> dict:
    """The figures of a fold of all calls, as they are without any sums."""
    turns = []
    with open_ledger(path) as database:
        account = Account(read_misjudged(database), turns.append, 1 << 60)
        for row in database.execute(CALLS, (since,)):
            call = SpentCall(*row)
            account.add(call._replace(decision=None) if call.kind == TurnKind.TOOL_LOOP and call.tier != "deep" else call)
    account.close()
    turns = [turn for turn in turns if all(value in (None, getattr(turn.ask, name)) for name, value in of.items())]
    groups: dict[str, dict[str, Worth]] = {"total": {"": Worth()}, **{name: {} for name in NAMED}}
    for turn in turns:
        turn.add_to(groups["total"][""])
        for group, name_of in NAMED.items():
            turn.add_to(groups[group].setdefault(name_of(turn.ask), Worth()))
    kinds = Counter(
        (turn.idea, turn.ask.target or "", turn.deep_target or None, turn.sign)
        for turn in turns
        if turn.idea and turn.is_persons and turn.is_on_fast and turn.is_chosen
    )
    redone = [turn for turn in turns if turn.is_on_fast and turn.sign is not None]
    saving = [turn for turn in turns if turn.is_on_fast and turn.saved()[0] > 0]
    return {
        **groups.pop("total")[""].as_json(),
        **{group: {name: worth.as_json() for name, worth in names.items()} for group, names in groups.items()},
        "kinds": kinds,
        "redone_turns": [turn.ask.id for turn in sorted(redone, key=lambda turn: -turn.ask.at)[:50]],
        "saving_turns": [turn.ask.id for turn in sorted(saving, key=lambda turn: -turn.saved()[0])[:50]],
    }


NAMED = {
    "by_day": lambda ask: time.strftime("%Y-%m-%d", time.localtime(ask.at)),
    "by_caller": lambda ask: ask.caller,
    "by_client": lambda ask: ask.client or "unknown",
    "by_target": lambda ask: ask.target or "none",
}


def read_kinds(shown: list) -> Counter:
    found: Counter = Counter()
    for kind in shown:
        key = (kind["kind"], kind["target"], kind["deep_target"])
        found[*key, None] += kind["accepted"]
        found.update({(*key, sign): kind[sign] for sign in Redone if kind[sign]})
    return +found


def same(found, wanted) -> None:
    if isinstance(wanted, dict):
        assert found.keys() == wanted.keys()
        for name, value in wanted.items():
            same(found[name], value)
    else:
        assert found == (pytest.approx(wanted, rel=1e-9, abs=1e-7) if isinstance(wanted, float) else wanted)


@pytest.fixture(params=["UTC", "Asia/Kolkata", "America/New_York"])
def zone(request, monkeypatch):
    monkeypatch.setenv("TZ", request.param)
    time.tzset()
    yield request.param
    os.environ.pop("TZ")
    monkeypatch.undo()
    time.tzset()


@pytest.mark.parametrize("seed", range(2))
def test_savings_are_those_of_a_fold_of_all_calls_after_whatever_happened(tmp_path, zone, seed, monkeypatch):
    drawn = Drawn(tmp_path / "l.db", seed, monkeypatch if seed % 2 else None)
    reader = SqliteEntryReader(drawn.path)
    drawn.add(600)
    drawn.settle(900)
    summed = 0

    for _ in range(12):
        drawn.change_something()
        summed = max(summed, drawn.scan("SELECT count(*) FROM summed_spans WHERE ends - first > 1")[0][0])

        for since in drawn.moments():
            for of in ({"caller": None}, {"caller": "ada", "target": "flint"}, {"caller": None, "client": "codex"}):
                wanted = scan(drawn.path, since, **of)
                found = add_up_groups(reader, since, **of)
                kinds = read_kinds(found.pop("kinds"))
                assert kinds == wanted.pop("kinds")
                for name in ("redone_turns", "saving_turns"):
                    assert [turn["request"] for turn in found.pop(name)] == wanted.pop(name)
                for name in ("since", "from", "complete"):
                    del found[name]
                same(found, wanted)
    assert summed > 1 or zone == "Asia/Kolkata", "there were sums of days"


async def test_a_router_folds_a_ledger_in_the_background(tmp_path):
    now = time.time()
    rows = [make_entry(f"req_{number}", at=now - 600.0 * (60 - number), session=f"s{number // 9}") for number in range(60)]
    path = write_ledger(tmp_path / "l.db", *rows)
    before = add_up_groups(SqliteEntryReader(path), 0.0)

    store = open_entries(path, failures := [])
    await until(lambda: has_folded(path, len(rows)))
    await store.close()

    same(add_up_groups(SqliteEntryReader(path), 0.0), before)
    assert failures == []


def has_folded(path, rows: int) -> bool:
    with closing(connect(path)) as database:
        return database.execute("SELECT sequence FROM folded").fetchone() == (rows,)


def test_text_that_is_no_utf_8_and_times_that_no_clock_gives_do_not_stop_the_fold(tmp_path):
    drawn = Drawn(tmp_path / "l.db", 1)
    drawn.add(30)
    drawn.run("UPDATE entries SET target = CAST(x'ff41' AS TEXT), session = CAST(x'ff' AS TEXT) WHERE sequence = 3")
    drawn.run("UPDATE entries SET at = 'noon' WHERE sequence = 4")
    drawn.run("UPDATE entries SET at = 9e999 WHERE sequence = 5")

    drawn.settle(100)

    assert drawn.scan("SELECT sequence FROM folded") == [(30,)]
    assert drawn.scan("SELECT count(*) FROM stale_turns") == [(0,)]
    assert drawn.scan("SELECT count(*) FROM turn_worth WHERE sequence IN (4, 5)") == [(0,)]
    assert add_up_groups(SqliteEntryReader(drawn.path), 0.0)["turns"] > 0


def test_nothing_of_a_forgotten_caller_is_left(tmp_path):
    drawn = Drawn(tmp_path / "l.db", 1)
    drawn.add(200)
    drawn.settle(900)

    forget_caller(drawn.path, Caller("ada"))

    for table in ("turn_worth", "span_worth", "stale_turns"):
        assert drawn.scan(f"SELECT count(*) FROM {table} WHERE caller = 'ada'") == [(0,)]
