"""Savings out of a ledger: a history worked out by hand, groups, spans, and rows of every kind."""

import json
import sqlite3
import time
from contextlib import closing

import pytest

from router.contract.caller import Caller
from router.contract.words import Outcome, Tier, TurnKind
from router.past.savings import add_up, add_up_groups, read_worth
from router.stores.sqlite.marks import judge_turn
from router.stores.sqlite.past import SqliteEntryReader
from tests.tools.kept import make_entry
from tests.tools.ledgers import write_ledger

LOOP = TurnKind.TOOL_LOOP
BEGAN = time.time() - 3_600.0


def keep(tier: str, fast=(2.0, 0.01), deep=(20.0, 0.05), *, decided_by="estimate", **more) -> str:
    """A decision for a tier, with what it expected of both: seconds and USD, whatever the score."""
    sides = {
        name: [name, 0.0, seconds, 0.0, usd, 0.0, True, [1.0, 1.0]] for name, (seconds, usd) in (("fast", fast), ("deep", deep))
    }
    return json.dumps({"v": 3, "tier": tier, "decided_by": decided_by, **more, **sides})


def row(name: str, tier: str, after: float, seconds: float, usd: float | None, **more):
    """A call of the session that the first letter of its name stands for."""
    target = "spark" if tier == Tier.FAST else "oracle"
    own = {"session": name[0], "at": BEGAN + after, "target": target, "decision": keep(tier)}
    return make_entry(name, **{**own, "tier": tier, "duration_ms": seconds * 1000, "cost_usd": usd, **more})


HISTORY = (
    # a: right on fast; wrong on fast, as the next words say; then a long turn on deep.
    row("a1", "fast", 0, 2.0, 0.004),
    row("a2", "fast", 10, 3.5, 0.006),
    row("a3", "deep", 20, 30.0, 0.4, decision=keep("deep", asked_again=True)),
    # b: moved up by the router and marked: one turn, of which fast had two calls. Then a turn on deep.
    row("b1", "fast", 0, 1.0, 0.001),
    row("b2", "fast", 2, 1.25, 0.002, turn_kind=LOOP),
    row("b3", "deep", 4, 8.0, 0.09, decision=keep("deep"), turn_kind=LOOP),
    row("b4", "deep", 20, 12.0, 0.02),
    # c: the person asks for deep after two turns on fast. Then back to fast.
    row("c1", "fast", 0, 0.75, 0.001),
    row("c2", "fast", 5, 0.5, 0.001),
    row("c3", "deep", 600, 40.0, 0.3, decision=keep("deep", decided_by="override")),
    row("c4", "fast", 645, 4.0, 0.007, decision=keep("fast", (3.0, 0.01), (25.0, 0.05))),
    # d: an answer that was broken off, one that spilled to deep, a refusal, and one of unknown cost.
    row("d1", "fast", 0, 1.5, 0.002, decision=keep("fast", (1.0, 0.01), (16.0, 0.08)), outcome=Outcome.ABANDONED),
    row("d2", "deep", 5, 9.0, 0.05, decision=keep("fast")),
    row("d3", "fast", 6, 0.001, None, outcome=Outcome.REFUSED, output_tokens=None),
    row("d4", "fast", 7, 1.0, None),
)
SPENT_SECONDS = 2.0 + 3.5 + 30.0 + 1.0 + 1.25 + 8.0 + 12.0 + 0.75 + 0.5 + 40.0 + 4.0 + 1.5 + 9.0 + 1.0
SPENT_USD = 0.004 + 0.006 + 0.4 + 0.001 + 0.002 + 0.09 + 0.02 + 0.001 + 0.001 + 0.3 + 0.007 + 0.002 + 0.05
# Right on fast: a1, c1, c4, d1, d4. Redone: a2, b1 with its second call, c2.
SAVED_SECONDS = (2.0 + 0.75 + 1.0) * (20 / 2 - 1) + 4.0 * (25 / 3 - 1) + 1.5 * (16 / 1 - 1) - (3.5 + 1.0 + 1.25 + 0.5)
SAVED_USD = (0.004 + 0.001 + 0.007) * (5 - 1) + 0.002 * (8 - 1) - (0.006 + 0.001 + 0.002 + 0.001)


@pytest.fixture
def ledger(tmp_path):
    path = write_ledger(tmp_path / "test.db", *HISTORY)
    reader = SqliteEntryReader(path)
    judge_turn(path, reader.find_turn("b1"), Tier.DEEP)
    return reader


def test_a_known_history_is_worth_what_was_worked_out_by_hand(ledger):
    found = add_up(ledger, 0.0).as_json()

    assert found == {
        "since": 0.0,
        "from": 0.0,
        "complete": True,
        "turns": 12,
        "fast_turns": 8,
        "deep_turns": 4,
        "calls": 14,
        "compared_calls": 9,
        "failed": 0,
        "spent": {"seconds": round(SPENT_SECONDS, 3), "usd": round(SPENT_USD, 8)},
        "all_deep": {"seconds": round(SPENT_SECONDS + SAVED_SECONDS, 3), "usd": round(SPENT_USD + SAVED_USD, 8)},
        "saved": {"seconds": round(SAVED_SECONDS, 3), "usd": round(SAVED_USD, 8)},
        "redone": {
            "turns": 3,
            "seconds": 6.25,
            "usd": 0.01,
            "marked": 1,
            "moved_up": 0,
            "asked_for_deep": 1,
            "asked_again": 1,
        },
        "list_usd": 0.0,
        "left_out": {"unpriced": 1, "refused": 1},
        "sentence": "$0.052 and about 1 min less than all on deep; 3 turns were redone (6.2 s); the cost of 1 call is unknown",
    }


def test_days_people_clients_and_targets_add_up_to_the_total(ledger):
    found = add_up_groups(ledger, 0.0)

    assert {name: found[name] for name in ("spent", "saved", "redone", "sentence")} == {
        name: add_up(ledger, 0.0).as_json()[name] for name in ("spent", "saved", "redone", "sentence")
    }
    assert {*found["by_caller"]} == {"local"}
    assert {*found["by_target"]} == {"spark", "oracle"}
    for group in ("by_day", "by_caller", "by_client", "by_target"):
        parts = [*found[group].values()]
        assert sum(part["turns"] for part in parts) == found["turns"]
        assert sum(part["left_out"]["refused"] for part in parts) == 1
        assert sum(part["saved"]["seconds"] for part in parts) == pytest.approx(SAVED_SECONDS, abs=0.003)
        assert sum(part["spent"]["usd"] or 0.0 for part in parts) == pytest.approx(SPENT_USD)


def test_the_turns_behind_a_figure_say_when_who_what_and_how_long(ledger):
    found = add_up_groups(ledger, 0.0)

    redone, saving = found["redone_turns"], found["saving_turns"]
    assert [(turn["request"], turn["redone"], turn["seconds"]) for turn in redone] == [
        ("a2", "asked_again", 3.5),
        ("c2", "asked_for_deep", 0.5),
        ("b1", "marked", 2.25),
    ]
    assert [turn["request"] for turn in saving] == ["c4", "d1", "a1", "d4", "c1"]
    assert saving[0] == {
        "request": "c4",
        "at": BEGAN + 645,
        "caller": "local",
        "client": "codex",
        "session": "c",
        "target": "spark",
        "because": "a quick edit",
        "redone": None,
        "seconds": 4.0,
        "usd": 0.007,
        "saved_seconds": round(4.0 * (25 / 3 - 1), 3),
        "saved_usd": 0.028,
    }
    assert sum(turn["saved_seconds"] for turn in (*redone, *saving)) == pytest.approx(SAVED_SECONDS, abs=0.01)


def test_a_client_or_a_target_can_be_asked_for(ledger):
    assert add_up_groups(ledger, 0.0, target="oracle")["saved"] == {"seconds": 0.0, "usd": 0.0}
    assert add_up_groups(ledger, 0.0, client="codex")["turns"] == 12
    assert add_up_groups(ledger, 0.0, client="aider")["sentence"] == "no turns"


def test_a_caller_is_shown_its_own_turns_alone_whatever_its_name(tmp_path):
    names = ("ann", "зоя" * 66, "名" * 200, "a\x1fb|<script>")
    rows = (row(f"{number}", "fast", number, 2.0, 0.01, caller=Caller(name)) for number, name in enumerate(names))
    reader = SqliteEntryReader(write_ledger(tmp_path / "test.db", *rows))

    for name in names:
        assert add_up(reader, 0.0, name).worth.turns == 1
    assert {*add_up_groups(reader, 0.0)["by_caller"]} == {*names}


def test_a_span_has_the_calls_since_its_beginning(ledger):
    assert add_up(ledger, BEGAN + 600).as_json()["turns"] == 2


def test_a_span_without_turns_and_a_ledger_that_is_not_there_say_nothing(ledger, tmp_path):
    assert add_up(ledger, time.time() + 60.0).worth.sentence() == "no turns"
    assert add_up_groups(ledger, time.time() + 60.0)["by_day"] == {}
    assert read_worth(tmp_path / "gone.db", 0.0) is None
    assert read_worth(None, 0.0) is None


def test_a_clock_that_was_set_back_leaves_turns_whole(tmp_path):
    """The calls of a turn follow each other in the ledger, whatever the clock said."""
    rows = [row("a1", "fast", 0, 1.0, 0.01), row("a2", "deep", -1_800, 1.0, 0.01, turn_kind=LOOP)]
    reader = SqliteEntryReader(write_ledger(tmp_path / "test.db", *rows))

    assert add_up(reader, BEGAN - 3_000).worth.redone_turns == 1
    assert add_up(reader, BEGAN - 1).as_json()["calls"] == 1


@pytest.mark.parametrize(
    "odd",
    [
        "duration_ms = -5",
        "duration_ms = 9e999, cost_usd = 9e999",
        "duration_ms = 'long', cost_usd = 'much', score = 'high'",
        "cost_usd = -1",
        "score = 7",
        "session = x'00ff', caller = x'ff'",
        "decision = x'ff'",
        'decision = \'{"v":3,"fast":["x",0,1e999,0,0,0,true],"deep":3}\'',
        "turn_kind = 'dance', outcome = 'LOST'",
        "tier = 'middle'",
        "id = x'ff', because = 5",
    ],
)
def test_what_other_programs_wrote_neither_fails_nor_makes_a_figure_up(tmp_path, odd):
    path = write_ledger(tmp_path / "test.db", row("a1", "fast", 0, 2.0, 0.01), row("b1", "fast", 0, 2.0, 0.01))
    with closing(sqlite3.connect(path)) as database, database:
        database.execute(f"UPDATE entries SET {odd} WHERE id = 'b1'")

    found = add_up_groups(SqliteEntryReader(path), 0.0)

    json.dumps(found, allow_nan=False)
    assert found["saved"]["seconds"] in (18.0, 36.0)
    assert found["turns"] in (1, 2)


def about(idea: str) -> str:
    kept = json.loads(keep("fast"))
    return json.dumps({**kept, "leans": [["learned", {"log_odds": -2.0, "because": "looks like that", "idea": idea}]]})


def test_turns_on_fast_are_counted_by_kind_and_pair_and_how_they_ended(tmp_path):
    css, typo = about("css"), about("typo")
    path = write_ledger(
        tmp_path / "test.db",
        row("a1", "fast", 0, 1.0, 0.001, decision=css),
        row("a2", "fast", 10, 1.0, 0.001, decision=css),
        row("a3", "deep", 20, 9.0, 0.04, decision=keep("deep", asked_again=True)),
        row("b1", "fast", 0, 1.0, 0.001, decision=css),
        row("b2", "deep", 5, 9.0, 0.04, decision=keep("deep"), turn_kind=LOOP),
        row("c1", "fast", 0, 1.0, 0.001, decision=css),
        row("c2", "deep", 9, 9.0, 0.04, decision=keep("deep", decided_by="override")),
        row("d1", "fast", 0, 1.0, 0.001, decision=typo),
        row("e1", "fast", 0, 1.0, 0.001, decision=css, target="flint"),
        row("f1", "fast", 0, 1.0, 0.001),  # of an older version
        row("g1", "fast", 0, 1.0, 0.001, decision=css.replace("estimate", "override")),
        row("h1", "deep", 0, 9.0, 0.04, decision=typo.replace('"fast", "decided', '"deep", "decided')),
    )
    reader = SqliteEntryReader(path)
    judge_turn(path, reader.find_turn("d1"), Tier.DEEP)

    kinds = add_up(reader, 0.0).kinds_as_json()

    own = {"target": "spark", "deep_target": "deep"}
    none = {"marked": 0, "moved_up": 0, "asked_for_deep": 0, "asked_again": 0}
    redone = {**none, "moved_up": 1, "asked_for_deep": 1, "asked_again": 1}
    assert kinds == [
        {"kind": "css", **own, "turns": 4, "accepted": 1, **redone},
        {"kind": "css", **own, "target": "flint", "turns": 1, "accepted": 1, **none},
        {"kind": "typo", **own, "turns": 1, "accepted": 0, **none, "marked": 1},
    ]
    assert add_up_groups(reader, 0.0)["kinds"] == kinds
    assert add_up_groups(reader, 0.0, target="flint")["kinds"] == kinds[1:2]
